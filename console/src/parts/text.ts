// Texts of models, tools and files, made safe to read: what can't be seen is drawn.

// Control characters (but for tab and line ends), bidirectional controls, zero-width and invisible ones. What joins two emoji to one hides nothing.
const HIDDEN = /(?<!\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?)\u200d|\u200d(?!\p{Extended_Pictographic})|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

/** Draw what hides or reorders text, so that what is read is what is there. */
export function shown(text: string): string {
  return text.replace(HIDDEN, (each) => {
    const code = each.codePointAt(0) ?? 0;
    if (code === 0x1b) return "\u2039ESC\u203a";
    return `\u2039U+${code.toString(16).toUpperCase().padStart(4, "0")}\u203a`;
  });
}

/** Arguments as rows of a table; `null` if they are no object. */
export function argumentRows(json: string): [string, string][] | null {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  return Object.entries(value).map(([name, each]) => [
    name,
    typeof each === "string" ? each : JSON.stringify(each, null, 2),
  ]);
}

/** One line that says what a call is about: the argument that a person would look at first. */
export function summary(json: string): string {
  const rows = argumentRows(json) ?? [];
  const first = ["command", "path", "url", "query", "pattern", "task", "question", "text"];
  const found = first.map((name) => rows.find(([key]) => key === name)).find((row) => row !== undefined) ?? rows[0];
  return found === undefined ? "" : shown(found[1].replace(/\s+/g, " ").trim()).slice(0, 200);
}

export function seconds(ms: number): string {
  return (ms / 1000).toFixed(ms < 10_000 ? 1 : 0);
}

/** How large a file is. */
export function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

/** Minutes and seconds that are left. */
export function left(ms: number): string {
  const all = Math.max(0, Math.ceil(ms / 1000));
  const hours = Math.floor(all / 3600);
  const minutes = Math.floor((all % 3600) / 60);
  const rest = String(all % 60).padStart(2, "0");
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}
