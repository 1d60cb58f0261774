"""What was typed before: on file for its owner alone, bounded, and without keys."""

from __future__ import annotations

import stat
from pathlib import Path

from callboard.cli.chat.input_aids import FILE_NAME, MAX_ENTRIES, MAX_ENTRY_CHARS, InputHistory
from callboard.runtime.redaction import Secret, redactor


def test_inputs_of_several_lines_come_back_the_latest_first(tmp_path: Path) -> None:
    history = InputHistory(tmp_path)
    for text in ("one", "two\nlines", "x" * (MAX_ENTRY_CHARS + 1)):
        history.store_string(text)
    assert list(InputHistory(tmp_path).load_history_strings()) == ["two\nlines", "one"]
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_a_known_key_is_masked(tmp_path: Path) -> None:
    redactor.add(Secret("sk-a-key-of-the-chat-history"))
    InputHistory(tmp_path).store_string("use sk-a-key-of-the-chat-history please")
    assert "sk-a-key" not in (tmp_path / FILE_NAME).read_text()


def test_the_file_does_not_grow_for_ever_and_damage_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("".join(f'"{number}"\n' for number in range(2 * MAX_ENTRIES + 1)) + "{\n3\n")
    assert next(iter(InputHistory(tmp_path).load_history_strings())) == str(2 * MAX_ENTRIES)
    assert len(path.read_text().splitlines()) == MAX_ENTRIES


def test_without_a_folder_there_is_no_history(tmp_path: Path) -> None:
    history = InputHistory(tmp_path / "none")
    history.store_string("one")
    assert list(history.load_history_strings()) == []
