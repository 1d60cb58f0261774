"""Feeds: events of sessions on their way to any number of clients, none of which can slow the others.

A session is followed once, however many clients subscribe to it. Each update is encoded once into the
bytes of a frame (`SharedFrame`), which are put into each subscriber's outbox; that never waits. An outbox
is bounded in bytes. Neighbouring pieces of text are merged when several wait, so that a client that
reads slowly gets fewer and larger frames. Each frame costs a system call for each client: so text that comes
while earlier frames are still on their way to most of them is held for some milliseconds, and goes out in one
frame. Text that comes alone goes at once, and what is durable is never held.

A subscriber is either *live* (each update is put into its outbox as it comes) or *behind*. It is behind
when it joins, when it comes back, and when its outbox has no room. A subscriber that is behind gets
nothing live. Its connection reads stored events after the subscriber's position from the record, page by
page, as the outbox drains; when there are no more, it sends one snapshot of the unfinished answer and
the running calls, and the subscriber is live again. So there is one way to catch up for everybody, no
stored event is ever skipped, and the memory for a slow client is bounded. A client that does not even
read its own answers is disconnected, with a reason.

A crash in a feed makes its subscribers fall behind, which is all that is needed to lose nothing.

Begin with `subscriber` (live or behind) and `session_feed`. `topic_feed` does the same for events of all
sessions by topic, which it reads
    from the record only; `outbox` decides what is taken, merged and dropped; `frames` encodes;
    `webhooks` posts what `notices` says of events to other systems, and of what `changed_servers` finds, and `dead_letters`
    keeps what none took.
Comes in: updates from session actors, and commits of the journal.
Goes out: bytes of frames in outboxes; HTTP posts to the webhook.
Owns: one task for each session with subscribers, one for topics, one for notices.
Imports: `runtime`, `embedding`; of the gateway only `restart` and `quotas`.
"""
