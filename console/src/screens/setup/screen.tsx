// The first visit: a provider with its key, a model, and a first message. Each step can be skipped.
import { useEffect } from "preact/hooks";
import { useDraft } from "../../parts/form";
import { Icon } from "../../parts/icon";
import { Loaded, Page, PageHead } from "../../parts/page";
import { shown } from "../../parts/text";
import type { OfferedModel, ProviderRow } from "../../protocol";
import * as app from "../../store/app";
import { lookForModel, setUpSeen } from "../../store/first";
import { useResource } from "../../store/lists";
import { done, groupOf, isRehearsal, NAMES, readProviders, type Providers } from "../../store/models";
import { said } from "../../words/said";
import { its } from "../../words/screens/setup";
import { its as providerWords } from "../../words/screens/providers";
import { Models } from "../providers/models";
import { KeyForm, Test } from "../providers/parts";
import { NewProvider } from "../providers/new";
import "../../look/screens/setup.css";

/** Where people come from most, first; the others follow as the server lists them. */
const FIRST = ["openai", "anthropic", "gemini", "openrouter", "ollama"];
const OTHER = "+";
/** As the rehearsal understands them, too: in English. */
const EXAMPLES = ["What time is it in Tokyo?", "List the files here.", "Write a note that says: buy milk."];
const STEPS = [1, 2, 3] as const;

export default function Setup() {
  const text = its.value;
  const all = useResource(readProviders, ["providers", "keys", "default_model"]);
  const draft = useDraft("setup", { step: 1, provider: "" });
  const { step, provider } = draft.value;
  useEffect(setUpSeen, []);
  const go = (to: number) => draft.set({ step: to });
  const leave = () => {
    draft.clear();
    void lookForModel();
    location.hash = "#/chat/new";
  };
  return (
    <Page>
      <PageHead title={text.title} lead={text.lead} />
      <ol class="steps">
        {STEPS.map((each) => (
          <li key={each} aria-current={each === step ? "step" : undefined} class={each < step ? "is-done" : ""}>
            <button type="button" class="quiet" onClick={() => go(each)}>
              <span class="number" aria-hidden="true">
                {each < step ? <Icon name="check" /> : each}
              </span>
              {text.steps[each - 1]}
            </button>
          </li>
        ))}
      </ol>
      <Loaded resource={all}>
        {(value) =>
          step === 1 ? (
            <First all={value} provider={provider} choose={(name) => draft.set({ provider: name })} next={() => go(2)} leave={leave} />
          ) : step === 2 ? (
            <Second all={value} provider={provider} go={go} />
          ) : (
            <Third all={value} back={() => go(2)} leave={leave} />
          )
        }
      </Loaded>
    </Page>
  );
}

interface FirstProps {
  all: Providers;
  provider: string;
  choose(name: string): void;
  next(): void;
  leave(): void;
}

function First({ all, provider, choose, next, leave }: FirstProps) {
  const text = its.value;
  const place = (row: ProviderRow) => (FIRST.indexOf(row.name) + FIRST.length + 1) % (FIRST.length + 1);
  const rows = all.rows.filter((each) => each.is_active).toSorted((one, other) => place(one) - place(other));
  const row = rows.find((each) => each.name === provider);
  return (
    <>
      <section class="section" aria-labelledby="which">
        <h2 id="which">{text.which}</h2>
        <fieldset class="cards">
          <legend class="who">{text.which}</legend>
          {rows.map((each) => (
            <label key={each.name} class={each.name === provider ? "is-chosen" : ""}>
              <input type="radio" name="provider" checked={each.name === provider} onChange={() => choose(each.name)} />
              <span class="name">{NAMES[each.name] ?? shown(each.name)}</span>
              <span class="under">{groupOf(each) === "local" ? text.local : (providerWords.value.keys[each.key] ?? "")}</span>
            </label>
          ))}
          <label class={provider === OTHER ? "is-chosen" : ""}>
            <input type="radio" name="provider" checked={provider === OTHER} onChange={() => choose(OTHER)} />
            <span class="name">{text.other}</span>
            <span class="under">{text.otherHint}</span>
          </label>
        </fieldset>
      </section>
      {provider === OTHER && (
        <div class="sheet">
          <NewProvider made={choose} />
        </div>
      )}
      {row !== undefined && (
        <div class="sheet stack" key={row.name}>
          {row.key === "none" ? (
            <p>{text.localHint(shown(row.base_url))}</p>
          ) : (
            <>
              {row.key !== "missing" && <p>{text.hasKey}</p>}
              <KeyForm provider={row.name} />
            </>
          )}
          {row.key !== "missing" && <Test provider={row.name} />}
        </div>
      )}
      <div class="buttons">
        <button type="button" class={row !== undefined && row.key !== "missing" ? "primary" : ""} disabled={row === undefined || row.key === "missing"} onClick={next}>
          {text.next}
        </button>
        <button type="button" class="quiet" onClick={next}>
          {text.skip}
        </button>
      </div>
      <section class="section without" aria-labelledby="without">
        <h2 id="without">{text.without}</h2>
        <p class="lead">{text.withoutText}</p>
        <button type="button" onClick={leave}>
          {text.withoutDo}
        </button>
      </section>
    </>
  );
}

function Second({ all, provider, go }: { all: Providers; provider: string; go(step: number): void }) {
  const text = its.value;
  const ready = all.rows.filter((each) => groupOf(each) === "ready");
  const name = all.rows.some((each) => each.name === provider) ? provider : (ready[0]?.name ?? "");
  const choose = async (model: OfferedModel) => {
    if (await done(() => app.link.request("model/set_default", { model: model.choice }), providerWords.value.chosen(model.choice))) go(3);
  };
  return (
    <>
      <section class="section">
        <h2>{text.whichModel}</h2>
        <p class="lead">{isRehearsal(all.fallback) ? providerWords.value.rehearsal : text.answers(shown(all.fallback.model), shown(said(all.fallback.reason)))}</p>
      </section>
      {name !== "" && <Models provider={name} fallback={all.fallback.model} choose={(model) => void choose(model)} />}
      <div class="buttons">
        <button type="button" class="quiet" onClick={() => go(1)}>
          {text.back}
        </button>
        <button type="button" class={isRehearsal(all.fallback) ? "" : "primary"} onClick={() => go(3)}>
          {isRehearsal(all.fallback) ? text.skip : text.next}
        </button>
      </div>
    </>
  );
}

function Third({ all, back, leave }: { all: Providers; back(): void; leave(): void }) {
  const text = its.value;
  const isRules = isRehearsal(all.fallback);
  return (
    <>
      <section class="section" aria-labelledby="ready">
        <h2 id="ready">{text.ready}</h2>
        <p class="lead">{isRules ? text.rehearsalText : text.readyText(shown(all.fallback.model))}</p>
        <ul class="examples">
          {EXAMPLES.map((each) => (
            <li key={each}>
              <button
                type="button"
                onClick={() => {
                  app.drafts.set("", each);
                  leave();
                }}
              >
                {each}
              </button>
            </li>
          ))}
        </ul>
        <p class="lead">{text.asks}</p>
        <p class="lead">{text.more}</p>
      </section>
      <div class="buttons">
        <button type="button" class="quiet" onClick={back}>
          {text.back}
        </button>
        <button type="button" class="primary" onClick={leave}>
          {text.toChat}
        </button>
      </div>
    </>
  );
}
