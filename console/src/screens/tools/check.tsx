// A call that is tried: what the policy would say of it. Nothing runs.
import { useState } from "preact/hooks";
import type { Methods } from "../../link";
import { Field } from "../../parts/form";
import { Facts, Mark, Reading } from "../../parts/page";
import { refusal } from "../../parts/refusal";
import { shown } from "../../parts/text";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { words } from "../../store/settings";
import { said } from "../../words/said";
import { its } from "../../words/screens/tools";

type Answer = Methods["policy/check"]["result"];

/** So many sessions can be chosen, the latest. */
const MAX_SESSIONS = 200;
const KINDS = { allow: "good", ask: "warn", deny: "bad" } as const;

export function PolicyCheck() {
  const text = its.value.check;
  // The list at the left may be searched, or be of the deleted.
  const listed = useResource(() => app.link.request("session/list", { limit: MAX_SESSIONS }), []);
  const sessions = listed.value?.sessions ?? [];
  const [chosen, setSession] = useState("");
  const session = chosen || (sessions[0]?.session_id ?? "");
  const [tool, setTool] = useState("");
  const [json, setJson] = useState("{}");
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [problem, setProblem] = useState<{ field: string | null; text: string } | null>(null);
  const tools = useResource(() => (app.may("tool/list") ? app.link.request("tool/list", {}) : Promise.resolve(null)), []);
  // A session may have tools of its own, as those of servers that an editor brought along.
  const isUnknown = tool !== "" && tools.value?.tools.every((each) => each.name !== tool) === true;
  const check = async () => {
    setAnswer(null);
    setProblem(null);
    try {
      setAnswer(await app.link.request("policy/check", { session_id: session, tool, arguments: json }));
    } catch (error) {
      if (!app.isGone(error)) setProblem(refusal(error, ["tool", "arguments"]));
    }
  };
  const change = (set: (value: string) => void) => (event: { currentTarget: { value: string } }) => {
    set(event.currentTarget.value);
    setAnswer(null);
  };
  if (listed.value === null && listed.problem === "") return <Reading />;
  if (sessions.length === 0) return <p class="empty">{text.noSession}</p>;
  return (
    <form
      class="sheet fields policy-check"
      onSubmit={(event) => {
        event.preventDefault();
        void check();
      }}
    >
      <p class="lead">{text.lead}</p>
      <Field label={text.session}>
        {(own) => (
          <select {...own} value={session} onChange={change(setSession)}>
            {sessions.map((each) => (
              <option key={each.session_id} value={each.session_id}>
                {shown(each.title) || words.value.untitled} · {shown(each.agent)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label={text.tool} hint={isUnknown ? text.unknown : undefined} problem={problem?.field === "tool" ? problem.text : undefined}>
        {(own) => (
          <>
            <input {...own} type="text" required list="checked-tools" autocomplete="off" spellcheck={false} value={tool} onInput={change(setTool)} />
            <datalist id="checked-tools">{tools.value?.tools.map((each) => <option key={each.name} value={each.name} />)}</datalist>
          </>
        )}
      </Field>
      <Field label={text.arguments} problem={problem !== null && problem.field !== "tool" ? problem.text : undefined}>
        {(own) => <textarea {...own} class="code" rows={3} spellcheck={false} value={json} onInput={change(setJson)} />}
      </Field>
      <p class="buttons">
        <button type="submit">{text.run}</button>
      </p>
      {answer !== null && (
        <div role="status">
          <Facts
            rows={[
              [text.verdict, <Mark kind={KINDS[answer.verdict]}>{text.verdicts[answer.verdict]}</Mark>],
              [text.reason, shown(said(answer.reason))],
              [text.rule, <code>{shown(answer.rule)}</code>],
              [text.tier, shown(answer.tier)],
              [text.agent, shown(answer.agent)],
            ]}
          />
        </div>
      )}
    </form>
  );
}
