"""Every example runs as it stands, without a key and without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.examples import run


def test_hello(tmp_path: Path) -> None:
    printed = run("hello.py", tmp_path)
    assert "[get_current_time: success]" in printed
    assert "[write_file: success]" in printed
    assert "+09:00" in (tmp_path / "now.txt").read_text()


def test_plain_answer(tmp_path: Path) -> None:
    printed = run("plain_answer.py", tmp_path)
    assert (tmp_path / "list.txt").read_text().strip() == "buy milk"
    assert "buy milk" in printed
    assert "No answer" not in printed


def test_own_tool(tmp_path: Path) -> None:
    printed = run("own_tool.py", tmp_path)
    assert 'stock_of: success: {"status":"success","result":12}' in printed
    assert "We sell no cars." in printed
    assert "… calling the pears farm" in printed
    assert "10 pears are on their way" in printed
    assert printed.rstrip().endswith("Done.")


@pytest.mark.parametrize(("typed", "is_gone"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_approval(tmp_path: Path, typed: str, is_gone: bool) -> None:
    printed = run("approval.py", tmp_path, typed)
    assert "delete_file" in printed
    assert ("It is gone." in printed) == is_gone
    assert (tmp_path / "old.txt").exists() != is_gone


def test_chat_bot(tmp_path: Path) -> None:
    lines = run("chat_bot.py", tmp_path).splitlines()
    assert [line.split()[0] for line in lines] == ["#tea"] * 2 + ["#time"] * 2 + ["#tea"] * 4
    assert lines[5] == '#tea bot: May I run delete_file {"path":"list.txt"}? (yes/no)'
    assert lines[7] == "#tea bot: Deleted list.txt."


def test_progress_bar(tmp_path: Path) -> None:
    printed = run("progress_bar.py", tmp_path, stderr='count_orders {"region":"west"}')
    assert printed == "There are 180 orders.\n"


def test_a_batch_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    first = run("batch.py", tmp_path, "", "20", stderr="100%")
    assert first == "0 before, 20 answered, 0 not; 300 tokens\n"
    again = run("batch.py", tmp_path, "", "30", stderr="100%")
    assert again == "20 before, 10 answered, 0 not; 150 tokens\n"
