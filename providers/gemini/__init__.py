"""Gemini: Google's `streamGenerateContent`, v1beta (https://ai.google.dev/api/generate-content).

Streamed as server-sent events, as a JSON list, or as one document; all three are read. Peculiar:
schemas are a subset of OpenAPI; calls have no ids unless the provider gives them; signatures prove
the thought behind a part and go back on exactly that part; the stream has no event for its end.

Begin with `dialect`, which builds the request. `families` decides what each family of models takes;
`history` writes the parts; `schema` writes schemas in the subset. `decoder` reads the stream and
decides where it ends; `calls` assembles calls whose arguments stream; `wire` has the structs of the
stream, and reads odd forms.

Comes in: a `ModelRequest`; the bytes of an answer.
Goes out: an `HttpRequest`; stream events.
Owns: the state of one answer, in its decoder.
Imports: the shared modules of `providers`; `runtime` for history, events and errors.
"""
