// An editor made with npm @agentclientprotocol/sdk, which checks each message by its own schema: `node editor.js CALLBOARD FOLDER`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, RequestError } from "@agentclientprotocol/sdk";

const [callboard, cwd] = process.argv.slice(2);
const agent = spawn(callboard, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

const updates = [];
const asked = [];
const said = (sessionId) =>
  updates
    .filter((each) => each.sessionId === sessionId && each.update.sessionUpdate === "agent_message_chunk")
    .map((each) => each.update.content.text)
    .join("");

const app = client({ name: "tests" })
  .onNotification(methods.client.session.update, ({ params }) => void updates.push(params))
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    asked.push(params.toolCall.title);
    const { optionId } = params.options.find((option) => option.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId } };
  });

const text = (words) => [{ type: "text", text: words }];
await app.connectWith(stream, async (editor) => {
  const begun = await editor.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
  assert.equal(begun.protocolVersion, 1);
  const { sessionId, modes } = await editor.request(methods.agent.session.new, { cwd, mcpServers: [] });
  assert.equal(modes.currentModeId, "balanced");

  const prompt = text("Write 'buy milk' to list.txt, then delete list.txt.");
  const done = await editor.request(methods.agent.session.prompt, { sessionId, prompt });
  assert.equal(done.stopReason, "end_turn");
  assert.deepEqual(asked, ["delete_file list.txt"]);
  assert.match(said(sessionId), /Deleted list\.txt/);
  assert.ok(!existsSync(`${cwd}/list.txt`));
  const calls = updates.filter((each) => each.update.sessionUpdate === "tool_call").map((each) => each.update.kind);
  assert.deepEqual(calls, ["edit", "delete"]);

  await editor.request(methods.agent.session.setMode, { sessionId, modeId: "auto" });
  await editor.request(methods.agent.session.setConfigOption, { sessionId, configId: "mode", value: "balanced" });
  await editor.request(methods.agent.session.prompt, { sessionId, prompt: text("Write 'again' to again.txt.") });
  assert.equal(readFileSync(`${cwd}/again.txt`, "utf8"), "again");
  await editor.request(methods.agent.session.prompt, { sessionId, prompt: text("/undo") });
  assert.ok(!existsSync(`${cwd}/again.txt`));

  const { sessions } = await editor.request(methods.agent.session.list, { cwd });
  assert.deepEqual(sessions.map((each) => each.sessionId), [sessionId]);
  const before = said(sessionId).length;
  await editor.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
  assert.ok(said(sessionId).length > before);
  await editor.request(methods.agent.session.resume, { sessionId, cwd });
  await editor.request(methods.agent.session.close, { sessionId });
  await assert.rejects(
    editor.request(methods.agent.session.prompt, { sessionId, prompt }),
    (error) => error instanceof RequestError && error.code === -32602,
  );
  await editor.request(methods.agent.session.delete, { sessionId });
  await assert.rejects(editor.request(methods.agent.logout, {}), (error) => error.code === -32601);
});
agent.stdin.end();
const [code] = agent.exitCode === null ? await once(agent, "exit") : [agent.exitCode];
assert.equal(code, 0);
console.log(`acp: ${updates.length} updates and ${asked.length} question, all as the SDK's schema has them`);
