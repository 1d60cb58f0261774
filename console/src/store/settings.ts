// What a person chose for this browser, kept in the page's own storage.
import { computed, effect, signal, type ReadonlySignal } from "@preact/signals";
import { en, type Words } from "../words/en";
import { zh } from "../words/zh";

export type Language = "en" | "zh";
/** `medium` is light or dark as the system, with more contrast. */
const THEMES = ["system", "light", "dark", "medium", "contrast"] as const;
export type Theme = (typeof THEMES)[number];
export type Density = "comfortable" | "compact";

export function stored(name: string): string | null {
  try {
    return localStorage.getItem(`callboard.${name}`);
  } catch {
    return null;
  }
}

export function store(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`callboard.${name}`);
    else localStorage.setItem(`callboard.${name}`, value);
  } catch {
    // A browser that keeps nothing: it holds for this tab.
  }
}

const first = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
const its = stored("language");
export const language = signal<Language>(its === "en" || its === "zh" ? its : first);
export const theme = signal<Theme>(THEMES.find((each) => each === stored("theme")) ?? "system");
export const density = signal<Density>(stored("density") === "compact" ? "compact" : "comfortable");
/** The Chinese texts with those names that the build left to the English ones (scripts/lean.ts): they stand in the same order. */
export function named<T>(english: T, chinese: T): T {
  if (!Array.isArray(chinese)) return chinese;
  if (Array.isArray(english)) return chinese.map((each: unknown, at) => named(english[at] as unknown, each)) as T;
  return Object.fromEntries(Object.entries(english as object).map(([name, each], at) => [name, named(each, chinese[at])])) as T;
}

/** The texts of one screen, which are loaded with it: what the one language has, the other must have. */
export function inBoth<T>(english: T, chinese: NoInfer<T>): ReadonlySignal<T> {
  return computed(() => (language.value === "zh" ? named<T>(english, chinese) : english));
}
/** Whether answers are read aloud by screen readers as they come. */
export const announces = signal(stored("aloud") !== "no");
/** Whether a tab may keep the end of the open session until it is closed. */
export const keepsContent = signal(stored("keep") !== "no");
export const words = inBoth<Words>(en, zh);

const locale = computed(() => (language.value === "zh" ? "zh-CN" : "en-GB"));
/** A number, and a moment, as the language writes them. */
export const numbered = (value: number): string => value.toLocaleString(locale.value);
export const dated = (at: number): string => new Date(at).toLocaleString(locale.value, { dateStyle: "medium", timeStyle: "short" });

export function follow(): void {
  effect(() => {
    document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
    store("language", language.value);
  });
  effect(() => {
    document.documentElement.dataset["theme"] = theme.value;
    store("theme", theme.value);
  });
  effect(() => {
    document.documentElement.dataset["density"] = density.value;
    store("density", density.value);
  });
  effect(() => store("keep", keepsContent.value ? null : "no"));
  effect(() => store("aloud", announces.value ? null : "no"));
}
