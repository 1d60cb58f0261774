"""git: tools that read, commit and push, on repositories that may be a stranger's.

A repository's configuration can make git run programs. So git runs in the sandbox, and with a configuration
in which everything that runs something is switched off; the head of `command` lists what, and how.
`reading` has `git_status`, `git_diff` and `git_log`; `commit` has `git_commit`, which refuses files that a
filter would change; `push` has `git_push`, which shows a person where the push goes, and refuses any other.
`credential` runs inside and passes git's question for a password to the runtime, which answers it for the
shown remote only. `output` parses what git prints.

Begin with `command`.
Comes in: arguments of a model; the `Processes` handle and the `Workshop` of the call's context.
Goes out: a `ToolResult`; `ToolFailure` with git's own message.
Owns: nothing.
Imports: tools.programs, processes, schema, workspace, tool; config, runtime.
"""
