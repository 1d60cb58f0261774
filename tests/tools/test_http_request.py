"""http_request against a server on this machine, which is listed as `network.allow` does."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio

from callboard.runtime.definitions import Effect, ErrorType, ToolFailure, ToolResult
from callboard.runtime.http.address_guard import AddressGuard
from callboard.runtime.http.client import open_http_client
from callboard.tools.web.client import WebClient
from callboard.tools.web.http_request import (
    EMPTY,
    MAX_SHOWN_BYTES,
    METHODS,
    NOT_SETTABLE,
    http_request,
)
from support.tools.workbench import context_of
from support.web.floods import bomb, encoded
from support.web.web_server import Answer, WebServer, open_web_server, page, zipped


class Web:
    """The tool in front of a server."""

    def __init__(self, server: WebServer, network: WebClient) -> None:
        self.server = server
        self._context = context_of(network=network)

    async def result(self, path: str = "/", **arguments: Any) -> ToolResult:
        given = {"url": self.server.url(path), **arguments}
        return await http_request.execute(http_request.decode(json.dumps(given)), self._context)

    async def output(self, path: str = "/", **arguments: Any) -> dict[str, Any]:
        output: dict[str, Any] = (await self.result(path, **arguments)).output
        return output

    async def failure(self, path: str = "/", **arguments: Any) -> ToolFailure:
        with pytest.raises(ToolFailure) as caught:
            await self.result(path, **arguments)
        return caught.value


@asynccontextmanager
async def open_web(answers: Mapping[str, Answer] | bytes) -> AsyncGenerator[Web]:
    paths = {"/": answers} if isinstance(answers, bytes) else answers
    async with open_web_server(paths) as server:
        guard = AddressGuard([("127.0.0.1", server.port), ("localhost", server.port)])
        async with open_http_client(connect=guard.connect) as http:
            yield Web(server, WebClient(http))


class NoNames(trio.abc.HostnameResolver):
    async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        await trio.lowlevel.checkpoint()
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


@contextmanager
def socket_without_listener() -> Generator[int]:
    """A port that is taken and refuses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def reason_to_ask(**arguments: Any) -> str | None:
    return http_request.approval_reason(http_request.decode(json.dumps(arguments)), context_of())


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────


async def test_a_get_gives_status_reason_headers_and_body() -> None:
    async with open_web(page("hello", x_thing="a", set_cookie="id=1")) as web:
        result = await web.result()
        assert result.output == {
            "status": 200,
            "reason": "OK",
            "headers": {
                "content-length": "5",
                "content-type": "text/plain",
                "x-thing": "a",
                "set-cookie": "id=1",
            },
            "truncated": False,
            "body": "hello",
        }
        assert result.display == f"GET {web.server.url()}: 200 OK (5 bytes)"
        await web.output()
        # A cookie that a server sets is shown and never sent back.
        assert "cookie" not in web.server.requests[1].names


@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops", "401 Unauthorized", "204 Gone"])
async def test_any_status_is_a_success(status: str) -> None:
    async with open_web(page("", status=status)) as web:
        output = await web.output()
    code, _, reason = status.partition(" ")
    assert (output["status"], output["reason"], output["body"]) == (int(code), reason, EMPTY)


@pytest.mark.parametrize("method", METHODS)
async def test_a_method_is_sent_in_capitals_however_it_is_written(method: str) -> None:
    answer = page("" if method == "HEAD" else "ok")
    async with open_web(answer) as web:
        for spelling in (method, method.lower(), method.title()):
            assert (await web.output(method=spelling))["status"] == 200
        assert [request.method for request in web.server.requests] == [method] * 3


async def test_a_head_has_no_body_and_no_size() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
    async with open_web(answer) as web:
        result = await web.result(method="HEAD")
    assert result.output["body"] == "(no body: HEAD asks for none)"
    assert result.output["headers"]["content-length"] == "5"
    assert result.display == f"HEAD {web.server.url()}: 200 OK (no body)"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_a_body_is_json_unless_a_header_says_otherwise(method: str) -> None:
    async with open_web(page()) as web:
        await web.output(method=method, body='{"a":"ü"}')
        await web.output(method=method, body="a=b", headers={"Content-Type": "text/x"})
        await web.output(method=method)
        first, second, third = web.server.requests
    assert first.body == '{"a":"ü"}'.encode()
    assert first.headers["content-type"] == "application/json"
    assert (second.body, second.headers["content-type"]) == (b"a=b", "text/x")
    assert (third.body, "content-type" in third.headers) == (b"", False)


async def test_headers_are_sent_and_what_steers_the_connection_is_ours() -> None:
    async with open_web(page()) as web:
        await web.output(
            headers={"X-Key": " a b ", "Authorization": "Bearer k", "User-Agent": "me"}
        )
        [request] = web.server.requests
    assert request.headers["x-key"] == "a b"
    assert request.headers["authorization"] == "Bearer k"
    assert request.headers["user-agent"] == "me"
    assert request.headers["host"] == f"127.0.0.1:{web.server.port}"
    assert request.headers["accept-encoding"] == "gzip, identity"
    assert len(set(request.names)) == len(request.names)


@pytest.mark.parametrize("name", [*sorted(NOT_SETTABLE), "Host", "TRANSFER-Encoding"])
async def test_a_header_of_the_connection_is_refused_by_name(name: str) -> None:
    async with open_web(page()) as web:
        failed = await web.failure(headers={name: "x"})
        assert failed.error_type is ErrorType.VALIDATION_ERROR
        assert failed.details["field"] == f"headers.{name}"
        assert "can't be set" in str(failed)
        assert web.server.requests == []


@pytest.mark.parametrize(
    "headers",
    [
        {"x-a": "b\r\nx-c: d"},
        {"x-a": "b\nx-c: d"},
        {"x-a": "b\0"},
        {"x-a": "schlüssel"},
        {"x-a\r\nx-c": "d"},
        {"x a": "b"},
        {"": "b"},
        {"x-a:": "b"},
        {"X-A": "b", "x-a": "c"},
    ],
)
async def test_a_header_that_is_none_is_refused_and_its_value_not_repeated(
    headers: dict[str, str],
) -> None:
    async with open_web(page()) as web:
        failed = await web.failure(headers=headers)
        assert failed.error_type is ErrorType.VALIDATION_ERROR
        assert failed.details["field"].startswith("headers")
        assert "schlüssel" not in str(failed)
        assert str(failed).isprintable()
        assert web.server.requests == []
        await web.output(headers={"x-a": "b"})
        assert web.server.requests[0].headers["x-a"] == "b"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"method": "CONNECT"}, "method"),
        ({"method": "TRACE"}, "method"),
        ({"method": "GET /x"}, "method"),
        ({"method": ""}, "method"),
        ({"method": "get\r\n"}, "method"),
        ({"body": "x"}, "body"),
        ({"method": "head", "body": "x"}, "body"),
        ({"url": "nonsense"}, "url"),
        ({"url": "http://me:secret@127.0.0.1/"}, "url"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"body": {"a": 1}}, "body"),
        ({"headers": {"a": 1}}, "headers.a"),
    ],
)
async def test_a_wrong_argument_is_named(arguments: dict[str, Any], field: str) -> None:
    async with open_web(page()) as web:
        failed = await web.failure(**arguments)
        assert (failed.error_type, failed.details["field"]) == (ErrorType.VALIDATION_ERROR, field)
        assert web.server.requests == []


async def test_an_empty_body_of_a_get_is_no_body() -> None:
    async with open_web(page()) as web:
        assert (await web.output(body=""))["status"] == 200


# ── what comes back ──────────────────────────────────────────────────────────────────────────────


async def test_a_large_body_is_cut_on_a_whole_character_and_says_so() -> None:
    text = "é" * 60_000 + "x"
    answers = {"/": page(text), "/zipped": zipped(text.encode(), content_type="text/html")}
    async with open_web(answers) as web:
        for path in ("/", "/zipped"):
            output = await web.output(path)
            assert output["body"] == "é" * (MAX_SHOWN_BYTES // 2)
            assert output["truncated"] is True
            assert (
                output["note"] == f"The body is the first {MAX_SHOWN_BYTES} bytes of 120001 bytes."
            )
        cut = zipped(b"x" + "é".encode() * 60_000, content_type="text/html")
        web.server.answers["/"] = cut
        assert (await web.output())["body"] == "x" + "é" * (MAX_SHOWN_BYTES // 2 - 1)


async def test_what_is_said_of_a_body_stands_before_it() -> None:
    async with open_web(page("x" * 2 * MAX_SHOWN_BYTES)) as web:
        assert list(await web.output()) == [
            "status",
            "reason",
            "truncated",
            "note",
            "headers",
            "body",
        ]
        web.server.answers["/"] = page("x")
        assert list(await web.output()) == ["status", "reason", "truncated", "headers", "body"]


async def test_a_body_of_exactly_the_bound_is_whole() -> None:
    async with open_web(page("x" * MAX_SHOWN_BYTES)) as web:
        output = await web.output()
    assert (len(output["body"]), output["truncated"]) == (MAX_SHOWN_BYTES, False)


async def endless(stream: trio.SocketStream) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
    while True:
        await stream.send_all(b"x" * 65536)


async def test_an_endless_body_is_left() -> None:
    async with open_web({"/": endless}) as web:
        output = await web.output()
    assert output["truncated"] is True
    assert f"is the first {MAX_SHOWN_BYTES} bytes of more than 8" in output["note"]


async def test_a_bomb_is_left_like_an_endless_body() -> None:
    # How much memory that takes is measured in test_http_request_confinement.
    async with open_web({"/": encoded(bomb(), "gzip")}) as web:
        output = await web.output()
    assert output["truncated"] is True
    assert "bytes of more than 8" in output["note"]


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"gr\xfc\xdfe", "text/plain; charset=latin-1", "grüße"),
        (b"gr\xfc\xdfe", 'text/plain; a=b; Charset="ISO-8859-1"', "grüße"),
        ("日本".encode("shift_jis"), "text/html; charset=Shift_JIS", "日本"),
        ("\ufeffhi".encode(), "text/plain", "hi"),
        ("hi".encode("utf-16"), "text/plain", "hi"),
        ("hi".encode("utf-16"), None, "hi"),
        (b"a\xffb", "application/json", "a\ufffdb"),
        (b"a\xffb", "text/plain; charset=nonsense", "a\ufffdb"),
        (b"a\xffb", "text/plain; charset=rot13", "a\ufffdb"),
        (b"a\xffb", "text/plain; charset=undefined", "a\ufffdb"),
        (b"+2AA-", "text/plain; charset=utf-7", "+2AA-"),
        (b"<a/>", "image/svg+xml", "<a/>"),
        (b"plain", None, "plain"),
        (b"plain", "application/octet-stream", "plain"),
        (b"plain\0", "application/octet-stream", None),
        (b"\x89PNG\r\n\x1a\n", "image/png", None),
        (b"\xff\xfeno text", "audio/mpeg", None),
        (b"P1 1 1 0", "image/x-portable-bitmap", None),
        (b"\x80\x01\x02", None, None),
    ],
)
async def test_text_is_read_by_its_charset_and_the_rest_described(
    body: bytes, content_type: str | None, text: str | None
) -> None:
    async with open_web(page(body, content_type=content_type)) as web:
        output = await web.output()
    kind = content_type or "no stated type"
    described = f"(binary body, not shown: {len(body)} bytes of {kind})"
    assert output["body"] == (described if text is None else text)


@pytest.mark.parametrize("answer", [b"nonsense\r\n\r\n", page("x", content_length="9"), b""])
async def test_a_broken_answer_is_a_network_error(answer: bytes) -> None:
    async def breaks(stream: trio.SocketStream) -> None:
        await stream.send_all(answer)

    async with open_web({"/": breaks, "/fine": page()}) as web:
        failed = await web.failure()
        assert failed.error_type is ErrorType.NETWORK_ERROR
        assert "127.0.0.1" in str(failed)
        assert (await web.output("/fine"))["status"] == 200


async def test_a_refused_connection_a_failed_handshake_and_a_lost_name_are_network_errors() -> None:
    async with open_web(page()) as web:
        url = f"https://127.0.0.1:{web.server.port}/"
        assert (await web.failure(url=url)).error_type is ErrorType.NETWORK_ERROR
        trio.socket.set_custom_hostname_resolver(NoNames())
        lost = await web.failure(url="http://nobody.test/")
        assert (lost.error_type, "can't be resolved" in str(lost)) == (
            ErrorType.NETWORK_ERROR,
            True,
        )
        with socket_without_listener() as port:
            guard = AddressGuard([("127.0.0.1", port)])
            async with open_http_client(connect=guard.connect) as http:
                refused = await Web(WebServer({}, port), WebClient(http)).failure()
    assert refused.error_type is ErrorType.NETWORK_ERROR
    assert "refused the connection" in str(refused)


# ── where it may go ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "status", "last"),
    [
        ("POST", "302 Found", "GET"),
        ("POST", "301 Moved Permanently", "GET"),
        ("DELETE", "303 See Other", "GET"),
        ("POST", "307 Temporary Redirect", "POST"),
        ("PUT", "302 Found", "PUT"),
        ("GET", "302 Found", "GET"),
        ("HEAD", "303 See Other", "HEAD"),
    ],
)
async def test_a_method_that_a_redirect_changed_is_told(
    method: str, status: str, last: str
) -> None:
    pages = {"/": page("", status=status, location="/b"), "/b": page("" if last == "HEAD" else "x")}
    async with open_web(pages) as web:
        result = await web.result(method=method)
        there = web.server.url("/b")
        assert web.server.requests[-1].method == last
    assert result.display.startswith(f"{last} {there}: 200 OK (")
    note = f"A redirect turned the {method} into a {last} of {there}."
    assert result.output.get("note") == (note if last != method else None)


async def test_a_cut_body_and_a_changed_method_are_told_together() -> None:
    large = page("x" * (MAX_SHOWN_BYTES + 1))
    pages = {"/": page("", status="302 Found", location="/b"), "/b": large}
    async with open_web(pages) as web:
        note = (await web.output(method="POST"))["note"]
    assert note.startswith(f"The body is the first {MAX_SHOWN_BYTES} bytes of ")
    assert " A redirect turned the POST into a GET of " in note


async def test_the_refusal_is_the_same_whether_something_is_there_or_not() -> None:
    async with open_web(page()) as web:
        texts = []
        for url in (f"http://0.0.0.0:{web.server.port}/", "http://0.0.0.0:9/"):
            failed = await web.failure(url=url)
            assert failed.error_type is ErrorType.URL_NOT_ALLOWED
            texts.append(str(failed).replace(url, "URL"))
        assert len(set(texts)) == 1
        assert "network" in texts[0]
        assert web.server.requests == []
        assert (await web.output())["status"] == 200


# ── what the runtime asks the tool ───────────────────────────────────────────────────────────────


def test_reading_asks_nobody_and_anything_else_says_what_and_where() -> None:
    assert reason_to_ask(url="http://a.test/") is None
    assert reason_to_ask(url="http://a.test/", method="head") is None
    assert reason_to_ask(url="http://A.test./x", method="post") == "sends POST to a.test"
    assert reason_to_ask(url="https://a.test:80/", method="DELETE") == "sends DELETE to a.test:80"
    with pytest.raises(ToolFailure, match="one of GET"):
        reason_to_ask(url="http://a.test/", method="nonsense")


@pytest.mark.parametrize("method", [*METHODS, "get", "Head"])
def test_only_a_call_that_reads_may_run_again(method: str) -> None:
    arguments = http_request.decode(json.dumps({"url": "http://a.test/", "method": method}))
    reads = method.upper() in {"GET", "HEAD"}
    assert http_request.effect(arguments) is (Effect.READ if reads else Effect.ONCE)


def test_a_calls_own_timeout_counts() -> None:
    def seconds(**given: Any) -> float:
        return http_request.timeout_seconds(http_request.decode(json.dumps({"url": "x", **given})))

    assert (seconds(), seconds(timeout=5), seconds(timeout=120)) == (30, 5, 120)
