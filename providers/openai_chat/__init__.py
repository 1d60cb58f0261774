"""Chat Completions: OpenAI's first format, and the one that nearly every server speaks.

`POST /chat/completions` (https://platform.openai.com/docs/api-reference/chat), streamed as
server-sent events that end with `[DONE]`. Ollama, llama.cpp, vLLM, Groq, DeepSeek, OpenRouter and
Mistral speak it, each with differences. Peculiar: no two servers agree on how pieces of calls are
numbered, how reasoning is sent, or which fields fail a request.

Begin with `dialect`, which builds the request. `servers` decides what each known server takes;
`history` writes the messages. `decoder` reads the stream and decides where it ends; `calls` decides
which call a piece belongs to; `extras` keeps what only its provider understands; `wire` has the
structs of the stream, and reads odd forms.

Comes in: a `ModelRequest`; the bytes of an answer.
Goes out: an `HttpRequest`; stream events.
Owns: the state of one answer, in its decoder.
Imports: `openai`; the shared modules of `providers`; `runtime` for history, events and errors.
"""
