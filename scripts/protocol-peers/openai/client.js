// A program with npm openai: `node client.js URL KEY`; what the daemon's model says stands in tests/support/gateway/openai_peer.py.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const model = "general";
const requests = [];
const counted = (url, init) => {
  requests.push(`${init?.method} ${new URL(url).pathname}`);
  return fetch(url, init);
};
const client = new OpenAI({ baseURL, apiKey, maxRetries: 2, fetch: counted });
const say = (content) => [{ role: "user", content }];
const parameters = { type: "object", properties: { city: { type: "string" } } };
const weather = { name: "get_weather", description: "The weather of a city.", parameters };

// Chat completions: whole, streamed, with tools of the client by the SDK's own runner, failing once and not again.
const models = [];
for await (const each of client.models.list()) models.push(each.id);
assert.ok(models.includes(model));
const whole = await client.chat.completions.create({ model, messages: say("Time?"), seed: 7 }).withResponse();
assert.equal(whole.data.choices[0].message.content, "It is noon.");
assert.equal(whole.response.headers.get("x-callboard-ignored"), "seed");
assert.match(whole.request_id, /^input_/);

const stream = client.chat.completions.stream({ model, messages: say("Time?"), stream_options: { include_usage: true } });
let said = "";
stream.on("content", (delta) => void (said += delta));
assert.equal((await stream.finalChatCompletion()).choices[0].message.content, "It is noon.");
assert.equal(said, "It is noon.");
assert.ok((await stream.totalUsage()).total_tokens > 0);

const asked = [];
const run = (given) => (asked.push(given.city), "Rain.");
const runner = client.chat.completions.runTools({
  model,
  messages: say("How is Oslo?"),
  tools: [{ type: "function", function: { ...weather, function: run, parse: JSON.parse } }],
});
assert.equal(await runner.finalContent(), "It rains.");
assert.deepEqual(asked, ["Oslo"]);

requests.length = 0;
await assert.rejects(client.chat.completions.create({ model, messages: say("Hi.") }), (error) => {
  assert.ok(error instanceof OpenAI.InternalServerError);
  return /The model is ill/.test(error.message);
});
assert.deepEqual(requests, ["POST /v1/chat/completions"]);
await assert.rejects(new OpenAI({ baseURL, apiKey: "cb_wrong" }).models.list(), OpenAI.AuthenticationError);
await assert.rejects(client.models.retrieve("gpt-5"), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ model, messages: say("Hi."), n: 2 }), (error) => error.param === "n");

// Responses: streamed, read on, gone on with, with tools, forms, approvals and cancels.
const events = [];
const told = client.responses.stream({ model, input: "I am Ada. Time?" });
for await (const event of told) events.push(event);
const first = await told.finalResponse();
assert.equal(first.status, "completed");
assert.deepEqual(first.output.map((each) => each.type), ["message", "mcp_call", "reasoning", "message"]);
assert.ok(first.output_text.endsWith("It is noon."));
const [, , , middle] = events;
const rest = [];
const on = await client.responses.retrieve(first.id, { stream: true, starting_after: middle.sequence_number });
for await (const event of on) rest.push(event);
assert.ok(rest.every((each) => each.sequence_number > middle.sequence_number));
const ids = (response) => response.output.map((each) => each.id);
assert.deepEqual(ids(rest.at(-1).response), ids(first));
const items = [];
for await (const item of client.responses.inputItems.list(first.id)) items.push(item);
assert.equal(items[0].content[0].text, "I am Ada. Time?");
const second = await client.responses.create({ model, input: "Who am I?", previous_response_id: first.id });
assert.equal(second.output_text, "You are Ada.");

const tools = [{ type: "function", ...weather, strict: false }];
const calling = await client.responses.create({ model, input: "How is Oslo?", tools });
const call = calling.output.find((each) => each.type === "function_call");
assert.deepEqual(JSON.parse(call.arguments), { city: "Oslo" });
const result = { type: "function_call_output", call_id: call.call_id, output: "Rain." };
const answered = await client.responses.create({ model, input: [result], previous_response_id: calling.id, tools });
assert.equal(answered.output_text, "It rains.");

const format = { type: "json_schema", name: "place", schema: { ...parameters, required: ["city"] } };
const formed = await client.responses.parse({ model, input: "Where?", text: { format } });
assert.deepEqual(formed.output_parsed, { city: "Oslo" });

const server = [{ type: "mcp", server_label: "callboard", server_url: baseURL, require_approval: "always" }];
const asking = await client.responses.create({ model, input: "Write.", tools: server });
const question = asking.output.find((each) => each.type === "mcp_approval_request");
assert.equal(question.name, "write_file");
const allow = { type: "mcp_approval_response", approval_request_id: question.id, approve: true };
const written = await client.responses.create({ model, input: [allow], previous_response_id: asking.id, tools: server });
assert.equal(written.output_text, "Written.");

const behind = await client.responses.create({ model, input: "Count.", background: true });
assert.equal(behind.status, "queued");
assert.equal((await client.responses.cancel(behind.id)).status, "cancelled");
await client.responses.delete(behind.id);
await assert.rejects(client.responses.retrieve(behind.id), OpenAI.NotFoundError);
console.log("npm openai: all as expected");
