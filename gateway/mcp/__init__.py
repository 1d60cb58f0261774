"""callboard as a server of the Model Context Protocol: other programs ask its agents, and call its tools.

Nothing runs here by itself. What a client asks for becomes requests of callboard's own protocol, made with the
rights of the client's token: a tool `ask_AGENT` is `session/new` and `session/prompt`, a tool of callboard's own
a prompt with `calls` in place of a model, an answer to a question `approval/resolve`. So roles, limits, policy and
record are those of any client.

The protocol is spoken by the package `mcp`, which is imported with the first request; `server` and `listening` speak
to it. A `Desk` is where those requests are made: in the daemon (`LocalDesk`), or over its websocket where the client
speaks over the stdin and stdout of `callboard mcp serve`.

Begin with `server`, then `tools`.
Comes in: exchanges of the door, or a program's stdin; `[mcp_server]` of the configuration in force.
Goes out: requests of methods; answers, progress and questions to the client.
Owns: nothing that outlives its client, but which session a client calls tools in.
Imports: gateway.asgi, connection, door, shared; client, config, runtime. Only `tools.mcp` imports `mcp` beside it.
"""
