// Everything that waits for a person, of all sessions, the oldest first.
import { approvals } from "../store/app";
import { words } from "../store/settings";
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
    </div>
  );
}
