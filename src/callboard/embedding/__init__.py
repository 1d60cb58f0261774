"""Embedding: the runtime inside a Trio program, which is also what daemon, portals and commands use.

`open_runtime` checks its options, finds the default model, opens the store last (so that an earlier
failure leaves nothing open), and hands a `Plan` to `host`, which starts the actors and joins them to one
another. `Runtime`, `Session` and `Turn` are thin handles: each method sends one message to an actor, or
reads the store. Dropping a handle ends nothing; leaving the runtime's block ends all turns in order.

A turn's events travel through a bounded subscription, so that the turn waits for a slow reader. A
`Following` waits for nobody: whoever reads it too slowly is cut off, and reads the record instead.

Begin with `runtime`: `open_runtime`, and the methods of a runtime. Then `session` (prompt, submit,
    follow, resume, undo) and `turn` (entering stores the input, leaving early cancels it). `host` is the
    wiring of all actors, and their order of start and end. `options` checks the arguments; `models`
    decides which model answers; `access` gives engines, memory search and development tools their keys;
    `policy_check` judges a call that nobody makes; `reconfiguring` applies new settings to a running
    host, `configuration` reads its files again, whole or not at all, and takes back a change that could not
    hold; `agents` and `settable` (settings) are what programs and clients manage there,
    and `list_changes` tells who follows them; `status` says what runs now.
Comes in: the arguments of `open_runtime`, and calls of a Trio program.
Goes out: events, answers and rows; errors of `runtime.errors`.
Owns: the store, the HTTP client, the sandbox and all actors of one runtime, while its block is open.
Imports: `actors` and what stands below; never `gateway`, `cli` or `portals`.
"""
