"""What a command tells the shell."""

ANSWERED = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130
