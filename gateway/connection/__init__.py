"""Connection: one client's loops, from its first request to the close frame.

Three tasks: a reader decodes, checks and does requests; a writer sends what waits in the outbox; a pinger
closes connections that have gone silent. Fast methods run in the reader, so that answers keep the order
of requests; slow ones get a task each, a bounded number of them. Nothing but the writer ever waits for
the client, so that a client that does not read delays nobody.

A method that raises a `CallboardError` becomes an error answer of that type; any other exception is
logged and becomes `internal`. Actions that must come after the answer (events of a new subscription, the
end of the caller's own connection) are left with `Caller.afterwards`.

Begin with `connection`. `incoming` turns frames into requests and typed parameters, and refuses bad ones;
    `method_table` says what a method is and who may call it; `caller` is what a method sees of its
    connection, and which sessions it may know of; `subscriptions` brings each subscription up to date;
    `frame_budget` cuts off floods of frames that trio-websocket would take.
Comes in: an accepted websocket and its credential.
Goes out: answers and updates, through `feeds.outbox`.
Owns: the websocket, the outbox, the tasks of slow requests, the subscriptions.
Imports: `shared`, `feeds`, `quotas`, and the structs of `runtime.wire`.
"""
