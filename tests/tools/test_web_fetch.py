"""web_fetch against a server on this machine, which is listed as `network.allow` does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.tools.web import page_text
from callboard.tools.web.client import WebClient
from callboard.tools.web.fetch import EMPTY, UNTRUSTED, web_fetch
from callboard.tools.web.page_text import MAX_PAGE_BYTES, MAX_TEXT_CHARS, PageWork, read_page
from support.web.floods import bomb, encoded
from support.web.web_pages import context, failure_of, open_network, pdf, run
from support.web.web_server import Answer, WebServer, page, redirect, zipped


class Web:
    """The tool in front of a server."""

    def __init__(self, server: WebServer, network: WebClient) -> None:
        self.server = server
        self._network = network

    async def output(self, path: str = "/", **arguments: Any) -> dict[str, Any]:
        result = await run(
            web_fetch, context(self._network), url=self.server.url(path), **arguments
        )
        output: dict[str, Any] = result.output
        return output

    async def failure(self, path: str = "/") -> ToolFailure:
        return await failure_of(web_fetch, context(self._network), url=self.server.url(path))


@asynccontextmanager
async def open_web(answers: Mapping[str, Answer] | bytes) -> AsyncGenerator[Web]:
    async with open_network({"/": answers} if isinstance(answers, bytes) else answers) as opened:
        yield Web(*opened)


def html(body: str | bytes, **headers: str) -> bytes:
    return page(body, content_type="text/html", **headers)


async def test_a_page_is_title_and_markdown() -> None:
    text = "<title> A \u202e&amp;\n B </title><nav>go</nav><main><h1>T</h1><a href=x>w</a></main>"
    async with open_web({"/d/p": html(text, x_thing="a")}) as web:
        output = await web.output("/d/p?q=1#part")
        url = web.server.url("/d/")
        assert output == {
            "url": f"{url}p?q=1",
            "status": 200,
            "title": "A & B",
            "truncated": False,
            "source": UNTRUSTED,
            "text": f"# T\n\n[w]({url}x)",
        }
        # The text stands last: a result that is too long is cut from its end.
        assert list(output)[-1] == "text"
        [request] = web.server.requests
        assert request.method == "GET"
        assert request.headers["accept"].startswith("text/html")
        assert {"cookie", "authorization", "referer"}.isdisjoint(request.names)


async def test_where_a_redirect_leads_is_the_url_and_the_base_of_links() -> None:
    answers = {"/a": redirect("/b/c"), "/b/c": html("<a href=d>w</a>")}
    async with open_web(answers) as web:
        output = await web.output("/a")
        assert output["url"] == web.server.url("/b/c")
        assert output["text"] == f"[w]({web.server.url('/b/d')})"


@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops", "204 None"])
async def test_any_status_is_a_success(status: str) -> None:
    async with open_web(html("" if "204" in status else "<p>sorry", status=status)) as web:
        output = await web.output()
    assert output["status"] == int(status[:3])
    assert output["text"] == (EMPTY if "204" in status else "sorry")


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ('{"a": [1, "<b>"]}', "application/json", '{"a": [1, "<b>"]}'),
        ("a <b>\n  c", "text/plain; charset=utf-8", "a <b>\n  c"),
        ("# T", "text/markdown", "# T"),
        ("<rss/>", "application/rss+xml", "<rss/>"),
        ("a\u202eb\x1b[0m", "text/plain", "ab[0m"),
        ("é€ ".encode("cp1252"), "text/plain; charset=latin-1", "é€"),
        ("<!doctype html><p>a<p>b", None, "a\n\nb"),
        ("<html><p>a<p>b", "application/octet-stream", "a\n\nb"),
        ("plain", None, "plain"),
        ("<p>a<p>b", "application/xhtml+xml", "a\n\nb"),
        ("<p>a<p>b", "TEXT/HTML ; x=y", "a\n\nb"),
        ("<script>x</script>", "text/html", EMPTY),
    ],
)
async def test_an_answer_is_read_as_what_it_is(
    body: str | bytes, content_type: str | None, text: str
) -> None:
    async with open_web(page(body, content_type=content_type)) as web:
        assert (await web.output())["text"] == text


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("image/png", b"\x89PNG"),
        ("image/svg+xml", b"<svg/>"),
        ("audio/mpeg", b"ID3"),
        ("video/mp4", b"text"),
        ("application/zip", b"PK\3\4"),
        ("application/octet-stream", b"\0\1"),
        (None, b"\x7fELF\2\1\1\0"),
    ],
)
async def test_what_is_no_text_is_refused_by_its_type(
    content_type: str | None, body: bytes
) -> None:
    async with open_web(page(body, content_type=content_type)) as web:
        failed = await web.failure()
    assert failed.error_type is ErrorType.BINARY_FILE
    assert "reads HTML, PDF and text" in str(failed)
    if content_type not in {None, "application/octet-stream"}:
        assert str(content_type) in str(failed)


async def test_a_pdf_is_its_text_page_by_page() -> None:
    data = pdf("First words", "Second words", title="On words")
    for content_type in ("application/pdf", None):
        async with open_web(page(data, content_type=content_type)) as web:
            output = await web.output()
        assert output["title"] == "On words"
        first, second = output["text"].split("--- page 2 of 2 ---")
        assert "--- page 1 of 2 ---\n\nFirst words" in first
        assert "Second words" in second


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"%PDF-1.4\nnothing", "damaged"),
        (b"%PDF-1.4\n" + b"\0" * 1000 + b"startxref\n5\n%%EOF", "damaged"),
        (pdf(""), "no text"),
        (pdf("", ""), "no text"),
    ],
)
async def test_a_pdf_that_says_nothing_is_an_error_that_says_so(data: bytes, why: str) -> None:
    async with open_web(page(data, content_type="application/pdf")) as web:
        failed = await web.failure()
    assert failed.error_type is ErrorType.EXECUTION_ERROR
    assert why in str(failed)


async def test_a_pdf_that_is_too_large_is_not_read() -> None:
    async with open_web(
        page(b"%PDF-" + b"x" * MAX_PAGE_BYTES, content_type="application/pdf")
    ) as web:
        failed = await web.failure()
    assert failed.error_type is ErrorType.FILE_TOO_LARGE
    assert "8388608 bytes" in str(failed)


async def test_the_operator_is_told_which_extra_reads_pdf(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = "import sys; sys.modules['pypdf'] = None; "
    monkeypatch.setattr(page_text, "_START", begin + page_text._START)
    async with open_web(page(pdf("a"), content_type="application/pdf")) as web:
        failed = await web.failure()
    assert failed.error_type is ErrorType.BINARY_FILE
    assert "callboard[pdf]" in str(failed)


async def test_long_text_is_cut_and_says_so() -> None:
    long = "word " * (MAX_TEXT_CHARS // 5 + 10)
    answers = {"/": html(f"<p>{long}"), "/text": page(long), "/zip": zipped(long.encode())}
    async with open_web(answers) as web:
        for path in answers:
            output = await web.output(path)
            assert output["truncated"] is True
            assert MAX_TEXT_CHARS - 10 < len(output["text"]) <= MAX_TEXT_CHARS
        web.server.answers["/"] = html("<p>short")
        assert (await web.output())["truncated"] is False


@pytest.mark.parametrize("path", ["/plain", "/html"])
async def test_of_a_bomb_the_beginning_is_read(path: str) -> None:
    head = encoded(bomb(), "gzip")
    answers = {"/plain": head, "/html": head.replace(b"text/plain", b"text/html")}
    async with open_web(answers) as web:
        output = await web.output(path)
    assert output["truncated"] is True
    assert output["text"] in {EMPTY, "\N{REPLACEMENT CHARACTER}" * MAX_TEXT_CHARS}


ENDLESS_WORK = {
    "nested": "<div>" * 300_000,
    "attributes": f"<p {' '.join(f'a{n}' for n in range(150_000))}>",
}


@pytest.mark.parametrize("name", ENDLESS_WORK)
async def test_a_page_that_keeps_its_reader_busy_is_given_up(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_text, "READ_SECONDS", 0.5)
    async with open_web({"/": html(ENDLESS_WORK[name]), "/fine": html("<p>fine")}) as web:
        failed = await web.failure()
        assert failed.error_type is ErrorType.EXECUTION_ERROR
        assert "can't be read in 0.5 seconds" in str(failed)
        monkeypatch.setattr(page_text, "READ_SECONDS", 10.0)
        assert (await web.output("/fine"))["text"] == "fine"
    assert children() == []


@pytest.mark.parametrize(
    "start",
    [
        "import os; os.abort()",
        "raise SystemExit(3)",
        "print('{\"title\": 1}')",
        "import sys; sys.stdout.write('x' * 10**7); sys.stdout.flush(); input()",
    ],
)
async def test_a_reader_that_breaks_takes_nothing_with_it(
    start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_text, "_START", start)
    async with open_web(html("<p>fine")) as web:
        failed = await web.failure()
    assert failed.error_type is ErrorType.EXECUTION_ERROR
    assert "what reads it breaks" in str(failed)
    assert children() == []


async def test_a_reader_has_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    eat = "import callboard.tools.web.page_worker as w; w._html = lambda *_: bytearray(2**31); "
    monkeypatch.setattr(page_text, "_START", f"{eat}{page_text._START}")
    async with open_web(html("<p>fine")) as web:
        assert "more memory" in str(await web.failure())


async def test_a_reader_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: it can open one, where its user may."""
    file = tmp_path / "written"
    write = f"w._html = lambda *_: open({str(file)!r}, 'wb', 0).write(b'words'); "
    start = f"import callboard.tools.web.page_worker as w; {write}{page_text._START}"
    monkeypatch.setattr(page_text, "_START", start)
    async with open_web(html("<p>fine")) as web:
        assert "what reads it breaks" in str(await web.failure())
    assert file.read_bytes() == b""


async def test_a_reader_has_none_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_API_KEY", "canary")
    tell = "import os, json; print(json.dumps({'text': ' '.join(os.environ)}))"
    monkeypatch.setattr(page_text, "_START", tell)
    work = PageWork(kind="html", url="", content_type="", most=9)
    assert "CANARY" not in (await read_page(work, b"")).text


async def test_a_cancelled_reading_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_text, "_START", "import time; time.sleep(100)")
    work = PageWork(kind="html", url="", content_type="", most=9)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_page, work, b"x" * 2**20)
        for _ in range(3000):
            if children():
                break
            await trio.sleep(0.01)
        else:
            raise AssertionError("no reader was started")
        nursery.cancel_scope.cancel()
    assert children() == []


def children() -> list[str]:
    """The readers that this process has."""
    found = subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in found.stdout.splitlines() if "sys.path[:]" in line]
