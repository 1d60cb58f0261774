"""Responses: OpenAI's newer format (https://platform.openai.com/docs/api-reference/responses).

`POST /responses`, streamed as server-sent events. An answer is a list of items: messages, reasoning,
calls, work of server-side tools. Peculiar: the last event repeats the whole answer, and fills what
the pieces lacked; nothing is stored at the provider (`store: false`), so reasoning comes encrypted
and goes back with the conversation.

Begin with `dialect`, which builds the request. `history` writes the input items and decides what
goes back. `decoder` reads the stream and decides where it ends; `items` assembles items into events;
`calls` assembles the arguments of one call; `wire` has the structs of the stream, and reads odd forms.

Comes in: a `ModelRequest`; the bytes of an answer.
Goes out: an `HttpRequest`; stream events.
Owns: the state of one answer, in its decoder.
Imports: `openai`; the shared modules of `providers`; `runtime` for history, events and errors.
"""
