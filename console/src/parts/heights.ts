// The arithmetic of a windowed list: heights that are measured or estimated, where each item begins, and what is in sight.

export interface Window {
  from: number;
  to: number;
}

export interface Sized {
  readonly id: string;
  /** Another one says that the content is another one. */
  readonly stamp: number;
}

export class Heights<Item extends Sized> {
  /** Measured heights by id: they outlive the list of items, which is made again with each change. */
  readonly #known = new Map<string, number>();
  #items: readonly Item[] = [];
  #at = new Map<string, number>();
  /** Where each item begins, and where the last one ends; right up to `#right`. */
  #starts = new Float64Array(1);
  #right = 0;

  constructor(readonly estimate: (item: Item) => number) {}

  get count(): number {
    return this.#items.length;
  }

  /** The height of everything. */
  get total(): number {
    return this.start(this.#items.length);
  }

  take(items: readonly Item[]): void {
    if (items === this.#items) return;
    // What is the same up to there keeps its place.
    const most = Math.min(items.length, this.#items.length, this.#right);
    let same = 0;
    while (same < most && items[same]!.id === this.#items[same]!.id && items[same]!.stamp === this.#items[same]!.stamp) same++;
    for (let at = same; at < this.#items.length; at++) this.#at.delete(this.#items[at]!.id);
    for (let at = same; at < items.length; at++) this.#at.set(items[at]!.id, at);
    if (this.#starts.length <= items.length) {
      const longer = new Float64Array(Math.ceil(items.length * 1.5) + 64);
      longer.set(this.#starts.subarray(0, this.#right + 1));
      this.#starts = longer;
    }
    this.#items = items;
    this.#right = same;
  }

  indexOf(id: string): number {
    return this.#at.get(id) ?? -1;
  }

  /** Note a height; return whether it is another one than was taken for it. */
  measure(id: string, height: number): boolean {
    const at = this.indexOf(id);
    if (at < 0 || this.#known.get(id) === height) return false;
    const before = this.of(at);
    this.#known.set(id, height);
    if (before !== height) this.#right = Math.min(this.#right, at);
    return before !== height;
  }

  isMeasured(id: string): boolean {
    return this.#known.has(id);
  }

  of(at: number): number {
    const item = this.#items[at]!;
    return this.#known.get(item.id) ?? this.estimate(item);
  }

  /** Where an item begins. */
  start(at: number): number {
    for (; this.#right < at; this.#right++) this.#starts[this.#right + 1] = this.#starts[this.#right]! + this.of(this.#right);
    return this.#starts[at]!;
  }

  /** The item that is at this height. */
  at(top: number): number {
    this.start(this.#items.length);
    let low = 0;
    let high = this.#items.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#starts[middle]! <= top) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  /** From what is in sight towards what is wanted: what was not drawn before is one item, or is no higher than this together. */
  grown(sight: Window, wanted: Window, drawn: ReadonlySet<string>, most: number): Window {
    let { from, to } = sight;
    let rest = most;
    const isTaken = (at: number, isInSight = false): boolean => {
      if (drawn.has(this.#items[at]!.id)) return true;
      const its = this.of(at);
      if (!isInSight && its > rest && rest < most) return false;
      rest -= its;
      return true;
    };
    for (let at = from; at < Math.min(to, this.#items.length); at++) isTaken(at, true);
    for (let isMore = true; isMore; ) {
      isMore = false;
      if (from > wanted.from && isTaken(from - 1)) [from, isMore] = [from - 1, true];
      if (to < wanted.to && to < this.#items.length && isTaken(to)) [to, isMore] = [to + 1, true];
    }
    return { from, to };
  }

  /** What to draw of a view that is so high, with as much more around it. */
  window(top: number, height: number, around: number): Window {
    if (this.#items.length === 0) return { from: 0, to: 0 };
    return { from: this.at(top - around), to: this.at(top + height + around) + 1 };
  }
}
