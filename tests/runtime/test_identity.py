"""Ids are unguessable, fit everywhere, and the wall clock counts milliseconds."""

from __future__ import annotations

import re
import time

from callboard.runtime.identity import new_id, now_ms


def test_an_id_says_what_it_names_and_fits_everywhere() -> None:
    made = new_id("turn")
    assert re.fullmatch(r"turn_[0-9a-hjkmnp-tv-z]{20}", made)
    # The narrowest pattern that a provider takes back for a call's id.
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", new_id("approval"))


def test_ids_are_all_different_in_every_place() -> None:
    made = [new_id("x") for _ in range(2_000)]
    assert len(set(made)) == len(made)
    for place in range(2, len(made[0])):
        assert len({each[place] for each in made}) == 32


def test_the_clock_is_the_walls_in_milliseconds() -> None:
    before = time.time()
    assert int(before * 1000) <= now_ms() <= int(time.time() * 1000) + 1
