// A component that is drawn again only when what it is given has changed: what of preact/compat is needed, at a hundredth of its size.
import { Component, h, type ComponentType, type FunctionComponent } from "preact";

export function memo<P extends object>(draw: FunctionComponent<P>, isSame: (before: P, now: P) => boolean = isSameShallow): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      return !isSame(this.props as P, next);
    }

    override render() {
      // A component of its own, as its hooks are its own.
      return h(draw, this.props as never);
    }
  };
}

function isSameShallow(before: object, now: object): boolean {
  const keys = Object.keys(now) as (keyof typeof now)[];
  return keys.length === Object.keys(before).length && keys.every((key) => before[key] === now[key]);
}
