"""Budgets: what turns and sessions may use, each within those above it.

Use is added up in scopes: one of the turn, one of its session, and, for a delegated session, those of
the turn and session above, up to the main one. Everything is debited in all scopes at once and without
a checkpoint, so that sessions side by side can't both take the last of it. A model call is reserved by
an estimate, measured while it streams, and corrected by the provider's count; a tool call is counted
when it is about to run. Time runs in a scope as long as a turn of it does. Amounts are whole numbers,
so that what is added and taken back leaves nothing behind.

Begin with `budgets`: the book of all scopes that run, the budget of a turn, and the charge of a model
call, which cuts a stream that runs out. `scope` adds up one turn or one session, reads from the record
what ran before, and words the errors.
Comes in: limits of agents, sessions and inputs; model and tool calls that are about to run.
Goes out: `BudgetError` and reasons in words; a deadline for the turn's cancel scope.
Owns: the scopes of what runs. What ran is on record.
Imports: `model` for estimates; `config`, `runtime`.
"""
