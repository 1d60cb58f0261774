"""Tiers: a weaker sandbox, for machines where bubblewrap can't be used.

Where the kernel refuses user namespaces, and the settings accept a `partial` sandbox, Landlock confines a
program's files and a stricter filter of system calls its reach. `landlock` decides what such a sandbox shows,
`landlock_filter` which system calls it denies. `landlock_exec` is the process that does it: it stands in
bubblewrap's place, speaks with the runtime in the same way, and ends whatever the program leaves behind. It
runs as a file of its own, with the standard library alone. docs/sandbox.md lists what this tier does not hold.

Begin with `landlock`.
Comes in: a `Recipe` with a confiner, and the `Box` of one sandbox.
Goes out: a filter, and a plan for the confiner; `ToolFailure` for what this tier can't hold.
Owns: nothing; a confiner owns the private folder of its program.
Imports: tools.sandbox.box, tools.workspace, runtime.
"""
