"""Chat: a conversation at a terminal, and `attach`, a second look at a session.

A chat always speaks to a daemon over its websocket: the one that runs on the data folder, or one that
the chat begins as a process of its own, which other commands find like any other (`cli.sharing`). `talk` is one conversation: the
session that it shows (`shown_session`), with what is typed, and questions one at a time. When the daemon
is gone, the client waits for the next one.

The input line stays below while text goes by above it. prompt_toolkit edits it in a thread
(`prompt.LiveScreen`, with `input_aids`), which alone writes to the terminal meanwhile; a question or an editor
takes the terminal (`held`), and what is written then is printed behind it. `screen` has the plain terminal and
the pipe, where each line is a prompt and the exit code is that of the turns.

Begin with `talk`. `view` folds events into what is shown, `questions` keeps the questions to put,
`slash_commands` are the commands behind a slash, `shell_line` runs what stands behind an exclamation mark,
`files` finds what goes with a prompt, `status_line` is the line above the input, `surface` picks
the screen, `place` has the command line, and the folder where no session works in the one that was meant, `attach` is its own
command.
Comes in: lines and keys, events of a session, signals.
Goes out: prompts, cancellations and answers through `Client`; text on the terminal; an exit code.
Owns: the terminal, the history of inputs (`chat_history.jsonl`), and a daemon of its own if none ran.
Imports: `cli.ask`, `cli.run`, `cli.sharing`, `cli.show`, `client`.
"""
