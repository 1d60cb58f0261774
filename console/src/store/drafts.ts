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
