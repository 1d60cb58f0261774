// Where models are: providers with their keys and models, and the default.
import { askFirst } from "../../parts/dialog";
import { Field, FormEnd, useDraft, useSending } from "../../parts/form";
import { Icon } from "../../parts/icon";
import { Menu, type Choice } from "../../parts/menu";
import { Empty, Loaded, Mark, Page, PageHead, RowOf, Rows, Section, type ScreenProps } from "../../parts/page";
import { shown } from "../../parts/text";
import type { ProviderRow } from "../../protocol";
import * as app from "../../store/app";
import { useResource } from "../../store/lists";
import { done, groupOf, isRehearsal, NAMES, readChoices, readProviders, type Group, type Providers as All } from "../../store/models";
import { hrefOf } from "../../store/route";
import { said } from "../../words/said";
import { its } from "../../words/screens/providers";
import { Models } from "./models";
import { DIALECTS, NewProvider } from "./new";
import { KeyForm, ModelInput, Test } from "./parts";

/** In the place of a name in the address: no provider has such a name. */
const NEW = "+";
const GROUPS: readonly Group[] = ["ready", "missing", "local", "off"];

export default function Providers({ parts: [name = ""] }: ScreenProps) {
  const all = useResource(readProviders, ["providers", "keys", "default_model"]);
  return (
    <Page>
      {name === NEW ? <NewProvider /> : <Loaded resource={all}>{(value) => (name === "" ? <List all={value} /> : <Detail key={name} name={name} all={value} />)}</Loaded>}
    </Page>
  );
}

function List({ all }: { all: All }) {
  const text = its.value;
  return (
    <>
      <PageHead lead={text.lead}>
        {app.may("provider/create") && (
          <a class="button" href={hrefOf("providers", NEW)}>
            <Icon name="plus" /> {text.add}
          </a>
        )}
      </PageHead>
      {all.problem !== "" && (
        <p class="said-box is-bad">
          {text.locked} {shown(all.problem)}
        </p>
      )}
      <DefaultModel all={all} />
      {GROUPS.map((group) => {
        const rows = all.rows.filter((each) => groupOf(each) === group);
        return (
          rows.length > 0 && (
            <Section key={group} title={text.groups[group]} isBare>
              <Rows label={text.groups[group]}>
                {rows.map((row) => (
                  <RowOf key={row.name} title={row.name} href={hrefOf("providers", row.name)} marks={<Marks row={row} fallback={all.fallback.model} />} text={shown(row.base_url)}>
                    <ProviderMenu row={row} fallback={all.fallback.model} />
                  </RowOf>
                ))}
              </Rows>
            </Section>
          )
        );
      })}
    </>
  );
}

function Marks({ row, fallback }: { row: ProviderRow; fallback: string }) {
  const text = its.value;
  const kind = row.key === "missing" ? "warn" : row.key === "none" ? "plain" : "good";
  return (
    <>
      {fallback.startsWith(`${row.name}/`) && <Mark kind="own">{text.isDefault}</Mark>}
      {row.is_active ? <Mark kind={kind}>{text.keys[row.key] ?? shown(row.key)}</Mark> : <Mark>{text.off}</Mark>}
      {row.source !== "built_in" && <Mark>{isChanged(row) ? text.changed : (text.sources[row.source] ?? shown(row.source))}</Mark>}
    </>
  );
}

function ProviderMenu({ row, fallback }: { row: ProviderRow; fallback: string }) {
  const text = its.value;
  const choices: Choice[] = [];
  const setActive = async (is_active: boolean) => {
    const worked = await done(() => app.link.request("provider/update", { provider: row.name, is_active }), is_active ? text.switchedOn(row.name) : text.switchedOff(row.name));
    if (worked && !is_active) app.offer(app.toast.peek(), text.undo, () => void setActive(true));
  };
  if (app.may("provider/update")) {
    choices.push(
      row.is_active
        ? { name: text.switchOff, icon: "stop", run: () => void setActive(false) }
        : { name: text.switchOn, icon: "check", run: () => void setActive(true) },
    );
  }
  if (app.may("provider/delete") && row.source === "managed") {
    const isDefault = fallback.startsWith(`${row.name}/`);
    choices.push(isChanged(row) ? { name: text.reset, icon: "undo", run: () => void reset(row.name) } : { name: text.remove, icon: "trash", isBad: true, run: () => void remove(row.name, isDefault) });
  }
  return <Menu label={text.menu(shown(row.name))} choices={choices} />;
}

/** Whether it came with callboard, and somebody changed where it is. */
const isChanged = (row: ProviderRow): boolean => row.source === "managed" && Object.hasOwn(NAMES, row.name);

async function reset(name: string): Promise<void> {
  const text = its.peek();
  if ((await askFirst({ title: text.resetTitle(name), text: text.resetText, action: text.reset })) === null) return;
  await done(() => app.link.request("provider/delete", { provider: name }), text.saved);
}

/** Without its provider the default model could not be had: that choice is taken back first. */
async function remove(name: string, isDefault: boolean): Promise<void> {
  const text = its.peek();
  const said = isDefault ? `${text.removeText} ${text.removeDefault}` : text.removeText;
  if ((await askFirst({ title: text.removeTitle(name), text: said, action: text.remove, isBad: true })) === null) return;
  const worked = await done(async () => {
    if (isDefault) await app.link.request("model/set_default", { model: null });
    return app.link.request("provider/delete", { provider: name });
  }, text.removed(name));
  if (worked && location.hash === hrefOf("providers", name)) location.hash = hrefOf("providers");
}

function DefaultModel({ all }: { all: All }) {
  const text = its.value;
  const models = useResource(readChoices, ["models", "providers", "keys"]);
  const draft = useDraft("default-model", { model: "" });
  const chosen = useResource(async () => app.link.request("model/chosen", {}), ["default_model"]);
  const sending = useSending(async () => {
    const { notes = [] } = await app.link.request("model/set_default", { model: draft.value.model.trim() });
    app.toast.value = [text.chosen(draft.value.model.trim()), ...notes].join(" ");
    draft.clear();
  }, ["model"]);
  const takeBack = () => void done(() => app.link.request("model/set_default", { model: null }), text.takenBack);
  return (
    <Section
      title={text.fallback}
      lead={text.fallbackLead}
      actions={
        chosen.value?.source === "managed" &&
        app.may("model/set_default") && (
          <button type="button" class="quiet small" onClick={takeBack}>
            {text.takeBack}
          </button>
        )
      }
    >
      {isRehearsal(all.fallback) ? (
        <p class="said-box is-warn">
          <span>
            {text.rehearsal} {app.may("provider/create") && <a href={hrefOf("setup")}>{text.toSetup}</a>}
          </span>
        </p>
      ) : (
        <p>{text.answers(shown(all.fallback.model), shown(said(all.fallback.reason)))}</p>
      )}
      {app.may("model/set_default") && (
        <form class="below" onSubmit={(event) => void sending.send(event)}>
          <Field label={text.model} hint={text.modelHint} problem={sending.problems["model"] ?? sending.problem}>
            {(attributes) => (
              <div class="line">
                <ModelInput attributes={attributes} models={models.value ?? []} value={draft.value.model} write={(model) => draft.set({ model })} />
                <button type="submit" disabled={draft.value.model.trim() === "" || sending.isBusy}>
                  {text.choose}
                </button>
              </div>
            )}
          </Field>
        </form>
      )}
    </Section>
  );
}

function Detail({ name, all }: { name: string; all: All }) {
  const text = its.value;
  const row = all.rows.find((each) => each.name === name);
  const back = { href: hrefOf("providers"), name: text.all };
  if (row === undefined) {
    return (
      <>
        <PageHead back={back} />
        <Empty icon="find" title={text.unknown(shown(name))} />
      </>
    );
  }
  return (
    <>
      <PageHead back={back} title={row.name} lead={<span class="marks"><Marks row={row} fallback={all.fallback.model} /></span>}>
        <ProviderMenu row={row} fallback={all.fallback.model} />
      </PageHead>
      {(row.note ?? "") !== "" && <p class="said-box is-warn">{shown(row.note ?? "")}</p>}
      <KeyOf row={row} />
      <ConnectionOf row={row} />
      <Models provider={name} fallback={all.fallback.model} />
    </>
  );
}

function KeyOf({ row }: { row: ProviderRow }) {
  const text = its.value;
  const stored = row.key === "stored";
  const removeKey = async () => {
    if ((await askFirst({ title: text.removeKeyTitle(row.name), text: text.removeKeyText, action: text.removeKey, isBad: true })) === null) return;
    await done(async () => {
      const { note = "" } = await app.link.request("key/remove", { provider: row.name });
      return { notes: note === "" ? [] : [note] };
    }, text.keyRemoved);
  };
  return (
    <Section
      title={text.key}
      lead={row.key_env === null ? undefined : text.keyEnv(row.key_env)}
      actions={
        stored &&
        app.may("key/remove") && (
          <button type="button" class="quiet small" onClick={() => void removeKey()}>
            <Icon name="trash" /> {text.removeKey}
          </button>
        )
      }
    >
      {app.may("provider/set_key") ? <KeyForm provider={row.name} /> : <p>{text.keys[row.key] ?? shown(row.key)}</p>}
      {app.may("provider/test") && (
        <div class="below">
          <Test provider={row.name} />
        </div>
      )}
    </Section>
  );
}

function ConnectionOf({ row }: { row: ProviderRow }) {
  const text = its.value;
  const draft = useDraft(`provider:${row.name}`, { base_url: row.base_url, dialect: row.dialect, model: row.model ?? "" });
  const { value, set } = draft;
  const sending = useSending(async () => {
    const { notes = [] } = await app.link.request("provider/update", {
      provider: row.name,
      ...(value.base_url === row.base_url ? {} : { base_url: value.base_url.trim() }),
      ...(value.dialect === row.dialect ? {} : { dialect: value.dialect }),
      ...(value.model === (row.model ?? "") ? {} : { model: value.model.trim() }),
    });
    draft.clear();
    app.toast.value = [text.saved, ...notes].join(" ");
  }, ["base_url", "dialect", "model"]);
  const isFixed = !app.may("provider/update");
  return (
    <Section title={text.connection}>
      <form class="fields" onSubmit={(event) => void sending.send(event)}>
        <Field label={text.url} hint={isFixed ? undefined : text.urlHint} problem={sending.problems["base_url"]}>
          {(attributes) => <input {...attributes} type="url" readOnly={isFixed} spellcheck={false} value={value.base_url} onInput={(event) => set({ base_url: event.currentTarget.value })} />}
        </Field>
        <Field label={text.dialect} problem={sending.problems["dialect"]}>
          {(attributes) => (
            <select {...attributes} disabled={isFixed} value={value.dialect} onChange={(event) => set({ dialect: event.currentTarget.value })}>
              {[...new Set([...DIALECTS, row.dialect])].map((each) => (
                <option key={each} value={each}>
                  {text.dialects[each] ?? each}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={text.ownModel} hint={text.ownModelHint} problem={sending.problems["model"]}>
          {(attributes) => <input {...attributes} type="text" readOnly={isFixed} spellcheck={false} value={value.model} onInput={(event) => set({ model: event.currentTarget.value })} />}
        </Field>
        {!isFixed && (draft.isChanged || sending.problem !== "") && <FormEnd sending={sending} action={text.save} cancel={() => (draft.clear(), sending.forget())} />}
      </form>
    </Section>
  );
}
