"""A program's own httpx client or transport: every request of a runtime goes through it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import trio

import callboard
from callboard.config.settings import NetworkSettings, ProviderSettings, Settings
from callboard.runtime.errors import DeadlineError, NetworkError, ValidationError
from callboard.runtime.http.address_guard import AddressRefused
from callboard.runtime.http.client import open_http_client
from callboard.runtime.http.pool import ConnectionPool
from callboard.runtime.http.transport import PooledTransport
from support.stage import play
from support.web.web_server import open_web_server, page

HELLO = (
    'data: {"choices": [{"index": 0, "delta": {"content": "Hello."}}]}\n\n'
    'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
    "data: [DONE]\n\n"
)
FETCH = (
    'data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1", "function": '
    '{"name": "http_request", "arguments": "{\\"url\\": \\"URL\\"}"}}]}}]}\n\n'
    'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}\n\n'
    "data: [DONE]\n\n"
)
HOUSE = Settings(
    providers={"house": ProviderSettings(name="house", base_url="http://models.test/v1", model="m")}
)


class Far:
    """What is reached through the program's own transport; it keeps the requests."""

    def __init__(self, *steps: str) -> None:
        self.requests: list[httpx.Request] = []
        self._steps = list(steps)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path.endswith("/chat/completions"):
            return httpx.Response(
                200, headers={"content-type": "text/event-stream"}, text=self._steps.pop(0)
            )
        if request.url.path.endswith("/models"):
            return httpx.Response(200, json={"data": [{"id": "m"}, {"id": "n"}]})
        return httpx.Response(200, headers={"set-cookie": "a=b"}, text="a page from afar")

    @property
    def urls(self) -> list[str]:
        return [str(request.url) for request in self.requests]


async def test_models_lists_and_connection_tests_go_through_it() -> None:
    far = Far(HELLO, HELLO)
    async with callboard.open_runtime(
        model="house", settings=HOUSE, environ={}, http=httpx.MockTransport(far)
    ) as runtime:
        session = await runtime.create_session()
        assert await session.run("Hi.") == "Hello."
        listed = await runtime.list_models("house")
        assert [model.choice for model in listed.models] == ["house/m", "house/n"]
        assert (await runtime.test_provider("house")).works
    assert set(far.urls) == {
        "http://models.test/v1/chat/completions",
        "http://models.test/v1/models",
    }


@pytest.mark.parametrize(
    ("url", "is_sent"),
    [
        ("https://api.example.invalid/x", True),  # a name of the proxy's: it can't be resolved here
        ("http://127.0.0.1/x", False),
        ("http://localhost/x", False),
        ("http://[::ffff:10.0.0.1]/x", False),
        ("https://api.example.invalid:8443/x", False),
    ],
)
async def test_tools_go_through_it_and_stay_behind_the_guard(url: str, is_sent: bool) -> None:
    far = Far(FETCH.replace("URL", url), HELLO)
    async with callboard.open_runtime(
        model="house", settings=HOUSE, environ={}, http=httpx.MockTransport(far), policy="auto"
    ) as runtime:
        played = await play(await runtime.create_session(), "Go.")
    assert (url in far.urls) is is_sent
    [result] = played.results
    assert ("a page from afar" in result.result) is is_sent


async def test_a_listed_host_may_be_anywhere() -> None:
    settings = Settings(
        providers=HOUSE.providers, network=NetworkSettings(allow=("127.0.0.1:8000",))
    )
    far = Far(FETCH.replace("URL", "http://127.0.0.1:8000/x"), HELLO)
    async with callboard.open_runtime(
        model="house", settings=settings, environ={}, http=httpx.MockTransport(far), policy="auto"
    ) as runtime:
        await play(await runtime.create_session(), "Go.")
    assert "http://127.0.0.1:8000/x" in far.urls


async def test_nothing_of_the_client_itself_is_sent_and_no_redirect_is_followed() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(302, headers={"location": "http://else.test/"})

    seen: list[httpx.Request] = []
    async with httpx.AsyncClient(
        transport=httpx.MockTransport(answer),
        headers={"x-house": "secret"},
        cookies={"session": "secret"},
        auth=("user", "secret"),
        params={"token": "secret"},
        follow_redirects=True,
    ) as own:
        async with open_http_client(given=own) as http:
            for _ in range(2):
                async with http.request("GET", "http://there.test/", {"X-Mine": "1"}) as response:
                    assert response.status == 302
        assert not own.is_closed  # who made it closes it
    assert [str(request.url) for request in seen] == ["http://there.test/"] * 2
    for request in seen:
        assert "secret" not in str(request.headers)
        assert request.headers["x-mine"] == "1"
        assert request.headers["accept-encoding"] == "identity"


def fails(fault: Exception) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        raise fault

    return answer


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (httpx.ConnectError("no route"), NetworkError),
        (httpx.ProxyError("the proxy refuses"), NetworkError),
        (httpx.ReadTimeout("late"), DeadlineError),
    ],
)
async def test_the_errors_of_httpx_are_ours(fault: Exception, kind: type[Exception]) -> None:
    own = httpx.AsyncClient(transport=httpx.MockTransport(fails(fault)))
    async with open_http_client(given=own) as http:
        with pytest.raises(kind, match=r"there\.test"):
            async with http.request("GET", "http://there.test/", {}):
                pass


async def test_a_body_that_breaks_is_a_network_error() -> None:
    class Broken(httpx.AsyncByteStream):
        async def __aiter__(self):  # type: ignore[no-untyped-def]  # noqa: ASYNC900  httpx's interface
            yield b"half"
            raise httpx.ReadError("cut off")

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Broken())

    own = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    async with open_http_client(given=own) as http:
        async with http.request("GET", "http://there.test/", {}) as response:
            assert await response.read_some() == b"half"
            with pytest.raises(NetworkError, match="cut off"):
                await response.read_some()


async def test_a_cancelled_request_closes_its_response() -> None:
    class Endless(httpx.AsyncByteStream):
        is_closed = False

        async def __aiter__(self):  # type: ignore[no-untyped-def]  # noqa: ASYNC900  httpx's interface
            yield b"."
            await trio.sleep_forever()

        async def aclose(self) -> None:
            Endless.is_closed = True

    own = httpx.AsyncClient(
        transport=httpx.MockTransport(lambda _: httpx.Response(200, stream=Endless()))
    )
    async with open_http_client(given=own) as http:
        with trio.CancelScope() as scope:
            async with http.request("GET", "http://there.test/", {}) as response:
                await response.read_some()
                scope.cancel()
                await response.read_some()
    assert scope.cancelled_caught
    assert Endless.is_closed


@pytest.mark.parametrize("http", ["http://proxy", httpx.Client, object()])
async def test_what_is_no_client_is_refused(http: object) -> None:
    with pytest.raises(ValidationError, match=r"pass an httpx\.AsyncClient") as refused:
        async with callboard.open_runtime(model="rehearsal", http=http):  # type: ignore[arg-type]
            pass
    assert refused.value.field == "http"


async def test_our_connections_serve_any_httpx_client(tmp_path: Path) -> None:
    async def refuse(host: str, port: int) -> trio.SocketStream:
        raise AddressRefused(f"Connections to {host}:{port} are not allowed.")

    async with open_web_server({"/": page("words")}) as server:
        pool = ConnectionPool()
        async with httpx.AsyncClient(transport=PooledTransport(pool)) as client:
            assert [(await client.get(server.url("/"))).text for _ in range(3)] == ["words"] * 3
            assert pool.count() == (0, 1)  # one connection served all three
        pool.close()
    guarded = httpx.AsyncClient(transport=PooledTransport(ConnectionPool(refuse)))
    with pytest.raises(httpx.ConnectError, match="not allowed"):
        await guarded.get("http://there.test/")


async def test_httpx_logs_no_url_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    own = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200)))
    async with open_http_client(given=own) as http:
        async with http.request("GET", "http://there.test/?key=sesame", {}):
            pass
    assert "sesame" not in caplog.text
    await own.get("http://there.test/?of=the-program")  # its own requests are logged as ever
    assert "of=the-program" in caplog.text
