// The way to the screens: at the right of the page, and on phones in the drawer.
import { Icon } from "../parts/icon";
import { may, route, waiting } from "../store/app";
import { hrefOf } from "../store/route";
import { words } from "../store/settings";
import { leave } from "../store/visit";
import { GROUPS, listed } from "./routes";

export function Nav({ close }: { close?(): void }) {
  const its = words.value;
  const at = route.value;
  const here = at.screen === "page" ? at.name : at.screen;
  const count = waiting.value.length;
  return (
    <>
      {may("approval/list") && (
        <ul class="ways">
          <li>
            <a href={hrefOf("approvals")} aria-current={here === "approvals" ? "page" : undefined} onClick={close}>
              <Icon name="check" />
              {its.approvals}
              {count > 0 && <span class="count">{count}</span>}
            </a>
          </li>
        </ul>
      )}
      {GROUPS.map((group) => {
        const all = listed(group);
        return (
          all.length > 0 && (
            <ul key={group} class="ways" aria-label={its.groups[group]}>
              {all.map(([name, { icon }]) => (
                <li key={name}>
                  <a href={hrefOf(name)} aria-current={name === here ? "page" : undefined} onClick={close}>
                    <Icon name={icon} />
                    {its.screens[name]}
                  </a>
                </li>
              ))}
            </ul>
          )
        );
      })}
      <button type="button" class="quiet way" onClick={() => void leave()}>
        <Icon name="out" />
        {its.logOut}
      </button>
    </>
  );
}
