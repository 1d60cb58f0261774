"""Rehearsal: the built-in model that answers when no other is configured.

It is a set of rules, and says so. It drives the real tools through plain English about the time,
files and web pages, so that everything can be tried without a key. A prompt is cut into clauses,
each clause becomes steps, and a step is one call of a tool; steps that do not depend on each other
are asked for at once. Nothing is kept between calls of the model: each reads the history again.
What is not understood is answered with what the model can do; what is under a negation or a
condition is never done.

Begin with `model`, which answers a request.
`clauses` cuts a text into requests and keeps what is quoted whole; `requests` has one rule for each
kind of request and resolves `it`; `places` knows the time zones; `plan` decides which calls are due
and reads their results; `report` has the sentences.

Comes in: the request of a model call: history and tools.
Goes out: text word by word and calls of tools, as stream events.
Owns: nothing.
Imports: `providers.provider`, `runtime` for the history and the stream events.
"""
