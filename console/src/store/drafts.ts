// What was written and not sent: kept by the tab, so that a reload loses nothing; it ends with the tab, and with the login.

const PREFIX = "callboard.draft.";

export class Drafts {
  readonly #own = new Map<string, string>();

  get(id: string): string | undefined {
    return this.#own.get(id) ?? this.#kept((store) => store.getItem(PREFIX + id)) ?? undefined;
  }

  set(id: string, text: string): void {
    this.#own.set(id, text);
    this.#kept((store) => (text === "" ? store.removeItem(PREFIX + id) : store.setItem(PREFIX + id, text)));
  }

  /** Whether something is written that was not sent: what was chosen beside it, and whose text it is, is not. */
  hasText(): boolean {
    return this.#names().some((name) => !/^(choices|foreign):/.test(name) && (this.get(name) ?? "").trim() !== "");
  }

  /** Of a kind, keep those of these ids alone: the others are of what is over. */
  keepOnly(kind: string, ids: ReadonlySet<string>): void {
    for (const name of this.#names()) {
      if (!name.startsWith(kind) || ids.has(name.slice(kind.length))) continue;
      this.set(name, "");
      this.#own.delete(name);
    }
  }

  #names(): string[] {
    const kept = this.#kept((store) => Object.keys(store).filter((key) => key.startsWith(PREFIX))) ?? [];
    return [...new Set([...this.#own.keys(), ...kept.map((key) => key.slice(PREFIX.length))])];
  }

  clear(): void {
    this.#own.clear();
    this.#kept((store) => {
      for (const key of Object.keys(store)) if (key.startsWith(PREFIX)) store.removeItem(key);
    });
  }

  /** A tab that keeps nothing, or has no room, has them until it is loaded again. */
  #kept<T>(use: (store: Storage) => T): T | undefined {
    try {
      return use(sessionStorage);
    } catch {
      return undefined;
    }
  }
}
