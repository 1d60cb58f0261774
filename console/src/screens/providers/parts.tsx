// What the screen of providers and the first set-up have in common: a test, a key, a model to choose.
import { useEffect, useId, useState } from "preact/hooks";
import { Field, useSending, type FieldAttributes } from "../../parts/form";
import { Icon } from "../../parts/icon";
import { seconds, shown } from "../../parts/text";
import type { OfferedModel } from "../../protocol";
import * as app from "../../store/app";
import { textOf } from "../../store/problem";
import type { Tested } from "../../store/models";
import { words } from "../../store/settings";
import { said } from "../../words/said";
import { its } from "../../words/screens/providers";

/** The test goes through connection, key and model: longer than other requests. */
const TEST_MS = 120_000;

/** Whether a provider answers; if not, what is wrong. */
export function Test({ provider, model, isPrimary = false, tested }: { provider: string; model?: string; isPrimary?: boolean; tested?(report: Tested): void }) {
  const text = its.value;
  const [report, setReport] = useState<Tested | null>(null);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => setReport(null), [provider]);
  const run = async () => {
    setBusy(true);
    setProblem("");
    setReport(null);
    try {
      const found = await app.link.request("provider/test", model === undefined || model === "" ? { provider } : { provider, model }, TEST_MS);
      setReport(found);
      tested?.(found);
    } catch (error) {
      setProblem(textOf(error));
    } finally {
      setBusy(false);
    }
  };
  const listed = report?.listed ?? 0;
  return (
    <div class="test">
      <button type="button" class={isPrimary ? "primary" : ""} disabled={isBusy} onClick={() => void run()}>
        {isBusy ? text.testing : text.test}
      </button>
      <div role="status">
        {report?.works === true && (
          <div class="said-box is-good">
            <Icon name="check" />
            <p>
              {text.works(shown(report.model ?? ""), seconds(report.duration_ms))} {listed > 0 && text.lists(listed)}
            </p>
          </div>
        )}
        {report?.works === false && (
          <div class="said-box is-bad">
            <Icon name="warn" />
            <p>
              <strong>{text.faults[report.fault ?? ""] ?? words.value.error}</strong>
              <br />
              {shown(report.message)}
            </p>
          </div>
        )}
        {problem !== "" && <p class="problem">{shown(problem)}</p>}
      </div>
    </div>
  );
}

/** Store a key: it is in this page until it is sent, and nowhere afterwards. */
export function KeyForm({ provider, stored }: { provider: string; stored?(): void }) {
  const text = its.value;
  const [key, setKey] = useState("");
  const [origin, setOrigin] = useState("");
  useEffect(() => {
    setOrigin("");
    setKey(""); // what was written for one provider is not sent to another one
    app.link.request("key/place", { provider }).then(
      (found) => setOrigin(found.origin),
      () => undefined, // the server says why when the key is sent
    );
  }, [provider]);
  const sending = useSending(async () => {
    const done = await app.link.request("provider/set_key", { provider, key: key.trim() });
    setKey("");
    const parts = [text.keyStored, said(done.note ?? ""), done.master_key === null ? "" : text.masterKey(done.master_key)];
    app.toast.value = parts.filter((each) => each !== "").join(" ");
    stored?.();
  }, ["key"]);
  return (
    <form onSubmit={(event) => void sending.send(event)}>
      <Field label={text.newKey} hint={origin === "" ? undefined : text.keyHint(origin)} problem={sending.problems["key"] ?? sending.problem}>
        {(attributes) => (
          <div class="line">
            <input {...attributes} type="password" autocomplete="off" spellcheck={false} value={key} onInput={(event) => setKey(event.currentTarget.value)} />
            <button type="submit" disabled={key.trim() === "" || sending.isBusy}>
              {text.setKey}
            </button>
          </div>
        )}
      </Field>
    </form>
  );
}

/** A field for a model: those that are known are offered, and any other can be written. */
export function ModelInput({ attributes, models, value, write }: { attributes: FieldAttributes; models: readonly OfferedModel[]; value: string; write(text: string): void }) {
  const list = useId();
  return (
    <>
      <input {...attributes} type="text" list={list} autocomplete="off" spellcheck={false} placeholder="provider/model" value={value} onInput={(event) => write(event.currentTarget.value)} />
      <datalist id={list}>
        {models.map((each) => (
          <option key={each.choice} value={each.choice}>
            {shown(each.title ?? "")}
          </option>
        ))}
      </datalist>
    </>
  );
}
