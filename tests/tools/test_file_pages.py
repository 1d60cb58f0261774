"""read_file: whole files, pages, encodings and kept artifacts."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.tools.files.file_pages import MAX_READ_BYTES
from callboard.tools.files.text_codec import codec_name, decode_page
from callboard.tools.workspace.workspace import open_workspace
from support.tools.workbench import Caller


class KeptArtifacts:
    async def read_artifact(self, artifact_id: str) -> bytes | None:
        await trio.lowlevel.checkpoint()
        return "grüße ".encode() * 300_000 if artifact_id == "kept" else None


async def read_pages(caller: Caller, path: str, limit: int, **options: str) -> str:
    text: str = ""
    offset = 0
    while True:
        page = await caller.output("read_file", path=path, offset=offset, limit=limit, **options)
        text += page["content"]
        if "next_offset" not in page:
            return text
        assert page["next_offset"] > offset
        offset = page["next_offset"]


async def test_a_whole_file(caller: Caller, folder: Path) -> None:
    (folder / "f").write_bytes("grüße\r\n".encode())
    os.utime(folder / "f", (0, 1_000_000_000))
    result = await caller.result("read_file", path="f")
    assert result.output == {"content": "grüße\r\n", "size": 9, "modified": "2001-09-09T01:46:40Z"}
    assert result.display == "Read f (9 bytes)"


async def test_read_errors(caller: Caller, folder: Path) -> None:
    (folder / "d").mkdir()
    (folder / "f").write_text("text")
    (folder / "nul").write_bytes(b"a\0b")
    (folder / "latin").write_bytes(b"gr\xfc\xdfe")
    assert await caller.error_type("read_file", path="missing") == "file_not_found"
    assert await caller.error_type("read_file", path="d") == "not_a_file"
    assert await caller.error_type("read_file", path="") == "not_a_file"
    empty = await caller.failure("read_file", path="")
    assert str(empty).startswith("'': a directory, where a file")
    assert await caller.error_type("read_file", path="f/x") == "not_a_directory"
    assert await caller.error_type("read_file", path="nul") == "binary_file"
    failure = await caller.failure("read_file", path="latin")
    assert failure.error_type == "binary_file"
    assert "encoding=base64" in str(failure)
    failure = await caller.failure("read_file", path="f", encoding="klingon")
    assert failure.error_type == "validation_error"
    assert failure.details["field"] == "encoding"
    for option in ({"offset": -1}, {"limit": 0}, {"offset": 2**60}):
        assert await caller.error_type("read_file", path="f", **option) == "validation_error"
    assert (await caller.output("read_file", path="f", encoding="UTF8"))["content"] == "text"
    assert (await caller.output("read_file", path="latin", encoding="latin-1"))["content"] == (
        "grüße"
    )
    assert (await caller.output("read_file", path="nul", encoding="base64"))["content"] == "YQBi"


async def test_a_file_of_the_limit_is_read_and_one_above_is_paged(
    caller: Caller, folder: Path
) -> None:
    (folder / "f").write_bytes(b"x" * MAX_READ_BYTES)
    assert len((await caller.output("read_file", path="f"))["content"]) == MAX_READ_BYTES
    (folder / "f").write_bytes(b"x" * (MAX_READ_BYTES + 1))
    assert await caller.error_type("read_file", path="f") == "file_too_large"
    page = await caller.output("read_file", path="f", offset=0)
    assert page["next_offset"] == MAX_READ_BYTES
    page = await caller.output("read_file", path="f", limit=10)
    assert page["content"] == "x" * 10
    assert page["next_offset"] == 10
    page = await caller.output("read_file", path="f", offset=MAX_READ_BYTES + 5)
    assert page["content"] == ""
    assert "next_offset" not in page


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40
    ),
    limit=st.integers(1, 12),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-32-be", "utf-16-le", "gb18030"]),
)
async def test_pages_put_together_are_the_file(
    caller: Caller, folder: Path, text: str, limit: int, encoding: str
) -> None:
    (folder / "f").write_bytes(text.encode(encoding))
    read = await read_pages(caller, "f", limit, encoding=encoding)
    assert read == text.encode(encoding).decode(encoding)


async def test_an_offset_inside_a_character_starts_at_the_next(
    caller: Caller, folder: Path
) -> None:
    (folder / "f").write_text("a€b")
    assert (await caller.output("read_file", path="f", offset=2))["content"] == "b"
    assert (await caller.output("read_file", path="f", offset=1))["content"] == "€b"


async def test_a_big_endian_file_is_paged_by_its_mark(caller: Caller, folder: Path) -> None:
    (folder / "f").write_bytes(b"\xfe\xff" + "hällo".encode("utf-16-be"))
    assert await read_pages(caller, "f", 4, encoding="utf-16") == "hällo"


async def test_a_stateful_encoding_has_no_pages(caller: Caller, folder: Path) -> None:
    (folder / "f").write_bytes("日本語".encode("iso2022_jp"))
    whole = await caller.output("read_file", path="f", encoding="iso2022_jp")
    assert whole["content"] == "日本語"
    failure = await caller.failure("read_file", path="f", encoding="iso2022_jp", offset=5)
    assert failure.details["field"] == "offset"


def test_a_character_cut_by_the_end_of_the_file_is_an_error() -> None:
    cut = "é".encode()[:1]
    assert decode_page(b"a" + cut, "utf-8", at_end=False) == ("a", 1)
    with pytest.raises(UnicodeError):
        decode_page(b"a" + cut, "utf-8", at_end=True)


async def test_an_artifact_is_paged_like_a_file(caller: Caller) -> None:
    missing = await caller.failure("read_file", path="artifact:kept")
    assert missing.error_type == "file_not_found"
    caller.artifacts = KeptArtifacts()
    assert await caller.error_type("read_file", path="artifact:other") == "file_not_found"
    assert await caller.error_type("read_file", path="artifact:kept") == "file_too_large"
    page = await caller.output("read_file", path="artifact:kept", limit=11)
    assert page == {"content": "grüße gr", "size": 2_400_000, "next_offset": 10}


@pytest.mark.parametrize("encoding", ["punycode", "IDNA"])
def test_a_codec_for_host_names_is_refused_since_it_would_stop_the_runtime(encoding: str) -> None:
    with pytest.raises(ToolFailure) as failed:
        codec_name(encoding)
    assert failed.value.error_type is ErrorType.VALIDATION_ERROR


# ── the advice, followed to the letter ───────────────────────────────────────────────────────────

SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
PIECES = {
    "ascii": b"The quick brown fox.\n",
    "letters of several bytes": "grüße, 世界 und 🐧 ".encode(),
    "controls": b"\x01\x02\x1b[31m",
    "nul": b"text\x00",
    "latin-1": "grüße ".encode("latin-1"),
    "half of a letter": "é".encode()[:1],
    "anything": bytes(range(256)),
}


def advised_by(failure: ToolFailure) -> dict[str, Any]:
    """The arguments that a failure says to change."""
    if failure.error_type is ErrorType.FILE_TOO_LARGE:
        assert "in pages: offset=0, then offset=next_offset." in str(failure)
        return {"offset": 0}
    assert failure.error_type is ErrorType.BINARY_FILE
    assert "Read it with encoding=base64" in str(failure)
    return {"encoding": "base64"}


async def read_as_advised(caller: Caller, path: str) -> bytes:
    """Reads a file as a model does that does exactly what it is told."""
    arguments: dict[str, Any] = {"path": path}
    found, failures = b"", list[ToolFailure]()
    while len(failures) < 3:
        try:
            page = await caller.output("read_file", **arguments)
        except ToolFailure as failure:
            failures.append(failure)
            arguments |= advised_by(failure)
            continue
        assert caller.max_result_bytes is not None
        assert len(msgspec.json.encode(page)) <= caller.max_result_bytes
        content: str = page["content"]
        is_text = arguments.get("encoding") != "base64"
        found += content.encode() if is_text else base64.b64decode(content, validate=True)
        if "next_offset" not in page:
            return found
        assert page["next_offset"] > arguments.get("offset", 0)
        arguments["offset"] = page["next_offset"]
    raise AssertionError(f"the advice goes round: {failures}")


@pytest.fixture
def reader(folder: Path) -> Iterator[Caller]:
    with open_workspace(folder) as opened:
        yield Caller(opened)


@settings(
    max_examples=200 if SOAK else 25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    parts=st.lists(
        st.tuples(st.sampled_from(sorted(PIECES)), st.integers(1, 400_000)), min_size=1, max_size=3
    ),
    most=st.sampled_from([1_000_000, 200_000]),
)
async def test_a_file_is_read_whole_by_following_the_advice(
    reader: Caller, folder: Path, parts: list[tuple[str, int]], most: int
) -> None:
    data = b"".join((PIECES[kind] * size)[:size] for kind, size in parts)
    (folder / "f").write_bytes(data)
    reader.max_result_bytes = most
    assert await read_as_advised(reader, "f") == data


@pytest.mark.parametrize("kind", ["ascii", "anything"])
async def test_of_a_large_file_each_page_says_where_the_next_is(
    reader: Caller, folder: Path, kind: str
) -> None:
    size = 100_000_000 if SOAK else 3_000_000
    piece = PIECES[kind]
    data = (piece * (size // len(piece) + 1))[:size]
    (folder / "f").write_bytes(data)
    reader.max_result_bytes = 1_000_000
    assert await read_as_advised(reader, "f") == data
