"""Development: tools for a project's everyday work; they run what the workspace holds, in the sandbox.

`run_tests` runs the configured command or finds the project's test runner, and counts what passed and
failed. `format_code` runs `format_worker` inside, which finds files, formats them with what is installed,
and reports what changed. `packages` has `install_package`: it fetches with a network but by programs of the
operator's only, and installs without a network, so that nothing of a package runs while hosts can be
reached unless a person allowed that.

Begin with `run_tests`.
Comes in: arguments of a model; the `Processes` handle and the `Workshop` (tools.workshop) of the call's context:
test command, package indexes, certificates.
Goes out: a `ToolResult` with counts or changed files; `ToolFailure` that says what is missing.
Owns: nothing.
Imports: tools.git, programs, processes, schema, files, tool; runtime.
"""
