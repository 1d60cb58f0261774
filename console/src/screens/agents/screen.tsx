// Agents: which there are, what each may do, and what the model reads of it.
import { useState } from "preact/hooks";
import { askFirst } from "../../parts/dialog";
import { Excerpt } from "../../parts/excerpt";
import { Field } from "../../parts/form";
import { Icon } from "../../parts/icon";
import { Menu, type Choice } from "../../parts/menu";
import { Empty, Facts, Loaded, Mark, Page, PageHead, Reading, RowOf, Rows, Section, type ScreenProps } from "../../parts/page";
import { shown } from "../../parts/text";
import type { AgentRow, Budget } from "../../protocol";
import { AMOUNTS } from "../../store/agents";
import * as app from "../../store/app";
import { choose } from "../../store/compose";
import { folders, readFolders } from "../../store/folders";
import { useResource } from "../../store/lists";
import { hrefOf } from "../../store/route";
import { numbered, words } from "../../store/settings";
import { said } from "../../words/said";
import { its } from "../../words/screens/agents";
import { AgentEditor } from "./editor";
import "../../look/screens/agents.css";

/** In the place of a name in the address: no agent has such a name. */
const NEW = "+";
const EDIT = "edit";

export default function Agents({ parts: [name = "", what = ""] }: ScreenProps) {
  const all = useResource(() => app.link.request("agent/list", {}), ["agents", "tools"]);
  return <Page>{name === NEW ? <AgentEditor row={null} /> : <Loaded resource={all}>{({ agents }) => (name === "" ? <List rows={agents} /> : <One rows={agents} name={name} what={what} />)}</Loaded>}</Page>;
}

function List({ rows }: { rows: readonly AgentRow[] }) {
  const text = its.value;
  return (
    <>
      <PageHead lead={text.lead}>
        {app.may("agent/create") && (
          <a class="button primary" href={hrefOf("agents", NEW)}>
            <Icon name="plus" /> {text.add}
          </a>
        )}
      </PageHead>
      <Rows label={text.all}>
        {rows.map((row) => (
          <RowOf key={row.name} title={row.name} href={hrefOf("agents", row.name)} marks={<Marks row={row} />} text={shown(said(row.description ?? "")) || undefined}>
            <AgentMenu row={row} />
          </RowOf>
        ))}
      </Rows>
    </>
  );
}

function toolsOf(row: AgentRow): string {
  const text = its.value;
  const count = row.tools?.length ?? 0;
  return row.has_all_tools ? text.allTools(count) : text.tools(count);
}

function Marks({ row }: { row: AgentRow }) {
  const text = its.value;
  return (
    <>
      {row.source !== "managed" && <Mark>{text.sources[row.source ?? ""] ?? shown(row.source ?? "")}</Mark>}
      <Mark>{toolsOf(row)}</Mark>
      {row.model != null && <Mark>{shown(row.model)}</Mark>}
    </>
  );
}

function AgentMenu({ row }: { row: AgentRow }) {
  const text = its.value;
  const choices: Choice[] = [];
  if (app.may("session/new")) choices.push({ name: text.begin, icon: "chat", run: () => begin(row.name) });
  if (app.may("agent/update") && row.source === "managed") choices.push({ name: text.edit, icon: "edit", run: () => void (location.hash = hrefOf("agents", row.name, EDIT)) });
  if (app.may("agent/clone")) choices.push({ name: text.copy, icon: "copy", run: () => void copy(row.name) });
  if (app.may("agent/delete") && row.source === "managed") choices.push({ name: text.remove, icon: "trash", isBad: true, run: () => void remove(row.name) });
  return <Menu label={text.menu(shown(row.name))} choices={choices} />;
}

/** The choice is that of a new session, whose place there is. */
function begin(agent: string): void {
  location.hash = "#/chat/new";
  addEventListener("hashchange", () => choose({ agent }), { once: true });
}

async function copy(name: string): Promise<void> {
  const text = its.peek();
  const wanted = await askFirst({ title: text.copyTitle(name), field: { name: text.newName, value: `${name}-2` }, action: text.copy });
  if (wanted === null) return;
  try {
    const made = await app.link.request("agent/clone", { name, new_name: wanted });
    location.hash = hrefOf("agents", made.name, EDIT);
  } catch (error) {
    app.say(error);
  }
}

async function remove(name: string): Promise<void> {
  const text = its.peek();
  if ((await askFirst({ title: text.removeTitle(name), text: text.removeText, action: text.remove, isBad: true })) === null) return;
  try {
    const { moved_sessions } = await app.link.request("agent/delete", { name });
    app.toast.value = text.removed(name, moved_sessions);
    if (location.hash.startsWith(hrefOf("agents", name))) location.hash = hrefOf("agents");
  } catch (error) {
    app.say(error);
  }
}

function One({ rows, name, what }: { rows: readonly AgentRow[]; name: string; what: string }) {
  const text = its.value;
  const row = rows.find((each) => each.name === name);
  if (row === undefined) {
    return (
      <>
        <PageHead back={{ href: hrefOf("agents"), name: text.all }} />
        <Empty icon="find" title={text.unknown(shown(name))} />
      </>
    );
  }
  if (what === EDIT && app.may("agent/update") && row.source === "managed") return <AgentEditor key={name} row={row} />;
  return <Detail row={row} />;
}

function Detail({ row }: { row: AgentRow }) {
  const text = its.value;
  const source = row.source ?? "managed";
  const skills = row.skills ?? null;
  return (
    <>
      <PageHead back={{ href: hrefOf("agents"), name: text.all }} title={row.name} lead={shown(said(row.description ?? "")) || undefined}>
        {app.may("agent/update") && source === "managed" && (
          <a class="button" href={hrefOf("agents", row.name, EDIT)}>
            <Icon name="edit" /> {text.edit}
          </a>
        )}
        <AgentMenu row={row} />
      </PageHead>
      {text.fixed[source] !== undefined && app.may("agent/create") && <p class="said-box">{text.fixed[source]}</p>}
      <Section title={text.what}>
        <Facts
          rows={[
            [text.model, shown(row.model ?? text.defaultModel)],
            ...((row.fallbacks ?? []).length > 0 ? ([[text.fallbacks, (row.fallbacks ?? []).map(shown).join(", ")]] as const) : []),
            [text.policy, text.policies[row.policy ?? "balanced"]],
            ...((row.auto_hosts ?? []).length > 0 ? ([[text.hosts, (row.auto_hosts ?? []).map(shown).join(", ")]] as const) : []),
            [text.thinking, text.efforts[row.thinking ?? ""]],
            ...(row.temperature != null ? ([[text.temperature, row.temperature]] as const) : []),
            ...(row.max_output_tokens != null ? ([[text.output, numbered(row.max_output_tokens)]] as const) : []),
            [text.turnBudget, budgetOf(row.turn_budget)],
            [text.sessionBudget, budgetOf(row.session_budget)],
            [text.skills, skills === null ? text.allSkills : skills.map(shown).join(", ") || text.none],
          ]}
        />
      </Section>
      <Preview row={row} />
      <Section title={`${text.toolsTitle}: ${toolsOf(row)}`} isBare>
        <Rows label={text.toolsTitle}>
          {(row.tools ?? []).map((each) => (
            <RowOf
              key={each.name}
              title={each.name}
              marks={each.tier == null ? <Mark kind="bad">{text.gone}</Mark> : <Mark kind={each.tier === "read_only" ? "plain" : each.tier === "elevated" ? "bad" : "warn"}>{words.value.tiers[each.tier]}</Mark>}
              text={shown(each.description ?? "")}
            />
          ))}
        </Rows>
      </Section>
    </>
  );
}

function budgetOf(budget: Budget | null | undefined): string {
  const text = its.value;
  const parts = AMOUNTS.filter((name) => budget?.[name] != null).map((name) => `${text.amounts[name]}: ${numbered(budget?.[name] ?? 0)}`);
  return parts.join(" · ") || text.none;
}

/** The whole prompt, as a session of the agent would begin now; for who may not ask for that, the agent's own part. */
function Preview({ row }: { row: AgentRow }) {
  const text = its.value;
  const [isOpen, setOpen] = useState(false);
  const [workspace, setWorkspace] = useState("");
  const known = folders.value;
  useResource(readFolders, ["roots"]);
  const own = row.prompt ?? "";
  const found = useResource(
    async () =>
      app.may("agent/preview")
        ? app.link.request("agent/preview", { name: row.name, ...(workspace === "" ? {} : { workspace }) })
        : { text: own, parts: own === "" ? [] : [{ source: "agent" as const, text: own }] },
    ["agents", "tools", "skills"],
    [row.name, workspace],
  );
  return (
    <Section title={text.preview} lead={text.previewLead}>
      <div class="stack">
        {app.may("agent/preview") && known.length > 0 && (
          <Field label={text.workspace}>
            {(attributes) => (
              <select {...attributes} value={workspace} onChange={(event) => setWorkspace(event.currentTarget.value)}>
                <option value="">{text.noWorkspace}</option>
                {known.map((each) => (
                  <option key={each} value={each}>
                    {shown(each)}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        <Loaded resource={found}>
          {(preview) => (
            <>
              {preview.parts.length === 0 && <p class="lead">{text.noPrompt}</p>}
              {preview.parts.map((part) => (
                <section key={part.source} aria-label={text.parts[part.source]}>
                  <p class="under">
                    {text.parts[part.source]} · {text.chars(numbered(part.text.length))}
                  </p>
                  <Excerpt text={part.text}>
                    {(its) => (
                      <pre class="long" tabIndex={0} aria-label={text.parts[part.source]}>
                        {shown(its)}
                      </pre>
                    )}
                  </Excerpt>
                </section>
              ))}
            </>
          )}
        </Loaded>
        <details onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>{text.definitions}</summary>
          {isOpen && <Definitions agent={row.name} />}
        </details>
      </div>
    </Section>
  );
}

function Definitions({ agent }: { agent: string }) {
  const text = its.value;
  const found = useResource(async () => JSON.stringify((await app.link.request("tool/definitions", { format: "openai", agent })).definitions, null, 2), ["agents", "tools"], [agent]);
  if (found.value === null && found.problem === "") return <Reading />;
  return (
    <Loaded resource={found}>
      {(json) => (
        <>
          <pre class="long" tabIndex={0} aria-label={text.definitions}>
            {shown(json)}
          </pre>
          <p class="under">{text.chars(numbered(json.length))}</p>
        </>
      )}
    </Loaded>
  );
}
