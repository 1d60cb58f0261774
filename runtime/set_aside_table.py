"""What a turn that is set aside changes in the tables: its messages are marked, its inputs wait again."""

from __future__ import annotations

import apsw

from .definitions import InputSource
from .turn_events import TurnSetAside


def set_aside(connection: apsw.Connection, session: int, event: TurnSetAside) -> None:
    """Marks what the turn said and did; its inputs are open until the turn that follows is over.

    They count as a person's, whoever they were of: it is a person who has them run again.
    """
    connection.execute(
        "update messages set is_set_aside = 1 where session = ? and turn_id = ?",
        (session, event.turn_id),
    )
    for input_id in event.input_ids:
        connection.execute(
            "insert into inputs (session, input_id, source) values (?, ?, ?) on conflict do nothing",
            (session, input_id, InputSource.PERSON.value),
        )
