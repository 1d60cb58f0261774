// Prompts of servers as they are typed, what their arguments may be, and what of servers waits to be looked at.
import type { Methods } from "../../link";

export type PromptRow = Methods["mcp/prompts"]["result"]["prompts"][number];
export type ServerRow = Methods["mcp/list"]["result"]["servers"][number];

/** More than a person looks through; who types on finds the others. */
const MAX_LISTED = 50;
/** As many as the daemon hands on. */
const MAX_VALUES = 100;
/** Tools and prompts that are named in one line. */
const MAX_NAMED = 5;
/** A pause in typing. */
const PAUSE_MS = 200;

export const nameOf = (row: PromptRow): string => `${row.server}:${row.name}`;

/** The prompts that a line with a slash may mean: those that begin so, and then those that have it somewhere. */
export function matching(rows: readonly PromptRow[], line: string): PromptRow[] {
  const typed = line.slice(1).toLowerCase();
  const at = (row: PromptRow) => nameOf(row).toLowerCase().indexOf(typed);
  return rows
    .filter((row) => at(row) >= 0)
    .sort((one, other) => Number(at(one) > 0) - Number(at(other) > 0))
    .slice(0, MAX_LISTED);
}

/** Ask what a value may be once nobody types, one question at a time; an answer to what is no longer written is dropped. */
export function completer(ask: (value: string) => Promise<readonly string[]>, tell: (values: readonly string[]) => void): { typed(value: string): void; end(): void } {
  let wanted: string | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isAsking = false;
  const run = async () => {
    while (!isAsking && wanted !== null) {
      isAsking = true;
      const value = wanted;
      wanted = null;
      const found = await ask(value).catch(() => []);
      isAsking = false;
      if (wanted === null) tell(found.slice(0, MAX_VALUES));
    }
  };
  return {
    typed(value) {
      wanted = value;
      clearTimeout(timer);
      timer = setTimeout(() => void run(), PAUSE_MS);
    },
    end() {
      wanted = null;
      clearTimeout(timer);
      tell = () => undefined;
    },
  };
}

/** What of a server is withheld until a person has looked at it, by names that were accepted; empty where nothing is. */
export function withheldOf(row: ServerRow): string {
  const names = [...(row.withheld ?? []), ...(row.withheld_prompts ?? []).map((each) => `/${row.name}:${each}`)];
  return names.slice(0, MAX_NAMED).join(", ") + (names.length > MAX_NAMED ? " …" : "");
}

/** The same for the same change. */
export const changeOf = (row: ServerRow): string => JSON.stringify([row.withheld, row.withheld_prompts]);
