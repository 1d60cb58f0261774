// Servers as a form or the mcpServers of another program describe them, and how their words have changed. Pure.
import type { McpDraft, McpSettings, PinnedTool } from "../../protocol";

export interface WrittenServer {
  name: string;
  kind: "command" | "url";
  command: string;
  url: string;
  network: string;
  tier: NonNullable<McpDraft["tier"]>;
}

export function draftOf(written: WrittenServer): McpDraft {
  const { name, kind, command, url, network, tier } = written;
  const hosts = network.split(/[,，\s]+/).filter((each) => each !== "");
  return {
    name: name.trim(),
    tier,
    ...(kind === "url" ? { url: url.trim() } : { command: command.split("\n").map((each) => each.trim()).filter((each) => each !== ""), ...(hosts.length > 0 ? { network: hosts } : {}) }),
  };
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const textsOf = (value: unknown): Record<string, string> =>
  isObject(value) ? Object.fromEntries(Object.entries(value).filter((each): each is [string, string] => typeof each[1] === "string")) : {};

/** The servers of a pasted JSON: `mcpServers` or `servers`, or what would be in it; `null` if it has none. */
export function draftsOf(json: string, tier: WrittenServer["tier"]): McpDraft[] | null {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return null;
  }
  if (!isObject(value)) return null;
  const all = [value["mcpServers"], value["servers"], isObject(value["mcp"]) ? value["mcp"]["servers"] : undefined, value].find(isObject);
  const drafts = Object.entries(all ?? {}).flatMap(([name, each]): McpDraft[] => {
    if (!isObject(each)) return [];
    const { command, args, url, type } = each;
    const own = name.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_+|_+$/g, "");
    if (typeof url === "string") {
      const headers = textsOf(each["headers"]);
      return [{ name: own, tier, url, ...(type === "sse" ? { type } : {}), ...(Object.keys(headers).length > 0 ? { headers } : {}) }];
    }
    if (typeof command !== "string") return [];
    const env = textsOf(each["env"]);
    const rest = Array.isArray(args) ? args.filter((one): one is string => typeof one === "string") : [];
    return [{ name: own, tier, command: [command, ...rest], ...(Object.keys(env).length > 0 ? { env } : {}) }];
  });
  return drafts.length === 0 ? null : drafts;
}

/** The settings of a server as they are sent back, with one change. */
export function changedDraft(settings: McpSettings, change: Partial<McpDraft>): McpDraft {
  const { tools: _, offers: __, ...draft } = settings as McpSettings & { tools?: unknown; offers?: unknown };
  return { ...(draft as McpDraft), ...change };
}

export type Fate = "new" | "changed" | "same" | "gone";

/** What is reviewed of a tool, as text: all of which a change is a change. */
export function wordsOf(tool: PinnedTool): string {
  const { title, description, parameters, output, annotations } = tool;
  const json = (value: object | null | undefined) => (value == null ? "" : JSON.stringify(value, null, 1));
  return [title, description, json(parameters ?? {}), json(output), json(annotations)].filter((each) => each && each !== "{}").join("\n");
}

export function fateOf(now: PinnedTool | undefined, accepted: PinnedTool | undefined): Fate {
  if (now === undefined) return "gone";
  if (accepted === undefined) return "new";
  const same = (tool: PinnedTool) => JSON.stringify([tool.title ?? "", wordsOf(tool), tool.output ?? null, tool.annotations ?? {}]);
  return same(now) === same(accepted) ? "same" : "changed";
}

export interface Piece {
  kind: "same" | "added" | "removed";
  text: string;
}

/** Beyond so many words on a side the whole is shown as removed and added. */
const MOST_WORDS = 1500;

/** How a text became another one, word by word. */
export function difference(before: string, after: string): Piece[] {
  const [old, now] = [before.match(/\s+|[^\s]+/g) ?? [], after.match(/\s+|[^\s]+/g) ?? []];
  if (old.length > MOST_WORDS || now.length > MOST_WORDS) return [{ kind: "removed", text: before }, { kind: "added", text: after }];
  // The longest common run of words behind each pair of places.
  const width = now.length + 1;
  const longest = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      longest[i * width + j] = old[i] === now[j] ? longest[(i + 1) * width + j + 1]! + 1 : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!);
    }
  }
  const pieces: Piece[] = [];
  const push = (kind: Piece["kind"], text: string) => {
    const last = pieces.at(-1);
    if (last?.kind === kind) last.text += text;
    else pieces.push({ kind, text });
  };
  for (let i = 0, j = 0; i < old.length || j < now.length; ) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      push("same", old[i]!);
      i++;
      j++;
    } else if (j >= now.length || (i < old.length && longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!)) push("removed", old[i++]!);
    else push("added", now[j++]!);
  }
  return pieces;
}
