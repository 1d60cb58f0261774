// Find in the open session: in all of the record, whether it is drawn or not; what is drawn has the words marked.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { IconButton } from "../parts/menu";
import * as app from "../store/app";
import { isFinding } from "../store/keys";
import { its } from "../words/screens/chat";
import { sought, wanted } from "./jump";

const SETTLE_MS = 200;
const MAX_HITS = 200;

interface Hit {
  message_id: string;
  position: number;
}

export function Find() {
  const text = its.value.find;
  const [query, setQuery] = useState("");
  const [hits, setHits] = useState<{ all: readonly Hit[]; count: number; of: string }>({ all: [], count: 0, of: "" });
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const session = app.open.value;
  const id = session?.id;

  // Before the next key: what is typed at once belongs here.
  useLayoutEffect(() => {
    const before = document.activeElement;
    field.current?.focus();
    return () => {
      sought.value = "";
      wanted.value = null;
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  useEffect(() => {
    if (id === undefined) return;
    if (query.trim() === "") return setHits({ all: [], count: 0, of: "" });
    let isOver = false;
    const timer = setTimeout(() => {
      app.link.request("session/search", { query, session_id: id, limit: MAX_HITS }).then((found) => {
        if (isOver) return;
        setHits({ all: found.hits, count: found.hits[0]?.matches ?? 0, of: query });
        setAt(0);
        go(found.hits[0]);
      }, (error: unknown) => !isOver && !app.isGone(error) && app.say(error));
    }, SETTLE_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [query, id]);

  const go = (hit: Hit | undefined) => {
    if (hit !== undefined) wanted.value = { id: hit.message_id, position: hit.position };
  };
  const step = (by: number) => {
    if (hits.all.length === 0) return;
    const next = (at + by + hits.all.length) % hits.all.length;
    setAt(next);
    go(hits.all[next]);
  };
  useLayoutEffect(() => void (sought.value = query), [query]);

  const count = hits.count > MAX_HITS ? `${MAX_HITS}+` : String(hits.all.length);
  return (
    <form
      class="find"
      role="search"
      aria-label={text.title}
      onSubmit={(event) => (event.preventDefault(), step(1))}
      onKeyDown={(event) => {
        if (event.key === "Escape") (event.stopPropagation(), (isFinding.value = false));
        else if (event.key === "Enter" && event.shiftKey) (event.preventDefault(), step(-1));
      }}
    >
      <input ref={field} type="search" aria-label={text.title} placeholder={text.title} value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
      <span class="under" role="status">
        {query.trim() === "" || hits.of !== query ? "" : hits.all.length === 0 ? text.none : text.at(at + 1, count)}
      </span>
      <IconButton icon="up" name={text.earlier} run={() => step(1)} />
      <IconButton icon="down" name={text.later} run={() => step(-1)} />
      <IconButton icon="close" name={text.close} run={() => (isFinding.value = false)} />
    </form>
  );
}
