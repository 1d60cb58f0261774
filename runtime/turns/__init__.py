"""Turns: what can be seen of one, by programs and by clients that join late.

No module runs a turn; `actors/turn` does. `activity` decides what counts as running: each turn
and call reports itself for as long as it runs, and a call can be cancelled by its id there. It also
has the structs of `Runtime.status()`. `live_state` folds what a session streams (text, reasoning,
output of calls) into a snapshot, which is stored nowhere: it makes late joining exact. `called_tool`
gathers the outcomes of a turn in which a program, and no model, calls tools. `call_subject` says what a call is
about, by its arguments.

Begin with `live_state`.
Comes in: begin and end of turns and calls; live and stored events in their order.
Goes out: `RuntimeStatus`, `RunningTurn`, `RunningCall`, `UnderWay`.
Owns: the list of what runs; the text of unfinished answers.
Imports: `runtime.events`, `runtime.stream`, `runtime.store.codec`, `runtime.text`.
"""
