// Everything that waits for a person, of all sessions, what is over first at the top; and the answers that are remembered.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Empty, Failed, Mark, Page, Reading, RowOf, Rows, Section } from "../parts/page";
import { shown } from "../parts/text";
import { done } from "../parts/watch";
import { grantsChanged, isQuestion, link, may, readApprovals, toast, waiting, waitingProblem } from "../store/app";
import { useResource } from "../store/lists";
import { dated, words } from "../store/settings";
import { Covered } from "./arguments";
import { Ask } from "./ask";
import { Asked } from "./question";
import { beyond } from "./routes";

export function Approvals() {
  const its = words.value;
  return (
    <Page>
      {waitingProblem.value === null ? (
        <Reading />
      ) : waitingProblem.value !== "" ? (
        <Failed text={waitingProblem.value} again={() => void readApprovals()} />
      ) : waiting.value.length === 0 ? (
        <Empty icon="check" title={its.noApprovals} text={its.noApprovalsText} />
      ) : (
        waiting.value.map((row) => (isQuestion(row) ? <Asked key={row.question_id} question={row} isHere={false} /> : <Ask key={row.approval_id} row={row} />))
      )}
      {may("grant/list") && <Grants />}
      {may("policy/check") && <TryCall />}
    </Page>
  );
}

/** A form for a call that is judged and not run; it comes with the screens beyond the chat. */
function TryCall() {
  const [Inside, setInside] = useState<ComponentType | null>(null);
  const load = async () => {
    const { PolicyCheck } = await beyond();
    setInside(() => PolicyCheck);
  };
  return (
    <details class="try-call" onToggle={(event) => event.currentTarget.open && Inside === null && void done(load)}>
      <summary>{words.value.ask.tryCall}</summary>
      {Inside !== null && <Inside />}
    </details>
  );
}

function Grants() {
  const its = words.value.ask;
  const all = useResource(() => link.request("grant/list", {}), []);
  const changes = grantsChanged.value;
  useEffect(() => void (changes > 0 && all.again()), [changes]);
  const grants = all.value?.grants ?? [];
  if (grants.length === 0) return null;
  const revoke = async (grant_id: string) => {
    if (await done(() => link.request("grant/revoke", { grant_id, idempotency_key: crypto.randomUUID() }))) toast.value = its.revoked;
    await all.again();
  };
  return (
    <Section title={its.grants} lead={its.grantsLead} isBare>
      <Rows label={its.grants}>
        {grants.map((row) => (
          <RowOf
            key={row.grant_id}
            title={row.tool}
            marks={<Mark kind={row.verdict === "allow" ? "good" : "bad"}>{its.verdicts[row.verdict]}</Mark>}
            text={
              <>
                <Covered {...row.binding} />
                <br />
                {[its.scopes[row.scope] ?? row.scope, row.agent, dated(row.given_at_ms)].map(shown).join(" · ")}
              </>
            }
          >
            {may("grant/revoke") && (
              <button type="button" class="small" onClick={() => void revoke(row.grant_id)}>
                {its.revoke}
              </button>
            )}
          </RowOf>
        ))}
      </Rows>
    </Section>
  );
}
