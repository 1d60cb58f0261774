// An agent as a form has it, and as the server does.
import { FieldError } from "../parts/refusal";
import type { AgentDraft, AgentRow, Budget, Preset, ThinkingEffort } from "../protocol";

export const AMOUNTS = ["tokens", "cost_usd", "seconds", "tool_calls", "model_calls"] as const satisfies readonly (keyof Budget)[];
export type Amounts = Readonly<Record<(typeof AMOUNTS)[number], string>>;

/** What is written: numbers as texts, lists as lines. */
export interface AgentForm {
  name: string;
  description: string;
  prompt: string;
  model: string;
  fallbacks: string;
  policy: Preset;
  hasAllTools: boolean;
  tools: readonly string[];
  thinking: ThinkingEffort | "";
  max_output_tokens: string;
  temperature: string;
  auto_hosts: string;
  defer: boolean;
  turn_budget: Amounts;
  session_budget: Amounts;
  skills: string;
  hasAllSkills: boolean;
  /** The state that is changed, so that nobody's change is lost. */
  base: number | null;
}

const NOTHING: Amounts = { tokens: "", cost_usd: "", seconds: "", tool_calls: "", model_calls: "" };

export const EMPTY: AgentForm = {
  name: "",
  description: "",
  prompt: "",
  model: "",
  fallbacks: "",
  policy: "balanced",
  hasAllTools: true,
  tools: [],
  thinking: "",
  max_output_tokens: "",
  temperature: "",
  auto_hosts: "",
  defer: false,
  turn_budget: NOTHING,
  session_budget: NOTHING,
  skills: "",
  hasAllSkills: true,
  base: null,
};

const text = (value: number | null | undefined): string => (value == null ? "" : String(value));
const lines = (value: string): string[] => value.split(/[\n,]/).map((each) => each.trim()).filter((each) => each !== "");

function amountsOf(budget: Budget | null | undefined): Amounts {
  return Object.fromEntries(AMOUNTS.map((name) => [name, text(budget?.[name])])) as Amounts;
}

export function formOf(row: AgentRow): AgentForm {
  return {
    name: row.name,
    description: row.description ?? "",
    prompt: row.prompt ?? "",
    model: row.model ?? "",
    fallbacks: (row.fallbacks ?? []).join("\n"),
    policy: row.policy ?? "balanced",
    hasAllTools: row.has_all_tools ?? false,
    tools: row.has_all_tools ? [] : (row.tools ?? []).map((each) => each.name),
    thinking: row.thinking ?? "",
    max_output_tokens: text(row.max_output_tokens),
    temperature: text(row.temperature),
    auto_hosts: (row.auto_hosts ?? []).join("\n"),
    defer: row.defer ?? false,
    turn_budget: amountsOf(row.turn_budget),
    session_budget: amountsOf(row.session_budget),
    skills: (row.skills ?? []).join("\n"),
    hasAllSkills: row.skills == null,
    base: row.updated_at_ms ?? null,
  };
}

/** What the server takes; throws `FieldError` for what is no number. */
export function draftOf(form: AgentForm, notNumber: string): AgentDraft {
  const number = (field: string, value: string, isWhole: boolean): number | null => {
    if (value.trim() === "") return null;
    const found = Number(value);
    if (!Number.isFinite(found) || found < 0 || (isWhole && !Number.isInteger(found))) throw new FieldError(field, notNumber);
    return found;
  };
  const budget = (field: "turn_budget" | "session_budget"): Budget | null => {
    const all = AMOUNTS.map((name) => [name, number(`${field}.${name}`, form[field][name], name !== "cost_usd" && name !== "seconds")] as const);
    const set = all.filter(([, value]) => value !== null);
    return set.length === 0 ? null : (Object.fromEntries(set) as Budget);
  };
  return {
    name: form.name.trim(),
    description: form.description.trim(),
    prompt: form.prompt,
    model: form.model.trim() || null,
    fallbacks: lines(form.fallbacks),
    policy: form.policy,
    tools: form.hasAllTools ? null : [...form.tools],
    thinking: form.thinking || null,
    max_output_tokens: number("max_output_tokens", form.max_output_tokens, true),
    temperature: number("temperature", form.temperature, false),
    auto_hosts: lines(form.auto_hosts),
    defer: form.defer,
    turn_budget: budget("turn_budget"),
    session_budget: budget("session_budget"),
    skills: form.hasAllSkills ? null : lines(form.skills),
    ...(form.base === null ? {} : { updated_at_ms: form.base }),
  };
}
