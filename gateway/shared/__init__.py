"""Shared: the state of a daemon that all its connections use.

Everything here is used from Trio tasks of one thread, so that no locks are needed except where something
awaits in the middle.

Begin with `state`: `DaemonState` holds all of it, and knows credentials and roots. `idempotency`
    answers a repeated request, from memory or from the record (`runtime/store/tables/requests`);
`workspaces` decides which folders clients may work in; `uploads`
    collects files that come in parts; `pages` bounds lists in rows and in bytes; `json_values` counts the values of a body; `clients_channel` makes questions wait for whichever client
    answers. Vital signs: `heartbeat` (a round trip through the journal), `sd_notify` (what systemd
    hears), `stall_watch` (which task blocks the loop), `event_counts` (metrics and log lines), `log_end` (what was logged last).
`turn_record` finds the events of one turn.
Comes in: calls of methods and of the daemon's life cycle.
Goes out: the same state to everybody; log lines; datagrams to systemd.
Owns: remembered answers, uploads, added roots, counters.
Imports: `feeds`, and `embedding` with what stands below.
"""
