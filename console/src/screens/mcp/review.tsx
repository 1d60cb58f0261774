// What a server offers, tool by tool, beside what was accepted of it: only what is ticked is offered to models.
import { useState } from "preact/hooks";
import type { Methods } from "../../link";
import { FormEnd, useSending } from "../../parts/form";
import { Mark, Section } from "../../parts/page";
import { shown } from "../../parts/text";
import type { PinnedTool } from "../../protocol";
import { its } from "../../words/screens/mcp";
import { difference, fateOf, wordsOf, type Fate } from "./drafts";

export type Offer = Methods["mcp/look"]["result"];

interface Props {
  offer: Offer;
  accepted: readonly PinnedTool[];
  accept(tools: Record<string, string>, offers: string): Promise<void>;
  leave(): void;
}

const KINDS: Record<Fate, "own" | "warn" | "good" | "plain"> = { new: "own", changed: "warn", same: "good", gone: "plain" };

export function Review({ offer, accepted, accept, leave }: Props) {
  const text = its.value;
  const tools = offer.tools ?? [];
  const known = new Map(accepted.map((tool) => [tool.original, tool]));
  const gone = accepted.filter((tool) => tools.every((each) => each.original !== tool.original));
  // What has changed is ticked by the person who has read it, and by nobody else.
  const [chosen, setChosen] = useState<ReadonlySet<string>>(() => new Set(tools.filter((tool) => fateOf(tool, known.get(tool.original)) === "same").map((tool) => tool.original)));
  const sending = useSending(() => accept(Object.fromEntries([...chosen].map((name) => [name, offer.digests?.[name] ?? ""])), offer.offers_digest ?? ""));
  const toggle = (name: string) => {
    const next = new Set(chosen);
    if (!next.delete(name)) next.add(name);
    setChosen(next);
  };
  const refused = Object.entries(offer.refused ?? {});
  return (
    <Section title={text.review} isBare>
      <form onSubmit={(event) => void sending.send(event)}>
        {(offer.notes ?? []).map((note) => (
          <p key={note} class="said-box">
            {shown(note)}
          </p>
        ))}
        <ul class="rows review">
          {tools.map((tool) => (
            <Tool key={tool.original} tool={tool} accepted={known.get(tool.original)} isChosen={chosen.has(tool.original)} toggle={() => toggle(tool.original)} />
          ))}
          {gone.map((tool) => (
            <li key={tool.original}>
              <p class="title">
                <code>{shown(tool.original)}</code> <Mark>{text.marks.gone}</Mark>
              </p>
            </li>
          ))}
          {refused.map(([name, why]) => (
            <li key={name}>
              <p class="title">
                <code>{shown(name)}</code> <Mark kind="bad">{text.refused}</Mark>
              </p>
              <p class="text">{shown(why)}</p>
            </li>
          ))}
        </ul>
        {(offer.offers?.prompts ?? []).map((each) => (
          <p key={each.name} class="said-box">
            {text.prompts}: <code>{shown(each.name)}</code> {shown([each.title, each.description, ...(each.arguments ?? []).map((one) => `${one.name}: ${one.description ?? ""}`)].filter(Boolean).join(" · "))}
          </p>
        ))}
        {offer.offers?.instructions && (
          <details>
            <summary>{text.instructions}</summary>
            <p class="plain">{shown(offer.offers.instructions)}</p>
          </details>
        )}
        <FormEnd sending={sending} action={text.accept(chosen.size)} cancel={leave} />
      </form>
    </Section>
  );
}

function Tool({ tool, accepted, isChosen, toggle }: { tool: PinnedTool; accepted: PinnedTool | undefined; isChosen: boolean; toggle(): void }) {
  const text = its.value;
  const fate = fateOf(tool, accepted);
  return (
    <li>
      <label class="check">
        <input type="checkbox" checked={isChosen} onChange={toggle} />
        <code class="name">{shown(tool.original)}</code>
        <Mark kind={KINDS[fate]}>{text.marks[fate]}</Mark>
      </label>
      {fate === "changed" && accepted !== undefined ? (
        <pre class="preview" tabIndex={0}>
          {difference(wordsOf(accepted), wordsOf(tool)).map((piece, at) => {
            const said = shown(piece.text);
            return piece.kind === "added" ? <ins key={at}>{said}</ins> : piece.kind === "removed" ? <del key={at}>{said}</del> : said;
          })}
        </pre>
      ) : (
        <>
          <p class="text">{shown(tool.description ?? "")}</p>
          <details>
            <summary class="text">{text.whole}</summary>
            <pre class="long" tabIndex={0}>
              {shown(wordsOf(tool))}
            </pre>
          </details>
        </>
      )}
    </li>
  );
}
