"""Providers: the wire formats of model services, and what else answers as a model.

A provider is a service that has models; a wire format (a `Dialect`) is how requests and answers are
written there. Many services share a format, so a format is a folder here, and a service is an entry
in `catalog`. A dialect turns a `ModelRequest` into the bytes of one HTTP request, gives a decoder
that turns the bytes of the answer into stream events, and reads errors and lists of models. It does
no I/O: the model-stream actor sends and receives. So a recorded answer decodes as the live one did.

Finished rounds of a conversation never change: each is encoded once and kept on the round, and the
beginning of every request is the same bytes, which is what providers' prompt caches need.

Decoders are strict about an answer's end and lenient about its form: whatever a server sends, a
decoder never raises, and ends with `Done` or `StreamError` exactly once. An answer that breaks off
is an error, and a call that may be cut short never runs.

Begin with `provider`, the interface. To add a service, add an entry to `catalog/known`; to add a wire
format, add a folder like `anthropic` and its name to `dialects`, which imports one on first use. Shared by
the formats: `sse` cuts server-sent events; `envelope` reads texts whose events are otherwise alike;
`answer_body` bounds them, keeps what was not a stream, and ends an answer; `lenient_json` takes what it can
of odd JSON; `error_answer` classifies errors; `stop_words` decides whether an ended answer may run its
calls; `tool_names` and `tool_sets` encode tools; `tool_schema` resolves references; `attachments` decides
how files are shown. `recording` keeps raw answers, `replay` plays them back.

Comes in: a `ModelRequest`; the bytes of answers.
Goes out: `HttpRequest`s; stream events; `ListedModel`s.
Owns: no state but encoded rounds and tools.
Imports: `config` and `runtime`.
"""
