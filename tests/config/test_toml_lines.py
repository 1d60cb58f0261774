from __future__ import annotations

import pytest

from callboard.config.toml_reader import TomlLines

TEXT = """\
model = "a/b"

[limits]
idle_seconds = 3

[[rules]]
tool = "a"

[[rules]]
tool = "b"
[rules.arguments.path]
path = "c"

[agents."a.b"]
prompt = "x"
[[agents."a.b".rules]]
tool = "d"
[[agents."a.b".rules]]
arguments.path = { path = "e" }
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("model", 1),
        ("limits idle_seconds", 4),
        ("limits other", 3),
        ("rules [1] tool", 7),
        ("rules [2]", 9),
        ("rules [2] tool", 10),
        ("rules [2] arguments path path", 12),
        ("rules [2] arguments url", 9),
        ("agents a.b prompt", 15),
        ("agents a.b rules [1] tool", 17),
        ("agents a.b rules [2] arguments path path", 19),
        ("agents c", None),
        ("nothing", None),
    ],
)
def test_a_setting_is_found_or_the_nearest_table_around_it(path: str, line: int | None) -> None:
    assert TomlLines(TEXT).line_of(tuple(path.split())) == line
