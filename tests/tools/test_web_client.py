"""Redirects and bodies of tools' requests, over a client that has no network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.errors import DeadlineError, NetworkError
from callboard.runtime.handles import WebAnswer, WebRequest
from callboard.runtime.http.address_guard import AddressRefused
from callboard.runtime.http.client import HttpClient
from callboard.runtime.http.url import HttpUrl, not_allowed
from callboard.tools.web.client import MAX_FOLLOWED_BYTES, MAX_REDIRECTS, WebClient

Sent = tuple[str, str, Mapping[str, str], bytes | None]


class Answer:
    """A body stream of fixed pieces; endless when the last one is empty."""

    def __init__(self, status: int = 200, *pieces: bytes, **headers: str) -> None:
        self.status = status
        self.reason = ""
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.cookies: tuple[bytes, ...] = ()
        self.received_bytes = 0
        self.pieces = pieces or (b"fine",)
        self.reads = 0

    async def read_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        self.reads += 1
        if self.pieces[-1] == b"":
            data = self.pieces[0]
        else:
            data = self.pieces[self.reads - 1] if self.reads <= len(self.pieces) else b""
        self.received_bytes += len(data)
        return data


class FakeHttp:
    """A client with an answer, or an error, for each URL."""

    def __init__(self, answers: Mapping[str, Answer | Exception]) -> None:
        self._answers = answers
        self.sent: list[Sent] = []

    @asynccontextmanager
    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncGenerator[Answer]:
        await trio.lowlevel.checkpoint()
        self.sent.append((method, url, headers, body))
        answer = self._answers[url]
        if isinstance(answer, Exception):
            raise answer
        yield answer


def to(location: str, status: int = 302) -> Answer:
    return Answer(status, b"moved", location=location)


SECRETS = {"authorization": "Bearer k", "cookie": "id=1", "x-api-key": "k", "accept": "text/html"}
START = "https://a.test/"


async def fetch(
    answers: Mapping[str, Answer | Exception],
    url: str = START,
    *,
    method: str = "GET",
    body: bytes | None = None,
    max_bytes: int = 1000,
    headers: Mapping[str, str] = SECRETS,
) -> tuple[WebAnswer, list[Sent]]:
    http = FakeHttp(answers)
    web = WebClient(cast(HttpClient, http))
    request = WebRequest(method=method, url=url, headers=headers, body=body)
    return await web.request(request, max_bytes=max_bytes), http.sent


async def failure(answers: Mapping[str, Answer | Exception], **given: Any) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        await fetch(answers, **given)
    return caught.value


async def test_what_was_meant_for_one_origin_is_told_to_no_other() -> None:
    answers = {
        START: to("/b"),
        "https://a.test/b": to("https://b.test/"),
        "https://b.test/": to("https://a.test/c"),
        "https://a.test/c": Answer(),
    }
    answer, sent = await fetch(answers)
    assert answer.url == "https://a.test/c"
    told = [set(headers) - {"accept-encoding"} for _, _, headers, _ in sent]
    # What was dropped once does not come back.
    assert told == [set(SECRETS), set(SECRETS), {"accept"}, {"accept"}]
    assert all(headers["accept-encoding"] == "gzip, identity" for _, _, headers, _ in sent)


@pytest.mark.parametrize("target", ["http://a.test/", "https://a.test:8443/", "https://b.a.test/"])
async def test_scheme_host_and_port_make_an_origin(target: str) -> None:
    start = target.replace("https", "http") if target.startswith("https") else "http://c.test/"
    answers = {start: to(target), target: Answer()}
    _, sent = await fetch(answers, url=start)
    assert "authorization" not in sent[1][2]


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("GET", 301, "GET"),
        ("HEAD", 302, "HEAD"),
        ("HEAD", 303, "HEAD"),
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("PUT", 303, "GET"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
        ("PUT", 302, "PUT"),
        ("DELETE", 301, "DELETE"),
    ],
)
async def test_the_method_after_a_redirect(method: str, status: int, then: str) -> None:
    body = None if method in {"GET", "HEAD"} else b"{}"
    headers = {"content-type": "application/json", "x-a": "b"}
    answers = {START: to("/b", status), "https://a.test/b": Answer()}
    _, sent = await fetch(answers, method=method, body=body, headers=headers)
    assert sent[1][0] == then
    assert sent[1][3] == (body if then == method else None)
    assert ("content-type" in sent[1][2]) == (then == method)
    assert sent[1][2]["x-a"] == "b"


@pytest.mark.parametrize("status", [307, 308])
async def test_what_changes_something_is_not_carried_to_another_origin(status: int) -> None:
    answers = {START: to("https://b.test/", status), "https://b.test/": Answer()}
    refused = await failure(answers, method="POST", body=b"{}")
    assert refused.error_type is ErrorType.URL_NOT_ALLOWED
    assert "https://b.test/" in str(refused)
    _, sent = await fetch(answers, method="GET")
    assert sent[1][1] == "https://b.test/"


async def test_a_redirect_out_of_https_is_refused() -> None:
    refused = await failure({START: to("http://a.test/")})
    assert refused.error_type is ErrorType.URL_NOT_ALLOWED
    assert "from https to http://a.test/" in str(refused)
    await fetch({"http://a.test/": to(START), START: Answer()}, url="http://a.test/")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://a.test/", "javascript:alert(1)"])
async def test_a_redirect_to_another_scheme_is_refused(target: str) -> None:
    refused = await failure({START: to(target)})
    assert (refused.error_type, str(refused)) == (
        ErrorType.URL_NOT_ALLOWED,
        str(not_allowed(target)),
    )


@pytest.mark.parametrize(
    "target", ["http://", "https://b.test:99999/", "https://me:pw@b.test/", "//"]
)
async def test_a_redirect_to_no_url_is_the_servers_fault(target: str) -> None:
    broken = await failure({START: to(target)})
    assert broken.error_type is ErrorType.NETWORK_ERROR
    assert START in str(broken)
    assert "pw" not in str(broken)


async def test_every_hop_is_guarded() -> None:
    answers: dict[str, Answer | Exception] = {
        START: to("https://in.test/x"),
        "https://in.test/x": AddressRefused("in.test is 10.0.0.1"),
    }
    refused = await failure(answers)
    assert str(refused) == str(not_allowed("https://in.test/x"))
    assert refused.error_type is ErrorType.URL_NOT_ALLOWED
    assert "10.0.0.1" not in str(refused)
    assert refused.__suppress_context__


async def test_redirects_are_counted() -> None:
    chain: dict[str, Answer | Exception] = {
        f"https://a.test/{n}": to(f"/{n + 1}") for n in range(MAX_REDIRECTS)
    }
    last = f"https://a.test/{MAX_REDIRECTS}"
    answer, sent = await fetch({**chain, last: Answer()}, url="https://a.test/0")
    assert (answer.url, len(sent)) == (last, MAX_REDIRECTS + 1)
    endless = await failure({**chain, last: to("/0")}, url="https://a.test/0")
    assert endless.error_type is ErrorType.NETWORK_ERROR
    assert f"more than {MAX_REDIRECTS} times" in str(endless)


@pytest.mark.parametrize(
    "answer", [Answer(302), Answer(304, location="/b"), Answer(201, location="/b"), Answer(300)]
)
async def test_what_is_no_redirect_is_an_answer(answer: Answer) -> None:
    got, sent = await fetch({START: answer})
    assert (got.status, len(sent)) == (answer.status, 1)


@pytest.mark.parametrize("error", [NetworkError("it broke"), DeadlineError("too late")])
async def test_a_connection_that_fails_is_a_network_error(error: Exception) -> None:
    failed = await failure({START: error})
    assert (failed.error_type, str(failed)) == (ErrorType.NETWORK_ERROR, str(error))


async def test_a_wrong_url_is_not_sent() -> None:
    assert (await failure({}, url="http://")).error_type is ErrorType.VALIDATION_ERROR
    assert (await failure({}, url="file:///x")).error_type is ErrorType.URL_NOT_ALLOWED


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "size", "is_larger", "reads"),
    [
        (Answer(200, b"x" * 10), 10, False, 2),
        (Answer(200, b"x" * 1000), 1000, False, 2),
        (Answer(200, b"x" * 600, b"x" * 600), 1200, False, 3),
        # Its size is known: what is beyond need not come.
        (Answer(200, b"x" * 1001, b"", content_length="5000000000"), 5_000_000_000, False, 1),
        # Of a compressed one the length says nothing about the whole.
        (Answer(200, b"x" * 1500, content_length="9", content_encoding="gzip"), 1500, False, 2),
        (Answer(200, b"x" * 2**20, b""), 2**20 * 9, True, 9),
    ],
)
async def test_a_body_is_kept_up_to_the_bound_and_its_size_followed(
    answer: Answer, size: int, is_larger: bool, reads: int
) -> None:
    got, _ = await fetch({START: answer}, max_bytes=1000)
    assert got.body == b"x" * min(1000, size)
    assert (got.size_bytes, got.is_larger, answer.reads) == (size, is_larger, reads)


async def test_what_comes_is_bounded_too_when_it_decompresses_to_little() -> None:
    class Inflated(Answer):
        async def read_some(self) -> bytes:
            await super().read_some()
            self.received_bytes += 2**20
            return b"x"

    answer = Inflated(200, content_encoding="gzip")
    got, _ = await fetch({START: answer})
    assert got.is_larger
    assert answer.received_bytes > MAX_FOLLOWED_BYTES
    assert answer.reads == 8


async def test_the_head_is_told_as_it_was() -> None:
    answer = Answer(200, b"x", x_a="b")
    answer.reason = "Fine"
    answer.cookies = (b"a=1; expires=Sat, 21 Nov", b"b=2")
    got, _ = await fetch({START: answer})
    assert (got.status, got.reason) == (200, "Fine")
    assert got.headers == {"x-a": "b", "set-cookie": "a=1; expires=Sat, 21 Nov\nb=2"}
    assert [(await fetch({START: Answer(n)}))[0].reason for n in (404, 299)] == ["Not Found", ""]


async def test_a_redirect_is_told_before_it_is_followed_and_may_be_refused() -> None:
    told: list[tuple[str, str, str, str]] = []

    async def on_redirect(source: HttpUrl, target: HttpUrl, request: WebRequest) -> None:
        told.append((source.text, target.text, request.method, request.url))
        if target.host == "c.test":
            raise not_allowed(target.shown)

    http = FakeHttp(
        {
            START: to("https://b.test/", 303),
            "https://b.test/": to("https://c.test/"),
            "https://c.test/": Answer(),
        }
    )
    request = WebRequest(method="POST", url=START, headers={}, body=b"x", on_redirect=on_redirect)
    answer = await WebClient(cast(HttpClient, http)).request(request, max_bytes=10)
    assert (answer.status, "c.test" in answer.warning) == (303, True)
    assert told == [
        (START, "https://b.test/", "GET", "https://b.test/"),
        ("https://b.test/", "https://c.test/", "GET", "https://c.test/"),
    ]
    assert [url for _, url, _, _ in http.sent] == [START, "https://b.test/"]


class BreaksOff(Answer):
    """A body that breaks off behind its first piece."""

    async def read_some(self) -> bytes:
        if self.reads:
            raise NetworkError("The connection to a.test broke.")
        return await super().read_some()


LATE: dict[str, dict[str, Answer | Exception]] = {
    "its page can't be reached": {
        START: to("/done", 303),
        "https://a.test/done": NetworkError("broke"),
    },
    "its page is too slow": {
        START: to("/done", 303),
        "https://a.test/done": DeadlineError("slow"),
    },
    "its page lies where nothing is reached": {
        START: to("https://in.test/", 303),
        "https://in.test/": AddressRefused("private"),
    },
    "its page is not encrypted": {START: to("http://a.test/done", 303)},
    "its page is no URL": {START: to("https://[", 303)},
    "its pages go round": {
        START: to("/round", 303),
        "https://a.test/round": to("/round"),
    },
    "its body breaks off": {START: BreaksOff(201, b"made", b"more")},
}


@pytest.mark.parametrize("case", LATE)
async def test_what_a_server_has_done_is_reported_whatever_fails_then(case: str) -> None:
    answers = LATE[case]
    first = answers[START]
    assert isinstance(first, Answer)
    first.reads = 0
    answer, _ = await fetch(answers, method="POST", body=b"x")
    assert (answer.status, answer.method) == (first.status, "POST")
    assert answer.warning
    first.reads = 0
    await failure(answers)  # the control: a GET has done nothing, and may be sent again


async def test_a_request_that_is_sent_elsewhere_has_done_nothing_here() -> None:
    elsewhere: dict[str, Answer | Exception] = {
        START: to("/b", 307),
        "https://a.test/b": NetworkError("broke"),
    }
    failed = await failure(elsewhere, method="POST", body=b"x")
    assert str(failed) == "broke Whether the POST was received is not known."
    refused = NetworkError("refused", stage="connect")
    assert str(await failure({START: refused}, method="POST")) == "refused", "nothing was sent"
