"""Door: HTTP of the port, and what happens to a connection before it is a websocket.

In this order, each step bounded in bytes and in seconds:

1. Room: an address has a limit, and so has the process (file descriptors). Without room, the connection
   that has waited longest without a token gives way; connections that say nothing keep nobody out. Where
   all have a token, spare places are left for plain routes and for this user's own commands.
2. The head of the request is read, 16 KiB at most. What other programs could read in another way is refused.
3. Host and Origin must be ours. A stranger's page can make a browser send requests here, but cannot
   choose these two headers. No cookie lets anybody in by itself.
4. `/ws`: the handshake is checked (RFC 6455), then the token, or both halves of a login where a page of the
   `console` asks, and how many connections that has (`quotas`). The stream is handed to trio-websocket, under a
   budget of frames (`connection.frame_budget`).
5. Other paths: the route says its methods, and whether it takes a token. Then it is called with an
   `Exchange`, which reads the body within its bounds, and sends an answer or a stream. The connection is
   kept for the next request; while it waits for that, its room may be given to another.

A refusal is a short HTTP answer whose text says what to do.

Begin with `server`, which is these steps, and `exchange`, which is what a route sees. `http` speaks
    HTTP/1.1; `rules` decides 3 and the handshake; `authentication` decides who a token is, and ends
    connections whose token was revoked; `shared_tokens` keeps the tokens of all nodes of a cluster the same; `rate_limits` counts connections and wrong tokens by address;
    `comments` keeps silent streams alive; `descriptors` says how many connections fit; `monitoring` writes the plain routes and the metrics;
    `not_ready` answers while the runtime opens.
Comes in: accepted TCP streams.
Goes out: `connection.Connection` objects that run, HTTP answers, and streams of events.
Owns: the counters by address, and each stream until it is closed.
Imports: `connection`, `shared`, `quotas`; the only folder of the gateway that may import h11.
"""
