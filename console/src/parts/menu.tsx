// A menu behind a button: the browser's own popover, which Escape or a click elsewhere closes, with the keys of a menu.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./icon";

export interface Choice {
  name: string;
  icon: IconName;
  isBad?: boolean;
  run(): void;
}

const GAP = 4;
let lastMenu = 0;

/** The keys of a menu: the arrows go round, Escape and Tab close it. */
export function menuKeys(event: KeyboardEvent & { currentTarget: HTMLElement }, close: () => void): void {
  const all = [...event.currentTarget.querySelectorAll("button")];
  const at = all.indexOf(document.activeElement as HTMLButtonElement);
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (event.key === "Escape" || event.key === "Tab") {
    event.stopPropagation();
    close();
  } else if (next !== undefined) {
    event.preventDefault();
    all.at(next % all.length)?.focus();
  }
}

/** The popover belongs to the button in the tree as well, so that Tab goes on behind it. */
export function Menu({ label, choices }: { label: string; choices: readonly Choice[] }) {
  const [id] = useState(() => `menu-${++lastMenu}`);
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const place = useRef<HTMLDivElement>(null);
  // What is in it is drawn when it is open; only then it has a size.
  useLayoutEffect(() => {
    const menu = place.current;
    // A closed one asks for no size: a list has dozens, and each would make the browser lay out all of it.
    const from = isOpen ? button.current?.getBoundingClientRect() : undefined;
    if (menu === null || from === undefined) return;
    const { width, height } = menu.getBoundingClientRect();
    const below = from.bottom + GAP;
    const top = below + height > innerHeight ? from.top - GAP - height : below;
    menu.style.left = `${Math.max(GAP, Math.min(from.right - width, innerWidth - width - GAP))}px`;
    menu.style.top = `${Math.max(GAP, top)}px`;
    menu.querySelector("button")?.focus();
  }, [isOpen]);
  if (choices.length === 0) return null;

  const close = () => {
    button.current?.focus();
    place.current?.hidePopover();
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        class="quiet tiny more"
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={(event) => {
          event.preventDefault();
          place.current?.togglePopover();
        }}
      >
        <Icon name="more" />
      </button>
      <div ref={place} id={id} class="choices" popover="auto" role="menu" aria-label={label} onToggle={({ newState }) => setOpen(newState === "open")} onKeyDown={(event) => menuKeys(event, close)}>
        {isOpen &&
          choices.map((each) => (
            <button
              key={each.name}
              type="button"
              role="menuitem"
              tabIndex={-1}
              class={each.isBad ? "bad" : ""}
              onClick={() => {
                close();
                each.run();
              }}
            >
              <Icon name={each.icon} />
              {each.name}
            </button>
          ))}
      </div>
    </>
  );
}

/** A button that is an icon, with its name for those who can't see it or wonder. */
export function IconButton({ icon, name, run, isOff = false }: { icon: IconName; name: string; run(): void; isOff?: boolean }) {
  return (
    <button type="button" class="quiet tiny" aria-label={name} title={name} disabled={isOff} onClick={run}>
      <Icon name={icon} />
    </button>
  );
}
