"""The programs of docs/embedding.md that need no surroundings run as they stand."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "embedding.md"
SECTIONS = {
    section.partition("\n")[0]: re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    for section in DOCUMENT.read_text(encoding="utf-8").split("\n## ")
}
PRINTS = {
    "A system prompt, and agents of your own": r"list\.txt",
    "What your program gives its tools": r'Three\.\n\{"status":"success","result":3\}',
    "A session again": r"user What time is it in Tokyo\?\n(.*\n)*\['What time is it in Tokyo\?'\]",
    "An approval with other arguments": r'It is gone\.\n\{"path":"old\.txt"\} success',
    "An answer in a form of yours": r"\ATrue \['fast'\]\n\Z",
    "Other options for one turn": r"list\.txt",
    "Testing your program": r"\A\Z",
}
"""What the first program of a section prints."""


@pytest.mark.parametrize("section", PRINTS)
def test_a_program_of_the_page_runs(
    section: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("list.txt", "old.txt"):
        (work / name).write_text("milk")
    monkeypatch.chdir(work)
    for key in [name for name in os.environ if name.endswith("_KEY")]:
        monkeypatch.delenv(key)
    names: dict[str, Any] = {"__name__": "__main__"}
    text = SECTIONS[section][0]
    exec(compile(text, f"<{section}>", "exec", dont_inherit=True), names)
    assert re.search(PRINTS[section], capsys.readouterr().out)
    assert (work / "old.txt").exists() == (section != "An approval with other arguments")
    assert (work / "list.txt").exists()
