// The models of one provider: listed live, known beforehand, or added by hand.
import { useState } from "preact/hooks";
import { Field, useSending } from "../../parts/form";
import { Icon } from "../../parts/icon";
import { Menu, type Choice } from "../../parts/menu";
import { Loaded, Mark, RowOf, Rows, Section } from "../../parts/page";
import { shown } from "../../parts/text";
import type { OfferedModel } from "../../protocol";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { textOf } from "../../store/problem";
import { done } from "../../store/models";
import { dated, numbered } from "../../store/settings";
import { its } from "../../words/screens/providers";

/** So many are drawn at first: some providers list hundreds. */
const FIRST = 12;
const REFRESH_MS = 60_000;

export function Models({ provider, fallback, choose }: { provider: string; fallback: string; choose?(model: OfferedModel): void }) {
  const text = its.value;
  const models = useResource(() => app.link.request("model/list", { provider }), ["models", "providers", "keys"], [provider]);
  const [query, setQuery] = useState("");
  const [isWhole, setWhole] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const refresh = async () => {
    setBusy(true);
    try {
      const { problem = "" } = await app.link.request("model/refresh", { provider }, REFRESH_MS);
      if (problem !== "") app.toast.value = problem;
    } catch (error) {
      app.toast.value = textOf(error);
    } finally {
      setBusy(false);
      void models.again();
    }
  };
  return (
    <Section
      title={text.models}
      isBare
      actions={
        app.may("model/refresh") && (
          <button type="button" class="small" disabled={isBusy} onClick={() => void refresh()}>
            <Icon name="again" /> {text.refresh}
          </button>
        )
      }
    >
      <Loaded resource={models}>
        {(value) => {
          const found = value.models.filter((each) => `${each.choice} ${each.title ?? ""}`.toLowerCase().includes(query.trim().toLowerCase()));
          const drawn = isWhole ? found : found.slice(0, FIRST);
          return (
            <div class="stack">
              {(value.problem ?? "") !== "" && (
                <p class="said-box is-warn">
                  <Icon name="warn" />
                  <span>{shown(value.problem ?? "")}</span>
                </p>
              )}
              {value.listed_at_ms != null && <p class="under">{text.listedAt(dated(value.listed_at_ms))}</p>}
              {value.models.length > FIRST && <input type="search" aria-label={text.find} placeholder={text.find} value={query} onInput={(event) => setQuery(event.currentTarget.value)} />}
              {value.models.length === 0 && <p class="lead">{text.noModels}</p>}
              {drawn.length > 0 && (
                <Rows label={text.models}>
                  {drawn.map((each) => (
                    <ModelRow key={each.choice} model={each} provider={provider} isDefault={each.choice === fallback} choose={choose} />
                  ))}
                </Rows>
              )}
              {found.length > drawn.length && (
                <button type="button" class="quiet small" onClick={() => setWhole(true)}>
                  {text.showAll(found.length)}
                </button>
              )}
              {app.may("model/add") && <ByHand provider={provider} />}
            </div>
          );
        }}
      </Loaded>
    </Section>
  );
}

function ModelRow({ model, provider, isDefault, choose }: { model: OfferedModel; provider: string; isDefault: boolean; choose: ((model: OfferedModel) => void) | undefined }) {
  const text = its.value;
  const tokens = model.context_tokens ?? 0;
  const parts = [shown(model.title ?? ""), tokens > 0 ? text.context(numbered(tokens)) : ""].filter((each) => each !== "");
  const name = model.choice.slice(provider.length + 1);
  const choices: Choice[] = [];
  const chosen = () => void done(() => app.link.request("model/set_default", { model: model.choice }), text.chosen(model.choice));
  if (app.may("model/set_default") && !isDefault) choices.push({ name: text.makeDefault, icon: "check", run: choose === undefined ? chosen : () => choose(model) });
  if (app.may("model/remove") && model.source === "manual") {
    choices.push({ name: text.removeModel, icon: "trash", isBad: true, run: () => void done(() => app.link.request("model/remove", { provider, model: name }), text.modelRemoved) });
  }
  return (
    <RowOf
      title={name}
      marks={
        <>
          {isDefault && <Mark kind="own">{text.isDefault}</Mark>}
          <Mark>{text.modelSources[model.source] ?? model.source}</Mark>
        </>
      }
      text={parts.length > 0 ? parts.join(" · ") : undefined}
    >
      {choose === undefined ? (
        <Menu label={text.menu(shown(name))} choices={choices} />
      ) : (
        !isDefault && (
          <button type="button" class="small" onClick={() => choose(model)}>
            {text.makeDefault}
          </button>
        )
      )}
    </RowOf>
  );
}

function ByHand({ provider }: { provider: string }) {
  const text = its.value;
  const [model, setModel] = useState("");
  const sending = useSending(async () => {
    const { notes = [] } = await app.link.request("model/add", { provider, model: model.trim() });
    setModel("");
    app.toast.value = [text.modelAdded, ...notes].join(" ");
  }, ["model"]);
  return (
    <form class="by-hand" onSubmit={(event) => void sending.send(event)}>
      <Field label={text.byHandName} problem={sending.problems["model"] ?? sending.problem}>
        {(attributes) => (
          <div class="line">
            <input {...attributes} type="text" spellcheck={false} autocomplete="off" value={model} onInput={(event) => setModel(event.currentTarget.value)} />
            <button type="submit" disabled={model.trim() === "" || sending.isBusy}>
              {text.byHand}
            </button>
          </div>
        )}
      </Field>
    </form>
  );
}
