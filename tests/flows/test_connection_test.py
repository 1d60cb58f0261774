"""The test of a provider over real sockets: each thing that can fail is told from the others."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Any

import pytest
import trio

from callboard.providers.catalog.catalog import ModelSelection, find_provider
from callboard.providers.catalog.connection_test import (
    ConnectionFault,
    ConnectionReport,
    try_connection,
)
from callboard.providers.catalog.keys import StoredKeys
from callboard.runtime.errors import AuthError
from support.providers.model_pages import CHAT, MODEL, WIRES, Wire, refusal, wish_for
from support.web.web_server import CERTIFICATE, Answer, open_web_server, page

SHORT_SECONDS = 0.5
"""For servers that say nothing: long enough to be asked."""


async def tried(
    selection: ModelSelection, model: str | None = None, seconds: float = 20.0
) -> ConnectionReport:
    return await try_connection(find_provider(selection, "house"), selection, model, seconds)


async def tried_at(
    answers: dict[str, Answer], wire: Wire = CHAT, model: str | None = None, **provider: Any
) -> ConnectionReport:
    """The report about a server with these pages; what it says is one line, and shows no key."""
    async with open_web_server(answers) as server:
        report = await tried(wish_for(server.url("/v1"), wire, **provider), model)
    assert report.works == (report.fault is None)
    assert report.message.isprintable()
    assert "sesame" not in report.message
    return report


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.dialect)
async def test_a_provider_that_works(wire: Wire) -> None:
    async with open_web_server(wire.pages(ids=["other", MODEL])) as server:
        report = await tried(wish_for(server.url("/v1"), wire, model=MODEL))
    assert (report.works, report.fault, report.model) == (True, None, MODEL)
    assert (report.dialect, report.listed) == (wire.dialect, 2)
    assert report.message.startswith(f"house works: {MODEL} answered in ")
    assert "lists 2 models" in report.message
    assert [request.method for request in server.requests] == ["GET", "POST"]
    for request in server.requests:
        assert "sesame" in request.headers[wire.key_header]


async def test_the_model_is_the_named_one_else_the_default_else_the_first_listed() -> None:
    answers = CHAT.pages(ids=["nomic-embed-text", "first", "second"])
    assert (await tried_at(answers)).model == "first"
    assert (await tried_at(answers, model="named", models=["manual"])).model == "named"
    assert (await tried_at(answers, models=["manual"])).model == "manual"


async def test_a_server_that_lists_nothing_works_when_its_model_answers() -> None:
    report = await tried_at({"/v1/chat/completions": CHAT.answer}, model="m")
    assert (report.works, report.listed) == (True, None)


REFUSALS: list[tuple[str, str, bytes, ConnectionFault, str]] = [
    ("401", MODEL, refusal("401 No", "bad key"), ConnectionFault.KEY, "the one in HOUSE_KEY"),
    ("403", MODEL, refusal("403 No", "not for you"), ConnectionFault.KEY, "not for you"),
    (
        "gemini's key",
        MODEL,
        refusal("400 No", "API key not valid.", details=[{"reason": "API_KEY_INVALID"}]),
        ConnectionFault.KEY,
        "API key not valid",
    ),
    (
        "unknown model",
        "gone",
        refusal("404 No", "The model `gone` does not exist"),
        ConnectionFault.MODEL,
        "`callboard models house --refresh` lists",
    ),
    (
        "no access to the model",
        MODEL,
        refusal("403 No", f"Project does not have access to model `{MODEL}`"),
        ConnectionFault.MODEL,
        "not have access",
    ),
    (
        "400 for a model that is not listed",
        "gone",
        refusal("400 No", "Model Not Exist"),
        ConnectionFault.MODEL,
        "Model Not Exist",
    ),
    (
        "quota",
        MODEL,
        refusal("429 No", "You exceeded your current quota", code="insufficient_quota"),
        ConnectionFault.QUOTA,
        "plan and billing",
    ),
    ("402", MODEL, refusal("402 No", "Pay"), ConnectionFault.QUOTA, "billing"),
    ("429", MODEL, refusal("429 No", "Slow down"), ConnectionFault.BUSY, "Slow down"),
    ("529", MODEL, refusal("529 No", "Overloaded"), ConnectionFault.BUSY, "overloaded"),
    ("500", MODEL, refusal("500 No", "Oops"), ConnectionFault.PROVIDER, "Oops"),
    ("400", MODEL, refusal("400 No", "Bad field"), ConnectionFault.PROVIDER, "Bad field"),
    ("a web page", MODEL, page("<title>Hi</title>"), ConnectionFault.PROVIDER, ""),
]


@pytest.mark.parametrize(
    ("model", "answer", "fault", "said"),
    [case[1:] for case in REFUSALS],
    ids=[case[0] for case in REFUSALS],
)
async def test_what_a_model_server_refuses(
    model: str, answer: bytes, fault: ConnectionFault, said: str
) -> None:
    report = await tried_at(CHAT.pages(answer=answer), model=model)
    assert (report.fault, report.listed) == (fault, 1)
    assert said in report.message


async def test_a_refused_key_is_found_before_a_model_is_asked() -> None:
    answers = CHAT.pages() | {"/v1/models": refusal("401 No", "bad key")}
    async with open_web_server(answers) as server:
        report = await tried(wish_for(server.url("/v1")), MODEL)
    assert report.fault is ConnectionFault.KEY
    assert [request.method for request in server.requests] == ["GET"]


async def test_a_list_that_is_not_for_this_key_is_no_fault() -> None:
    answers = CHAT.pages() | {"/v1/models": refusal("403 No", "Missing scope: model.read")}
    assert (await tried_at(answers, model=MODEL)).works


async def test_a_model_server_without_a_model_wants_one_named() -> None:
    report = await tried_at(CHAT.pages(ids=["nomic-embed-text"]))
    assert report.fault is ConnectionFault.MODEL
    assert "--model" in report.message


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"/v1/models": page("<title>Router</title>"), "/v1/chat/completions": page("<title>")},
        {"/v1/models": page("{}"), "/v1/chat/completions": page("", status="405 No")},
        {"/v1/chat/completions": page("<title>No POST</title>", status="501 No")},
        {"/v1/chat/completions": page("<title>TLS port</title>", status="400 No")},
    ],
    ids=["404", "web pages", "405", "501 page", "400 page"],
)
@pytest.mark.parametrize("model", [None, "m"])
async def test_what_is_no_model_server(answers: dict[str, Answer], model: str | None) -> None:
    report = await tried_at(answers, model=model)
    assert (report.fault, report.listed) == (ConnectionFault.NO_MODELS, None)
    assert "base URL" in report.message


async def test_another_wire_format_is_no_model_server() -> None:
    gemini = WIRES[3]
    report = await tried_at(gemini.pages(), wire=WIRES[2], model=MODEL)
    assert report.fault is ConnectionFault.NO_MODELS


# ── ahead of any answer ──────────────────────────────────────────────────────────────────────────


class NoNames(trio.abc.HostnameResolver):
    """Names that don't exist, or whose answer never comes."""

    def __init__(self, *, answers: bool = True) -> None:
        self._answers = answers

    async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        if not self._answers:
            await trio.sleep_forever()
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


async def test_a_name_that_does_not_exist() -> None:
    trio.socket.set_custom_hostname_resolver(NoNames())
    report = await tried(wish_for("https://nowhere.example/v1"))
    assert report.fault is ConnectionFault.NAME
    assert "nowhere.example:443 can't be resolved" in report.message


async def test_a_port_where_nothing_listens() -> None:
    async with open_web_server({}) as server:
        url = server.url("/v1")
    report = await tried(wish_for(url))
    assert report.fault is ConnectionFault.CONNECT
    assert "refused the connection. Is the server running" in report.message


async def test_tls_that_is_not_spoken() -> None:
    async with open_web_server({}) as server:
        report = await tried(wish_for(server.url("/v1").replace("http:", "https:")))
    assert report.fault is ConnectionFault.TLS
    assert "certificate" in report.message
    assert "_ssl.c" not in report.message
    assert "[" not in report.message


async def test_a_certificate_that_nobody_vouches_for() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)

    async def serve(stream: trio.SocketStream) -> None:
        tls = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        with suppress(trio.BrokenResourceError):
            await tls.do_handshake()
        await trio.aclose_forcefully(tls)

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        await nursery.start(trio.serve_listeners, serve, [listener])
        report = await tried(wish_for(f"https://127.0.0.1:{port}/v1"))
        nursery.cancel_scope.cancel()
    assert report.fault is ConnectionFault.TLS
    assert "self-signed certificate" in report.message


async def serve_raw(stream: trio.SocketStream, data: bytes) -> None:
    async with stream:
        await stream.receive_some(65536)
        if data:
            await stream.send_all(data)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"SSH-2.0-something\r\n\x00\r\n\r\n", ConnectionFault.NO_MODELS),
        (b"", ConnectionFault.BROKEN),
    ],
    ids=["another protocol", "closed"],
)
async def test_what_is_no_http(data: bytes, fault: ConnectionFault) -> None:
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]

        async def serve(stream: trio.SocketStream) -> None:
            await serve_raw(stream, data)

        await nursery.start(trio.serve_listeners, serve, [listener])
        report = await tried(wish_for(f"http://127.0.0.1:{port}/v1"))
        nursery.cancel_scope.cancel()
    assert report.fault is fault
    assert "bytearray" not in report.message


async def silent(_: Any) -> None:
    await trio.sleep_forever()


async def test_a_server_that_says_nothing() -> None:
    async with open_web_server({"/v1/models": silent}) as server:
        report = await tried(wish_for(server.url("/v1")), seconds=SHORT_SECONDS)
    assert report.fault is ConnectionFault.SILENT
    assert "took the connection and said nothing within 0.5 s" in report.message


async def test_a_model_that_says_nothing() -> None:
    async with open_web_server(CHAT.pages(answer=silent)) as server:
        report = await tried(wish_for(server.url("/v1")), seconds=SHORT_SECONDS)
    assert (report.fault, report.listed) == (ConnectionFault.SILENT, 1)
    assert f"house answers, but its model {MODEL} said nothing" in report.message


async def test_a_host_that_takes_the_connection_and_never_speaks_tls() -> None:
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        await nursery.start(trio.serve_listeners, silent, [listener])
        report = await tried(wish_for(f"https://127.0.0.1:{port}/v1"), seconds=SHORT_SECONDS)
        nursery.cancel_scope.cancel()
    assert report.fault is ConnectionFault.TLS
    assert "accepted the connection but did not speak TLS within 0.3 s" in report.message


async def test_a_host_that_takes_no_connection() -> None:
    trio.socket.set_custom_hostname_resolver(NoNames(answers=False))
    report = await tried(wish_for("https://nowhere.example/v1"), seconds=SHORT_SECONDS)
    assert report.fault is ConnectionFault.CONNECT
    assert "did not accept the connection within" in report.message


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def locked(provider: str, origin: str) -> Any:
    raise AuthError("The stored keys are locked.")


@pytest.mark.parametrize(
    ("stored", "said"),
    [(lambda *_: None, "house needs a key: set HOUSE_KEY"), (locked, "locked")],
    ids=["missing", "locked"],
)
async def test_a_key_that_can_not_be_used(stored: StoredKeys, said: str) -> None:
    async with open_web_server(CHAT.pages()) as server:
        settings = wish_for(server.url("/v1")).settings
        report = await tried(ModelSelection(settings=settings, environ={}, stored=stored))
    assert report.fault is ConnectionFault.KEY
    assert said in report.message
    assert server.requests == []


async def test_a_key_in_clear_text_is_not_sent() -> None:
    report = await tried(wish_for("http://10.0.0.5:8000/v1"))
    assert report.fault is ConnectionFault.KEY
    assert "HOUSE_KEY is not sent to 10.0.0.5:8000" in report.message


async def test_an_inactive_provider_can_be_tested() -> None:
    async with open_web_server(CHAT.pages()) as server:
        selection = wish_for(server.url("/v1"))
        settings = selection.settings
        inactive = ModelSelection(
            settings=type(settings)(providers=settings.providers, inactive=("house",)),
            environ=selection.environ,
        )
        assert (await tried(inactive)).works
