"""Every setting is either hot or needs a restart, and the one table says which."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.config.setting_rows import RESTART, all_settings, effect_of, needs_restart
from support.changed_settings import CHANGED, STANDING


def value(settings: Any, name: str) -> Any:
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


def test_the_table_names_settings_that_there_are() -> None:
    names = {*all_settings(), *(name.partition(".")[0] for name in all_settings())}
    assert set(RESTART) <= names


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_setting_holds_or_waits(name: str) -> None:
    new = CHANGED[name]
    assert value(new, name) != value(STANDING, name)
    effect = effect_of(STANDING, new)
    if needs_restart(name):
        assert (effect.changed, effect.waiting) == ((), (name,))
        assert value(effect.settings, name) == value(STANDING, name)
    else:
        assert (effect.changed, effect.waiting) == ((name,), ())
        assert effect.settings == new
    again = effect_of(effect.settings, new)
    assert (again.changed, again.waiting) == ((), effect.waiting)


def test_nothing_changed_is_nothing() -> None:
    effect = effect_of(STANDING, STANDING)
    assert (effect.settings, effect.changed, effect.waiting) == (STANDING, (), ())
