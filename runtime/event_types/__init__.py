"""The durable events by subject; `runtime/events.py` adds those of sessions and turns and makes the union.

An event says what has happened, in the past tense, and is never changed. A session is the fold of its
events, so every state that must outlive the process is in one of them. The `tag` of a class is what is
stored, so it never changes; fields are only added, with defaults; and a new type is a new format of the store
(`store/migrations`), so that older programs refuse the file instead of failing within a session.

`durable` has the base class. `inputs`: what people and the runtime tell a session. `calls`: tool calls from
proposal to result. `permissions`: questions, answers, grants, taint and marked files. `people`: questions of
models and messages to people. `memories`, `plan`, `undo` and `turns` (a turn that is run again, deleted messages,
and how turns end) are small ones. Import events from `runtime.events`.

Begin with `calls`.
Comes in: nothing.
Goes out: frozen structs.
Owns: the tags and fields of what is stored.
Imports: `runtime.definitions`, `runtime.approval`, `runtime.history`, `runtime.budget`, `runtime.text`.
"""
