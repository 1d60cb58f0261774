// The agent of the session, in the top bar: who is spoken to, and whom to speak to instead.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon } from "../parts/icon";
import { menuKeys } from "../parts/menu";
import { shown } from "../parts/text";
import { link, may, route } from "../store/app";
import { agent, agents, chooseAgent, place, readChoices } from "../store/compose";
import { words } from "../store/settings";
import { said } from "../words/said";

export function AgentSwitch() {
  const its = words.value.composer;
  const [isOpen, setOpen] = useState(false);
  const panel = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    if (!isOpen || panel.current === null) return;
    panel.current.style.setProperty("--at", `${button.current?.getBoundingClientRect().left ?? 0}px`);
    panel.current.querySelector<HTMLElement>("[aria-checked=true]")?.focus();
  }, [isOpen, agents.value]);
  const at = route.value;
  if (at.screen !== "chat" || link.welcome.value === null) return null;
  const name = shown(agent.value);
  if (!may("agent/list") || !may(place.value === "" ? "session/new" : "session/set_agent")) return <span class="agent-name">{name}</span>;
  const close = () => {
    button.current?.focus();
    panel.current?.hidePopover();
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        class="quiet agent-name"
        aria-label={`${its.agent}: ${name}`}
        title={its.agent}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onClick={() => {
          void readChoices();
          panel.current?.togglePopover();
        }}
      >
        <span>{name}</span>
        <Icon name="down" />
      </button>
      <div ref={panel} class="choices agents-sheet" popover="auto" role="menu" aria-label={its.agent} onToggle={({ newState }) => setOpen(newState === "open")} onKeyDown={(event) => menuKeys(event, close)}>
        {isOpen &&
          agents.value.map((each) => (
            <button
              key={each.name}
              type="button"
              role="menuitemradio"
              tabIndex={-1}
              aria-checked={each.name === agent.value}
              onClick={() => {
                close();
                if (each.name !== agent.value) void chooseAgent(each.name);
              }}
            >
              <Icon name={each.name === agent.value ? "check" : "agents"} />
              <span>
                {shown(each.name)}
                {(each.description ?? "") !== "" && <small>{shown(said(each.description ?? ""))}</small>}
              </span>
            </button>
          ))}
      </div>
    </>
  );
}
