// The settings of the daemon: what holds, where it stands, and what can be set from here.
import { useState } from "preact/hooks";
import { Field, FormEnd, useSending } from "../../parts/form";
import { Loaded, Mark, Section } from "../../parts/page";
import { shown } from "../../parts/text";
import type { SettingRow } from "../../protocol";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { canBeSet, grouped, shapeOf, valueOf } from "../../store/setting";
import { numbered } from "../../store/settings";
import { its } from "../../words/screens/settings";

/** Longer values are tables of their own, and are read as JSON. */
const LONG = 120;

export function ServerSettings() {
  const text = its.value;
  const all = useResource(() => app.link.request("settings/get", {}), ["settings"]);
  const [query, setQuery] = useState("");
  return (
    <Section title={text.server} lead={text.serverLead} isBare>
      <Loaded resource={all}>
        {({ settings }) => {
          const wanted = query.trim().toLowerCase();
          const found = settings.filter((each) => `${each.name} ${each.place ?? ""}`.toLowerCase().includes(wanted));
          return (
            <div class="stack">
              <input type="search" aria-label={text.find} placeholder={text.find} value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
              {found.length === 0 && <p class="lead">{text.noMatch}</p>}
              {grouped(found).map(([table, rows]) => (
                <details key={table} class="settings-of" open={wanted !== "" || undefined}>
                  <summary>
                    <code>{table === "" ? "callboard" : table}</code>
                    <span class="count">
                      {rows.length}
                      {rows.some((each) => (each.place ?? "") !== "") && <span class="dot" role="img" aria-label={text.isSet} title={text.isSet} />}
                    </span>
                  </summary>
                  <ul>
                    {rows.map((row) => (
                      <Setting key={row.name} row={row} />
                    ))}
                  </ul>
                </details>
              ))}
            </div>
          );
        }}
      </Loaded>
    </Section>
  );
}

function valued(value: unknown): string {
  const text = its.value;
  if (value === null || (Array.isArray(value) && value.length === 0)) return text.nothing;
  if (typeof value === "boolean") return value ? text.yes : text.no;
  if (typeof value === "number") return numbered(value);
  if (typeof value === "string") return value;
  return Object.keys(value as object).length === 0 ? text.nothing : JSON.stringify(value, null, 2);
}

function Setting({ row }: { row: SettingRow }) {
  const text = its.value;
  const [isOpen, setOpen] = useState(false);
  const value = valued(row.value);
  const isLong = value.length > LONG || value.includes("\n");
  return (
    <li>
      <div class="setting">
        <code class="name">{shown(row.name)}</code>
        {!isLong && <span class="value">{shown(value)}</span>}
        <span class="marks">
          <Mark kind={(row.place ?? "") === "" ? "plain" : "own"}>{shown(row.place || text.isDefault)}</Mark>
          {row.needs_restart && <Mark>{text.restart}</Mark>}
        </span>
        {app.may("settings/set") && canBeSet(row) && (
          <button type="button" class="quiet small" aria-label={text.changeOf(row.name)} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {text.change}
          </button>
        )}
      </div>
      {isLong && (
        <pre class="long" tabIndex={0} aria-label={row.name}>
          {shown(value)}
        </pre>
      )}
      {isOpen && <Change row={row} close={() => setOpen(false)} />}
    </li>
  );
}

function Change({ row, close }: { row: SettingRow; close(): void }) {
  const text = its.value;
  const shape = shapeOf(row.schema ?? {});
  const [value, setValue] = useState(row.value === null ? "" : String(row.value));
  const set = async (wanted: boolean | number | string | null) => {
    const done = await app.link.request("settings/set", { name: row.name, value: wanted });
    app.toast.value = done.needs_restart ? text.savedLater(row.name) : text.saved(row.name);
    close();
  };
  const sending = useSending(() => set(valueOf(shape, value, text.notNumber)), ["value"]);
  const options = shape.kind === "boolean" ? ["true", "false"] : shape.options;
  return (
    <form class="fields" noValidate onSubmit={(event) => void sending.send(event)}>
      <Field
        label={text.value}
        hint={shape.least !== null && shape.most !== null ? text.hint(numbered(shape.least), numbered(shape.most)) : undefined}
        problem={sending.problems["value"] ?? sending.problem}
      >
        {(attributes) =>
          options.length > 0 ? (
            <select {...attributes} value={value} onChange={(event) => setValue(event.currentTarget.value)}>
              {value === "" && <option value="">–</option>}
              {options.map((each) => (
                <option key={each} value={each}>
                  {shape.kind === "boolean" ? (each === "true" ? text.yes : text.no) : each}
                </option>
              ))}
            </select>
          ) : (
            <input {...attributes} type="text" inputMode={shape.kind === "string" ? "text" : "decimal"} value={value} onInput={(event) => setValue(event.currentTarget.value)} />
          )
        }
      </Field>
      <FormEnd sending={{ ...sending, problem: "" }} action={text.save} cancel={close}>
        {(row.place ?? "") !== "" && (
          <button type="button" class="quiet" onClick={() => void set(null).catch(app.say)}>
            {text.reset}
          </button>
        )}
      </FormEnd>
    </form>
  );
}
