"""Command line: the commands and their options, exit codes, and what they print.

`app` parses a command line with cyclopts and runs one function. It has the place of each command in a
table, and imports that when the command is named, so that `callboard run --help` does not pay for a daemon.
There the command stands with its options and with all that it does. A command returns its exit code
(`exit_codes`); a `CallboardError` that it raises becomes one line on stderr in `__main__`.

A command works in one of three ways. It reads the record, which takes no lock
(`show.sessions.open_record`). It changes the store: `backend` gives the daemon that has it, or a
runtime of this process that begins no turn. Or it runs turns: `run` and `chat`.

Begin with `app`, then `backend`. `help_page` lays out `--help`, `completion` answers Tab, and `habits` has what other programs call things. `parameters` has
the options that many commands share, `record_names` decides which session or question a shortened id means, and `log_file` where warnings go.
Comes in: words of a command line, what is typed at a terminal or piped, signals.
Goes out: text and JSON Lines on stdout, complaints on stderr, an exit code.
Owns: the terminal while a question is open or a chat runs; nothing on disk but the log and the history
of the input line.
Imports: everything below; only `__main__` imports it.
"""
