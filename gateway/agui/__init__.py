"""AG-UI: the protocol of front ends for agents, version 1.0, at `POST /ag-ui/AGENT`.

A thread is a session, and a run is an input of it: broker, budgets, taint and record hold as for any other. A run is
answered with a stream of events. Where people have to answer, the run ends with interrupts, while the turn waits; the
next run on the thread brings the answers (`resume`) and tells the rest of the turn. Calls of the client's own tools
end a run in the same way, and their results are messages of the next one.

Nothing of that is kept here. Which session a thread is, which run is which input, and what waits, is read from the record:
so a thread goes on after a restart, and whatever the client has already (it sends all its messages each time) is not
told twice.

Begin with `routes`, which imports the rest when the first request comes, and `api`, which finds the thread and does what
    a run asks for. `run_input` reads a request, `threads` finds sessions and inputs, `run_fold` turns a turn's events
    into those of AG-UI (`events`), `interrupts` makes questions out of what waits, and answers of what people said.
Comes in: requests with a body of JSON, each a `RunAgentInput`.
Goes out: sessions, inputs, cancels, answers to questions; streams of events.
Owns: nothing.
Imports: `door.exchange`, `connection`, `http_turns`, `session_events`; of `openai` what both read and count. Nothing of it is
    imported at start.
"""
