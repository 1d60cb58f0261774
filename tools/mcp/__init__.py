"""MCP: tools of servers that speak the Model Context Protocol, offered as they were accepted by a person.

A server is a program in the sandbox, or an address that is reached over the guarded HTTP client of tools. Nothing
that it says decides anything: its tools are those of the pins (`config.mcp.pins`), with the tier that the configuration
gives them, and a tool whose definition has changed since it was accepted is withheld until a person has looked
at it again. What a call answers taints its session.

*What is whose.* The protocol is spoken by the package `mcp` (extra `callboard[mcp]`), which is imported in a thread when
the first server is started, and by `connection`, `streams`, `http`, `login`, `asking.askers` and `tasks.handle` alone. The process, its way out, every bound,
names, tiers, pins and restarts are callboard's.

`servers` has the servers of a runtime, and keeps the registry of tools as the configuration in force says. `server`
is the actor of one: it starts the server when the first call needs it, lists its tools, compares, and starts it again
after it broke. `launch` starts its program, whose lines are `streams`, and `work` is the workspace that one of them works on; `http` reaches one that has an address, and
`login` signs the requests to it. `connection` is what a call speaks over. `definition` reads what a server says of a tool, and
`result` what a call answered, `tasks` follows what it answered with a handle, and `asking` what it wants to know meanwhile. `tool` is one of its tools, as the dispatcher calls it.

`session_servers` has those that a client brings for one session.

Begin with `servers`.
Comes in: the settings of servers with their accepted tools; the sandbox, the guard's connections; calls.
Goes out: tools for the registry; `ToolResult`, `ToolFailure`; the state of each server, for people.
Owns: the processes and connections of servers.
Imports: tools.sandbox, tools.schema, foreign_tool, tool, registry; config, runtime. Nothing else imports `mcp` and `httpx2`.
"""
