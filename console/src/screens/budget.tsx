// What a session may use, from its next turn on: read when somebody looks, and changed here.
import { useEffect, useState } from "preact/hooks";
import type { Methods } from "../link";
import * as app from "../store/app";
import { words } from "../store/settings";

type Budget = NonNullable<Methods["session/set_budget"]["params"]["budget"]>;
type Limit = keyof Budget;

const LIMITS: readonly Limit[] = ["tokens", "cost_usd", "seconds", "tool_calls", "model_calls"];

export function BudgetOf({ sessionId }: { sessionId: string }) {
  const its = words.value.composer.budget;
  const [written, setWritten] = useState<Readonly<Record<string, string>> | null>(null);
  const [isSaving, setSaving] = useState(false);
  useEffect(() => {
    let isOver = false;
    app.link.request("session/get", { session_id: sessionId }).then(
      ({ budget }) => !isOver && setWritten(Object.fromEntries(LIMITS.map((each) => [each, budget?.[each] == null ? "" : String(budget[each])]))),
      (error: unknown) => !isOver && !app.isGone(error) && app.say(error),
    );
    return () => {
      isOver = true;
    };
  }, [sessionId]);
  if (written === null) return null;
  const save = async () => {
    setSaving(true);
    const given = LIMITS.filter((each) => written[each]?.trim());
    const budget: Budget | null = given.length === 0 ? null : Object.fromEntries(given.map((each) => [each, Number(written[each])]));
    try {
      await app.link.request("session/set_budget", { session_id: sessionId, budget, idempotency_key: crypto.randomUUID() });
      app.toast.value = budget === null ? its.none : its.holds;
    } catch (error) {
      app.say(error);
    } finally {
      setSaving(false);
    }
  };
  return (
    <form
      class="budget"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      {LIMITS.map((each) => (
        <label key={each}>
          {its.limits[each]}
          <input
            type="number"
            min={0}
            step={each === "cost_usd" ? "any" : 1}
            placeholder={its.unlimited}
            value={written[each]}
            onInput={({ currentTarget }) => setWritten({ ...written, [each]: currentTarget.value })}
          />
        </label>
      ))}
      <button type="submit" class="small" disabled={isSaving}>
        {its.save}
      </button>
    </form>
  );
}
