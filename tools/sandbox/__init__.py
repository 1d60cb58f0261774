"""Sandbox: programs that a model wrote, confined; and the handle on them that a call gets.

A sandbox lets a program work in one folder, and keeps from it the machine, its keys, other sessions and the
network. There is no way around it: no setting and no approval runs anything outside, and where the machine can't
hold what the settings demand, tools that run programs are not offered.

*What it is made of.* bubblewrap makes new namespaces (files, processes, network, users, IPC) and mounts into
them what a program needs, read-only, and its workspace, writable but for hooks, git settings and start-up files,
which would run outside on another day. A filter denies system calls that lead around namespaces. Limits and a
control group bound memory, processor time and processes; the sizes of /tmp and /dev/shm are bounded too. Where
the kernel refuses user namespaces, Landlock does part of that (`tiers`), as `partial`.

*How it begins.* Stubs and the control group are made; arguments and files go through descriptors; the first
process inside waits at a gate. The runtime bounds that process, checks that the mounted folder is the workspace,
and only then sends the filter, without which nothing starts. So there is no moment in which a program runs
unbounded, and a runtime that dies at any point lets nothing begin.

*How it ends.* Killing the first process of the namespace kills all others: also what has left its process
group, ignores signals, or forks as fast as it can. A result is given when the last of them is gone. After
`kill -9` of the runtime the kernel does the same, since bubblewrap dies with its parent; what stays behind is
an empty control group, which the next start sweeps, and stubs, which the next runtime removes (`stale_stubs`). Where nodes have leases, a process beside the runtime ends
them when that of their node is over (`tools.processes.watchdog`).

*The way out.* The sandbox's network is empty. A call that may reach hosts gets a proxy in the runtime, where
each connection is checked by the address guard and the policy of that call (`network`).

*How strong it is* is measured by a program that tries to break out, before the first real one runs (`selftest`).
*What it does not stop:* a program may waste the bounds it has, damage its workspace within them, read what the
operator shows it, and use a flaw of the kernel.

`sandbox` has the runtime's `Sandbox`: what may be offered, and what runs. `session_processes` is the handle of a
call. Of what runs programs nothing is imported before the first one. `background` has programs that
outlive their call. `named_programs` finds the scripts that a command names, to which an approval is bound. Folders:
`box` (what goes into one), `tiers`, `network`, `running` (start and end), `changes` (what a program changed),
`selftest`.

Begin with `sandbox`.
Comes in: settings; for each call its workspace, session, `Connector` and log of versions; `Command`s of tools.
Goes out: the `Processes` handle of a tool's context; `Ran`, `BackgroundProcess`, `Binding`; `ToolFailure`.
Owns: all programs of the runtime, their control groups and stubs, and copies of repositories that they work in.
Imports: tools.processes, workspace, search, undo, files; config, runtime.
"""
