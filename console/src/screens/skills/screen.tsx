// Skills and AGENTS.md of a workspace: read, and approved as they are.
import { useEffect, useState } from "preact/hooks";
import type { Methods } from "../../link";
import { askFirst } from "../../parts/dialog";
import { Field } from "../../parts/form";
import { Empty, Loaded, Mark, Page, PageHead } from "../../parts/page";
import { shown } from "../../parts/text";
import { done } from "../../parts/watch";
import * as app from "../../store/app";
import { folders, readFolders } from "../../store/folders";
import { useResource } from "../../store/lists";
import { words } from "../../store/settings";
import { said } from "../../words/said";
import { its } from "../../words/screens/skills";
import "../../look/screens/lists.css";

type Skill = Methods["skill/list"]["result"]["skills"][number];
type Text = Methods["skill/get"]["result"];
const PAUSE_MS = 400;
const KINDS: Record<string, "good" | "warn" | "bad" | "own" | "plain"> = { approved: "good", own: "own", new: "warn", changed: "warn", broken: "bad" };

export default function Skills() {
  const text = its.value;
  const known = folders.value;
  useResource(readFolders, ["roots"]);
  const [chosen, setChosen] = useState<string | null>(null);
  const [typed, setTyped] = useState("");
  // A path that is still being written is none yet.
  const [path, setPath] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setPath(typed.trim()), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const isOther = chosen === "" || known.length === 0;
  const workspace = isOther ? path : (chosen ?? known[0] ?? "");
  return (
    <Page>
      <PageHead lead={text.lead} />
      <div class="filters">
        <Field label={text.workspace}>
          {(attributes) => (
            <select {...attributes} value={isOther ? "" : workspace} onChange={(event) => setChosen(event.currentTarget.value)}>
              {known.map((each) => (
                <option key={each} value={each}>
                  {shown(each)}
                </option>
              ))}
              <option value="">{text.other}</option>
            </select>
          )}
        </Field>
        {isOther && (
          <Field label={text.path}>{(attributes) => <input {...attributes} type="text" value={typed} onInput={(event) => (setChosen(""), setTyped(event.currentTarget.value))} />}</Field>
        )}
      </div>
      {workspace === "" ? <Empty icon="skills" title={text.noWorkspace} text={text.noWorkspaceText} /> : <All workspace={workspace} />}
    </Page>
  );
}

function All({ workspace }: { workspace: string }) {
  const text = its.value;
  const resource = useResource(() => app.link.request("skill/list", { workspace }), ["skills"], [workspace]);
  return (
    <Loaded resource={resource} isEmpty={({ skills }) => skills.length === 0} empty={<Empty icon="skills" title={text.none} text={text.noneText} />}>
      {({ skills }) => (
        <ul class="rows" aria-label={words.value.screens.skills}>
          {skills.map((skill) => (
            <One key={`${workspace}/${skill.path}`} skill={skill} workspace={workspace} again={() => void resource.again()} />
          ))}
        </ul>
      )}
    </Loaded>
  );
}

function One({ skill, workspace, again }: { skill: Skill; workspace: string; again(): void }) {
  const text = its.value;
  const [read, setRead] = useState<Text | null>(null);
  const { path, name } = skill;
  const look = () => done(async () => setRead(await app.link.request("skill/get", { workspace, path })));
  const approve = async () => {
    // Exactly what was read: if it is another by now, the daemon refuses.
    const digest = read?.skill.digest ?? "";
    const worked = await done(() => app.link.request("skill/allow", { workspace, path, digest, idempotency_key: crypto.randomUUID() }));
    if (worked) app.toast.value = text.approved;
    if (worked) setRead(null);
    else await look();
    again();
  };
  const revoke = async () => {
    if ((await askFirst({ title: text.revokeTitle(shown(name)), text: text.revokeText, action: text.revoke, isBad: true })) === null) return;
    if (await done(() => app.link.request("skill/revoke", { workspace, path, idempotency_key: crypto.randomUUID() }))) app.toast.value = text.revoked;
    again();
  };
  const mayApprove = (skill.state === "new" || skill.state === "changed") && app.may("skill/allow");
  return (
    <li class="skill">
      <div class="about">
        <p class="title">
          <span class="name">{shown(name)}</span>
          <Mark kind={KINDS[skill.state] ?? "plain"}>{text.states[skill.state] ?? skill.state}</Mark>
          <Mark>{text.kinds[skill.kind ?? "skill"] ?? skill.kind}</Mark>
        </p>
        {skill.description && <p class="text">{shown(said(skill.description))}</p>}
        {skill.problem && <p class="problem">{shown(skill.problem)}</p>}
        <p class="text">
          <code>{shown(path)}</code>
        </p>
        {read !== null && (
          <div class="skill-text">
            <pre class="long" tabIndex={0}>
              {shown(read.text)}
            </pre>
            {Object.keys(read.files).length > 1 && (
              <p class="text">
                {text.files}: {Object.entries(read.files).map(([file, size]) => `${shown(file)} (${size} B)`).join(", ")}
              </p>
            )}
            {mayApprove && (
              <button type="button" class="primary" onClick={() => void approve()}>
                {text.approve}
              </button>
            )}
          </div>
        )}
      </div>
      <div class="row-actions">
        {app.may("skill/get") && (
          <button type="button" class="small" aria-expanded={read !== null} onClick={() => (read === null ? void look() : setRead(null))}>
            {read === null ? text.read : text.close}
          </button>
        )}
        {skill.state === "approved" && app.may("skill/revoke") && (
          <button type="button" class="small" onClick={() => void revoke()}>
            {text.revoke}
          </button>
        )}
      </div>
    </li>
  );
}
