"""Anthropic: the Messages API, version 2023-06-01 (https://docs.anthropic.com/en/api/messages).

`POST /messages`, streamed as server-sent events. An answer is a list of blocks, one after the other.
Peculiar: reasoning is signed and must go back unchanged to the model that wrote it; roles must
alternate; results of calls come first in the message after the calls; `max_tokens` is required;
what may be cached is marked in the request.

Begin with `dialect`, which builds the request: thinking, cache marks, options. `families` decides
what each family of Claude models takes; `history` writes the messages; `schema` writes tools' and
answers' schemas; `models` reads the list of models. `decoder` reads the stream and decides where it
ends; `blocks` assembles blocks into events; `wire` has the structs of the stream.

Comes in: a `ModelRequest`; the bytes of an answer.
Goes out: an `HttpRequest`; stream events.
Owns: the state of one answer, in its decoder.
Imports: the shared modules of `providers`; `runtime` for history, events and errors.
"""
