// What runs by itself: when, with which outcome, and changed here.
import { moment, near } from "../../parts/amounts";
import { askFirst } from "../../parts/dialog";
import { Choose, Field, FormEnd, useDraft, useSending } from "../../parts/form";
import { Icon } from "../../parts/icon";
import { Menu, type Choice } from "../../parts/menu";
import { Empty, Loaded, Mark, Page, PageHead, RowOf, Rows, Section, type ScreenProps } from "../../parts/page";
import { shown } from "../../parts/text";
import { done, useWatch } from "../../parts/watch";
import type { Firing, ScheduleRow } from "../../protocol";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { hrefOf } from "../../store/route";
import { language, words } from "../../store/settings";
import { said } from "../../words/said";
import { its } from "../../words/screens/schedules";
import { saidOf } from "./cron";
import { draftOf, FIELDS, writtenOf, type When } from "./draft";
import "../../look/screens/lists.css";

export default function Schedules({ parts }: ScreenProps) {
  const text = its.value;
  const resource = useResource(() => app.link.request("schedule/list", {}), ["schedules"]);
  const [place = "", what = ""] = parts;
  useWatch(() => place === "" && resource.value?.schedules.some((each) => isUnderWay(each.last)) && resource.again(), [place]);
  const back = { href: hrefOf("schedules"), name: words.value.screens.schedules };
  if (place === "new") {
    return (
      <Page>
        <PageHead back={back} title={text.add} />
        <Form row={null} />
      </Page>
    );
  }
  if (place !== "") {
    return (
      <Page>
        <Loaded resource={resource}>
          {({ schedules }) => {
            const row = schedules.find((each) => each.name === place);
            if (row === undefined) return <Empty icon="schedules" title={words.value.page.unknown} />;
            return what === "edit" ? (
              <>
                <PageHead back={back} title={row.name} />
                <Form row={row} />
              </>
            ) : (
              <One row={row} again={() => void resource.again()} back={back} />
            );
          }}
        </Loaded>
      </Page>
    );
  }
  const add = app.may("schedule/create") && (
    <a class="button primary" href={hrefOf("schedules", "new")}>
      <Icon name="plus" /> {text.add}
    </a>
  );
  return (
    <Page>
      <PageHead lead={text.lead}>{add}</PageHead>
      <Loaded resource={resource} isEmpty={({ schedules }) => schedules.length === 0} empty={<Empty icon="schedules" title={text.none} text={text.noneText} />}>
        {({ schedules }) => (
          <Rows label={words.value.screens.schedules}>
            {schedules.map((row) => (
              <RowOf key={row.name} title={row.name} href={hrefOf("schedules", row.name)} marks={<Marks row={row} />} text={[whenOf(row), nextOf(row)].filter((each) => each !== "").join(" · ")}>
                <Actions row={row} again={() => void resource.again()} />
              </RowOf>
            ))}
          </Rows>
        )}
      </Loaded>
    </Page>
  );
}

const isUnderWay = (firing: Firing | null | undefined) => firing?.state === "running" || firing?.state === "waiting";

function whenOf(row: ScheduleRow): string {
  const text = its.value;
  if (row.every) return text.every(row.every);
  const said = sayCron(row.cron ?? "");
  return `${row.at ? text.once(row.at) : said === "" ? row.cron : `${said} (${row.cron?.replaceAll(" ", "\u00a0")})`} ${row.zone ?? ""}`;
}

const sayCron = (cron: string): string => saidOf(cron, language.value === "zh" ? "zh-CN" : "en-GB", its.value.said);

function nextOf(row: ScheduleRow): string {
  const next = row.next_at_ms?.[0];
  if (next === undefined) return row.paused ? "" : its.value.never;
  return its.value.nextAt(moment(next), near(next, Date.now()));
}

function Marks({ row }: { row: ScheduleRow }) {
  const text = its.value;
  const last = row.last;
  return (
    <>
      {row.paused && <Mark kind="warn">{text.paused}</Mark>}
      {last != null && <State state={last.state} />}
      {row.problem && <span class="problem">{shown(said(row.problem))}</span>}
    </>
  );
}

function State({ state }: { state: string }) {
  const kind = state === "answered" ? "good" : state === "running" || state === "waiting" ? "own" : state === "cancelled" ? "plain" : "bad";
  return <Mark kind={kind}>{its.value.states[state] ?? state}</Mark>;
}

function Actions({ row, again }: { row: ScheduleRow; again(): void }) {
  const text = its.value;
  const { name } = row;
  const key = () => ({ name, idempotency_key: crypto.randomUUID() });
  const call = async (run: () => Promise<unknown>, said = "") => {
    if ((await done(run)) && said !== "") app.toast.value = said;
    again();
  };
  const remove = async () => {
    if ((await askFirst({ title: text.deleteTitle(shown(name)), text: text.deleteText, action: text.delete, isBad: true })) === null) return;
    location.hash = hrefOf("schedules");
    await call(() => app.link.request("schedule/delete", key()), text.deleted);
  };
  const choices: Choice[] = [];
  const isOurs = row.source !== "callboard.toml";
  if (app.may("schedule/pause")) {
    choices.push(
      row.paused
        ? { name: text.resume, icon: "again", run: () => void call(() => app.link.request("schedule/resume", key())) }
        : { name: text.pause, icon: "stop", run: () => void call(() => app.link.request("schedule/pause", key())) },
    );
  }
  if (isOurs && app.may("schedule/update")) choices.push({ name: text.edit, icon: "edit", run: () => (location.hash = hrefOf("schedules", name, "edit")) });
  if (isOurs && app.may("schedule/delete")) choices.push({ name: text.delete, icon: "trash", isBad: true, run: () => void remove() });
  return (
    <>
      {app.may("schedule/run") && (
        <button type="button" class="small" onClick={() => void call(() => app.link.request("schedule/run", key()), text.ran)}>
          {text.run}
        </button>
      )}
      <Menu label={`${words.value.turnMenu.more}: ${shown(name)}`} choices={choices} />
    </>
  );
}

function One({ row, again, back }: { row: ScheduleRow; again(): void; back: { href: string; name: string } }) {
  const text = its.value;
  const firings = useResource(() => app.link.request("schedule/firings", { name: row.name, count: 10 }), ["schedules"], [row.name]);
  const next = row.next_at_ms ?? [];
  // Nobody tells of the end of a turn here.
  useWatch(() => {
    if (![row.last, ...(firings.value?.firings ?? [])].some(isUnderWay)) return;
    again();
    return firings.again();
  });
  return (
    <>
      <PageHead back={back} title={row.name} lead={whenOf(row)}>
        <Actions row={row} again={again} />
      </PageHead>
      <p class="marks">
        <Marks row={row} />
        {row.skipped && <span class="text">{shown(said(row.skipped))}</span>}
      </p>
      {row.source === "callboard.toml" && <p class="said-box">{text.fixed("callboard.toml")}</p>}
      <Section title={text.prompt}>
        <p class="plain">{shown(row.prompt)}</p>
      </Section>
      <Section title={text.next}>
        {next.length === 0 ? (
          <p class="empty">{row.paused ? text.paused : text.never}</p>
        ) : (
          <ol>
            {next.slice(0, 3).map((each) => (
              <li key={each}>
                {moment(each)} ({near(each, Date.now())})
              </li>
            ))}
          </ol>
        )}
      </Section>
      <Section title={text.firings} isBare>
        <Loaded resource={firings} isEmpty={(found) => found.firings.length === 0} empty={<p class="empty">{text.noFirings}</p>}>
          {(found) => (
            <Rows label={text.firings}>
              {found.firings.map((each) => (
                <Fired key={each.input_id} firing={each} />
              ))}
            </Rows>
          )}
        </Loaded>
      </Section>
    </>
  );
}

function Fired({ firing }: { firing: Firing }) {
  return (
    <RowOf
      title={moment(firing.at_ms)}
      href={hrefOf("chat", firing.session_id)}
      marks={
        <>
          <State state={firing.state} />
          {firing.planned_at_ms === null && <Mark>{its.value.byHand}</Mark>}
        </>
      }
      text={firing.message ? shown(firing.message) : undefined}
    />
  );
}

function Form({ row }: { row: ScheduleRow | null }) {
  const text = its.value;
  const agents = useResource(() => app.link.request("agent/list", {}), ["agents"]);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const draft = useDraft(`schedule/${row?.name ?? ""}`, writtenOf(row, zone));
  const { value, set } = draft;
  const sending = useSending(async () => {
    const schedule = draftOf(value, row);
    await app.link.request(row === null ? "schedule/create" : "schedule/update", { schedule, idempotency_key: crypto.randomUUID() });
    draft.clear();
    app.toast.value = text.saved;
    location.hash = hrefOf("schedules", schedule.name);
  }, FIELDS);
  const wrong = sending.problems;
  const pick = <K extends "missed" | "overlap" | "unattended" | "session">(field: K, label: string, options: Record<string, string>) => (
    <Field label={label}>
      {(attributes) => (
        <select {...attributes} value={value[field]} onChange={(event) => set({ [field]: event.currentTarget.value })}>
          {Object.entries(options).map(([each, name]) => (
            <option key={each} value={each}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
  const line = (field: "name" | "when" | "zone" | "workspace", label: string, hint: string | undefined, problem: string | undefined, isRequired = false) => (
    <Field label={label} hint={hint} problem={problem} isRequired={isRequired}>
      {(attributes) => <input {...attributes} type="text" value={value[field]} onInput={(event) => set({ [field]: event.currentTarget.value })} />}
    </Field>
  );
  const names = (agents.value?.agents ?? []).map((each) => each.name);
  return (
    <form class="fields" onSubmit={(event) => void sending.send(event)}>
      {row === null && line("name", text.name, undefined, wrong["name"], true)}
      <Field label={text.prompt} problem={wrong["prompt"]} isRequired>
        {(attributes) => <textarea {...attributes} rows={4} value={value.prompt} onInput={(event) => set({ prompt: event.currentTarget.value })} />}
      </Field>
      <Choose<When> label={text.when} value={value.kind} options={Object.entries(text.kinds) as [When, string][]} choose={(kind) => set({ kind, when: kind === value.kind ? value.when : "" })} />
      {line("when", text.kinds[value.kind], (value.kind === "cron" && sayCron(value.when)) || text.hints[value.kind], wrong[value.kind], true)}
      {value.kind !== "every" && line("zone", text.zone, undefined, wrong["zone"])}
      <Field label={text.agent} problem={wrong["agent"]}>
        {(attributes) => (
          <select {...attributes} value={value.agent} onChange={(event) => set({ agent: event.currentTarget.value })}>
            {[...new Set([value.agent, ...names])].map((each) => (
              <option key={each} value={each}>
                {shown(each)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <details>
        <summary>{text.more}</summary>
        <div class="fields more-fields">
          {line("workspace", text.workspace, text.workspaceHint, wrong["workspace"])}
          {pick("session", text.sessions, text.sessionChoices)}
          {pick("missed", text.missed, text.missedChoices)}
          {pick("overlap", text.overlap, text.overlapChoices)}
          {pick("unattended", text.unattended, text.unattendedChoices)}
        </div>
      </details>
      <FormEnd sending={sending} action={text.save} isOff={value.prompt.trim() === "" || value.when.trim() === "" || value.name.trim() === ""} cancel={() => (draft.clear(), history.back())} />
    </form>
  );
}
