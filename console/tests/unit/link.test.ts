// The link tells the truth about its connection, and loses no answer in silence.
import { describe, expect, it } from "vitest";
import { CallError, FIRST_WAIT_MS, Link, MAX_PENDING, MAX_WAIT_MS, REQUEST_MS, SILENCE_MS, type Clock, type Socket } from "../../src/link";

class FakeClock implements Clock {
  at = 0;
  #timers: { at: number; run: () => void }[] = [];
  now = () => this.at;
  after = (ms: number, run: () => void) => {
    const timer = { at: this.at + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((each) => each !== timer);
    };
  };
  async pass(ms: number): Promise<void> {
    const end = this.at + ms;
    for (;;) {
      const next = this.#timers.filter((each) => each.at <= end).sort((one, other) => one.at - other.at)[0];
      if (next === undefined) break;
      this.#timers = this.#timers.filter((each) => each !== next);
      this.at = next.at;
      next.run();
      await settle();
    }
    this.at = end;
  }
}

class FakeSocket implements Socket {
  onopen: Socket["onopen"] = null;
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;
  sent: { id: number; method: string; params: unknown }[] = [];
  isClosed = false;
  readyState = 1;
  send(text: string): void {
    this.sent.push(JSON.parse(text) as (typeof this.sent)[number]);
  }
  close(): void {
    this.isClosed = true;
  }
  answer(result: unknown, at = -1): void {
    const id = this.sent.at(at)?.id;
    this.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", id, result }) });
  }
  refuse(message: string, type: string): void {
    const error = { code: -32000, message, data: { type, retryable: false } };
    this.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", id: this.sent.at(-1)?.id, error }) });
  }
  tell(method: string, params: unknown): void {
    this.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", method, params }) });
  }
}

const WELCOME = { protocol: 1, server: { name: "callboard", version: "1" }, epoch: "e", seq: 0, role: "admin", limits: {}, features: [], methods: [] };
const settle = async () => {
  for (let count = 0; count < 8; count++) await Promise.resolve();
};

function scene(isReady: () => Promise<boolean> = () => Promise.resolve(false)) {
  const sockets: FakeSocket[] = [];
  const clock = new FakeClock();
  const link = new Link({
    open: () => {
      const socket = new FakeSocket();
      sockets.push(socket);
      return socket;
    },
    isReady,
    clock,
    random: () => 1,
  });
  const last = () => {
    const socket = sockets.at(-1);
    if (socket === undefined) throw new Error("no socket");
    return socket;
  };
  const greet = async () => {
    last().onopen?.();
    last().answer(WELCOME);
    await settle();
  };
  return { link, clock, sockets, last, greet };
}

describe("the link", () => {
  it("is open when it was welcomed, and not before", async () => {
    const { link, last, greet } = scene();
    expect(link.state.value.kind).toBe("idle");
    link.start();
    expect(link.state.value.kind).toBe("connecting");
    await expect(link.request("session/list", {})).rejects.toThrow("no connection");
    await greet();
    expect(link.state.value.kind).toBe("open");
    expect(last().sent[0]?.method).toBe("initialize");
    expect(link.welcome.value?.role).toBe("admin");
  });

  it("gives each answer to who asked, and errors as the server words them", async () => {
    const { link, last, greet } = scene();
    link.start();
    await greet();
    const one = link.request("session/list", {});
    const two = link.request("token/list", {});
    last().refuse("not for you", "permission");
    last().answer({ sessions: [] }, -2);
    await expect(one).resolves.toEqual({ sessions: [] });
    await expect(two).rejects.toMatchObject({ message: "not for you", type: "permission" });
  });

  it("sends nothing by a socket that is being closed, whose end answers the request", async () => {
    const { link, last, greet } = scene();
    link.start();
    await greet();
    last().readyState = 2;
    const waiting = link.request("session/list", {});
    expect(last().sent.map((each) => each.method)).toEqual(["initialize"]);
    last().onclose?.({ code: 1001, reason: "" });
    await expect(waiting).rejects.toMatchObject({ type: "connection" });
  });

  it("fails what waits when it breaks, and comes back later each time", async () => {
    const { link, clock, sockets, last, greet } = scene();
    link.start();
    await greet();
    const waiting = link.request("session/list", {});
    last().onclose?.({ code: 1006, reason: "" });
    await expect(waiting).rejects.toMatchObject({ type: "connection" });
    for (let wait = FIRST_WAIT_MS, count = 2; count < 9; count++, wait = Math.min(MAX_WAIT_MS, wait * 2)) {
      const state = link.state.value;
      expect(state).toMatchObject({ kind: "waiting", until: clock.at + wait });
      await clock.pass(wait);
      expect(sockets.length).toBe(count);
      last().onclose?.({ code: 1006, reason: "" });
      await settle();
    }
    await clock.pass(MAX_WAIT_MS);
    await greet();
    expect(link.state.value.kind).toBe("open");
  });

  it("is refused where the daemon answers and does not let it in", async () => {
    const { link, clock, sockets, last } = scene(() => Promise.resolve(true));
    link.start();
    last().onclose?.({ code: 1006, reason: "" });
    await settle();
    expect(link.state.value).toEqual({ kind: "refused", error: null });
    await clock.pass(10 * MAX_WAIT_MS);
    expect(sockets.length).toBe(1);
  });

  it("says that the daemon stops, and waits for it", async () => {
    const { link, last, greet, clock } = scene();
    link.start();
    await greet();
    last().tell("runtime/stopping", { seconds: 20 });
    expect(link.state.value).toEqual({ kind: "stopping", seconds: 20 });
    last().onclose?.({ code: 1001, reason: "" });
    await settle();
    expect(link.state.value.kind).toBe("stopping");
    await clock.pass(FIRST_WAIT_MS);
    await greet();
    expect(link.state.value.kind).toBe("open");
  });

  it("says since when the database of the daemon does not answer", async () => {
    const { link, last, greet, clock } = scene();
    link.start();
    await greet();
    last().tell("runtime/store_unavailable", { since_ms: 5, reason: "" });
    expect([link.state.value.kind, link.awayMs.value]).toEqual(["open", 5]);
    last().tell("runtime/store_available", { seconds: 2 });
    expect(link.awayMs.value).toBeNull();
    last().tell("runtime/store_unavailable", { since_ms: 6, reason: "" });
    last().onclose?.({ code: 1006, reason: "" });
    await settle();
    await clock.pass(FIRST_WAIT_MS);
    await greet();
    expect(link.awayMs.value).toBeNull(); // of a daemon that has not said so
  });

  it("gives up a request after its time, and a connection that says nothing", async () => {
    const { link, clock, last, greet, sockets } = scene();
    link.start();
    await greet();
    const slow = link.request("session/list", {});
    const failed = expect(slow).rejects.toMatchObject({ type: "timeout" });
    await clock.pass(REQUEST_MS);
    await failed;
    await clock.pass(SILENCE_MS - REQUEST_MS);
    expect(last().sent.at(-1)?.method).toBe("model/default");
    last().answer({ model: "m", reason: "" });
    await clock.pass(SILENCE_MS);
    expect(last().sent.at(-1)?.method).toBe("model/default");
    await clock.pass(10_000);
    expect(sockets[0]?.isClosed).toBe(true);
    expect(link.state.value.kind).toBe("waiting");
  });

  it("says which versions do not fit, and does not ask again", async () => {
    const { link, last, sockets, clock } = scene();
    link.start();
    last().onopen?.();
    last().refuse("this server speaks protocol 2", "conflict");
    await settle();
    expect(link.state.value).toMatchObject({ kind: "refused", error: { message: "this server speaks protocol 2", type: "conflict" } });
    await clock.pass(MAX_WAIT_MS);
    expect(sockets.length).toBe(1);
  });

  it("bounds what waits, and ends for good when it is told to", async () => {
    const { link, greet, clock, sockets, last } = scene();
    link.start();
    await greet();
    const all = Array.from({ length: MAX_PENDING }, () => link.request("session/list", {}));
    await expect(link.request("session/list", {})).rejects.toMatchObject({ type: "overloaded" });
    const ended = Promise.allSettled(all);
    const socket = last();
    link.stop();
    expect((await ended).every((each) => each.status === "rejected" && each.reason instanceof CallError)).toBe(true);
    socket.onclose?.({ code: 1000, reason: "" });
    await clock.pass(MAX_WAIT_MS);
    expect(sockets.length).toBe(1);
    expect(link.state.value.kind).toBe("idle");
  });

  it("passes nothing on of a frame that is none", async () => {
    const { link, last, greet } = scene();
    link.start();
    await greet();
    const heard: string[] = [];
    link.listen((name) => heard.push(name));
    last().onmessage?.({ data: "{" });
    last().onmessage?.({ data: new ArrayBuffer(2) });
    last().tell("topic/update", { topic: "sessions" });
    expect(heard).toEqual(["topic/update"]);
  });
});
