"""Gateway: the daemon; one port, JSON-RPC over websockets, and what each connection may do.

A daemon is a runtime with clients. The port is taken first, so that a second daemon fails at once; while
the runtime opens and recovers, requests are answered with 503. Then connections are accepted. The end
goes the other way: nobody new is accepted, clients are told, turns get a bounded time to end, and the
runtime closes. Every part is isolated: a crash in one connection, method or feed is logged and ends or
restarts that part alone.

Begin with `lifecycle`: a daemon from start to end, its signals and the drain. `gateway` opens the door
    around a runtime, which any Trio program can do. `restart` runs a part again after a crash;
    `quotas` bounds what the connections of one token hold; `store_notices` tells clients of a node that its database is away. The
    folders, in the order in which a request meets them: `door` (before it is a websocket),
    `connection` (one client's loops), `methods` (all methods of the protocol), `shared` (state of all
    connections), `feeds` (events to many clients), `hooks` (deliveries of other systems), `console` (the page, and browsers that log in); `openai`, `agui` and `mcp` are
    protocols of others, whose turns `http_turns` counts; `used_below` has the tokens of what those delegated.
Comes in: TCP connections, signals, changed configuration and token files.
Goes out: answers, events, notices to a webhook, metrics, messages to systemd.
Owns: the port, all connections, and the discovery file that tells commands where the daemon is.
Imports: `embedding` and what stands below it, and the structs of `runtime.wire`; never `cli` or `portals`.
"""
