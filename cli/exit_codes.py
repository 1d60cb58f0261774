"""The exit codes of commands."""

ANSWERED = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130
