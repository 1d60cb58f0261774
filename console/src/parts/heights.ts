// The arithmetic of a windowed list: heights that are measured or estimated, and what of them is in sight.

export interface Window {
  from: number;
  to: number;
  before: number;
  after: number;
}

export class Heights {
  #known = new Map<string, number>();

  constructor(readonly estimate: number) {}

  /** Note a height; return by how much it differs from what was taken for it. */
  measure(id: string, height: number): number {
    const before = this.#known.get(id) ?? this.estimate;
    this.#known.set(id, height);
    return height - before;
  }

  of(id: string): number {
    return this.#known.get(id) ?? this.estimate;
  }

  /** What to draw for a view of `height` at `top`, with as much more around it. */
  window(ids: readonly string[], top: number, height: number, around: number): Window {
    let at = 0;
    let from = 0;
    while (from < ids.length && at + this.of(ids[from]!) < top - around) at += this.of(ids[from++]!);
    const before = at;
    let to = from;
    while (to < ids.length && at < top + height + around) at += this.of(ids[to++]!);
    let after = 0;
    for (let rest = to; rest < ids.length; rest++) after += this.of(ids[rest]!);
    return { from, to, before, after };
  }

  /** The height of everything in front of an item. */
  offset(ids: readonly string[], id: string): number {
    let at = 0;
    for (const each of ids) {
      if (each === id) return at;
      at += this.of(each);
    }
    return at;
  }
}
