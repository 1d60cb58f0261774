// A call as a card: one line, and all of it when it is opened; the question about it in its place.
import type { CallView } from "../fold/view";
import { Icon } from "../parts/icon";
import { useOpened } from "../parts/opened";
import { seconds, shown, summary } from "../parts/text";
import { words } from "../store/settings";
import { approvals, link, may, open, stopCall, version } from "../store/app";
import { useResource } from "../store/lists";
import { hrefOf } from "../store/route";
import { changes, isUndoing, undo, type ChangedCall } from "../store/turns";
import { Arguments, Long } from "./arguments";
import { Ask } from "./ask";
import { Files } from "./files";

const ICONS: Record<string, string> = {
  pending: "○",
  waiting: "?",
  running: "◐",
  deferred: "…",
  success: "✓",
  error: "✕",
  denied: "⊘",
  timeout: "◷",
  cancelled: "–",
  interrupted: "–",
};

export function Calls({ calls }: { calls: readonly CallView[] }) {
  if (calls.length === 1 && calls[0] !== undefined) return <CallCard call={calls[0]} />;
  return (
    <section class="together" aria-label={words.value.together(calls.length)}>
      <h3>{words.value.together(calls.length)}</h3>
      {calls.map((call) => (
        <CallCard key={call.row.id} call={call} />
      ))}
    </section>
  );
}

function CallCard({ call }: { call: CallView }) {
  const its = words.value;
  const { row, result, approvalId } = call;
  const [isOpen, setOpen] = useOpened(`call:${row.callId}`);
  const status = result?.status ?? row.status;
  // Only of a call that runs, output comes.
  if (status === "running") void version.value;
  const progress = open.value?.outputs.get(row.callId) ?? "";
  const output = result === undefined ? "" : result.content || result.output;
  const duration = result?.durationMs ?? row.durationMs;
  const change = changes.value.get(row.callId);
  const child = row.tool === "delegate" ? childOf(result?.output ?? "") : "";
  const question = approvals.value.find((each) => each.approval_id === approvalId);
  return (
    <div class={`call is-${status}`}>
      <details data-call={row.callId} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="state" aria-hidden="true">
            {ICONS[status] ?? "·"}
          </span>
          <span class="tool">{shown(row.tool)}</span>
          <span class="about">{summary(row.input)}</span>
          <span class="end">
            {change?.state === "undone" ? its.turnMenu.undone : (its.states[status] ?? status)}
            {duration != null && status !== "running" && ` · ${its.seconds(seconds(duration))}`}
          </span>
        </summary>
        {isOpen && (
          <>
            <Tier tool={row.tool} />
            <h4>{its.arguments}</h4>
            <Arguments json={row.input} />
            {(progress !== "" || output !== "") && (
              <>
                <h4>{its.output}</h4>
                <Long text={progress !== "" ? progress : output} />
              </>
            )}
            {child !== "" && (
              <p class="under">
                <a href={hrefOf("chat", child)}>{its.drawer.delegated}: {shown(child)}</a>
              </p>
            )}
            {change !== undefined && <Change change={change} />}
            {status === "running" && may("call/cancel") && (
              <p class="change">
                <button type="button" class="small" onClick={() => void stopCall(row.callId)}>
                  <Icon name="stop" /> {its.stopCall}
                </button>
              </p>
            )}
          </>
        )}
      </details>
      {status === "running" && progress !== "" && (
        <pre class="progress" aria-hidden="true">
          {shown(progress.split("\n").slice(-3).join("\n"))}
        </pre>
      )}
      {result !== undefined && <Files sessionId={open.value?.id ?? ""} row={result} />}
      {question !== undefined && <Ask row={question} isHere />}
    </div>
  );
}

/** The session that was delegated to, also where it failed; empty if the result names none. */
function childOf(output: string): string {
  return /"session_id": ?"([\w-]+)"/.exec(output)?.[1] ?? "";
}

/** How far calls of a tool reach; nothing of one that is not there any more. */
function Tier({ tool }: { tool: string }) {
  const all = useResource(() => link.request("tool/list", {}), ["tools"]);
  const tier = all.value?.tools.find((each) => each.name === tool)?.tier;
  return tier === undefined ? null : <p class="under">{words.value.tiers[tier] ?? tier}</p>;
}

/** The files that a call changed, and the way back. */
function Change({ change }: { change: ChangedCall }) {
  const its = words.value.turnMenu;
  const more = change.path_count - change.paths.length;
  return (
    <>
      <h4>{its.files(change.path_count)}</h4>
      <p class="change">
        <span class="paths">
          {change.paths.map(shown).join(", ")}
          {more > 0 && ` +${more}`}
        </span>
        {change.state === "undone" ? (
          <span class="under">{its.undone}</span>
        ) : (
          may("session/undo") && (
            <button type="button" class="small" disabled={isUndoing.value} onClick={() => void undo(change.call_id)}>
              <Icon name="undo" /> {its.undo}
            </button>
          )
        )}
      </p>
    </>
  );
}
