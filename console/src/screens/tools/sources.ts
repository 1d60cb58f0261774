// Tools by where they come from. Pure.
import type { Methods } from "../../link";

export type Tool = Methods["tool/list"]["result"]["tools"][number];

export interface Source {
  kind: "builtin" | "mcp" | "plugin";
  name: string;
  tools: Tool[];
}

/** A tool of an MCP server is named `SERVER__TOOL`; one of a plug-in says so itself. */
export function sourcesOf(tools: readonly Tool[], servers: ReadonlySet<string>, wanted: string): Source[] {
  const found = new Map<string, Source>();
  const words = wanted.trim().toLowerCase();
  for (const tool of tools) {
    if (words !== "" && !`${tool.name} ${tool.description}`.toLowerCase().includes(words)) continue;
    const server = tool.name.includes("__") ? tool.name.slice(0, tool.name.indexOf("__")) : "";
    const kind = servers.has(server) ? "mcp" : tool.source ? "plugin" : "builtin";
    const name = kind === "mcp" ? server : (tool.source ?? "");
    const key = `${kind}/${name}`;
    const source = found.get(key) ?? { kind, name, tools: [] };
    source.tools.push(tool);
    found.set(key, source);
  }
  return [...found.values()].sort((one, other) => ORDER.indexOf(one.kind) - ORDER.indexOf(other.kind) || (one.name < other.name ? -1 : 1));
}

const ORDER = ["builtin", "plugin", "mcp"];
