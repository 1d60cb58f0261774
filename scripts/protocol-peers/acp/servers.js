// An editor that brings an MCP server, with a model of its own that calls it: `node servers.js CALLBOARD FOLDER PYTHON SERVER`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname } from "node:path";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const [callboard, cwd, python, server] = process.argv.slice(2);
const offered = [];

// A model that calls the first tool of the editor's server whose name ends so, and says what it has heard.
const model = createServer(async (request, response) => {
  if (request.method === "GET") return void response.writeHead(404).end();
  let body = "";
  for await (const part of request) body += part;
  const { messages, tools = [] } = JSON.parse(body);
  offered.splice(0, offered.length, ...tools.map((tool) => tool.function.name));
  const last = messages.at(-1);
  const call = { index: 0, id: "call_1", type: "function", function: { name: "session_fake__say", arguments: '{"text":"hi"}' } };
  const delta = last.role === "tool" ? { content: `It said ${last.content}` } : { tool_calls: [call] };
  const finish_reason = last.role === "tool" ? "stop" : "tool_calls";
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const choice of [{ index: 0, delta: { role: "assistant", ...delta } }, { index: 0, delta: {}, finish_reason }])
    response.write(`data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "m", choices: [choice] })}\n\n`);
  response.end("data: [DONE]\n\n");
});
model.listen(0, "127.0.0.1");
await once(model, "listening");
const config = `${cwd}/../callboard.toml`;
writeFileSync(
  config,
  `model = "local/m"\n[sessions]\ntitles = "words"\n[sandbox]\nread_only = ["${dirname(server)}"]\n` +
    `[providers.local]\nbase_url = "http://127.0.0.1:${model.address().port}/v1"\n`,
);

const agent = spawn(callboard, ["acp", "--config", config], { stdio: ["pipe", "pipe", "inherit"] });
const updates = [];
const asked = [];
const answers = ["reject_once", "allow_once"];
const app = client({ name: "tests" })
  .onNotification(methods.client.session.update, ({ params }) => void updates.push(params.update))
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    asked.push(JSON.stringify(params.toolCall.content));
    assert.ok(!params.options.some((option) => option.kind === "allow_always"));
    const { optionId } = params.options.find((option) => option.kind === answers[asked.length - 1]);
    return { outcome: { outcome: "selected", optionId } };
  });

await app.connectWith(ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), async (editor) => {
  const { agentCapabilities } = await editor.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
  assert.deepEqual(agentCapabilities.mcpCapabilities, { http: true });
  const fake = { name: "fake", command: python, args: ["-I", "-S", server], env: [{ name: "API_KEY", value: "a-secret-of-the-editor" }] };
  const { sessionId } = await editor.request(methods.agent.session.new, { cwd, mcpServers: [fake] });
  const prompt = [{ type: "text", text: "Ask it." }];
  for (const _ of answers) await editor.request(methods.agent.session.prompt, { sessionId, prompt });
  assert.ok(offered.includes("session_fake__say"));
  assert.equal(asked.length, 2);
  assert.ok(asked[0].includes(server), asked[0]);
  const ends = updates.filter((each) => each.sessionUpdate === "tool_call_update" && each.rawOutput).map((each) => each.status);
  assert.deepEqual(ends, ["failed", "completed"]);
  const other = await editor.request(methods.agent.session.new, { cwd, mcpServers: [] });
  await editor.request(methods.agent.session.prompt, { sessionId: other.sessionId, prompt });
  assert.ok(!offered.includes("session_fake__say"));
  assert.ok(!JSON.stringify(updates).includes("a-secret-of-the-editor"));
});
agent.stdin.end();
const [code] = agent.exitCode === null ? await once(agent, "exit") : [agent.exitCode];
assert.equal(code, 0);
model.close();
console.log(`acp: a server of the editor was called when it was allowed, and ${asked.length} questions were put`);
