// Providers and their models, as screens read and change them.
import type { Methods } from "../link";
import type { OfferedModel, ProviderRow } from "../protocol";
import * as app from "./app";
import { textOf } from "./problem";

export type Tested = Methods["provider/test"]["result"];
export type Default = Methods["model/default"]["result"];

export interface Providers {
  rows: readonly ProviderRow[];
  /** Why stored keys can't be read. */
  problem: string;
  /** What answers when nothing else is said, and why. */
  fallback: Default;
}

export async function readProviders(): Promise<Providers> {
  const [{ providers, problem = "" }, fallback] = await Promise.all([app.link.request("provider/list", {}), app.link.request("model/default", {})]);
  return { rows: providers, problem, fallback };
}

/** What providers that are built in call themselves; one that was changed is still one of them. */
export const NAMES: Readonly<Record<string, string>> = {
  openai: "OpenAI",
  anthropic: "Anthropic",
  gemini: "Google Gemini",
  ollama: "Ollama",
  llamacpp: "llama.cpp",
  vllm: "vLLM",
  openrouter: "OpenRouter",
  groq: "Groq",
  deepseek: "DeepSeek",
  mistral: "Mistral",
};

export const isRehearsal = (fallback: Default): boolean => fallback.model === "" || fallback.model.startsWith("rehearsal/");

export type Group = "ready" | "local" | "missing" | "off";

/** Whether a provider can be used: it has a key, or needs none. What needs none and was there from the beginning may not run here. */
export function groupOf(row: ProviderRow): Group {
  if (!row.is_active) return "off";
  if (row.key === "missing") return "missing";
  return row.key === "none" && row.source === "built_in" ? "local" : "ready";
}

/** The models of a provider by the names that choose them; none when they can't be had. */
async function modelsOf(provider: string): Promise<readonly OfferedModel[]> {
  try {
    return (await app.link.request("model/list", { provider })).models;
  } catch {
    return [];
  }
}

/** What can be chosen as a model, by provider: of all that are ready. */
export async function offeredModels(): Promise<{ provider: string; models: readonly OfferedModel[] }[]> {
  if (!app.may("provider/list")) return [];
  const { providers } = await app.link.request("provider/list", {});
  const ready = providers.filter((each) => ["ready", "local"].includes(groupOf(each)));
  return Promise.all(ready.map(async ({ name }) => ({ provider: name, models: await modelsOf(name) })));
}

/** The same for fields that take any. */
export const readChoices = async (): Promise<readonly OfferedModel[]> => (await offeredModels()).flatMap((each) => each.models);

/** Do something that answers with notes, and show them; what goes wrong is shown, too. Returns whether it worked. */
export async function done(run: () => Promise<{ notes?: string[] }>, said: string): Promise<boolean> {
  try {
    const { notes = [] } = await run();
    app.toast.value = [said, ...notes].join(" ");
    return true;
  } catch (error) {
    app.toast.value = textOf(error);
    return false;
  }
}
