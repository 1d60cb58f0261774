"""Calls of tools: from the text that a model wrote to one result for each call.

The dispatcher runs each answer's calls as one batch. Every call is prepared (tool, arguments, handles)
and decided about, all of them in one question to the broker. What is allowed and free starts in the
commit that stores the answer; the others wait in tasks of their own: for a person, for the resource
keys that they share with other calls of the workspace, for a slot. Calls on one key run in the model's
order. A sibling's failure, timeout or denial touches nobody else.

`CallStarted` is on record before every effect, so a crash never hides what may have happened; reads
need none. What a person allowed runs only as they saw it: it is prepared again from the allowed text,
and the store compares its digest. Between a tool's return and the journal's mailbox nothing awaits, so a
cancellation can't turn what has happened into "cancelled". When the journal fails, the batch ends.

Begin with `dispatcher`: the actor, its batches, keys and slots. `call` prepares a call, makes its
preview and digest, and runs the tool under its deadline; `outcome` makes the text that the model gets,
cuts what is too large, and counts wrong arguments; `permits` holds keys and slots; `question_line` puts
questions in the model's order;
`reach` judges where a running call connects, and what it read or wrote; `effect_gate` keeps calls that act behind the
gate of a node's lease.
Comes in: `RunCalls` from a turn, with a way to show progress, an outlet whose end is awaited, and a
    scope to cancel.
Goes out: `CheckPermissions`, `AskPerson`; `AppendEvents`, one `CallFinished` a call; progress lines.
Owns: the running calls and the slots; resource keys are shared with undoing.
Imports: `handles`, `tools`, `config`, `runtime`.
"""
