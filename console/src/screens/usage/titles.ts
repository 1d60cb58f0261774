// Titles of sessions for tables that name any of them: those that the list at the left has not, as delegated ones, are read one by one.
import { useEffect, useState } from "preact/hooks";
import { link, sessions } from "../../store/app";
import { words } from "../../store/settings";

/** Return what says the title of a session; its id, while that is not known or where it is gone. */
export function useTitles(ids: readonly string[]): (id: string) => string {
  const [read, setRead] = useState<ReadonlyMap<string, string>>(new Map());
  const listed = new Map(sessions.value.map((each) => [each.session_id, each.title]));
  const missing = ids.filter((id) => !listed.has(id) && !read.has(id)).join();
  useEffect(() => {
    if (missing === "") return;
    let isOver = false;
    const all = missing.split(",").map((session_id) =>
      link.request("session/get", { session_id }).then(
        ({ title }) => [session_id, title] as const,
        () => [session_id, session_id] as const,
      ),
    );
    void Promise.all(all).then((found) => !isOver && setRead((old) => new Map([...old, ...found])));
    return () => {
      isOver = true;
    };
  }, [missing]);
  return (id) => (listed.get(id) ?? read.get(id) ?? id) || words.value.untitled;
}
