// A whole session as one plain page: for printing, for the browser's own search, and for who reads by ear.
import { useEffect, useState } from "preact/hooks";
import { rowOf, type Row } from "../../fold/session";
import { copy, Markdown } from "../../parts/markdown";
import { Failed, Page, type ScreenProps } from "../../parts/page";
import { shown } from "../../parts/text";
import * as app from "../../store/app";
import { textOf } from "../../store/problem";
import { words } from "../../store/settings";
import { its } from "../../words/screens/chat";
import { Files } from "../files";

const PAGE = 500;

export default function Print({ parts }: ScreenProps) {
  const id = parts[0] ?? "";
  return <Whole key={id} id={id} />;
}

function Whole({ id }: { id: string }) {
  const text = its.value.page;
  const [rows, setRows] = useState<readonly Row[]>([]);
  const [isWhole, setWhole] = useState(false);
  const [problem, setProblem] = useState("");
  const [round, setRound] = useState(0);
  const [title, setTitle] = useState("");
  const isOpen = app.link.state.value.kind === "open";
  useEffect(() => {
    if (!isOpen || id === "") return;
    let isOver = false;
    setProblem("");
    const read = async () => {
      const { title: name } = await app.link.request("session/get", { session_id: id });
      const all: Row[] = [];
      for (let after = 0; !isOver; ) {
        const page = await app.link.request("session/messages", { session_id: id, after, limit: PAGE });
        all.push(...page.messages.map(rowOf).filter((row) => !row.isDeleted));
        after = page.messages.at(-1)?.position ?? after;
        if (isOver) return;
        setTitle(name);
        setRows([...all]);
        if (!page.has_more) return setWhole(true);
      }
    };
    read().catch((error: unknown) => !isOver && !app.isGone(error) && setProblem(textOf(error)));
    return () => {
      isOver = true;
    };
  }, [id, isOpen, round]);
  if (problem !== "") {
    return (
      <Page>
        <Failed text={problem} again={() => setRound(round + 1)} />
      </Page>
    );
  }
  return (
    <Page>
      <header class="print-head">
        <h2>{shown(title) || words.value.untitled}</h2>
        <div class="buttons">
          <button type="button" disabled={!isWhole} onClick={() => copy(asText(title, rows))}>
            {text.copy}
          </button>
          <button type="button" disabled={!isWhole} onClick={() => print()}>
            {text.print}
          </button>
        </div>
      </header>
      {!isWhole && (
        <p class="under" role="status">
          {text.reading(rows.length)}
        </p>
      )}
      {rows.map((row) => (
        <Entry key={row.id} sessionId={id} row={row} />
      ))}
    </Page>
  );
}

function Entry({ sessionId, row }: { sessionId: string; row: Row }) {
  const text = its.value.page;
  if (row.kind === "assistant" && row.content === "") return null;
  if (row.kind === "call" || row.kind === "result") {
    return (
      <article class="printed">
        <h3>
          {row.kind === "call" ? text.call : text.result}: <code>{shown(row.tool)}</code>
        </h3>
        <pre class="long" tabIndex={0}>
          {shown(row.kind === "call" ? row.input : row.content || row.output)}
        </pre>
        <Files sessionId={sessionId} row={row} />
      </article>
    );
  }
  return (
    <article class="printed">
      <h3>{row.kind === "user" ? words.value.you : row.kind === "assistant" ? words.value.assistant : words.value.system}</h3>
      {row.kind === "assistant" ? <Markdown text={row.content} /> : <p class="plain">{shown(row.content)}</p>}
      <Files sessionId={sessionId} row={row} />
    </article>
  );
}

/** A session as Markdown, to be pasted elsewhere. */
function asText(title: string, rows: readonly Row[]): string {
  const all = rows.filter((row) => row.kind === "user" || (row.kind === "assistant" && row.content !== ""));
  const said = all.map((row) => `## ${row.kind === "user" ? words.value.you : words.value.assistant}\n\n${row.content}`);
  return [`# ${title}`, ...said].join("\n\n") + "\n";
}
