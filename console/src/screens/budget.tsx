// What a session or a turn may use: that of a session is read when somebody looks, and changed here from its next turn on.
import { useEffect, useState } from "preact/hooks";
import * as app from "../store/app";
import { budgetOf, type Written } from "../store/compose";
import { words } from "../store/settings";

const LIMITS = ["tokens", "cost_usd", "seconds", "tool_calls", "model_calls"] as const;

export function BudgetFields({ label, written, write }: { label: string; written: Written; write(written: Written): void }) {
  const its = words.value.composer.budget;
  return (
    <div class="budget" role="group" aria-label={label}>
      {LIMITS.map((each) => (
        <label key={each}>
          {its.limits[each]}
          <input
            type="number"
            min={0}
            step={each === "cost_usd" ? "any" : 1}
            placeholder={its.unlimited}
            value={written[each] ?? ""}
            onInput={({ currentTarget }) => write({ ...written, [each]: currentTarget.value })}
          />
        </label>
      ))}
    </div>
  );
}

export function BudgetOf({ sessionId }: { sessionId: string }) {
  const its = words.value.composer.budget;
  const [written, setWritten] = useState<Written | null>(null);
  const [isSaving, setSaving] = useState(false);
  useEffect(() => {
    let isOver = false;
    app.link.request("session/get", { session_id: sessionId }).then(
      ({ budget }) => !isOver && setWritten(Object.fromEntries(LIMITS.map((each) => [each, String(budget?.[each] ?? "")]))),
      (error: unknown) => !isOver && !app.isGone(error) && app.say(error),
    );
    return () => {
      isOver = true;
    };
  }, [sessionId]);
  if (written === null) return null;
  const save = async () => {
    setSaving(true);
    const budget = budgetOf(written);
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
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <BudgetFields label={its.title} written={written} write={setWritten} />
      <button type="submit" class="small" disabled={isSaving}>
        {its.save}
      </button>
    </form>
  );
}
