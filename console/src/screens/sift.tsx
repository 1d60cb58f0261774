// Above and below the list of sessions: the search, which of them are listed, and what is done with several at once.
import { computed, effect, signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Icon } from "../parts/icon";
import { IconButton, Menu, type Choice } from "../parts/menu";
import { shown } from "../parts/text";
import { isLoggedOut, isTrash, may, NO_SIFT, query, search, sessions, sift, siftBy, type Sift } from "../store/app";
import { agents, readChoices } from "../store/compose";
import { chosen, doWithChosen, imported, take } from "../store/sessions";
import { words } from "../store/settings";

/** The folders that sessions of the list work in, as long as the page is open: a filter leaves the others out of the list. */
const folders = signal<readonly string[]>([]);
const MAX_FOLDERS = 50;
effect(() => {
  const known = new Set(folders.peek());
  const fresh = sessions.value.map((row) => row.workspace).filter((each) => !known.has(each));
  if (fresh.length > 0) folders.value = [...new Set([...known, ...fresh])].slice(0, MAX_FOLDERS).sort();
});
const isOpen = signal(false);
export const isSifted = computed(() => Object.keys(NO_SIFT).some((name) => sift.value[name as keyof Sift] !== NO_SIFT[name as keyof Sift]));
/** Another login may see others. */
effect(() => void (isLoggedOut.value && (folders.value = [])));

export function Find() {
  const its = words.value;
  const picker = useRef<HTMLInputElement>(null);
  const more: Choice[] = [];
  if (may("session/delete")) more.push({ name: its.drawer.several, icon: "check", run: () => void (chosen.value = new Set()) });
  if (may("session/import")) more.push({ name: its.drawer.take, icon: "file", run: () => picker.current?.click() });
  return (
    <>
      <div class="find-sessions">
        <input type="search" aria-label={its.search} placeholder={its.search} value={query.value} onInput={(event) => search(event.currentTarget.value)} />
        <button
          type="button"
          class={`quiet tiny ${isSifted.value ? "is-on" : ""}`}
          aria-label={its.drawer.sift}
          title={its.drawer.sift}
          aria-expanded={isOpen.value}
          onClick={() => {
            isOpen.value = !isOpen.value;
            if (isOpen.value) void readChoices();
          }}
        >
          <Icon name="options" />
        </button>
        <Menu label={its.drawer.others} choices={more} />
        <input
          ref={picker}
          type="file"
          hidden
          accept=".jsonl,application/jsonl"
          aria-label={its.drawer.take}
          onChange={(event) => {
            const file = event.currentTarget.files?.[0];
            event.currentTarget.value = ""; // the same file may be taken once more
            if (file !== undefined) void take(file);
          }}
        />
      </div>
      {imported.value !== null && (
        <p class="under" role="status">
          {its.drawer.taking(`${Math.round(imported.value * 100)} %`)}
        </p>
      )}
      {isOpen.value && <Sifting />}
    </>
  );
}

function Sifting() {
  const its = words.value.drawer;
  const names = new Set([...agents.value.map((each) => each.name), ...(sift.value.agent === "" ? [] : [sift.value.agent])]);
  return (
    <div class="sift" role="group" aria-label={its.sift}>
      <Select name="agent" label={its.agent} options={[["", its.anyAgent], ...[...names].map((each) => [each, shown(each)] as const)]} />
      <Select name="kind" label={its.kind} options={Object.entries(its.kinds)} />
      <Select name="via" label={its.via} options={Object.entries(its.vias)} />
      {folders.value.length > 0 && <Select name="workspace" label={its.folder} options={[["", its.anyFolder], ...folders.value.map((each) => [each, shown(each)] as const)]} />}
      {isSifted.value && (
        <button type="button" class="quiet small" onClick={() => siftBy(NO_SIFT)}>
          {its.siftOff}
        </button>
      )}
    </div>
  );
}

function Select({ name, label, options }: { name: keyof Sift; label: string; options: readonly (readonly [string, string])[] }) {
  return (
    <label>
      <span>{label}</span>
      <select value={sift.value[name]} onChange={(event) => siftBy({ [name]: event.currentTarget.value })}>
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** What is done with all that were chosen. */
export function Several() {
  const its = words.value.drawer;
  const count = sessions.value.filter((row) => chosen.value?.has(row.session_id)).length;
  const all = () => void (chosen.value = new Set(count === sessions.value.length ? [] : sessions.value.map((row) => row.session_id)));
  return (
    <div class="several" role="group" aria-label={its.several}>
      <span role="status">{its.chosen(count)}</span>
      <button type="button" class="quiet small" onClick={all}>
        {its.chooseAll}
      </button>
      {isTrash.value ? (
        <>
          {may("session/restore") && <IconButton icon="undo" name={its.restore} isOff={count === 0} run={() => void doWithChosen("restore")} />}
          {may("session/purge") && <IconButton icon="trash" name={its.purge} isOff={count === 0} run={() => void doWithChosen("purge")} />}
        </>
      ) : (
        <IconButton icon="trash" name={its.delete} isOff={count === 0} run={() => void doWithChosen("delete")} />
      )}
      <button type="button" class="quiet small" onClick={() => void (chosen.value = null)}>
        {its.done}
      </button>
    </div>
  );
}
