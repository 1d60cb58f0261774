"""Running: one program in a sandbox, from its start to the last of its processes.

`process` starts a sandbox and ends it: what it hands over through descriptors, on which thread it must happen,
how the first process inside is bounded and let begin, and how all of it is gone at the end, on every way out.
`program` is what a caller waits for: it reads the output into a bounded `capture`, looks ten times a second at
what the kernel does not bound, serves the sandbox's sockets meanwhile, and makes the result, with the reason
when the program was ended.

Begin with `program`: `run_program` is the whole life of one.
Comes in: a `Recipe`, and an `Order` with the program, its workspace, files and sockets.
Goes out: a `Ran`; lines of output while they come; `ToolFailure` when nothing could be started.
Owns: pipes, the control group, stubs and the gate of one sandbox, and its processes.
Imports: tools.sandbox.box, network, tiers; tools.processes, config, runtime.
"""
