// A table as CSV (RFC 4180), for a spreadsheet.

export interface Copied<Row> {
  name: string;
  /** What is copied, and shown if it is not drawn otherwise. */
  value(row: Row): string | number | null;
}

export function csvOf<Row>(columns: readonly Copied<Row>[], rows: readonly Row[]): string {
  const lines = [columns.map((each) => each.name), ...rows.map((row) => columns.map((each) => each.value(row)))];
  return lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** A text that begins like a formula would be one in a spreadsheet, whoever wrote it. */
function cell(value: string | number | null): string {
  if (typeof value === "number" || value === null) return value === null ? "" : String(value);
  const text = /^[\t\r\n]|^ *[=+\-@＝＋－＠]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
