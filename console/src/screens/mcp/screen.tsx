// Servers of the Model Context Protocol: how they are, what is accepted of them, and new ones.
import { useState } from "preact/hooks";
import { askFirst } from "../../parts/dialog";
import { Choose, Field, FormEnd, useDraft, useSending } from "../../parts/form";
import { Icon } from "../../parts/icon";
import { Menu, type Choice } from "../../parts/menu";
import { Empty, Facts, Loaded, Mark, Page, PageHead, RowOf, Rows, Section, type ScreenProps } from "../../parts/page";
import { FieldError } from "../../parts/refusal";
import { shown } from "../../parts/text";
import { done } from "../../parts/watch";
import type { McpDraft, McpRow, McpSettings } from "../../protocol";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { hrefOf } from "../../store/route";
import { words } from "../../store/settings";
import { its } from "../../words/screens/mcp";
import { changedDraft, draftOf, draftsOf, type WrittenServer } from "./drafts";
import { Review, type Offer } from "./review";
import "../../look/screens/lists.css";

const LOGIN_MS = 660_000;
const LOOK_MS = 120_000;
const KINDS: Record<string, "good" | "own" | "warn" | "bad" | "plain"> = { running: "good", starting: "own", broken: "bad", failed: "bad" };

const backHere = () => ({ href: hrefOf("mcp"), name: words.value.screens.mcp });
const look = (name: string, server: McpDraft | null): Promise<Offer> => app.link.request("mcp/look", { name, ...(server === null ? {} : { server }) }, LOOK_MS);

export default function Mcp({ parts }: ScreenProps) {
  const [place = ""] = parts;
  return <Page>{place === "new" ? <Add /> : place === "" ? <All /> : <One key={place} name={place} />}</Page>;
}

function Marks({ row }: { row: McpRow }) {
  const text = its.value;
  const withheld = row.withheld?.length ?? 0;
  const found = row.new?.length ?? 0;
  return (
    <>
      <Mark kind={KINDS[row.state] ?? "plain"}>{text.states[row.state] ?? row.state}</Mark>
      {withheld > 0 && <Mark kind="warn">{text.changed(withheld)}</Mark>}
      {found > 0 && <Mark kind="own">{text.new(found)}</Mark>}
    </>
  );
}

function All() {
  const text = its.value;
  const resource = useResource(() => app.link.request("mcp/list", {}), ["tools"]);
  return (
    <>
      <PageHead lead={text.lead}>
        {app.may("mcp/add") && (
          <a class="button primary" href={hrefOf("mcp", "new")}>
            <Icon name="plus" /> {text.add}
          </a>
        )}
      </PageHead>
      <Loaded resource={resource} isEmpty={({ servers }) => servers.length === 0} empty={<Empty icon="mcp" title={text.none} text={text.noneText} />}>
        {({ servers }) => (
          <Rows label={words.value.screens.mcp}>
            {servers.map((row) => (
              <RowOf
                key={row.name}
                title={row.name}
                {...(app.may("mcp/get") ? { href: hrefOf("mcp", row.name) } : {})}
                marks={<Marks row={row} />}
                text={[text.tools(row.tools?.length ?? 0), row.place ?? "", row.problem ?? ""].filter((each) => each !== "").map(shown).join(" · ")}
              />
            ))}
          </Rows>
        )}
      </Loaded>
    </>
  );
}

function One({ name }: { name: string }) {
  const text = its.value;
  const resource = useResource(() => app.link.request("mcp/get", { name }), ["tools"]);
  const [offer, setOffer] = useState<Offer | null>(null);
  const [isBusy, setBusy] = useState(false);
  const review = async () => {
    setBusy(true);
    await done(async () => setOffer(await look(name, null)));
    setBusy(false);
    void resource.again();
  };
  const accept = async (tools: Record<string, string>, offers: string) => {
    await app.link.request("mcp/accept", { name, tools, offers, idempotency_key: crypto.randomUUID() });
    app.toast.value = text.acceptDone;
    setOffer(null);
    void resource.again();
  };
  return (
    <Loaded resource={resource}>
      {({ row, settings, errors }) => (
        <>
          <PageHead
            back={backHere()}
            title={name}
            lead={
              <span class="marks">
                <Marks row={row} />
                {row.problem && <span class="problem">{shown(row.problem)}</span>}
              </span>
            }
          >
            {app.may("mcp/look") && offer === null && (
              <button type="button" class="primary" disabled={isBusy} onClick={() => void review()}>
                {isBusy ? text.reviewing : text.review}
              </button>
            )}
            <Actions row={row} settings={settings} again={() => void resource.again()} />
          </PageHead>
          {offer !== null ? (
            <Review offer={offer} accepted={settings.tools ?? []} accept={accept} leave={() => setOffer(null)} />
          ) : (
            <>
              <Section title={words.value.screens.settings}>
                <Facts
                  rows={[
                    [text.place, <code key="place">{shown(settings.url ?? settings.command?.join(" ") ?? "")}</code>],
                    [text.tier, words.value.tiers[row.tier] ?? row.tier],
                    ...(row.source === "managed" ? [] : [[text.source, row.source] as const]),
                    ...(row.info?.name ? [[text.says, shown([row.info.name, row.info.version ?? ""].join(" "))] as const] : []),
                    ...(row.resources ? [[text.resources, text.yes] as const] : []),
                  ]}
                />
              </Section>
              {errors && (
                <Section title={text.words}>
                  <pre class="long" tabIndex={0}>
                    {shown(errors)}
                  </pre>
                </Section>
              )}
              <Section title={text.accepted} isBare>
                {(settings.tools ?? []).length === 0 ? (
                  <p class="empty">{text.noTools}</p>
                ) : (
                  <Rows label={text.accepted}>
                    {(settings.tools ?? []).map((tool) => (
                      <RowOf key={tool.name} title={tool.original} marks={row.withheld?.includes(tool.name) && <Mark kind="warn">{text.withheld}</Mark>} text={shown(tool.description ?? "")} />
                    ))}
                  </Rows>
                )}
              </Section>
            </>
          )}
        </>
      )}
    </Loaded>
  );
}

function Actions({ row, settings, again }: { row: McpRow; settings: McpSettings; again(): void }) {
  const text = its.value;
  const { name } = row;
  const call = async (run: () => Promise<unknown>, said = "") => {
    if ((await done(run)) && said !== "") app.toast.value = said;
    again();
  };
  const login = async () => {
    await call(async () => {
      const begun = await app.link.request("mcp/login", { name }, LOOK_MS);
      const { url = "" } = begun;
      if (!/^https?:/i.test(url)) return void (app.toast.value = text.noLogin);
      // The whole address is shown first; what is opened by a press of its own is not blocked.
      if ((await askFirst({ title: text.loginTitle, lines: [url], action: text.loginDo })) === null) return;
      window.open(url, "_blank", "noopener,noreferrer");
      await app.link.request("mcp/finish_login", { login: begun.login ?? "" }, LOGIN_MS);
      app.toast.value = text.loggedIn;
    });
  };
  const remove = async () => {
    if ((await askFirst({ title: text.removeTitle(shown(name)), text: text.removeText, action: text.remove, isBad: true })) === null) return;
    if (await done(() => app.link.request("mcp/remove", { name, idempotency_key: crypto.randomUUID() }))) location.hash = hrefOf("mcp");
  };
  const isOurs = row.source === "managed";
  const isOff = settings.enabled === false;
  const choices: Choice[] = [];
  if (settings.url && app.may("mcp/login")) choices.push({ name: text.login, icon: "key", run: () => void login() });
  if (app.may("mcp/restart")) choices.push({ name: text.restart, icon: "again", run: () => void call(() => app.link.request("mcp/restart", { name, idempotency_key: crypto.randomUUID() }), text.restarted) });
  if (isOurs && app.may("mcp/update")) {
    choices.push({ name: isOff ? text.on : text.off, icon: isOff ? "check" : "stop", run: () => void call(() => app.link.request("mcp/update", { server: changedDraft(settings, { enabled: isOff }), idempotency_key: crypto.randomUUID() })) });
  }
  if (isOurs && app.may("mcp/remove")) choices.push({ name: text.remove, icon: "trash", isBad: true, run: () => void remove() });
  return <Menu label={`${words.value.turnMenu.more}: ${shown(name)}`} choices={choices} />;
}

const EMPTY: WrittenServer & { how: "form" | "paste"; chosen: string } = { how: "form", chosen: "", name: "", kind: "command", command: "", url: "", network: "", tier: "elevated" };

function Add() {
  const text = its.value;
  const draft = useDraft("mcp", EMPTY);
  const { value, set } = draft;
  const [json, setJson] = useState(""); // it may have keys and tokens, which no draft keeps
  const [offered, setOffered] = useState<{ server: McpDraft; offer: Offer } | null>(null);
  const pasted = value.how === "paste" ? draftsOf(json, value.tier) : null;
  const server = value.how === "form" ? draftOf(value) : (pasted?.find((each) => each.name === value.chosen) ?? pasted?.[0] ?? null);
  const sending = useSending(async () => {
    if (server === null) throw new FieldError("json", text.noJson);
    setOffered({ server, offer: await look(server.name, server) });
  }, ["name", "command", "url", "network", "json"]);
  const accept = async (added: McpDraft, tools: Record<string, string>, offers?: string) => {
    await app.link.request("mcp/add", { server: added, tools, ...(offers === undefined ? {} : { offers }), idempotency_key: crypto.randomUUID() });
    draft.clear();
    app.toast.value = text.added;
    location.hash = hrefOf("mcp", added.name);
  };
  const wrong = sending.problems;
  const head = <PageHead back={backHere()} title={text.add} />;
  if (offered !== null) {
    return (
      <>
        {head}
        <Review offer={offered.offer} accepted={[]} accept={(tools, offers) => accept(offered.server, tools, offers)} leave={() => setOffered(null)} />
      </>
    );
  }
  const line = (field: "name" | "url" | "network", label: string, hint?: string) => (
    <Field label={label} hint={hint} problem={wrong[field]} isRequired={field !== "network"}>
      {(attributes) => <input {...attributes} type="text" value={value[field]} onInput={(event) => set({ [field]: event.currentTarget.value })} />}
    </Field>
  );
  return (
    <>
      {head}
      <form class="fields" onSubmit={(event) => void sending.send(event)}>
        <Choose<"form" | "paste"> label={text.how} value={value.how} options={[["form", text.form], ["paste", text.paste]]} choose={(how) => set({ how })} />
        {value.how === "form" ? (
          <>
            {line("name", text.name, text.nameHint)}
            <Choose<"command" | "url"> label={text.kind} value={value.kind} options={Object.entries(text.kinds) as ["command" | "url", string][]} choose={(kind) => set({ kind })} />
            {value.kind === "url" ? (
              line("url", text.url)
            ) : (
              <>
                <Field label={text.command} hint={text.commandHint} problem={wrong["command"]} isRequired>
                  {(attributes) => <textarea {...attributes} class="mono" rows={3} value={value.command} onInput={(event) => set({ command: event.currentTarget.value })} />}
                </Field>
                {line("network", text.network, text.networkHint)}
              </>
            )}
          </>
        ) : (
          <>
            <Field label={text.json} hint={text.jsonHint} problem={wrong["json"] ?? (json.trim() !== "" && pasted === null ? text.noJson : undefined)} isRequired>
              {(attributes) => <textarea {...attributes} class="mono" rows={8} value={json} onInput={(event) => setJson(event.currentTarget.value)} />}
            </Field>
            {pasted !== null && pasted.length > 1 && (
              <Field label={text.which}>
                {(attributes) => (
                  <select {...attributes} value={server?.name} onChange={(event) => set({ chosen: event.currentTarget.value })}>
                    {pasted.map((each) => (
                      <option key={each.name}>{each.name}</option>
                    ))}
                  </select>
                )}
              </Field>
            )}
          </>
        )}
        <Field label={text.tier}>
          {(attributes) => (
            <select {...attributes} value={value.tier} onChange={(event) => set({ tier: event.currentTarget.value as WrittenServer["tier"] })}>
              {(["elevated", "system", "workspace", "read_only"] as const).map((each) => (
                <option key={each} value={each}>
                  {words.value.tiers[each]}
                </option>
              ))}
            </select>
          )}
        </Field>
        <FormEnd sending={sending} action={text.look} isOff={server === null || server.name === ""} cancel={() => (draft.clear(), (location.hash = hrefOf("mcp")))}>
          {sending.problem !== "" && server?.url && (
            <button type="button" onClick={() => void done(() => accept(server, {}))}>
              {text.addBare}
            </button>
          )}
        </FormEnd>
      </form>
    </>
  );
}

