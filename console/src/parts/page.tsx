// What a screen beyond the chat is made of: its head with actions, sections, and what stands there while something is read.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Resource } from "../store/lists";
import { words } from "../store/settings";
import { Icon, type IconName } from "./icon";
import { shown } from "./text";

/** What each screen is given. */
export interface ScreenProps {
  /** The decoded parts of the address behind the screen's name. */
  parts: readonly string[];
}

/** A screen's own column. */
export function Page({ isWide = false, children }: { isWide?: boolean; children: ComponentChildren }) {
  return <div class={isWide ? "page screen is-wide" : "page screen"}>{children}</div>;
}

interface HeadProps {
  /** Where this is a part of: shown as a way back. */
  back?: { href: string; name: string };
  /** What is shown, below a screen's first page; the name of the screen itself is in the top bar. */
  title?: string;
  /** One or two sentences: what this is for. */
  lead?: ComponentChildren;
  /** Buttons and links: what can be done here. */
  children?: ComponentChildren;
}

export function PageHead({ back, title, lead, children }: HeadProps) {
  return (
    <header class="page-head">
      <div class="about">
        {back !== undefined && (
          <a class="back" href={back.href}>
            <Icon name="back" /> {back.name}
          </a>
        )}
        {title !== undefined && <h2>{shown(title)}</h2>}
        {lead !== undefined && <p class="lead">{lead}</p>}
      </div>
      {children !== undefined && <div class="buttons">{children}</div>}
    </header>
  );
}

interface SectionProps {
  title: string;
  lead?: ComponentChildren;
  /** What can be done with all of it, at the right of its title. */
  actions?: ComponentChildren;
  /** Without a frame: for lists and tables that have their own. */
  isBare?: boolean;
  children: ComponentChildren;
}

export function Section({ title, lead, actions, isBare = false, children }: SectionProps) {
  const id = useId();
  return (
    <section class="section" aria-labelledby={id}>
      <div class="section-head">
        <h2 id={id}>{shown(title)}</h2>
        {actions}
      </div>
      {lead !== undefined && <p class="lead">{lead}</p>}
      <div class={isBare ? "" : "sheet"}>{children}</div>
    </section>
  );
}

interface LoadedProps<T> {
  resource: Resource<T>;
  /** Whether there is nothing to show. */
  isEmpty?(value: T): boolean;
  /** What is said then. */
  empty?: ComponentChildren;
  children(value: T): ComponentChildren;
}

/** What was read; else that it is being read, that there is none, or why it can't be read, with a way to try again. */
export function Loaded<T>({ resource, isEmpty, empty, children }: LoadedProps<T>) {
  const { value, problem } = resource;
  const failed = problem !== "" && <Failed text={problem} again={() => void resource.again()} />;
  if (value === null) return failed || <Reading />;
  return (
    <>
      {failed}
      {isEmpty?.(value) === true ? empty : children(value)}
    </>
  );
}

/** It shows only what takes longer than a moment. */
export function Reading() {
  return (
    <p class="reading" role="status">
      {words.value.page.reading}
    </p>
  );
}

export function Failed({ text, again }: { text: string; again(): void }) {
  const its = words.value.page;
  return (
    <div class="said-box is-bad" role="alert">
      <Icon name="warn" />
      <p>{shown(text)}</p>
      <button type="button" class="small" onClick={again}>
        {its.again}
      </button>
    </div>
  );
}

/** Nothing is there yet: why, and what to do first. */
export function Empty({ icon, title, text, children }: { icon: IconName; title: string; text?: string; children?: ComponentChildren }) {
  return (
    <div class="nothing">
      <Icon name={icon} />
      <p class="title">{title}</p>
      {text !== undefined && <p class="lead">{text}</p>}
      {children !== undefined && <div class="buttons">{children}</div>}
    </div>
  );
}

/** A list whose rows lead to something. */
export function Rows({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <ul class="rows" aria-label={label}>
      {children}
    </ul>
  );
}

interface RowProps {
  title: string;
  /** Where the row leads. */
  href?: string;
  /** Behind the title: what state it is in. */
  marks?: ComponentChildren;
  /** A line below the title. */
  text?: ComponentChildren;
  /** At the right: a menu, a switch, a button. */
  children?: ComponentChildren;
}

export function RowOf({ title, href, marks, text, children }: RowProps) {
  const name = <span class="name">{shown(title)}</span>;
  return (
    <li>
      <div class="about">
        <p class="title">
          {href === undefined ? name : <a href={href}>{name}</a>}
          {marks}
        </p>
        {text !== undefined && <p class="text">{text}</p>}
      </div>
      {children !== undefined && <div class="row-actions">{children}</div>}
    </li>
  );
}

/** A word about a state, in a colour that says the same. */
export function Mark({ kind = "plain", children }: { kind?: "plain" | "good" | "warn" | "bad" | "own"; children: ComponentChildren }) {
  return <span class={`mark is-${kind}`}>{children}</span>;
}

/** Names with what they are. */
export function Facts({ rows }: { rows: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
