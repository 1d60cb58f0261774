"""Sharing: how commands of one user share a data folder when no daemon runs.

One process at a time has the store. Where no `callboard serve` runs, the first command that needs the
sessions lets the others in, on a free port of loopback with a token that ends with it (`door`); the
commands after it find it as they find any daemon, and are its clients. They have it read the rules
again, and bring their models and options along, over each connection (`lending`). Each of them keeps
looking (`holder`): when that process is gone, however it ended, one of them becomes the daemon, and the
others find it. Their connections, prompts and events go on there. For a `callboard serve` that is gone
they wait: whoever started it starts it again.

A run works in a child of the process that the shell waits for (`run/shell`), which has the runtime (`own_runtime`)
and serves turns of others when the run is over. A chat forks its daemon before it begins (`forked_daemon`, `background`), a process that lasts as long as anybody uses it.

Begin with `holder`.
Comes in: a data folder, and what opens a daemon on it.
Goes out: whether this process is the daemon, and how that ends.
Owns: `daemon.turn`, whose lock says who may become the daemon now.
Imports: `config`; `gateway` and `embedding` when this process becomes the daemon.
"""
