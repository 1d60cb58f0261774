// Numbers that say how it stands, side by side.
import type { ComponentChildren } from "preact";
import "../look/screens/tiles.css";

export interface Tile {
  name: string;
  value: ComponentChildren;
  more?: string;
  isBad?: boolean;
  /** It takes the room of two. */
  isWide?: boolean;
}

export function Tiles({ tiles }: { tiles: readonly Tile[] }) {
  return (
    <dl class="tiles">
      {tiles.map(({ name, value, more = "", isBad = false, isWide = false }) => (
        <div key={name} class={isWide ? "is-wide" : ""}>
          <dt>{name}</dt>
          <dd class={isBad ? "problem" : ""}>
            {value}
            {more !== "" && <small>{more}</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}
