"""What models read later of a request that they never answered: that it is not to be done now.

Its prompt stays in the history. Without a word about it, the next request would ask for both, and models do both.
It is asked for again by a person's word, or by a retry, which takes it out of the history and runs it as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from ...runtime.events import TurnEnded
from ...runtime.history import Input, Item
from ...runtime.messages import RUNTIME_CLOSED, SERVER_STOPPED
from ...runtime.store.recovery import CUT_OFF

CANCELLED = (
    "The request above was cancelled before it was answered: do nothing of it unless it is asked for again. "
    "(A note of callboard; no person wrote it.)"
)
FAILED = (
    "The request above was not answered, because its turn failed: do nothing of it unless it is asked for again. "
    "{left_out}(A note of callboard; no person wrote it.)"
)
LEFT_OUT = "What was attached to it, or too long, is left out here. "
MAX_CHARS = 20_000
"""Of a request whose turn failed: it may have failed because of its length, and so would each later one."""

_GOES_ON = frozenset({SERVER_STOPPED, RUNTIME_CLOSED, CUT_OFF})


def noted(tail: Iterable[Item], asked: Collection[Input], event: TurnEnded) -> list[Item]:
    """Return the items of an open round without an answer, as they stand after the end of their turn.

    What a turn asked for that ended with its process may still be meant, and stays as it is. Of a request whose turn
    failed, neither the attachments nor the end of a very long text goes out again: they may be why it failed.

    Args:
        tail: The items.
        asked: What the turn was asked.
        event: Its end.
    """
    if event.outcome == "answered" or event.message in _GOES_ON:
        return [*tail]
    if event.outcome == "cancelled":
        return [*tail, Input(CANCELLED)]
    is_cut, items = False, list[Item]()
    for item in tail:
        if isinstance(item, Input) and any(item is each for each in asked):
            is_long = len(item.text) > MAX_CHARS
            is_cut = is_cut or is_long or bool(item.attachments)
            text = f"{item.text[:MAX_CHARS]}…" if is_long else item.text
            item = msgspec.structs.replace(item, text=text, attachments=())
        items.append(item)
    return [*items, Input(FAILED.format(left_out=LEFT_OUT if is_cut else ""))]
