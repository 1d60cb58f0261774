"""One turn: from an input to the final answer, whatever fails on the way.

A turn alternates between the model and its tools. It stores each answer together with the calls that it
proposes, hands the calls to the dispatcher as one batch, and waits until the batch is gone; the results
are then in the conversation, and the model is asked again. It ends when the model asks for no tool, or
by an error, a cancellation, a budget, a loop of equal calls.

The record is always whole at the end: a result for each call, then `TurnEnded`; or `TurnSuspended`,
when the process ends while calls wait for people. A cancellation may strike at any await, so the end is
computed from what is on record and stored under a shield, after every task of the turn is gone. What
could not be cleaned up in time is named in it (`unreaped`).

Begin with `turn`, from `run` to `_converse`. `model_caller` gets one whole answer: retries, the next
model, a shorter history, each attempt charged. `without_answer` has turns that make calls which a program
gave, or sum the conversation up; `lent_model` lends its model to calls. `setup` decides the agent, models and tools of a turn, and says what a turn
needs of its host (a session, or a replay).
Comes in: an input and its options; stream batches from the model stream; committed events.
Goes out: `StartModelCall`, `RunCalls`; events through its host; batches and progress to listeners.
Owns: one cancel scope, one budget, and the answer that is under way.
Imports: `budget`, `calls`, `conversation`, `model`, `people`, `services`, and what is below `actors`.
"""
