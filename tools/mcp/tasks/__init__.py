"""Tasks: work of a server that goes on after the answer to its call, which is then a handle.

A server of 2026-07-28 may answer a call with a handle. Then the call goes on here: it asks how far the work is,
no more than once a second, until that is done or the call's time is over. Who cancels the call cancels the task.

The handle is written down before it is asked about. When callboard is killed meanwhile, its call is closed as every
call that had started: what came of it is not known. The same call, made again in the same session, then asks once
more about the task instead of beginning another one.

Begin with `handle`.
Comes in: handles of servers; calls with a `TaskNote`.
Goes out: results, as if the server had answered with them.
Owns: `mcp-tasks.json` in the data folder.
Imports: tools.mcp.state, config, runtime. `handle` imports `mcp`.
"""
