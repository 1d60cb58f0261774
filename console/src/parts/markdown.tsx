// Markdown of models: marked, then DOMPurify, then DOM nodes; no text ever becomes markup by itself.
import DOMPurify, { type Config } from "dompurify";
import { Lexer, Parser, Renderer, type Tokens } from "marked";
import { render } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { memo } from "./memo";
import { toast } from "../store/app";
import { words } from "../store/settings";
import { Blocks, isClosed, joined, PARAGRAPHS, type Block } from "./blocks";
import type { Piece } from "./colours";
import { askToOpen } from "./dialog";
import { Excerpt } from "./excerpt";
import { shown } from "./text";

const MAX_COLOURED = 200_000;
const IDLE_MS = 1000;
const CLEAN: Config = {
  FORBID_TAGS: ["img", "style", "form", "input", "iframe", "svg", "math", "button", "select", "textarea", "video", "audio"],
  ALLOWED_ATTR: ["href", "title", "start", "align", "colspan", "rowspan"],
  // These are no addresses, and need not look like one.
  ADD_URI_SAFE_ATTR: ["start", "align", "colspan", "rowspan"],
  ALLOW_DATA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
};
let isSet = false;

const QUOTES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const quoted = (text: string) => text.replace(/[&<>"]/g, (each) => QUOTES[each]!);

/** In place of a picture, which is not loaded: what it shows, as a link where its address is one. */
function pictured(alt: string, href: string): string {
  const isLink = /^https?:/i.test(href);
  const name = [alt, isLink || /^data:/i.test(href) ? "" : href && `(${href})`].filter((each) => each !== "").join(" ");
  const text = `🖼 ${quoted(name || (isLink ? href : ""))}`;
  return isLink ? `<a href="${quoted(href)}">${text}</a>` : text;
}

/** Marked's own, but for what would be cleaned away: pictures, the marks of tasks, and the language of code. */
class OurRenderer extends Renderer {
  #isLink = false;

  override code({ raw, text, lang = "" }: Tokens.Code): string {
    const language = isClosed(raw) ? lang.split(/\s/)[0]!.toLowerCase() : "";
    return `<pre title="${quoted(language)}"><code>${quoted(text)}</code></pre>\n`;
  }
  override checkbox({ checked }: Tokens.Checkbox): string {
    return checked ? "☑ " : "☐ ";
  }
  override link(token: Tokens.Link): string {
    this.#isLink = true;
    const made = super.link(token);
    this.#isLink = false;
    return made;
  }
  override image({ href, text, tokens }: Tokens.Image): string {
    const alt = tokens === undefined ? text : String(this.parser.parseInline(tokens, this.parser.textRenderer));
    // A picture that is a link leads where that does.
    return pictured(alt, this.#isLink ? "" : href);
  }
  override html({ text }: Tokens.HTML | Tokens.Tag): string {
    return text.replace(/<img\b[^>]*>/gi, (tag) => {
      const valueOf = (name: string) => new RegExp(`\\s${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)'|([^\\s>]+))`, "i").exec(tag)?.slice(1).find((each) => each !== undefined) ?? "";
      return pictured(valueOf("alt"), this.#isLink ? "" : valueOf("src"));
    });
  }
}
const options = { ...new Lexer().options, renderer: new OurRenderer() };

function fragmentOf(raw: string): DocumentFragment {
  let html: string;
  try {
    html = Parser.parse(Lexer.lex(shown(raw)), options);
  } catch {
    // It nests deeper than the reader can follow: then that paragraph is shown as it is.
    const parts = raw.split(PARAGRAPHS);
    const plain = new DocumentFragment();
    plain.append(...(parts.length > 1 ? parts.map(fragmentOf) : [shown(raw)]));
    return plain;
  }
  // Once: it reads what is let through again with each text otherwise, which takes longer than most texts.
  if (!isSet) DOMPurify.setConfig({ ...CLEAN, RETURN_DOM_FRAGMENT: true });
  isSet = true;
  return DOMPurify.sanitize(html, { RETURN_DOM_FRAGMENT: true });
}

/** A text that is being written is drawn block by block, so that what is finished is left alone; else in as few parts as can be. */
export function Markdown({ text, isLive = false }: { text: string; isLive?: boolean }) {
  const blocks = useMemo(() => new Blocks(), []);
  const all = blocks.of(text);
  return (
    <div class="markdown">
      {(isLive ? all : joined(all)).map((block, at) =>
        block.language === null ? <Prose key={at} raw={block.raw} /> : <Code key={at} {...block} />,
      )}
    </div>
  );
}

const Prose = memo(({ raw }: { raw: string }) => {
  const place = useRef<HTMLDivElement>(null);
  /** The code within it, as in lists and quotations, each with where it stands. */
  const codes = useRef<CodeWithin[]>([]);
  // Before it is painted: an answer that is complete takes the place of the one that was being written, without a gap between.
  useLayoutEffect(() => {
    const fragment = fragmentOf(raw);
    codes.current = withCode(fragment, codes.current);
    for (const item of fragment.querySelectorAll("li")) if (/^[☑☐] /.test(item.textContent?.trimStart() ?? "")) item.className = "task";
    place.current?.replaceChildren(fragment);
    for (const table of place.current?.querySelectorAll("table") ?? []) table.tabIndex = 0;
  }, [raw]);
  useEffect(() => () => void withCode(new DocumentFragment(), codes.current), []);
  const follow = (event: MouseEvent) => {
    const link = (event.target as Element).closest("a");
    if (link === null || event.button === 2) return;
    event.preventDefault();
    askToOpen(link.href);
  };
  return <div class="prose" ref={place} onClick={follow} onAuxClick={follow} />;
});

interface CodeWithin {
  code: string;
  language: string;
  element: HTMLElement;
}

/** Show the code of a fragment as code that stands by itself; what stood there before stays as it is, with its colours. */
function withCode(fragment: DocumentFragment, before: readonly CodeWithin[]): CodeWithin[] {
  const rest = [...before];
  const all = [...fragment.querySelectorAll("pre")].map((pre) => {
    const [code, language] = [pre.textContent?.replace(/\n$/, "") ?? "", pre.title];
    const at = rest.findIndex((each) => each.code === code && each.language === language);
    const known = at < 0 ? undefined : rest.splice(at, 1)[0];
    const its = known ?? { code, language, element: document.createElement("div") };
    if (known === undefined) render(<Code raw="" language={language} code={code} />, its.element);
    pre.replaceWith(its.element);
    return its;
  });
  for (const each of rest) render(null, each.element);
  return all;
}

/** Run something when nothing else is to be done, or after a second; return what prevents it. */
function whenIdle(run: (isOver: () => boolean) => Promise<void>): () => void {
  let isOver = false;
  const begin = () => void (isOver || run(() => isOver));
  // Not every browser has it.
  if ("requestIdleCallback" in globalThis) requestIdleCallback(begin, { timeout: IDLE_MS });
  else setTimeout(begin, 0);
  return () => void (isOver = true);
}

function nodeOf([scope, text]: Piece): Node | string {
  if (scope === "plain") return text;
  const node = document.createElement("span");
  node.className = `of-${scope}`;
  node.textContent = text;
  return node;
}

const Code = memo(({ raw, language, code }: Block) => (
  <figure class="code">
    <figcaption>
      <span>{language}</span>
      <CopyButton text={code} />
    </figcaption>
    <Excerpt text={code}>{(part) => <Coloured raw={raw} language={language} part={part} />}</Excerpt>
  </figure>
));

function Coloured({ raw, language, part }: { raw: string; language: string | null; part: string }) {
  const place = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const target = place.current;
    if (target === null) return;
    const text = shown(part);
    target.textContent = text;
    if (language === null || language === "" || text.length > MAX_COLOURED || !isClosed(raw)) return;
    return whenIdle(async (isOver) => {
      const pieces = (await import("./colours")).coloured(text, language);
      if (pieces !== null && !isOver()) target.replaceChildren(...pieces.map(nodeOf));
    });
  }, [raw, part]);
  return (
    <pre tabIndex={0}>
      <code ref={place} />
    </pre>
  );
}

/** Copy a text; a browser that gives pages no clipboard, as without TLS on another machine, says so. */
export function copy(text: string): void {
  const failed = () => void (toast.value = words.value.turnMenu.notCopied);
  if (navigator.clipboard === undefined) return failed();
  navigator.clipboard.writeText(text).then(() => void (toast.value = words.value.copied), failed);
}

function CopyButton({ text }: { text: string }) {
  return (
    <button type="button" class="quiet small" onClick={() => copy(text)}>
      {words.value.copy}
    </button>
  );
}
