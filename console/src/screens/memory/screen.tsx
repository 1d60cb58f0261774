// What sessions remember: found, added and forgotten.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Methods } from "../../link";
import { moment } from "../../parts/amounts";
import { askFirst } from "../../parts/dialog";
import { Field, FormEnd, useDraft, useSending } from "../../parts/form";
import { IconButton } from "../../parts/menu";
import { Empty, Failed, Mark, Page, PageHead, Reading, Section } from "../../parts/page";
import { shown } from "../../parts/text";
import { done } from "../../parts/watch";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { textOf } from "../../store/problem";
import { hrefOf } from "../../store/route";
import { words } from "../../store/settings";
import { its } from "../../words/screens/memory";
import "../../look/screens/lists.css";

type One = Methods["memory/list"]["result"]["memories"][number];
const PAGE = 100;
const FOUND = 100;
const PAUSE_MS = 200;

/** Each agent has its memory, and each its best; of several, the best of all stand before their second best. */
async function found(query: string, agents: readonly string[]): Promise<One[]> {
  const all = await Promise.all(agents.map(async (agent) => (await app.link.request("memory/search", { query, limit: FOUND, agent })).memories));
  const most = Math.max(0, ...all.map((each) => each.length));
  return Array.from({ length: most }, (_, at) => all.flatMap((each) => each.slice(at, at + 1))).flat();
}

export default function Memory() {
  const text = its.value;
  const [agent, setAgent] = useState("");
  const [query, setQuery] = useState("");
  const [isAdding, setAdding] = useState(false);
  const [all, setAll] = useState<readonly One[] | null>(null);
  const [hasMore, setMore] = useState(false);
  const [problem, setProblem] = useState("");
  const latest = useRef(0);
  const agents = useResource(() => app.link.request("agent/list", {}), ["agents"]);
  const names = (agents.value?.agents ?? []).map((each) => each.name);
  const isOpen = app.link.state.value.kind === "open";
  const read = async (before: string | null = null) => {
    const own = ++latest.current;
    try {
      const memories =
        query.trim() === ""
          ? (await app.link.request("memory/list", { limit: PAGE, ...(agent === "" ? {} : { agent }), ...(before === null ? {} : { before }) })).memories
          : await found(query, agent === "" && names.length > 0 ? names : [agent || "general"]);
      if (own !== latest.current) return;
      setAll((old) => [...(before === null ? [] : (old ?? [])), ...memories]);
      setMore(query.trim() === "" && memories.length === PAGE);
      setProblem("");
    } catch (error) {
      if (own === latest.current && !app.isGone(error)) setProblem(textOf(error));
    }
  };
  useEffect(() => {
    if (!isOpen) return;
    const timer = setTimeout(() => void read(), query === "" ? 0 : PAUSE_MS);
    return () => clearTimeout(timer);
  }, [agent, query, isOpen, query === "" ? "" : names.join("/")]);
  useEffect(() => {
    if (!isOpen) return;
    app.link.request("topic/subscribe", { topic: "runtime" }).catch(() => undefined);
    return app.link.listen((name, params) => {
      if (name === "topic/update" && (params as { topic: string }).topic === "runtime") void read();
    });
  }, [isOpen, agent, query, names.join("/")]);
  const forget = async (memory: One) => {
    if ((await askFirst({ title: text.forgetTitle, text: text.forgetText, lines: [memory.text], action: text.forget, isBad: true })) === null) return;
    if (!(await done(() => app.link.request("memory/delete", { memory_id: memory.memory_id })))) return;
    app.toast.value = text.forgotten;
    void read();
  };
  const none =
    query.trim() !== "" ? (
      <p class="empty">{text.noMatch}</p>
    ) : (
      <Empty icon="memory" title={text.none} text={text.noneText} />
    );
  return (
    <Page>
      <PageHead lead={text.lead}>
        {app.may("memory/store") && !isAdding && (
          <button type="button" class="primary" onClick={() => setAdding(true)}>
            {text.add}
          </button>
        )}
      </PageHead>
      {isAdding && <Add agents={names} agent={agent} end={() => (setAdding(false), void read())} />}
      <div class="filters">
        <input type="search" aria-label={text.find} placeholder={text.find} value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
        <select aria-label={text.agent} value={agent} onChange={(event) => setAgent(event.currentTarget.value)}>
          <option value="">{text.all}</option>
          {names.map((each) => (
            <option key={each} value={each}>
              {shown(each)}
            </option>
          ))}
        </select>
      </div>
      {problem !== "" && <Failed text={problem} again={() => void read()} />}
      {all === null ? (
        problem === "" && <Reading />
      ) : all.length === 0 ? (
        none
      ) : (
        <ul class="rows" aria-label={words.value.screens.memory}>
          {all.map((memory) => (
            <li key={memory.memory_id}>
              <div class="about">
                <p class="plain">{shown(memory.text)}</p>
                <p class="text marks">
                  <Mark>{shown(memory.agent)}</Mark>
                  {memory.tags.map((tag) => (
                    <Mark key={tag} kind="own">
                      {shown(tag)}
                    </Mark>
                  ))}
                  {memory.is_untrusted && <Mark kind="warn">{text.untrusted}</Mark>}
                  <span>{moment(memory.stored_at_ms)}</span>
                  <a href={hrefOf("chat", memory.session_id)}>{text.inSession}</a>
                </p>
              </div>
              {app.may("memory/delete") && <IconButton icon="trash" name={text.forget} run={() => void forget(memory)} />}
            </li>
          ))}
        </ul>
      )}
      {hasMore && (
        <button type="button" onClick={() => void read(all?.at(-1)?.memory_id ?? null)}>
          {text.more}
        </button>
      )}
    </Page>
  );
}

function Add({ agents, agent, end }: { agents: readonly string[]; agent: string; end(): void }) {
  const text = its.value;
  const draft = useDraft("memory", { text: "", tags: "", agent: agent || "general" });
  const { value, set } = draft;
  // Whatever the list at the left is searched for.
  const sessions = useResource(() => app.link.request("session/list", { agent: value.agent, limit: 1 }), [], [value.agent]);
  const session = sessions.value?.sessions[0];
  const sending = useSending(async () => {
    const tags = value.tags.split(/[,，]/).map((each) => each.trim()).filter((each) => each !== "");
    await app.link.request("memory/store", { session_id: session?.session_id ?? "", text: value.text, tags, idempotency_key: crypto.randomUUID() });
    draft.clear();
    app.toast.value = text.saved;
    end();
  }, ["text", "tags"]);
  return (
    <Section title={text.add}>
      <form class="fields" onSubmit={(event) => void sending.send(event)}>
        <Field label={text.text} hint={text.textHint} problem={sending.problems["text"]} isRequired>
          {(its) => <textarea {...its} rows={3} maxLength={4000} value={value.text} onInput={(event) => set({ text: event.currentTarget.value })} />}
        </Field>
        <Field label={text.tags} hint={text.tagsHint} problem={sending.problems["tags"]}>
          {(its) => <input {...its} type="text" value={value.tags} onInput={(event) => set({ tags: event.currentTarget.value })} />}
        </Field>
        <Field label={text.agent} hint={session === undefined ? text.noSession : `${text.session} ${session.title || words.value.untitled}`}>
          {(its) => (
            <select {...its} value={value.agent} onChange={(event) => set({ agent: event.currentTarget.value })}>
              {[...new Set([value.agent, ...agents])].map((each) => (
                <option key={each} value={each}>
                  {shown(each)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <FormEnd sending={sending} action={text.save} isOff={session === undefined || value.text.trim() === ""} cancel={() => (draft.clear(), end())} />
      </form>
    </Section>
  );
}
