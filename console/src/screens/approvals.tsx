// Everything that waits for a person, of all sessions, the oldest first; and the answers that are remembered.
import { RowOf, Rows } from "../parts/page";
import { shown } from "../parts/text";
import { done } from "../parts/watch";
import { approvals, link, may, toast } from "../store/app";
import { useResource } from "../store/lists";
import { dated, words } from "../store/settings";
import { Ask } from "./ask";

export function Approvals() {
  const its = words.value;
  return (
    <div class="page">
      <h2>{its.approvals}</h2>
      {approvals.value.length === 0 ? (
        <p class="empty">{its.noApprovals}</p>
      ) : (
        approvals.value.map((row) => (
          <div key={row.approval_id} class="waiting">
            <Ask row={row} />
            <p>
              <a href={`#/chat/${encodeURIComponent(row.session_id)}`}>{its.toSession}</a>
            </p>
          </div>
        ))
      )}
      {may("grant/list") && <Grants />}
    </div>
  );
}

/** Read again with each answer: it may have been one to remember. */
function Grants() {
  const its = words.value.ask;
  const all = useResource(() => link.request("grant/list", {}), [], [approvals.value.length]);
  const grants = all.value?.grants ?? [];
  if (grants.length === 0) return null;
  const revoke = async (grant_id: string) => {
    if (await done(() => link.request("grant/revoke", { grant_id, idempotency_key: crypto.randomUUID() }))) toast.value = its.revoked;
    await all.again();
  };
  return (
    <>
      <h2>{its.grants}</h2>
      <Rows label={its.grants}>
        {grants.map((row) => (
          <RowOf
            key={row.grant_id}
            title={row.tool}
            text={[its.verdicts[row.verdict] ?? row.verdict, its.scopes[row.scope] ?? row.scope, row.agent, dated(row.given_at_ms)].map(shown).join(" · ")}
          >
            {may("grant/revoke") && (
              <button type="button" class="small" onClick={() => void revoke(row.grant_id)}>
                {its.revoke}
              </button>
            )}
          </RowOf>
        ))}
      </Rows>
    </>
  );
}
