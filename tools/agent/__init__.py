"""Agent: the tools with which a model deals with its session, its people and itself.

None of them touches the workspace or the network. Each acts through one handle of the call, which the
actors open; whether a session has that handle depends on its kind (`tools.registry`).

Begin with `delegate`, a task for another session. `people` holds ask_user and message, `memories`
memory_store and memory_search, `plan` the plan that people see, and `clock` get_current_time.
Comes in: arguments, and the handles `sessions`, `channel`, `memory` and `plan` of a call.
Goes out: `ToolResult`, `ToolFailure`.
Owns: nothing.
Imports: `tools.tool`, `tools.workspace.paths` (how a name is shown), runtime's definitions and handles.
"""
