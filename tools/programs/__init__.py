"""Programs: the tools that run what a model wrote, in the sandbox.

`run` has `shell`, which runs a command line, and `run_code`, which runs a program text; both hold the
workspace's root as a resource, so that no other call touches the workspace meanwhile. `shell` also starts
programs in the background, which belong to their session; `process_tool` is the tool `process`, which
lists, reads, feeds and ends them. `program_result` makes results and lines for people out of what ran,
holds the options that all such tools share (`sandboxed_tool`, `networked_tool`), and decides what a call
with `network` needs: a higher tier, the network capability, and a person's consent.

Begin with `run`.
Comes in: arguments of a model; the `Processes` handle of the call's context.
Goes out: a `ToolResult` with output, exit code, changes and refused hosts; `ToolFailure` for a timeout.
Owns: nothing; programs belong to the sandbox.
Imports: tools.files, schema, workspace, tool; runtime.
"""
