// A schedule as it is written in the form, and as the daemon takes it. Pure.
import type { ScheduleDraft, ScheduleRow } from "../../protocol";

export type When = "cron" | "every" | "at";

export interface Written {
  name: string;
  prompt: string;
  kind: When;
  when: string;
  zone: string;
  agent: string;
  workspace: string;
  session: "new" | "same";
  missed: "run_once" | "skip";
  overlap: "skip" | "queue";
  unattended: "" | "deny" | "defer";
}

export const FIELDS = ["name", "prompt", "cron", "every", "at", "zone", "agent", "workspace"] as const;

export function writtenOf(row: ScheduleRow | null, zone: string): Written {
  const kind: When = row?.every ? "every" : row?.at ? "at" : "cron";
  return {
    name: row?.name ?? "",
    prompt: row?.prompt ?? "",
    kind,
    when: row?.[kind] ?? (row === null ? "0 9 * * 1-5" : ""),
    zone: row?.zone ?? zone,
    agent: row?.agent ?? "general",
    workspace: row?.workspace ?? "",
    session: row?.session ?? "new",
    missed: row?.missed ?? "run_once",
    overlap: row?.overlap ?? "skip",
    unattended: row?.unattended ?? "",
  };
}

/** What the form does not show stays as it was. */
export function draftOf(written: Written, row: ScheduleRow | null): ScheduleDraft {
  const { kind, when, workspace, unattended, name, prompt, zone, agent, session, missed, overlap } = written;
  return {
    name: name.trim(),
    prompt,
    [kind]: when.trim(),
    zone: zone.trim() || "UTC",
    agent,
    session,
    missed,
    overlap,
    ...(workspace.trim() === "" ? {} : { workspace: workspace.trim() }),
    ...(unattended === "" ? {} : { unattended }),
    ...(row?.budget == null ? {} : { budget: row.budget }),
    ...(row?.paused ? { paused: true } : {}),
    ...(row?.updated_at_ms == null ? {} : { updated_at_ms: row.updated_at_ms }),
  };
}
