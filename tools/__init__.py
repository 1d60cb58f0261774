"""Tools: what a model can ask for.

A tool is a definition (name, JSON Schema, tier, what it needs) and code. The dispatcher of `actors.calls`
decodes the model's text with it, has the call allowed, and executes it with a `ToolContext`. Tools
have no rights of their own: they act through the handles in that context alone, and a session has only
the handles of its kind. So what a call may touch is decided before any code of a tool runs.

Begin with `tool`: the class `Tool`, and the decorator that makes one of a typed function. `context` is
what a call gets; `failures` has short forms of the two failures that most tools raise; `builtin` knows
the tools that come with callboard, from a file of definitions; `registry` lists the tools, imports one
at its first call, and decides which of them a kind of session is offered.
`foreign_tool` takes tools with a JSON Schema of their own, `client_tool` those that a client runs itself, `plugins` finds those of other
distributions. `workshop` holds the operator's settings for development tools, and `function_worker` is
the other end of `processes.function_process`.

The folders: `schema` between types, JSON Schema and text; `processes` threads and processes of tools'
functions; `workspace` a root that no path escapes; `files`, `search`, `web`, `git`, `programs`,
`development`, `skills`, `agent` families of tools; `undo` changes taken back; `sandbox` programs in a box.

Comes in: a model's calls, decoded by the dispatcher; functions and plugins of the application.
Goes out: `ToolDefinition`, `ToolResult`, or `ToolFailure`; anything else that is raised is a crash.
Owns: the processes and threads that tools start.
Imports: `config` and `runtime`.
"""
