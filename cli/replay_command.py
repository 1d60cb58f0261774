"""`callboard replay` and its options; what it does is imported when it runs."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from .parameters import Config, Data, Json, data_path

What = Annotated[
    str,
    Parameter(
        name="SESSION",
        help="A session: its id, the beginning of it, or last; or a file that was exported.",
    ),
]


def replay(what: What, /, *, json: Json = False, config: Config = None, data: Data = None) -> int:
    """Run a session again from its record, and say whether the same comes out.

    Nothing is asked, no tool runs and nothing connects: what models said and what became of calls
    is on record. Exits with 1 when something else came out, or the last turn has no end yet.
    """
    from ..config.files import load_settings
    from .replay_desk import replay_session

    return replay_session(what, data_path(data), load_settings(config), json=json)
