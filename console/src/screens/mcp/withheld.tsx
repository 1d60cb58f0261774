// What of servers is not as it was accepted, said in a chat that is open: a line for each change until the person has seen it.
import { useState } from "preact/hooks";
import { Icon } from "../../parts/icon";
import { shown } from "../../parts/text";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { hrefOf } from "../../store/route";
import { words } from "../../store/settings";
import { its } from "../../words/screens/mcp";
import { changeOf, withheldOf } from "./prompts";

export function Withheld() {
  const said = its.value;
  const all = useResource(() => app.link.request("mcp/list", {}), ["tools"]);
  const [, draw] = useState(0);
  const place = (name: string) => `withheld:${name}`;
  return (
    <div role="status">
      {(all.value?.servers ?? [])
        .filter((row) => withheldOf(row) !== "" && app.drafts.get(place(row.name)) !== changeOf(row))
        .map((row) => (
          <p key={row.name} class="notice withheld">
            <span>
              {said.isOther(row.name)} {said.isWithheld(shown(withheldOf(row)))} <a href={hrefOf("mcp", row.name)}>{said.look_}</a>
            </span>
            <button
              type="button"
              class="quiet tiny"
              aria-label={words.value.close}
              title={words.value.close}
              onClick={() => {
                app.drafts.set(place(row.name), changeOf(row));
                draw((count) => count + 1);
              }}
            >
              <Icon name="close" />
            </button>
          </p>
        ))}
    </div>
  );
}
