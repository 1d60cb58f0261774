"""search_files: what it finds, what it passes over, and that no pattern stops the runtime."""

from __future__ import annotations

import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.handles import FileInfo, Listing, ReadableFiles
from callboard.tools.processes.threads import run_read
from callboard.tools.search import search_process
from callboard.tools.search.search_files import MAX_SEARCHED_BYTES, FileSearch
from callboard.tools.search.search_pattern import MAX_LINE_CHARACTERS, SearchPattern
from support.tools.workbench import Caller, wait_until


def fill(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


async def found(caller: Caller, **arguments: Any) -> list[str]:
    output = await caller.output("search_files", **arguments)
    return [match["file"] for match in output["matches"]]


async def test_matches_have_file_line_and_text(caller: Caller, folder: Path) -> None:
    fill(folder, {"b/x.py": "one\nneedle two\r\nneedle\n", "a.py": "a needle\n", "c": "none"})
    result = await caller.result("search_files", pattern="need[l]e")
    assert result.output == {
        "matches": [
            {"file": "a.py", "line": 1, "text": "a needle"},
            {"file": "b/x.py", "line": 2, "text": "needle two"},
            {"file": "b/x.py", "line": 3, "text": "needle"},
        ],
        "truncated": False,
    }
    assert result.display == "Searched . (3 matches)"
    assert await found(caller, pattern="needle", path="b") == ["b/x.py", "b/x.py"]
    assert await found(caller, pattern="needle", path="a.py") == ["a.py"]
    assert await found(caller, pattern="nowhere") == []


async def test_globs_choose_files_by_name(caller: Caller, folder: Path) -> None:
    names = ["a.py", "src/b.py", "src/deep/c.py", "src/d.txt", "test/e.py"]
    fill(folder, dict.fromkeys(names, "needle"))
    assert await found(caller, glob="*.py") == ["a.py", "src/b.py", "src/deep/c.py", "test/e.py"]
    assert await found(caller, glob="src/**/*.py") == ["src/b.py", "src/deep/c.py"]
    assert await found(caller, glob="/*.py") == ["a.py"]
    assert await found(caller, pattern="needle", glob="*.txt") == ["src/d.txt"]
    assert await found(caller, pattern="none", glob="*.txt") == []


async def test_ignored_files_are_passed_over(caller: Caller, folder: Path) -> None:
    fill(
        folder,
        {
            ".gitignore": "*.log\n/build/\n!keep.log\n# note\n!\n" + "*a" * 20 + "*\n",
            "a.log": "needle",
            "a" * 200: "needle",
            "keep.log": "needle",
            "build/x": "needle",
            "sub/build/x": "needle",
            "sub/.gitignore": "secret\n!special.log\n",
            "sub/secret/x": "needle",
            "sub/special.log": "needle",
            "other/secret": "needle",
            ".github/x": "needle",
            ".git/x": "needle",
            ".callboard/x": "needle",
        },
    )
    expected = [
        "a" * 200,
        ".github/x",
        "keep.log",
        "other/secret",
        "sub/special.log",
        "sub/build/x",
    ]
    assert sorted(await found(caller, pattern="needle")) == sorted(expected)
    assert await found(caller, pattern="needle", path="sub") == ["sub/special.log", "sub/build/x"]


async def test_binary_and_large_files_are_skipped(caller: Caller, folder: Path) -> None:
    fill(
        folder,
        {
            "binary": b"needle\0",
            "large": b"needle\n" + b"x" * MAX_SEARCHED_BYTES,
            "broken": b"needle \xff\xfe",
            "text": "needle",
        },
    )
    output = await caller.output("search_files", pattern="needle")
    assert [match["file"] for match in output["matches"]] == ["broken", "text"]
    assert output["skipped_large_files"] == 1


async def test_a_closed_folder_is_passed_over_and_counted(caller: Caller, folder: Path) -> None:
    fill(folder, {"a.txt": "needle", "shut/b.txt": "needle"})
    files = _Shut(caller.workspace.read_only())
    output = await run_read(FileSearch(files, "needle", None, 9).run, ".")
    assert [match["file"] for match in output["matches"]] == ["a.txt"]
    assert output["unreadable_files"] == 1
    with pytest.raises(ToolFailure, match="permission denied"):
        await run_read(FileSearch(files, "needle", None, 9).run, "shut")


class _Shut:
    """Files of which one folder can't be listed, as for its owner's sake."""

    def __init__(self, files: ReadableFiles) -> None:
        self.normalize = files.normalize
        self.find = files.find
        self.read = files.read
        self._entries = files.entries

    def entries(self, path: str, **bounds: Any) -> Listing:
        if path == "shut":
            raise ToolFailure(ErrorType.PERMISSION_DENIED, "shut: permission denied.")
        return self._entries(path, **bounds)


async def test_results_are_cut_and_it_is_said(caller: Caller, folder: Path) -> None:
    fill(folder, {"f": "needle\n" * 5, "long": "needle" + "x" * 10_000})
    exact = await caller.output("search_files", pattern="needle", max_results=6)
    assert (len(exact["matches"]), exact["truncated"]) == (6, False)
    assert len(exact["matches"][5]["text"]) == 500
    cut = await caller.result("search_files", pattern="needle", max_results=5)
    assert (len(cut.output["matches"]), cut.output["truncated"]) == (5, True)
    assert cut.display == "Searched . (5 and more matches)"


async def test_search_errors(caller: Caller, folder: Path) -> None:
    fill(folder, {"f": "needle"})
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "pattern"),
        ({"pattern": "("}, "pattern"),
        ({"pattern": "x" * 1_001}, "pattern"),
        ({"pattern": "(a+)+b"}, "pattern"),
        ({"pattern": "x", "glob": " "}, "glob"),
        ({"pattern": "x", "glob": "!"}, "glob"),
        ({"pattern": "x", "glob": "*a" * 20}, "glob"),
        ({"pattern": "x", "glob": "*/" * 6}, "glob"),
        ({"pattern": "x", "max_results": 0}, "max_results"),
        ({"pattern": "x", "max_results": 1_001}, "max_results"),
    ]
    for arguments, field in wrong:
        failure = await caller.failure("search_files", **arguments)
        assert failure.error_type == "validation_error"
        assert failure.details["field"] == field
    assert await caller.error_type("search_files", pattern="x", path="no") == "file_not_found"
    assert await caller.error_type("search_files", pattern="x", path="f/x") == "file_not_found"
    assert await found(caller, pattern="needle", path="f") == ["f"]


async def test_a_search_that_takes_too_long_gives_what_it_has(caller: Caller, folder: Path) -> None:
    fill(folder, {"f": "needle"})
    late = FileSearch(caller.workspace, "needle", None, 10, seconds=-1)
    assert await trio.to_thread.run_sync(late.run, ".") == {"matches": [], "truncated": True}
    in_time = FileSearch(caller.workspace, "needle", None, 10)
    assert (await trio.to_thread.run_sync(in_time.run, "."))["truncated"] is False


async def test_a_cancelled_search_ends_its_thread(caller: Caller, folder: Path) -> None:
    fill(folder, {"f": "needle"})
    ended = trio.Event()
    token = trio.lowlevel.current_trio_token()
    search = FileSearch(caller.workspace, "needle", None, 10, seconds=1e9)

    def endlessly() -> None:
        try:
            while True:
                search.run(".")
        finally:
            token.run_sync_soon(ended.set)

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await trio.to_thread.run_sync(endlessly, abandon_on_cancel=True)

            nursery.start_soon(run)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    with trio.fail_after(30):
        await ended.wait()


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a*)*b",
        "(a|aa)+b",
        "(.*)*x",
        "(a|b?)+c",
        "([a-z]+)*1",
        "(?:a{1,9}){2,29}",
        "(x+x+)+y",
        "a?" * 40 + "a" * 40,
        ".*" * 6 + "x",
        "(?=(a+)+b)a",
        "(?i)(ab|AB)*c",
        "(?i:(sx|\u017fx)*)!",
        "(?i)(\u0131x|ix)*!",
    ],
)
def test_patterns_that_could_run_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(ToolFailure, match="for ever") as caught:
        SearchPattern(pattern)
    assert caught.value.error_type == ErrorType.VALIDATION_ERROR


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("needle", "a needle"),
        (r"def \w+\(", "def f("),
        ("(foo|bar)+!", "foobar!"),
        ("(?i)(foo|bar)+!", "fooBAR!"),
        ("foo|bar|baz", "xx baz"),
        (r"^\s*import\s+\w+", "  import x"),
        (r"def .*\(.*\):.*", "def f(x): pass"),
        ("(?i)NEEDLE", "needle"),
        (r"\bx{3}\b", "a xxx b"),
        (r"https?://[^\s]+", "see http://x.test/y"),
        (r"(?<!a)b", "cb"),
        ("(?>a+)b", "aab"),
    ],
)
def test_usual_patterns_work(pattern: str, line: str) -> None:
    compiled = SearchPattern(pattern)
    assert compiled.matches(line)
    assert not compiled.matches("§")


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        ("needle", MAX_LINE_CHARACTERS),
        ("foo|bar|baz", 10_000),
        (r"def \w+\(", 500),
        (r"https?://[^\s]+", 500),
        ("(foo|bar)+!", 500),
        (r"^\s*import\s+\w+", 60),
    ],
)
def test_what_people_search_for_needs_no_process(pattern: str, length: int) -> None:
    compiled = SearchPattern(pattern)
    assert compiled.is_quick(["x", "x" * length])
    assert not compiled.is_quick(["x", "x" * (MAX_LINE_CHARACTERS + 1)])


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("a{0,9990}" + "a" * 980 + "b", "a" * 10_000),
        ("a*(?:aa){300}b", "a" * 2_000),
        ("a*(?<=a{200})b", "a" * 3_000),
        ("a*a*a*a*b", "a" * 2_000),
        ("(?:a|b)?" * 9 + "c*d", "ab" * 900),
        (r"(a*)\1*b", "a" * 900),
    ],
)
def test_what_stands_behind_a_repeat_counts_as_often_as_it_may_end(pattern: str, line: str) -> None:
    """Each of these took seconds to minutes, in which nothing else ran."""
    assert not SearchPattern(pattern).is_quick([line])


async def test_a_costly_pattern_is_matched_in_a_process_that_is_gone_afterwards(
    caller: Caller, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_process, "FILE_SECONDS", 0.5)
    lines: dict[str, str | bytes] = {
        "a": "aab\n" + "a" * 2_000 + "\n",
        "b": "ab\n" * 9 + "x" * 99,
        "c": "é b ab",
    }
    fill(folder, lines)
    started: list[subprocess.Popen[bytes]] = []
    real: Any = subprocess.Popen

    def popen(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    output = await caller.output("search_files", pattern="a*a*a*a*ab", max_results=11)
    assert [(match["file"], match["line"]) for match in output["matches"]] == [
        ("a", 1),
        *(("b", number) for number in range(1, 10)),
        ("c", 1),
    ]
    assert output["files_searched_in_part"] == 1
    assert output["truncated"] is False
    # The first was killed with its file half searched; none is left.
    assert [process.returncode for process in started] == [-9, -9]
    cut = await caller.output("search_files", pattern="a*a*a*a*ab", path="b", max_results=4)
    assert (len(cut["matches"]), cut["truncated"]) == (4, True)


async def test_a_matching_process_has_bounded_memory_and_none_of_our_environment(
    caller: Caller, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folder, {"a": "aab\n"})
    monkeypatch.setenv("CANARY_API_KEY", "canary")
    told = folder.parent / "told"
    tell = f"import os; open({str(told)!r}, 'w').write(' '.join(os.environ)); "
    eat = (
        "import mmap; import callboard.tools.search.search_worker as w; "
        "w._search = lambda *_: (mmap.mmap(-1, 2**31), w._say(0)); "
    )
    monkeypatch.setattr(search_process, "_START", f"{tell}{eat}{search_process._START}")
    output = await caller.output("search_files", pattern="a*a*a*a*ab")
    assert (output["matches"], output["files_searched_in_part"]) == ([], 1)
    assert "CANARY" not in told.read_text()
    monkeypatch.undo()
    assert await found(caller, pattern="a*a*a*a*ab") == ["a"]


async def test_a_cancelled_search_ends_its_process(caller: Caller, folder: Path) -> None:
    fill(folder, {"a": "a" * 5_000})
    slots = search_process._slots
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(caller.output, "search_files", pattern="a*a*a*a*b"))
        await wait_until(lambda: slots._value < search_process.MAX_MATCHERS)
        nursery.cancel_scope.cancel()
    # It gives its place back when its process is gone.
    await wait_until(lambda: slots._value == search_process.MAX_MATCHERS)


async def test_no_directory_is_searched_beyond_the_time(caller: Caller, folder: Path) -> None:
    """A `.gitignore` may make each name cost much: the time is looked at before each."""
    fill(folder, dict.fromkeys("abc", "needle"))
    search = FileSearch(caller.workspace, "needle", None, 9)
    asked: list[str] = []

    def covers(info: FileInfo) -> bool:
        asked.append(info.path)
        search._deadline = 0
        return True

    search._ignore.covers = covers  # type: ignore[method-assign]
    assert (await run_read(search.run, "."))["truncated"] is True
    assert asked == ["a"]


async def test_a_line_that_was_searched_in_part_is_counted(caller: Caller, folder: Path) -> None:
    long = "x" * MAX_LINE_CHARACTERS
    fill(folder, {"f": f"{long}needle\nneedle a b\n{long[:-6]}needle\n"})
    output = await caller.output("search_files", pattern="needle")
    assert [match["line"] for match in output["matches"]] == [2, 3]
    assert output["lines_searched_in_part"] == 1


@given(st.from_regex(r"[ab()|*+?.\[\]{}0-9\\^$]{1,12}", fullmatch=True))
def test_any_pattern_is_compiled_or_refused(pattern: str) -> None:
    try:
        compiled = SearchPattern(pattern)
    except ToolFailure:
        return
    line = "ab" * 15
    assert compiled.matches(line) == bool(re.search(pattern, line))
