"""HTTP out: every outgoing request of the runtime, from URL to socket.

There are two ways through one pool of connections. `client` has both: `stream_post`, the short one for
model calls, makes no object of httpx; `request` goes through an `httpx.AsyncClient`, over our connections
or over a program's own transport. `transport` is the only place where httpx's client is used, and where
its errors and ours are turned into each other.

Each layer is a module. `url` parses the URLs that tools request, once. `request` builds the head of a
request, `response` streams the body and decompresses what a server compressed unasked. `pool` keeps idle
connections and opens new ones. `http1` reads what servers send. `connection` is one socket, and turns foreign
errors into `NetworkError` and `DeadlineError`. `address_guard` makes the TCP connections of tools.

The pool has no limit, so no request ever waits for another's connection. A queue of waiters is where
pools lose connections when a request is cancelled; here there is none, and the limits on model calls
and tools bound the number of connections. Connections are shared neither between hosts nor between
accounts (a digest of the credentials), and one with unread bytes is closed instead of used again.

The address guard is what keeps tools out of private networks. It works below the pool, on the
addresses that are about to be connected: it resolves a name once, checks every address of the result,
and connects to a checked one. DNS rebinding needs a second lookup, and there is none. Redirects need
no rule of their own, since each hop connects through the same guard. Over a program's own transport the
guard can only judge a host before the request is sent (`AddressGuard.check`).

Begin with `client`, then `connection`; `http1` and `address_guard` stand alone.
Comes in: method, URL, headers, body; `connect`, which makes the TCP connections, or a program's own httpx client.
Goes out: `BodyStream` (status, headers, body piece by piece), `HttpUrl`, `HttpStatistics`; errors of
`runtime.errors`.
Owns: sockets, the TLS context, the table of addresses that are not public.
Imports: `runtime.errors`, `runtime.redaction`, `runtime.definitions` (`ToolFailure`); httpx, certifi.
"""
