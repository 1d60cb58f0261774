// A daemon at the other end of the page's websocket, which says what a test has it say. Who imports this has it instead of a real one.
import { vi } from "vitest";
import * as app from "../../src/store/app";

export type Sent = { id: number; method: string; params: Record<string, unknown> };

export class FakeSocket {
  static last: FakeSocket;
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: unknown }) => void) | null = null;
  onclose: ((closed: { code: number; reason: string }) => void) | null = null;
  sent: Sent[] = [];
  constructor() {
    FakeSocket.last = this;
  }
  send(text: string): void {
    this.sent.push(JSON.parse(text) as Sent);
  }
  close(): void {}
  answer(sent: Sent, result: unknown): void {
    this.hear({ id: sent.id, result });
  }
  refuse(sent: Sent, type: string, message: string): void {
    this.hear({ id: sent.id, error: { code: -32000, message, data: { type } } });
  }
  hear(message: object): void {
    this.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  }
}
vi.stubGlobal("WebSocket", FakeSocket);

/** Let what was answered be taken and drawn; the clock is a fake one. */
export const settle = async (ms = 50) => void (await vi.advanceTimersByTimeAsync(ms));
export const sentAs = (method: string) => FakeSocket.last.sent.filter((each) => each.method === method);

/** Answer the last request of a method. */
export async function answer(method: string, result: unknown): Promise<void> {
  FakeSocket.last.answer(sentAs(method).at(-1)!, result);
  await settle();
}
export async function refuse(method: string, type: string, message: string): Promise<void> {
  FakeSocket.last.refuse(sentAs(method).at(-1)!, type, message);
  await settle();
}
export async function notify(method: string, params: object): Promise<void> {
  FakeSocket.last.hear({ method, params });
  await settle();
}

/** Connect as somebody who may call these. */
export async function connected(...methods: string[]): Promise<void> {
  app.link.start();
  const socket = FakeSocket.last;
  socket.onopen?.();
  await settle();
  socket.answer(socket.sent[0]!, { protocol: 1, server: { name: "callboard", version: "1" }, epoch: "e", seq: 0, role: "admin", limits: {}, features: [], methods });
  await settle();
}
