// The answer that is being written: the same rules as runtime/turns/live_state.
import type { Notifications } from "../link";

type Batch = Extract<Notifications["session/update"]["event"], { type: "stream_batch" }>;

export interface LiveCall {
  name: string;
  arguments: string;
}

export class LiveAnswer {
  streamId = "";
  text = "";
  thinking = "";
  readonly calls = new Map<number, LiveCall>();

  get isThere(): boolean {
    return this.streamId !== "";
  }

  take(batch: Batch): void {
    if (batch.stream_id !== this.streamId) {
      this.clear();
      this.streamId = batch.stream_id;
    }
    for (const event of batch.events) {
      if (event.type === "text_delta" || event.type === "refusal_delta") this.text += event.text;
      else if (event.type === "thinking_delta") this.thinking += event.text;
      else if (event.type === "tool_call_start") this.calls.set(event.index, { name: event.name, arguments: "" });
      else if (event.type === "tool_call_delta") {
        const call = this.calls.get(event.index);
        if (call !== undefined) call.arguments += event.arguments;
      }
    }
  }

  clear(): void {
    this.streamId = this.text = this.thinking = "";
    this.calls.clear();
  }
}
