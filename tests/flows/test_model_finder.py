"""The model of a turn, found by asking a server over a real socket for its list."""

from __future__ import annotations

import msgspec
import pytest

from callboard.embedding.models import ModelFinder
from callboard.providers.catalog.catalog import ModelSelection
from callboard.providers.catalog.lists import MAX_PAGES, fetch_models
from callboard.providers.openai_chat.dialect import OpenAiChat
from callboard.providers.provider import Endpoint, ListedModel, ModelPage
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.errors import ProviderError, ValidationError
from callboard.runtime.http.client import open_http_client
from support.providers.bodies import answering


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
    async with answering({b"/v1/models": listed, b"/props": props}) as url:
        assert await windows(url) == {"gemma": window}


async def test_the_window_of_an_ollama_server_is_the_one_that_it_runs_with() -> None:
    """A loaded model's own, else what its parameters set; else nobody knows."""
    listed = [{"id": name, "owned_by": "library"} for name in ("run:1b", "set:1b", "any:1b")]
    bodies: dict[bytes, bytes | None] = {
        b"/v1/models": msgspec.json.encode({"data": listed}),
        b"/api/ps": b'{"models":[{"model":"run:1b","context_length":4096},{"model":7}, 8]}',
        b'/api/show {"model":"set:1b"}': b'{"parameters":"stop  \\"x\\"\\nnum_ctx      8192"}',
        b'/api/show {"model":"any:1b"}': b'{"model_info":{"llama.context_length":131072}}',
    }
    async with answering(bodies) as url:
        assert await windows(url) == {"run:1b": 4096, "set:1b": 8192, "any:1b": None}
        bodies[b"/api/ps"] = bodies[b'/api/show {"model":"set:1b"}'] = None
        assert await windows(url) == {"run:1b": None, "set:1b": None, "any:1b": None}


async def windows(base_url: str) -> dict[str, int | None]:
    endpoint = Endpoint(name="p", dialect=OpenAiChat(), base_url=base_url)
    async with open_http_client() as http:
        return {each.model: each.context_tokens for each in await fetch_models(http, endpoint)}
