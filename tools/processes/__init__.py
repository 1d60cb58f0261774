"""Processes: threads and processes in which tools do their work, and what is left of them.

`threads` decides what happens to blocking work when its call is cancelled: reads are abandoned, writes are
waited for, functions of the embedding program are abandoned and listed. `function_process` runs such a function
in a process that can be killed. `unreaped` is the list of what outlives its call, by turn, and of how many
processes were killed with a call; a turn reports it when it ends. `run_local` is how a bound or a list belongs to
one Trio run. `process_tree` reads from /proc which processes there are below one and what they use.
`watchdog` ends the programs of a node when its lease
is over, by a process beside it (`watchdog_process`). `system_programs` finds programs in the system's own folders, never by PATH.

Begin with `threads`.
Comes in: functions of tools, and the call that they belong to.
Goes out: their results; `ToolFailure` when a process died; names of what still runs.
Owns: the limiters of threads and function processes, the process that watches over a lease, and the list of what outlives its call, for each Trio run.
Imports: runtime.
"""
