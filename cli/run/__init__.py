"""Run: one prompt, its turn, and an exit code.

`run` reads the options, decides what session and model they mean (`choice`), and works in the daemon
that has the sessions or in a runtime of its own; `remote` gives the daemon the methods of `Runtime`,
`Session` and `Turn` that a run uses. Events go to a view, questions to the terminal. The first Ctrl-C
cancels the turn, which ends in order; the second ends the process on the spot (`stopping`), or, where turns of other
commands work in it, gives the shell its prompt on the spot. Where no `callboard serve`
has the sessions, all of that happens in a child of the process that the shell waits for (`shell`), so that
it can go on for other commands when the run is over.

With `--continue`, what was left comes first: a suspended turn, inputs that wait, and then, without a
prompt, the questions that no turn waits for (`pending` says which).

Begin with `run`. `flags` declares the options and changes the agent by them, and `attachments` reads
the files that go with a prompt.
Comes in: a prompt, options, files, signals.
Goes out: a transcript or JSON Lines; the exit code: answered, failed, or interrupted.
Owns: the turn that it began; leaving it cancels that.
Imports: `cli.ask`, `cli.show`, `embedding` or `client`, whichever it works with.
"""
