// One websocket: the hello, requests with deadlines, connecting again, and a state that never lies.
import { signal, type ReadonlySignal } from "@preact/signals";
import { PROTOCOL, type Protocol } from "./protocol";

export type Methods = Protocol["methods"];
export type Method = keyof Methods;
export type Notifications = Protocol["notifications"];
export type Welcome = Methods["initialize"]["result"];

export type LinkState =
  | { kind: "idle" }
  | { kind: "connecting" }
  | { kind: "open" }
  | { kind: "waiting"; until: number; code: number }
  | { kind: "stopping"; seconds: number }
  | { kind: "refused"; error: CallError | null };

/** What a link needs of a websocket; a test gives its own. */
export interface Socket {
  onopen: (() => void) | null;
  onmessage: ((message: { data: unknown }) => void) | null;
  onclose: ((closed: { code: number; reason: string }) => void) | null;
  /** As a websocket's: 1 is open. */
  readonly readyState?: number;
  send(text: string): void;
  close(code?: number): void;
}

export interface Clock {
  now(): number;
  after(ms: number, run: () => void): () => void;
}

export interface LinkOptions {
  open(): Socket;
  /** Whether the server takes requests: then an upgrade that failed was refused. */
  isReady(): Promise<boolean>;
  clock?: Clock;
  random?: () => number;
}

/** An error as the server words it, or the link itself. */
export class CallError extends Error {
  constructor(
    message: string,
    readonly type: string,
    readonly field: string | null = null,
  ) {
    super(message);
  }
}

export function errorOf({ message, data }: Protocol["error"]): CallError {
  return new CallError(message, data?.type ?? "error", data?.field ?? null);
}

export const FIRST_WAIT_MS = 500;
export const MAX_WAIT_MS = 15_000;
export const REQUEST_MS = 30_000;
/** Without a word of the server for so long, it is asked for one: a dead connection looks like a quiet one. */
export const SILENCE_MS = 45_000;
export const MAX_PENDING = 256;

const browserClock: Clock = {
  now: () => Date.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

interface Pending {
  resolve(result: unknown): void;
  reject(error: CallError): void;
  stop(): void;
}

type Listener = <N extends keyof Notifications>(name: N, params: Notifications[N]) => void;

export class Link {
  readonly #state = signal<LinkState>({ kind: "idle" });
  readonly #welcome = signal<Welcome | null>(null);
  readonly #away = signal<number | null>(null);
  #socket: Socket | null = null;
  #pending = new Map<number, Pending>();
  #lastId = 0;
  #tries = 0;
  #heardAt = 0;
  #stops: (() => void)[] = [];
  #listeners = new Set<Listener>();
  #isStopping = 0;
  readonly #clock: Clock;

  constructor(readonly options: LinkOptions) {
    this.#clock = options.clock ?? browserClock;
  }

  get state(): ReadonlySignal<LinkState> {
    return this.#state;
  }

  /** How the server greeted last; kept while the connection is away. */
  get welcome(): ReadonlySignal<Welcome | null> {
    return this.#welcome;
  }

  /** Since when the daemon's database does not answer; null while it does. */
  get awayMs(): ReadonlySignal<number | null> {
    return this.#away;
  }

  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  start(): void {
    this.stop();
    this.#tries = 0;
    this.#connect();
  }

  /** End the connection, and make no other. */
  stop(): void {
    this.#cancelTimers();
    const socket = this.#socket;
    this.#socket = null;
    socket?.close(1000);
    this.#failAll("the connection was ended here");
    this.#state.value = { kind: "idle" };
  }

  request<M extends Method>(method: M, params: Methods[M]["params"], ms = REQUEST_MS): Promise<Methods[M]["result"]> {
    return new Promise((resolve, reject) => {
      if (this.#state.value.kind !== "open" && this.#state.value.kind !== "stopping" && method !== "initialize") {
        reject(new CallError("there is no connection now", "connection"));
        return;
      }
      if (this.#pending.size >= MAX_PENDING) {
        reject(new CallError("too many requests wait for an answer", "overloaded"));
        return;
      }
      const id = ++this.#lastId;
      const stop = this.#clock.after(ms, () => {
        this.#pending.delete(id);
        reject(new CallError(`no answer to ${method} within ${ms / 1000} s`, "timeout"));
      });
      this.#pending.set(id, { resolve: resolve as (result: unknown) => void, reject, stop });
      // One that the server closes takes nothing more, and a browser notes an error: its end, which comes, answers the request.
      if ((this.#socket?.readyState ?? 1) === 1) this.#socket?.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  #connect(): void {
    this.#cancelTimers();
    this.#state.value = { kind: "connecting" };
    const socket = this.options.open();
    let wasOpen = false;
    this.#socket = socket;
    socket.onopen = () => {
      if (this.#socket !== socket) return;
      wasOpen = true;
      void this.#greet(socket);
    };
    socket.onmessage = ({ data }) => {
      if (this.#socket === socket && typeof data === "string") this.#receive(data);
    };
    socket.onclose = ({ code }) => {
      if (this.#socket === socket) void this.#closed(code, wasOpen);
    };
  }

  async #greet(socket: Socket): Promise<void> {
    this.#heardAt = this.#clock.now();
    try {
      const welcome = await this.request("initialize", {
        protocol: { min: PROTOCOL, max: PROTOCOL },
        client: { name: "console", version: "" },
        subscribe: ["sessions", "approvals"],
      });
      if (this.#socket !== socket) return;
      this.#tries = 0;
      this.#isStopping = 0;
      this.#away.value = null;
      this.#welcome.value = welcome;
      this.#state.value = { kind: "open" };
      this.#watchSilence(socket);
    } catch (error) {
      if (this.#socket !== socket) return;
      this.#socket = null;
      socket.close(1000);
      const isOther = error instanceof CallError && error.type === "conflict";
      if (isOther) this.#state.value = { kind: "refused", error };
      else this.#again(1006);
    }
  }

  #receive(text: string): void {
    this.#heardAt = this.#clock.now();
    let frame: { id?: number; result?: unknown; error?: Protocol["error"]; method?: string; params?: unknown };
    try {
      frame = JSON.parse(text) as typeof frame;
    } catch {
      return;
    }
    if (frame.method !== undefined) {
      const name = frame.method as keyof Notifications;
      if (name === "runtime/store_unavailable")
        this.#away.value = (frame.params as Notifications["runtime/store_unavailable"]).since_ms;
      if (name === "runtime/store_available") this.#away.value = null;
      if (name === "runtime/stopping") {
        const seconds = (frame.params as Notifications["runtime/stopping"]).seconds ?? 0;
        this.#isStopping = seconds;
        this.#state.value = { kind: "stopping", seconds };
      }
      for (const listener of this.#listeners) listener(name, frame.params as Notifications[typeof name]);
      return;
    }
    const pending = frame.id === undefined ? undefined : this.#pending.get(frame.id);
    if (pending === undefined || frame.id === undefined) return;
    this.#pending.delete(frame.id);
    pending.stop();
    if (frame.error !== undefined) pending.reject(errorOf(frame.error));
    else pending.resolve(frame.result);
  }

  async #closed(code: number, wasOpen: boolean): Promise<void> {
    this.#cancelTimers();
    this.#socket = null;
    this.#failAll("the connection broke before the answer came");
    if (!wasOpen) {
      const tries = this.#tries;
      const isReady = await this.options.isReady().catch(() => false);
      if (this.#socket !== null || tries !== this.#tries || this.#state.value.kind === "idle") return;
      // The daemon answers, and did not open the websocket: it does not know this login.
      if (isReady) {
        this.#state.value = { kind: "refused", error: null };
        return;
      }
    }
    this.#again(code);
  }

  #again(code: number): void {
    const most = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#tries++);
    const wait = most * (0.75 + 0.25 * (this.options.random ?? Math.random)());
    this.#state.value =
      this.#isStopping > 0
        ? { kind: "stopping", seconds: this.#isStopping }
        : { kind: "waiting", until: this.#clock.now() + wait, code };
    this.#stops.push(this.#clock.after(wait, () => this.#connect()));
  }

  #watchSilence(socket: Socket): void {
    const look = () => {
      if (this.#socket !== socket) return;
      const silent = this.#clock.now() - this.#heardAt;
      if (silent < SILENCE_MS) {
        this.#stops.push(this.#clock.after(SILENCE_MS - silent, look));
        return;
      }
      this.request("model/default", {}, 10_000).then(
        () => look(),
        (error: unknown) => {
          if (this.#socket !== socket || !(error instanceof CallError) || error.type !== "timeout") return look();
          this.#socket = null;
          socket.close(1000);
          this.#failAll("the connection was silent, and is made again");
          this.#again(1006);
        },
      );
    };
    this.#stops.push(this.#clock.after(SILENCE_MS, look));
  }

  #failAll(why: string): void {
    const waiting = [...this.#pending.values()];
    this.#pending.clear();
    for (const each of waiting) {
      each.stop();
      each.reject(new CallError(why, "connection"));
    }
  }

  #cancelTimers(): void {
    for (const stop of this.#stops) stop();
    this.#stops = [];
  }
}
