// A table of numbers and names that can be taken along as CSV.
import type { ComponentChildren } from "preact";
import { words } from "../store/settings";
import { csvOf, type Copied } from "./csv";
import { Icon } from "./icon";
import { copy } from "./markdown";
import { shown } from "./text";

export interface Column<Row> extends Copied<Row> {
  draw?(row: Row): ComponentChildren;
  isNumber?: boolean;
}

interface TableProps<Row> {
  /** What the table is of; read aloud, and shown unless a heading says it. */
  caption: string;
  isCaptionShown?: boolean;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  idOf(row: Row): string;
  canCopy?: boolean;
}

export function Table<Row>({ caption, isCaptionShown = false, columns, rows, idOf, canCopy = true }: TableProps<Row>) {
  return (
    <div class="table">
      <div class="scroller" tabIndex={0} role="group" aria-label={caption}>
        <table>
          <caption class={isCaptionShown ? "" : "who"}>{caption}</caption>
          <thead>
            <tr>
              {columns.map((each) => (
                <th key={each.name} scope="col" class={each.isNumber ? "number" : ""}>
                  {each.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={idOf(row)}>
                {columns.map((each) => (
                  <td key={each.name} class={each.isNumber ? "number" : ""}>
                    {each.draw?.(row) ?? shown(String(each.value(row) ?? ""))}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {canCopy && rows.length > 0 && (
        <button type="button" class="quiet small" onClick={() => copy(csvOf(columns, rows))}>
          <Icon name="copy" /> {words.value.page.copyCsv}
        </button>
      )}
    </div>
  );
}
