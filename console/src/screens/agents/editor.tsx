// The form of an agent: a new one, or one that was made here.
import { useState } from "preact/hooks";
import { Choose, Field, FormEnd, useDraft, useSending } from "../../parts/form";
import { PageHead, Section } from "../../parts/page";
import { shown } from "../../parts/text";
import type { AgentRow, Tier } from "../../protocol";
import { AMOUNTS, draftOf, EMPTY, formOf, type AgentForm, type Amounts } from "../../store/agents";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { readChoices } from "../../store/models";
import { hrefOf } from "../../store/route";
import { words } from "../../store/settings";
import { its } from "../../words/screens/agents";
import { ModelInput } from "../providers/parts";

const FIELDS = [
  ...["name", "description", "prompt", "model", "fallbacks", "policy", "tools", "thinking", "max_output_tokens", "temperature", "auto_hosts", "skills"],
  ...AMOUNTS.flatMap((name) => [`turn_budget.${name}`, `session_budget.${name}`]),
];
const TIERS: readonly Tier[] = ["read_only", "workspace", "system", "elevated"];

export function AgentEditor({ row }: { row: AgentRow | null }) {
  const text = its.value;
  const now = row === null ? EMPTY : formOf(row);
  const draft = useDraft<AgentForm>(`agent:${row?.name ?? "+"}`, now);
  const form = draft.value;
  const models = useResource(readChoices, ["models", "providers", "keys"]);
  // What was begun is a change of the state that was there then.
  const set = (change: Partial<AgentForm>) => draft.set(draft.isChanged ? change : { base: now.base, ...change });
  const leave = (name?: string) => {
    draft.clear();
    location.hash = name === undefined ? hrefOf("agents") : hrefOf("agents", name);
  };
  const sending = useSending(async () => {
    const agent = draftOf(form, text.notNumber);
    const made = await app.link.request(row === null ? "agent/create" : "agent/update", { agent });
    app.toast.value = text.saved(made.name);
    leave(made.name);
  }, FIELDS);
  const at = (name: string) => sending.problems[name] ?? sending.problems[`agent.${name}`];
  return (
    <>
      <PageHead back={{ href: row === null ? hrefOf("agents") : hrefOf("agents", row.name), name: row === null ? text.all : row.name }} title={row === null ? text.add : `${text.edit}: ${row.name}`} />
      {draft.isChanged && form.base !== now.base && (
        <div class="said-box is-warn" role="alert">
          <p>{text.changed}</p>
          <button type="button" class="small" onClick={() => (draft.clear(), sending.forget())}>
            {text.readAgain}
          </button>
        </div>
      )}
      <form class="agent" noValidate onSubmit={(event) => void sending.send(event)}>
        <Section title={text.what}>
          <div class="fields">
            {row === null && (
              <Field label={text.name} problem={at("name")} isRequired>
                {(attributes) => <input {...attributes} type="text" spellcheck={false} autocomplete="off" value={form.name} onInput={(event) => set({ name: event.currentTarget.value })} />}
              </Field>
            )}
            <Field label={text.description} hint={text.descriptionHint} problem={at("description")}>
              {(attributes) => <input {...attributes} type="text" value={form.description} onInput={(event) => set({ description: event.currentTarget.value })} />}
            </Field>
            <Field label={text.prompt} hint={text.promptHint} problem={at("prompt")}>
              {(attributes) => <textarea {...attributes} class="mono" rows={10} value={form.prompt} onInput={(event) => set({ prompt: event.currentTarget.value })} />}
            </Field>
            <Field label={text.model} hint={text.modelHint} problem={at("model")}>
              {(attributes) => <ModelInput attributes={attributes} models={models.value ?? []} value={form.model} write={(model) => set({ model })} />}
            </Field>
            <Choose label={text.policy} value={form.policy} options={Object.entries(text.policies) as [AgentForm["policy"], string][]} choose={(policy) => set({ policy })} />
          </div>
        </Section>
        <Tools form={form} set={set} problem={at("tools") ?? ""} />
        <Section title={text.limits} lead={text.budgetHint}>
          <div class="fields">
            <Budgets label={text.turnBudget} name="turn_budget" value={form.turn_budget} problems={sending.problems} write={(turn_budget) => set({ turn_budget })} />
            <Budgets label={text.sessionBudget} name="session_budget" value={form.session_budget} problems={sending.problems} write={(session_budget) => set({ session_budget })} />
          </div>
        </Section>
        <details class="section">
          <summary>{text.more}</summary>
          <div class="sheet fields">
            <Field label={text.thinking} problem={at("thinking")}>
              {(attributes) => (
                <select {...attributes} value={form.thinking} onChange={(event) => set({ thinking: event.currentTarget.value as AgentForm["thinking"] })}>
                  {Object.entries(text.efforts).map(([name, each]) => (
                    <option key={name} value={name}>
                      {each}
                    </option>
                  ))}
                </select>
              )}
            </Field>
            <Lines label={text.fallbacks} hint={text.fallbacksHint} problem={at("fallbacks")} value={form.fallbacks} write={(fallbacks) => set({ fallbacks })} />
            <Lines label={text.hosts} hint={text.hostsHint} problem={at("auto_hosts")} value={form.auto_hosts} write={(auto_hosts) => set({ auto_hosts })} />
            <Field label={text.output} problem={at("max_output_tokens")}>
              {(attributes) => <input {...attributes} type="text" inputMode="numeric" value={form.max_output_tokens} onInput={(event) => set({ max_output_tokens: event.currentTarget.value })} />}
            </Field>
            <Field label={text.temperature} problem={at("temperature")}>
              {(attributes) => <input {...attributes} type="text" inputMode="decimal" value={form.temperature} onInput={(event) => set({ temperature: event.currentTarget.value })} />}
            </Field>
            <div class="field">
              <label class="check">
                <input type="checkbox" checked={form.defer} onChange={(event) => set({ defer: event.currentTarget.checked })} />
                {text.defer}
              </label>
              <p class="under">{text.deferHint}</p>
            </div>
            <div class="field">
              <label class="check">
                <input type="checkbox" checked={form.hasAllSkills} onChange={(event) => set({ hasAllSkills: event.currentTarget.checked })} />
                {text.allSkills}
              </label>
            </div>
            {!form.hasAllSkills && <Lines label={text.skills} hint={text.skillsHint} problem={at("skills")} value={form.skills} write={(skills) => set({ skills })} />}
          </div>
        </details>
        <div class="form-end">
          <FormEnd sending={sending} action={row === null ? text.create : text.save} isOff={form.name.trim() === ""} cancel={() => leave(row?.name)} />
        </div>
      </form>
    </>
  );
}

function Lines({ label, hint, problem, value, write }: { label: string; hint: string; problem: string | undefined; value: string; write(text: string): void }) {
  return (
    <Field label={label} hint={hint} problem={problem}>
      {(attributes) => <textarea {...attributes} class="mono" rows={3} spellcheck={false} value={value} onInput={(event) => write(event.currentTarget.value)} />}
    </Field>
  );
}

function Budgets({ label, name, value, problems, write }: { label: string; name: string; value: Amounts; problems: Readonly<Record<string, string>>; write(value: Amounts): void }) {
  const text = its.value;
  return (
    <fieldset class="budgets">
      <legend>{label}</legend>
      {AMOUNTS.map((each) => (
        <Field key={each} label={text.amounts[each]} problem={problems[`${name}.${each}`]}>
          {(attributes) => <input {...attributes} type="text" inputMode="decimal" value={value[each]} onInput={(event) => write({ ...value, [each]: event.currentTarget.value })} />}
        </Field>
      ))}
    </fieldset>
  );
}

function Tools({ form, set, problem }: { form: AgentForm; set(change: Partial<AgentForm>): void; problem: string }) {
  const text = its.value;
  const [query, setQuery] = useState("");
  const all = useResource(() => app.link.request("tool/list", {}), ["tools"]);
  const tools = all.value?.tools ?? [];
  const wanted = query.trim().toLowerCase();
  const found = tools.filter((each) => `${each.name} ${each.description}`.toLowerCase().includes(wanted));
  const chosen = new Set(form.tools);
  const take = (names: readonly string[], isTaken: boolean) => {
    const others = form.tools.filter((each) => !names.includes(each));
    set({ tools: isTaken ? [...others, ...names] : others });
  };
  const gone = all.value === null ? [] : form.tools.filter((name) => tools.every((each) => each.name !== name));
  return (
    <Section title={text.toolsTitle}>
      <div class="stack" aria-invalid={problem !== ""} tabIndex={problem === "" ? undefined : -1}>
        <Choose
          label={text.toolsTitle}
          isLabelHidden
          value={form.hasAllTools ? "all" : "some"}
          options={[
            ["all", text.every],
            ["some", text.some],
          ]}
          choose={(value) => set({ hasAllTools: value === "all" })}
        />
        {problem !== "" && <p class="problem">{shown(problem)}</p>}
        {!form.hasAllTools && (
          <>
            <div class="line find">
              <input type="search" aria-label={text.find} placeholder={text.find} value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
              <button type="button" class="quiet" onClick={() => take(found.map((each) => each.name), true)}>
                {text.takeAll}
              </button>
              <button type="button" class="quiet" onClick={() => take(found.map((each) => each.name), false)}>
                {text.takeNone}
              </button>
            </div>
            {gone.map((name) => (
              <label key={name} class="tool check">
                <input type="checkbox" checked onChange={() => take([name], false)} />
                <span>
                  <code>{shown(name)}</code> <span class="problem">{text.gone}</span>
                </span>
              </label>
            ))}
            {TIERS.map((tier) => {
              const own = found.filter((each) => (each.tier ?? "read_only") === tier);
              return (
                own.length > 0 && (
                  <fieldset key={tier} class="tools-of">
                    <legend>{words.value.tiers[tier]}</legend>
                    {own.map((each) => (
                      <label key={each.name} class="tool check">
                        <input type="checkbox" checked={chosen.has(each.name)} onChange={(event) => take([each.name], event.currentTarget.checked)} />
                        <span>
                          <code>{shown(each.name)}</code>
                          <span class="under">{shown(each.description.split("\n")[0] ?? "")}</span>
                        </span>
                      </label>
                    ))}
                  </fieldset>
                )
              );
            })}
          </>
        )}
      </div>
    </Section>
  );
}
