// A server of models on this machine, which takes one key: what a provider needs to be tested, listed and asked.
import { createServer } from "node:http";

export const KEY = "sk-house-0123456789abcdef";

/** Open it; return its base URL and what closes it. */
export async function openModelServer() {
  const server = createServer((request, answer) => {
    if (request.headers.authorization !== `Bearer ${KEY}`) {
      answer.writeHead(401, { "content-type": "application/json" });
      answer.end(JSON.stringify({ error: { message: "Incorrect API key provided.", type: "invalid_request_error", code: "invalid_api_key" } }));
    } else if (request.url.endsWith("/models")) {
      answer.writeHead(200, { "content-type": "application/json" });
      answer.end(JSON.stringify({ object: "list", data: ["house-large", "house-small"].map((id) => ({ id, object: "model", created: 1, owned_by: "house" })) }));
    } else {
      let body = "";
      request.on("data", (piece) => (body += piece));
      request.on("end", () => chat(JSON.parse(body), answer));
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, close: () => (server.closeAllConnections(), server.close()) };
}

function chat(asked, answer) {
  const head = { id: "c1", object: asked.stream ? "chat.completion.chunk" : "chat.completion", created: 1, model: asked.model };
  const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 };
  const text = "Hello from the house.";
  if (!asked.stream) {
    answer.writeHead(200, { "content-type": "application/json" });
    answer.end(JSON.stringify({ ...head, choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }], usage }));
    return;
  }
  answer.writeHead(200, { "content-type": "text/event-stream" });
  const send = (more) => answer.write(`data: ${JSON.stringify({ ...head, ...more })}\n\n`);
  send({ choices: [{ index: 0, delta: { role: "assistant", content: text }, finish_reason: null }] });
  send({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  send({ choices: [], usage });
  answer.end("data: [DONE]\n\n");
}
