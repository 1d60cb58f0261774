// A front end with npm @ag-ui/client: `node front_end.js URL KEY`; what the model says stands in tests/support/gateway/agui_peer.py.
// The client itself checks each event and their order (enforceEvents, verifyEvents), and builds messages and state of them.
import assert from "node:assert/strict";
import { HttpAgent, buildResumeArray } from "@ag-ui/client";

const [url, key] = process.argv.slice(2);
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
const headers = { Authorization: `Bearer ${key}` };
const open = (more = {}) => new HttpAgent({ url, headers, ...more });
let count = 0;
const say = (agent, content) => agent.addMessage({ id: `u${(count += 1)}`, role: "user", content });
const said = (agent) => agent.messages.filter((each) => each.role === "assistant" && each.content).map((each) => each.content);
const run = async (agent, parameters) => {
  const seen = { kinds: [], pending: [] };
  await agent.runAgent(parameters, {
    onEvent: ({ event }) => void seen.kinds.push(event.type),
    onRunErrorEvent: ({ event }) => void (seen.error = event),
    onRunFinishedEvent: (finished) => {
      seen.outcome = finished.outcome;
      seen.pending = finished.pendingToolCallIds ?? [];
    },
  });
  return seen;
};

// Streamed text, thoughts, a call of the agent's own tool; then a second turn on the thread.
const talk = open({ initialState: { theme: "dark" } });
say(talk, "I am Ada. Time?");
const first = await run(talk);
assert.equal(first.outcome, "success");
assert.ok(first.kinds.filter((each) => each === "TEXT_MESSAGE_CONTENT").length > 1);
assert.deepEqual(said(talk), ["I look.", "It is noon."]);
assert.ok(talk.messages.some((each) => each.role === "reasoning" && each.content === "Hm."));
assert.equal(talk.messages.find((each) => each.role === "assistant").toolCalls[0].function.name, "get_current_time");
assert.ok(talk.messages.some((each) => each.role === "tool"));
say(talk, "Who am I?");
await run(talk);
assert.equal(said(talk).at(-1), "You are Ada.");
say(talk, "Plan.");
await run(talk);
assert.deepEqual(talk.state, { theme: "dark", plan: [{ text: "Look.", status: "in_progress" }] });

// A tool of the front end.
const tools = [{ name: "pick_colour", description: "Asks the person.", parameters: { type: "object", properties: {} } }];
const picks = open();
say(picks, "Pick one.");
const picking = await run(picks, { tools });
assert.equal(picking.outcome, "success");
const [callId] = picking.pending;
picks.addMessage({ id: "t1", role: "tool", toolCallId: callId, content: "red" });
await run(picks, { tools });
assert.deepEqual(said(picks), ["Red it is."]);

// An approval: the client lets nothing else pass while it is open.
const asks = open();
say(asks, "Write it.");
const asking = await run(asks);
assert.equal(asking.outcome, "interrupt");
const [interrupt] = asks.pendingInterrupts;
assert.equal(interrupt.reason, "tool_call");
const answer = { status: "resolved", payload: { approved: true, editedArgs: { path: "b.txt", content: "y" } } };
const resume = buildResumeArray(asks.pendingInterrupts, { [interrupt.id]: answer });
const resumed = await run(asks, { resume });
assert.equal(resumed.outcome, "success");
assert.deepEqual(asks.pendingInterrupts, []);
assert.deepEqual(said(asks), ["Written."]);
assert.match(asks.messages.find((each) => each.role === "tool").content, /b\.txt/);

// A run that fails, one that is called off, and the next one on its thread.
const fails = open();
say(fails, "Hi.");
assert.match((await run(fails)).error.message, /The model is ill/);
const leaves = open();
say(leaves, "Count.");
const counting = leaves.runAgent({}, { onTextMessageContentEvent: () => leaves.abortRun() });
await counting.catch((error) => assert.equal(error.name, "AbortError"));
say(leaves, "Still there?");
await run(leaves);
assert.equal(said(leaves).at(-1), "Yes.");

// What is refused before a run begins.
console.error = () => {};
for (const [wrong, status] of [[{ url: `${url}-nobody` }, 404], [{ headers: { Authorization: "Bearer cb_wrong" } }, 401]]) {
  const refused = open(wrong);
  say(refused, "Hi.");
  await assert.rejects(run(refused), (error) => error.status === status && error.payload.error.message.length > 0);
}
assert.deepEqual(warnings, []);
console.log("npm @ag-ui/client: all as expected");
