// Tokens: made, shown once, replaced, revoked; and the browsers that are logged in with one.
import { useState } from "preact/hooks";
import { askFirst } from "../../parts/dialog";
import { Field, FormEnd, useDraft, useSending } from "../../parts/form";
import { Icon } from "../../parts/icon";
import { copy } from "../../parts/markdown";
import { Menu, type Choice } from "../../parts/menu";
import { Loaded, Mark, RowOf, Rows, Section } from "../../parts/page";
import { shown } from "../../parts/text";
import type { Role, TokenRow } from "../../protocol";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { dated, words } from "../../store/settings";
import { its } from "../../words/screens/settings";

interface Made {
  name: string;
  token: string;
}

export function Tokens() {
  const text = its.value;
  const all = useResource(() => app.link.request("token/list", {}), ["tokens"]);
  const [made, setMade] = useState<Made | null>(null);
  const [isNew, setNew] = useState(false);
  return (
    <Section
      title={text.tokens}
      lead={text.tokensLead}
      isBare
      actions={
        app.may("token/create") && (
          <button type="button" class="small" aria-expanded={isNew} onClick={() => setNew(!isNew)}>
            <Icon name="plus" /> {text.newToken}
          </button>
        )
      }
    >
      <div class="stack">
        {isNew && <NewToken made={(one) => (setMade(one), setNew(false))} cancel={() => setNew(false)} />}
        {made !== null && <Once made={made} done={() => setMade(null)} />}
        <Loaded resource={all}>
          {({ tokens }) => (
            <Rows label={text.tokens}>
              {onceEach(tokens).map(({ row, count }) => (
                <RowOf
                  key={row.name}
                  title={row.name}
                  marks={
                    <>
                      <Mark kind={row.role === "admin" ? "warn" : "plain"}>{row.role}</Mark>
                      {(row.agents !== null || row.sessions !== null) && <Mark>{text.limited}</Mark>}
                    </>
                  }
                  text={[isLogin(row) ? text.browsers(count, dated(row.created_at_ms)) : text.made(dated(row.created_at_ms)), ...(row.agents ?? []), ...(row.sessions ?? [])].map(shown).join(" · ")}
                >
                  <Menu label={text.menu(shown(row.name))} choices={choices(row, setMade)} />
                </RowOf>
              ))}
            </Rows>
          )}
        </Loaded>
      </div>
    </Section>
  );
}

const isLogin = (row: TokenRow): boolean => row.name.startsWith("console of ");

/** The browsers that are logged in with one token are logged out together, and are one row: the latest. */
function onceEach(tokens: readonly TokenRow[]): { row: TokenRow; count: number }[] {
  const found = new Map<string, { row: TokenRow; count: number }>();
  for (const row of tokens) {
    const known = found.get(row.name);
    if (known === undefined) found.set(row.name, { row, count: 1 });
    else found.set(row.name, { row: row.created_at_ms > known.row.created_at_ms ? row : known.row, count: known.count + 1 });
  }
  return [...found.values()];
}

function choices(row: TokenRow, show: (made: Made) => void): Choice[] {
  const text = its.value;
  const all: Choice[] = [];
  const act = async (title: string, said: string, action: string, run: () => Promise<void>) => {
    if ((await askFirst({ title, text: said, action, isBad: true })) === null) return;
    await run().catch(app.say);
  };
  if (app.may("token/rotate") && !isLogin(row)) {
    const run = async () => show(await app.link.request("token/rotate", { name: row.name }));
    all.push({ name: text.rotate, icon: "again", run: () => void act(text.rotateTitle(row.name), text.rotateText, text.rotate, run) });
  }
  if (app.may("token/revoke")) {
    const run = async () => {
      await app.link.request("token/revoke", { name: row.name });
      app.toast.value = text.revoked(row.name);
    };
    all.push({ name: text.revoke, icon: "trash", isBad: true, run: () => void act(text.revokeTitle(row.name), text.revokeText, text.revoke, run) });
  }
  return all;
}

/** In this page until it is put away, and nowhere else. */
function Once({ made, done }: { made: Made; done(): void }) {
  const text = its.value;
  return (
    <div class="sheet stack" role="status">
      <h3>{text.once(shown(made.name))}</h3>
      <p class="lead">{text.onceText}</p>
      <pre class="long" tabIndex={0} aria-label={text.once(made.name)}>
        {made.token}
      </pre>
      <div class="buttons">
        <button type="button" class="primary" onClick={() => copy(made.token)}>
          <Icon name="copy" /> {words.value.copy}
        </button>
        <button type="button" class="quiet" onClick={done}>
          {text.have}
        </button>
      </div>
    </div>
  );
}

function NewToken({ made, cancel }: { made(one: Made): void; cancel(): void }) {
  const text = its.value;
  const draft = useDraft<{ name: string; role: Role; agents: string; sessions: string }>("token", { name: "", role: "operator", agents: "", sessions: "" });
  const { value, set } = draft;
  const lines = (all: string) => all.split(/\s+/).filter((each) => each !== "");
  const sending = useSending(async () => {
    const [agents, sessions] = [lines(value.agents), lines(value.sessions)];
    const one = await app.link.request("token/create", {
      name: value.name.trim(),
      role: value.role,
      ...(agents.length === 0 ? {} : { agents }),
      ...(sessions.length === 0 ? {} : { sessions }),
    });
    draft.clear();
    made(one);
  }, ["name", "role", "agents", "sessions"]);
  return (
    <form class="sheet fields" onSubmit={(event) => void sending.send(event)}>
      <Field label={text.name} hint={text.nameHint} problem={sending.problems["name"]} isRequired>
        {(attributes) => <input {...attributes} type="text" spellcheck={false} autocomplete="off" value={value.name} onInput={(event) => set({ name: event.currentTarget.value })} />}
      </Field>
      <Field label={text.role} problem={sending.problems["role"]}>
        {(attributes) => (
          <select {...attributes} value={value.role} onChange={(event) => set({ role: event.currentTarget.value as Role })}>
            {Object.entries(text.roles).map(([name, each]) => (
              <option key={name} value={name}>
                {each}
              </option>
            ))}
          </select>
        )}
      </Field>
      <details open={value.agents !== "" || value.sessions !== ""}>
        <summary>{text.more}</summary>
        <div class="fields below">
          {(["agents", "sessions"] as const).map((name) => (
            <Field key={name} label={name === "agents" ? text.onlyAgents : text.onlySessions} hint={text.onlyHint} problem={sending.problems[name]}>
              {(attributes) => <textarea {...attributes} class="mono" rows={2} spellcheck={false} value={value[name]} onInput={(event) => set({ [name]: event.currentTarget.value })} />}
            </Field>
          ))}
        </div>
      </details>
      <FormEnd sending={sending} action={text.create} isOff={value.name.trim() === ""} cancel={() => (draft.clear(), cancel())} />
    </form>
  );
}
