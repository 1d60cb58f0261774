// A provider that is not built in: any server that speaks one of the wire formats.
import { useState } from "preact/hooks";
import { Field, FormEnd, useDraft, useSending } from "../../parts/form";
import { PageHead } from "../../parts/page";
import * as app from "../../store/app";
import { hrefOf } from "../../store/route";
import { its } from "../../words/screens/providers";

export const DIALECTS = ["openai_chat", "openai_responses", "anthropic", "gemini"];

/** Its key can go in at once; `made` is called where this is a part of something else. */
export function NewProvider({ made }: { made?(name: string): void }) {
  const text = its.value;
  const draft = useDraft("provider:+", { name: "", base_url: "", dialect: "" });
  const { value, set } = draft;
  const [key, setKey] = useState("");
  const sending = useSending(async () => {
    const name = value.name.trim();
    const { notes = [] } = await app.link.request("provider/create", { name, base_url: value.base_url.trim(), ...(value.dialect === "" ? {} : { dialect: value.dialect }) });
    draft.clear();
    if (notes.length > 0) app.toast.value = notes.join(" ");
    if (key.trim() !== "") {
      // The provider is there already: what is wrong with its key is said beside it.
      await app.link.request("provider/set_key", { provider: name, key: key.trim() }).catch(app.say);
    }
    if (made !== undefined) made(name);
    else location.hash = hrefOf("providers", name);
  }, ["name", "base_url", "dialect"]);
  const form = (
    <form class="fields" onSubmit={(event) => void sending.send(event)}>
      <Field label={text.name} hint={text.nameHint} problem={sending.problems["name"]} isRequired>
        {(attributes) => <input {...attributes} type="text" required spellcheck={false} autocomplete="off" value={value.name} onInput={(event) => set({ name: event.currentTarget.value })} />}
      </Field>
      <Field label={text.url} problem={sending.problems["base_url"]} isRequired>
        {(attributes) => (
          <input {...attributes} type="text" inputMode="url" required spellcheck={false} placeholder="https://…/v1" value={value.base_url} onInput={(event) => set({ base_url: event.currentTarget.value })} />
        )}
      </Field>
      <Field label={text.dialect} problem={sending.problems["dialect"]}>
        {(attributes) => (
          <select {...attributes} value={value.dialect} onChange={(event) => set({ dialect: event.currentTarget.value })}>
            <option value="">{text.byUrl}</option>
            {DIALECTS.map((each) => (
              <option key={each} value={each}>
                {text.dialects[each]}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label={text.key}>
        {(attributes) => <input {...attributes} type="password" autocomplete="off" spellcheck={false} value={key} onInput={(event) => setKey(event.currentTarget.value)} />}
      </Field>
      <FormEnd sending={sending} action={text.create} isOff={value.name.trim() === "" || value.base_url.trim() === ""} {...(made === undefined ? { cancel: () => (draft.clear(), history.back()) } : {})} />
    </form>
  );
  if (made !== undefined) return form;
  return (
    <>
      <PageHead back={{ href: hrefOf("providers"), name: text.all }} title={text.add} />
      <div class="sheet">{form}</div>
    </>
  );
}
