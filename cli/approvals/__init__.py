"""Approvals: answer questions about calls, and take remembered answers back, from the command line.

A question is on record, so it can be answered while the process that asked it is gone. `answers`
looks for the rules under which it was asked, since other arguments can only be judged by those, and
then answers by way of `cli.backend`: the daemon goes on with the session at once, while a runtime of
the command only records the answer.

Begin with `answers`. `list` prints questions and grants from the record, and `edit` lets a person change
the arguments at the terminal first.
Comes in: ids or their beginnings, options such as `--remember`, edited arguments.
Goes out: `ApprovalAnswer`, through `Client` or `Runtime`; the question with its answer as text.
Owns: nothing.
Imports: `cli.backend`, `cli.ask`, `cli.show`; actors' policy and lineage, to find the rules again.
"""
