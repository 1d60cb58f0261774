"""Client: a daemon as a Trio program uses it, over one websocket that is made again when it breaks.

What a program can rely on when the connection breaks or the daemon restarts:

- Events are not lost and not repeated. Each subscription remembers the last `seq` that it gave, and
  subscribes again behind it; the daemon sends the rest from its record.
- Requests with an idempotency key (prompts, new sessions, imports) are sent again, and are done once.
  They wait for the daemon for two minutes.
- Other requests that waited for an answer fail with a `NetworkError`: whether they were done is unknown.
- An update of the daemon does no harm: events that this version does not know are skipped.

The first connection is different: if it fails, `connect` raises, with an error that says whether there is
no daemon, another program, no room, or a wrong token.

Begin with `client`: `connect`, and a method for each request about sessions, people and calls.
    `administration` has those in groups: `client.tokens`, `.keys`, `.providers`, `.models`, `.memories`,
    `.upkeep`, and `servers` has `.mcp`. `subscriptions` resumes events; `files` moves sessions in parts, `pages` reads lists; `link` connects again,
    matches answers with requests, and notices silence; `stream` is TCP or TLS with its limits; `reading`
    decodes what the daemon sends; `address` reads URL and token, and names what went wrong.
Comes in: a URL and a token, or the discovery file of this user's own daemon; frames.
Goes out: results, events, and errors of `runtime.errors` as the daemon's own.
Owns: the websocket and its tasks, while the block of `connect` is open.
Imports: `config` (where the daemon is), `runtime.wire`, `runtime.errors`; h11 only to recognize its errors.
"""
