// Where sessions can work: below the roots of the daemon, or each in a folder of its own.
import { computed, signal } from "@preact/signals";
import type { Methods } from "../link";
import * as app from "./app";

/** So many sessions are looked at for the folders that somebody worked in. */
const MAX_SESSIONS = 200;

const roots = signal<Methods["root/list"]["result"] | null>(null);
const earlier = signal<readonly string[]>([]);

/** The folders that can be chosen: the roots, and those of earlier sessions below them. */
export const folders = computed<readonly string[]>(() => {
  // The whole disk is a root for tests of the daemon alone: in none of it may a session work.
  const all = (roots.value?.roots ?? []).filter((each) => each !== "/");
  const below = earlier.value.filter((each) => all.some((root) => each.startsWith(`${root}/`)));
  return [...new Set([...all, ...below.sort()])];
});

/** Where a new session works if nobody chooses: in the only folder that the daemon was given; empty is a folder of its own. */
export const usual = computed(() => {
  const given = (roots.value?.given ?? []).filter((each) => each !== "/");
  return given.length === 1 ? given[0]! : "";
});

/** Read which there are. What can't be read is not offered; a daemon that is asked for a wrong one says so. */
export async function readFolders(): Promise<void> {
  if (!app.may("root/list")) return;
  const [listed, sessions] = await Promise.allSettled([
    app.link.request("root/list", {}),
    app.link.request("session/list", { limit: MAX_SESSIONS, include_children: false }),
  ]);
  if (listed.status === "fulfilled") roots.value = listed.value;
  if (sessions.status === "fulfilled") earlier.value = sessions.value.sessions.map((each) => each.workspace);
}

/** The folder of a session that is to be made, of what was chosen for it; empty is one of its own. */
export async function folderFor(chosen: string | null): Promise<string> {
  if (chosen === null && roots.peek() === null) await readFolders();
  return chosen ?? usual.peek();
}

/** The next login may be of somebody else. */
export function forget(): void {
  roots.value = null;
  earlier.value = [];
}

/** Whether the daemon made a folder for one session. */
export const isOwn = (folder: string): boolean => /\/workspaces\/workspace_[0-9a-z]+$/.test(folder);

/** The last part of a path: what its folder is called. */
export const nameOf = (folder: string): string => folder.split("/").filter((each) => each !== "").at(-1) ?? folder;
