"""Box: what goes into one sandbox, and how it begins.

A box is made of four things. *What it shows*: `roots` finds the system and the tools on PATH (a `HostView`),
`user` leaves out what the user who runs programs can't read. *What in the workspace stays as it is*:
`protected` decides which names, and `stubs` holds the places of missing ones. *What it bounds*: `seccomp` is
the filter of system calls, `control_group` the bounds on all processes together, `start_gate` the limits of
each, `kernel_files` finds what of /proc must be read-only. *How it is built*: `recipe` puts all of it into
bubblewrap's arguments, in an order in which later mounts cover earlier ones.

Nothing in a box begins before it is bounded: its first process waits at the gate (`start_gate`) for the filter,
which the runtime writes last. Nothing here knows Trio, and nothing starts a sandbox; `running` does.

Begin with `recipe`.
Comes in: the settings, the environment of the runtime, and the real path of a workspace.
Goes out: a `Recipe` for all sandboxes; arguments, a filter and limits for one; `ToolFailure` when a workspace
can't be protected, `ValueError` for settings that this machine can't follow.
Owns: stubs in workspaces, and control groups, each for as long as its sandbox lives.
Imports: tools.processes, tools.workspace, config, runtime.
"""
