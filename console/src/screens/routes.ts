// The screens beyond the chat. They are a part of their own, `beyond.ts`, which is loaded when somebody comes to the first of them.
//
// To add one:
// 1. `screens/NAME/screen.tsx` with `export default function Name({ parts }: ScreenProps)`: what is behind `#/NAME/` in the address
//    is `parts`. Begin with `Page` and `PageHead` of parts/page.tsx; parts/form.tsx has fields and drafts, parts/table.tsx tables,
//    parts/dialog.tsx `askFirst`, store/app.ts `say` and `offer` (a line with "Undo"), store/lists.ts `useResource`, which reads
//    again when the daemon says that a list has changed.
// 2. `words/screens/NAME.ts`: its texts in both languages, as `inBoth({…}, {…})`. Its name in the navigation is in words/en.ts and zh.ts.
// 3. `look/screens/NAME.css`, imported by the screen, if look/page.css has not what it needs.
// 4. Its lines in `beyond.ts`, and its row below, with the method without which there is nothing to show: who may not call that does
//    not see it.
// A screen that is not in the table does not exist: the navigation has no dead ends.
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import type { Method } from "../link";
import type { IconName } from "../parts/icon";
import type { ScreenProps } from "../parts/page";
import { may } from "../store/app";
import type { en } from "../words/en";

export type ScreenName = keyof (typeof en)["screens"];

export interface ScreenEntry {
  /** Who may not call this does not see the screen; `null` is for everybody. */
  needs: Method | null;
  icon: IconName;
  /** Where it stands in the navigation; `null` is nowhere. */
  group: Group | null;
  load(): Promise<{ default: ComponentType<ScreenProps> }>;
}

export const GROUPS = ["work", "watch", "set"] as const;
export type Group = (typeof GROUPS)[number];

/** What is loaded of it, for the parts that the chat has of it. */
export const further = signal<typeof import("./beyond") | null>(null);

export async function beyond(): Promise<typeof import("./beyond")> {
  return (further.value = await import("./beyond"));
}

/** Load the screens before somebody comes to them, so that they are there when the daemon is not. */
export function loadAhead(): void {
  const load = () => void beyond().catch(() => undefined);
  // Not every browser has it.
  if ("requestIdleCallback" in globalThis) requestIdleCallback(load);
  else setTimeout(load, 1000);
}

/** In the order of the navigation. */
export const screens: Partial<Record<ScreenName, ScreenEntry>> = {
  tools: { needs: "tool/list", icon: "tools", group: "work", load: async () => ({ default: (await beyond()).Tools }) },
  mcp: { needs: "mcp/list", icon: "mcp", group: "work", load: async () => ({ default: (await beyond()).Mcp }) },
  memory: { needs: "memory/list", icon: "memory", group: "work", load: async () => ({ default: (await beyond()).Memory }) },
  skills: { needs: "skill/list", icon: "skills", group: "work", load: async () => ({ default: (await beyond()).Skills }) },
  schedules: { needs: "schedule/list", icon: "schedules", group: "work", load: async () => ({ default: (await beyond()).Schedules }) },
  usage: { needs: "usage/get", icon: "usage", group: "watch", load: async () => ({ default: (await beyond()).Usage }) },
  logs: { needs: "runtime/status", icon: "logs", group: "watch", load: async () => ({ default: (await beyond()).Logs }) },
  turn: { needs: "turn/get", icon: "schedules", group: null, load: async () => ({ default: (await beyond()).Turn }) },
  agents: { needs: "agent/list", icon: "agents", group: "set", load: async () => ({ default: (await beyond()).Agents }) },
  providers: { needs: "provider/list", icon: "providers", group: "set", load: async () => ({ default: (await beyond()).Providers }) },
  setup: { needs: "provider/create", icon: "setup", group: null, load: async () => ({ default: (await beyond()).Setup }) },
  print: { needs: "session/messages", icon: "file", group: null, load: async () => ({ default: (await beyond()).Print }) },
  settings: { needs: null, icon: "settings", group: "set", load: async () => ({ default: (await beyond()).Settings }) },
};

/** The screen of this name, if there is one. */
export function screenOf(name: string): ScreenEntry | null {
  return Object.hasOwn(screens, name) ? (screens[name as ScreenName] ?? null) : null;
}

/** What of a group this login may see. */
export function listed(group: Group): [ScreenName, ScreenEntry][] {
  const all = Object.entries(screens) as [ScreenName, ScreenEntry][];
  return all.filter(([, each]) => each.group === group && (each.needs === null || may(each.needs)));
}
