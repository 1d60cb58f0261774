"""Places become zones, whatever way they are written."""

from __future__ import annotations

import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.rehearsal.places import Place, find_places, looks_like_zone, zone_of


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("Tokyo", "Asia/Tokyo"),
        ("tokyo", "Asia/Tokyo"),
        ("San Francisco", "America/Los_Angeles"),
        ("Beijing", "Asia/Shanghai"),
        ("Mumbai", "Asia/Kolkata"),
        ("Munich", "Europe/Berlin"),
        ("Zürich", "Europe/Zurich"),
        ("muenchen", "Europe/Berlin"),
        ("Washington", "America/New_York"),
        ("Washington, D.C.", "America/New_York"),
        ("São Paulo", "America/Sao_Paulo"),
        ("Sao Paulo", "America/Sao_Paulo"),
        ("Reykjavík", "Atlantic/Reykjavik"),
        ("the Hague", "Europe/Amsterdam"),
        ("Port au Prince", "America/Port-au-Prince"),
        ("France", "Europe/Paris"),
        ("Bosnia and Herzegovina", "Europe/Sarajevo"),
        ("Korea", "Asia/Seoul"),
        ("Georgia", "Asia/Tbilisi"),
        ("asia/kathmandu", "Asia/Kathmandu"),
        ("America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
        ("UTC", "UTC"),
        ("GMT", "UTC"),
        ("PST", "America/Los_Angeles"),
        ("US", "America/New_York"),
        ("us", None),
        ("LA", "America/Los_Angeles"),
        ("la", None),
        ("Factory", None),
        ("center", None),
        ("Gotham", None),
        ("", None),
    ],
)
def test_a_name_gives_its_zone_or_nothing(name: str, zone: str | None) -> None:
    assert zone_of(name) == zone


def test_every_city_of_the_database_is_found_in_its_own_zone_name() -> None:
    for zone in zoneinfo.available_timezones():
        if zone.startswith(("Africa/", "Asia/", "Europe/", "Pacific/", "Australia/")):
            assert zone_of(zone) == zone
            assert looks_like_zone(zone)


def test_every_answer_is_a_zone_that_the_clock_accepts() -> None:
    for name in ("Ho Chi Minh City", "Bali", "Turkey", "Kiev", "New Zealand", "Scotland", "IST"):
        zone = zone_of(name)
        assert zone is not None
        zoneinfo.ZoneInfo(zone)


def test_the_longest_name_wins_and_possessives_count() -> None:
    words = ["time", "in", "New", "York", "City", "and", "Tokyo's", "or", "Paris"]
    assert find_places(words) == [
        (2, 5, Place("New York City", "America/New_York")),
        (6, 7, Place("Tokyo", "Asia/Tokyo")),
        (8, 9, Place("Paris", "Europe/Paris")),
    ]


@pytest.mark.parametrize("text", ["a/b", "docs/plan.md", "Tokyo", "and/or", ""])
def test_paths_do_not_look_like_zones(text: str) -> None:
    assert not looks_like_zone(text)


@given(st.text())
def test_any_name_gives_a_real_zone_or_nothing(name: str) -> None:
    zone = zone_of(name)
    assert zone is None or zone in zoneinfo.available_timezones()
