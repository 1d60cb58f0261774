"""Ask: put questions to whoever sits at the terminal.

There are two kinds of question: about a call (allow, deny, remember, edit its arguments), and a model's
own. `dialogue.Asker` puts both for `run`, `attach` and `chat`; nothing but a yes is a yes. Which
questions stand open is one fold of events, `pending_questions`. Where a daemon has the session,
`daemon_questions` puts each in a task of its own and withdraws it when somebody else answers first;
where the run has the session, its runtime calls `terminal_channel`.

A question waits for its place: `TerminalChannel.reach` says that the transcript has come to it, so that
everything that happened before it is printed. What was typed before a question stood there is thrown
away, and so is what is left of a paste behind the answer.

Begin with `dialogue`, then `pending_questions`. `editing` runs an editor on the arguments, `edit_form` is
the file that it edits, `parameter_lines` says in it what the tool takes, `skills` asks about skills of a workspace, `gone_agent` whether a session goes on whose agent is gone, `read_ahead` hears
answers while a question is open, `notify` rings the bell and the desktop.
Comes in: `ApprovalRequest`, `UserQuestion`, events on record, lines from a `Keyboard`.
Goes out: `ApprovalAnswer`, `PersonAnswer`; text, escaped, on the terminal.
Owns: the terminal while a question is open; files of an edit, in a private folder.
Imports: `cli.terminal`, `cli.show.question_text`, `client`.
"""
