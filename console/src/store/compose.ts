// What goes along with an input: which agent, model and mode, and files; each session keeps its own. The tab has what was chosen after a reload, too, and files until then.
import { computed, signal } from "@preact/signals";
import type { Methods } from "../link";
import * as app from "./app";
import { offeredModels } from "./models";

type Prompt = Methods["session/prompt"]["params"];
export type Attachment = NonNullable<Prompt["attachments"]>[number];
export type Mode = NonNullable<Prompt["mode"]>;
type Options = NonNullable<Prompt["options"]>;
export type AgentRow = Methods["agent/list"]["result"]["agents"][number];

/** The bounds of `runtime/history.py`: more is refused by the server as well. */
export const MAX_FILES = 16;
export const MAX_BYTES = 20 * 1024 * 1024;
const MAX_NAME = 255;

type Budget = NonNullable<Prompt["budget"]>;
/** What is written in the fields of a budget, by the name of the limit. */
export type Written = Readonly<Partial<Record<keyof Budget, string>>>;

export interface Choices {
  /** For a session that is to be made. */
  agent: string;
  /** The same: where it works. `""` is a folder of its own, and `null` what is usual. */
  folder: string | null;
  model: string;
  thinking: "" | NonNullable<Options["thinking"]>;
  policy: "" | NonNullable<Options["policy"]>;
  /** Of a session that is to be made. */
  budget: Written;
  turnBudget: Written;
}

export interface GivenFile {
  id: string;
  name: string;
  type: string;
  size: number;
  /** An address in this page, of an image. */
  url: string;
  content: Blob;
}

const NONE: Choices = { agent: "", folder: null, model: "", thinking: "", policy: "", budget: {}, turnBudget: {} };

const chosen = signal<Readonly<Record<string, Choices>>>({});
const given = signal<Readonly<Record<string, readonly GivenFile[]>>>({});
export const agents = signal<readonly AgentRow[]>([]);
/** Models by their provider. */
export const models = signal<readonly { provider: string; models: readonly string[] }[]>([]);
/** What an input does to a turn that runs. */
export const mode = signal<Mode>("queue");

/** The session that is written to: of a new one, nothing. */
export const place = computed(() => (app.route.value.screen === "chat" ? (app.route.value.id ?? "") : ""));
export const choices = computed(() => choicesOf(place.value));
/** The agent of the session that is written to, or that a new one is to have. */
export const agent = computed(() => {
  void app.revision.value; // the session is changed in place
  const row = app.sessions.value.find((each) => each.session_id === place.value);
  return row?.agent ?? ((place.value !== "" && app.open.value?.agent) || choices.value.agent || "general");
});

/** Texts that servers made of prompts: what holds one was written by others, also when it is brought back or pasted. */
let made: readonly string[] = [];
const MAX_MADE = 32;
const foreign = (name: string) => `foreign:${name}`;

/** Note that others wrote what stands where the person writes, until nothing stands there. */
export function noteMade(name: string, text: string): void {
  app.drafts.set(foreign(name), "1");
  if (text !== "") made = [...made, text].slice(-MAX_MADE);
}
export const isForeign = (name: string, text: string): boolean => text !== "" && (app.drafts.get(foreign(name)) === "1" || made.some((each) => text.includes(each)));

/** Keep what is written and not sent. */
export function keep(name: string, text: string): void {
  app.drafts.set(name, text);
  if (text === "") app.drafts.set(foreign(name), "");
}

export const files = computed(() => given.value[place.value] ?? []);

const choicesFor = (id: string) => `choices:${id}`;

function choicesOf(id: string): Choices {
  return chosen.value[id] ?? { ...NONE, ...(JSON.parse(app.drafts.get(choicesFor(id)) ?? "{}") as Partial<Choices>) };
}

function putChoices(id: string, its: Choices): void {
  chosen.value = { ...chosen.value, [id]: its };
  const text = JSON.stringify(its);
  app.drafts.set(choicesFor(id), text === JSON.stringify(NONE) ? "" : text);
}

export function choose(change: Partial<Choices>): void {
  putChoices(place.value, { ...choices.value, ...change });
}

/** What was chosen for a new session goes with it. */
export function moveTo(id: string): void {
  putChoices(id, { ...choicesOf(""), agent: "", folder: null, budget: {} });
  putChoices("", NONE);
}

export function optionsOf({ model, thinking, policy }: Choices): Options | null {
  const options: Options = {};
  if (model !== "") options.model = model;
  if (thinking !== "") options.thinking = thinking;
  if (policy !== "") options.policy = policy;
  return Object.keys(options).length > 0 ? options : null;
}

/** The limits that are written; `null` if none is. */
export function budgetOf(written: Written): Budget | null {
  const given = Object.entries(written).filter(([, value]) => value.trim() !== "");
  return given.length === 0 ? null : Object.fromEntries(given.map(([name, value]) => [name, Number(value)]));
}

/** Read what can be chosen, whenever somebody looks. */
export async function readChoices(): Promise<void> {
  try {
    const offered = offeredModels(); // a provider that is slow to answer holds up its models alone
    const listed = app.may("agent/list") ? await app.link.request("agent/list", {}) : { agents: [] };
    agents.value = listed.agents;
    models.value = (await offered)
      .filter((each) => each.models.length > 0)
      .map(({ provider, models: own }) => ({ provider, models: own.map((each) => each.choice) }));
  } catch (error) {
    if (!app.isGone(error)) app.say(error);
  }
}

/** Give a session another agent, or choose that of a new one. */
export async function chooseAgent(agent: string): Promise<void> {
  if (place.value === "") return choose({ agent });
  try {
    await app.link.request("session/set_agent", { session_ids: [place.value], agent });
    await app.readSessions();
  } catch (error) {
    app.say(error);
  }
}

export type Refused = "many" | "large" | "empty";

/** Add files to what is written; return why not all were taken. */
export function add(all: Iterable<File>): Refused | null {
  const own = [...files.value];
  let size = own.reduce((sum, each) => sum + each.size, 0);
  let refused: Refused | null = null;
  for (const file of all) {
    if (file.size === 0) refused = "empty";
    else if (own.length >= MAX_FILES) refused = "many";
    else if (size + file.size > MAX_BYTES) refused = "large";
    else {
      size += file.size;
      const url = file.type.startsWith("image/") && file.type !== "image/svg+xml" ? URL.createObjectURL(file) : "";
      own.push({ id: crypto.randomUUID(), name: file.name.slice(-MAX_NAME), type: file.type, size: file.size, url, content: file });
    }
  }
  given.value = { ...given.value, [place.value]: own };
  return refused;
}

export function takeOut(id: string): void {
  const own = files.value;
  for (const each of own) if (each.id === id && each.url !== "") URL.revokeObjectURL(each.url);
  given.value = { ...given.value, [place.value]: own.filter((each) => each.id !== id) };
}

/** Whether files were added that did not go out. */
export const hasFiles = (): boolean => Object.values(given.peek()).some((each) => each.length > 0);

/** The next login may be of somebody else. */
export function forget(): void {
  for (const each of Object.values(given.peek()).flat()) if (each.url !== "") URL.revokeObjectURL(each.url);
  given.value = {};
  chosen.value = {};
  made = [];
}

/** Take what was added, for an input that goes out. */
export function takeFiles(): readonly GivenFile[] {
  const own = files.value;
  given.value = { ...given.value, [place.value]: [] };
  for (const each of own) if (each.url !== "") URL.revokeObjectURL(each.url);
  return own;
}

export async function encoded(file: GivenFile): Promise<Attachment> {
  const bytes = new Uint8Array(await file.content.arrayBuffer());
  const data = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(new Error(`${file.name} can't be read: ${reader.error?.message ?? ""}`));
    reader.readAsDataURL(file.content);
  });
  return { media_type: mediaType(file.type, bytes), data, name: file.name };
}

/** What a browser says of a file, or whether it is text: of source code it says nothing, or what no provider knows. */
export function mediaType(type: string, bytes: Uint8Array): string {
  if (/^(image\/(png|jpeg|gif|webp)|application\/pdf)$/.test(type)) return type;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return "text/plain";
  } catch {
    return type || "application/octet-stream";
  }
}
