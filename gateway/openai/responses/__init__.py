"""Responses: turns that go on when their client leaves, and are read again from the record.

A response is one answer of a turn. It is folded from the turn's events, and the numbers of its own events follow from
the record: so a stream that broke is read on, also after a restart.

Begin with `api`, which begins turns and reads them again. `request` reads what is asked; `fold` makes items and events
    of a turn, `record` the same from the record on, with the structs of `items`. `compaction` sums a conversation up
    without a session of it, and `token_count` says about how much a model would read.
Comes in: requests below `/v1/responses`.
Goes out: sessions, inputs and cancels; responses, and streams of their events.
Owns: nothing.
Imports: its siblings in `openai` (`asked`, `content`, `problems`, `turn_view`, `usage`), and what these stand on.
"""
