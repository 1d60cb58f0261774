"""The model of a turn, found by asking a server over a real socket for its list."""

from __future__ import annotations

import msgspec
import pytest
import trio

from callboard.embedding.models import ModelFinder
from callboard.providers.catalog.catalog import ModelSelection
from callboard.providers.catalog.lists import MAX_PAGES, fetch_models
from callboard.providers.openai_chat.dialect import OpenAiChat
from callboard.providers.provider import Endpoint, ListedModel, ModelPage
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.errors import ProviderError, ValidationError
from callboard.runtime.http.client import open_http_client


async def found(base_url: str) -> str:
    finder = ModelFinder(ModelSelection(environ={}, base_url=base_url))
    async with open_http_client() as http:
        await finder.look_around(http)
    return finder.target(None).model


async def test_the_first_model_that_converses_is_taken() -> None:
    models = ("nomic-embed-text", "whisper-1", "chatty", "other")
    async with open_scripted_server([], models=models) as server:
        assert await found(server.base_url) == "chatty"


async def test_a_server_that_lists_none_is_told_from_one_that_is_not_there() -> None:
    async with open_scripted_server([], models=("whisper-1",)) as server:
        with pytest.raises(ValidationError, match="no list of models came"):
            await found(server.base_url)
        # An address of this server that has no list.
        with pytest.raises(ValidationError, match="no list of models came"):
            await found(f"{server.base_url}/elsewhere")
    with pytest.raises(ValidationError, match="nothing answered"):
        await found(server.base_url)


class InPages(OpenAiChat):
    """A format whose list never ends; each page has models of its own, and one of the last."""

    pages = 0

    def read_models(self, body: bytes) -> ModelPage:
        self.pages += 1
        names = [f"model-{number}" for number in (self.pages - 1, self.pages)]
        return ModelPage(tuple(ListedModel(model=name) for name in names), next_page="more")


async def test_pages_of_a_list_are_asked_for_up_to_a_bound() -> None:
    async with open_scripted_server([], models=("a", "b")) as server, open_http_client() as http:
        endpoint = Endpoint(name="p", dialect=OpenAiChat(), base_url=server.base_url)
        assert [m.model for m in await fetch_models(http, endpoint)] == ["a", "b"]
        endpoint = msgspec.structs.replace(endpoint, dialect=InPages())
        assert len(await fetch_models(http, endpoint)) == MAX_PAGES + 1
        endpoint = msgspec.structs.replace(endpoint, base_url=f"{server.base_url}/elsewhere")
        with pytest.raises(ProviderError, match="404"):
            await fetch_models(http, endpoint)


@pytest.mark.parametrize(
    ("props", "window"),
    [
        (b'{"default_generation_settings":{"n_ctx":4096}}', 4096),
        (b'{"default_generation_settings":{"n_ctx":"4096"}}', 131_072),
        (b"[]", 131_072),
        (None, 131_072),
    ],
)
async def test_the_window_of_a_llamacpp_server_is_the_one_that_it_gives(
    props: bytes | None, window: int
) -> None:
    listed = b'{"data":[{"id":"gemma","meta":{"n_ctx_train":131072}}]}'
    bodies = {b"/v1/models": listed, b"/props": props}

    async def serve(stream: trio.SocketStream) -> None:
        with stream.socket:
            asked = await stream.receive_some()
            body = bodies[asked.split()[1]]
            status = b"200 OK" if body is not None else b"404 Not Found"
            head = b"HTTP/1.1 %s\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
            await stream.send_all(head % (status, len(body or b"")) + (body or b""))

    async with trio.open_nursery() as nursery, open_http_client() as http:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        port = listener.socket.getsockname()[1]
        endpoint = Endpoint(name="p", dialect=OpenAiChat(), base_url=f"http://127.0.0.1:{port}/v1")
        [model] = await fetch_models(http, endpoint)
        nursery.cancel_scope.cancel(reason="it was asked")
    assert model.context_tokens == window
