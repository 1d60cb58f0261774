"""Lists of models and short texts, from real sockets, in every wire format."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.config.settings import DialectName, ProviderSettings, Settings
from callboard.providers.catalog.cache import FOLDER_NAME, ModelCache
from callboard.providers.catalog.catalog import ModelSelection, resolve_model
from callboard.providers.catalog.completion import MAX_TEXT_CHARS
from callboard.providers.catalog.known import KNOWN, KNOWN_MODELS
from callboard.providers.catalog.services import ModelServices
from callboard.providers.provider import ListedModel, ModelTarget
from callboard.providers.testing.script import fail, reply
from callboard.runtime.errors import (
    AuthError,
    DeadlineError,
    NetworkError,
    NotFoundError,
    OverloadedError,
    ProviderError,
    ValidationError,
)
from callboard.runtime.http.client import open_http_client
from callboard.runtime.wire.providers import ModelList, ModelSource
from support.providers.model_pages import CHAT, MODEL, TEXT, WIRES, Wire, refusal, wish_for
from support.web.web_server import Answer, WebServer, open_web_server, page


class Stage:
    """A server, and services whose provider `house` it is."""

    def __init__(
        self, server: WebServer, selection: ModelSelection, http: Any, data: Path | None
    ) -> None:
        self.server = server
        self.services = ModelServices(selection, http, ModelCache(data))
        self.target = self._target(selection)

    @staticmethod
    def _target(selection: ModelSelection) -> ModelTarget:
        resolved = resolve_model(ModelSelection(choice=f"house/{MODEL}", **_fields(selection)))
        return ModelTarget(
            provider=resolved.provider, model=resolved.model, endpoint=resolved.endpoint
        )


def _fields(selection: ModelSelection) -> dict[str, Any]:
    return {"settings": selection.settings, "environ": selection.environ}


@asynccontextmanager
async def open_stage(
    answers: dict[str, Answer], wire: Wire = CHAT, data: Path | None = None, **provider: Any
) -> AsyncGenerator[Stage]:
    async with open_web_server(answers) as server, open_http_client() as http:
        yield Stage(server, wish_for(server.url("/v1"), wire, **provider), http, data)


def choices(found: ModelList) -> list[tuple[str, str]]:
    return [(model.choice, model.source.value) for model in found.models]


# ── lists ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.dialect)
async def test_a_list_is_asked_for_once_and_then_to_refresh(wire: Wire) -> None:
    async with open_stage(wire.pages(ids=["one", "two"]), wire) as stage:
        first = await stage.services.list_models("house")
        again = await stage.services.list_models("house")
        assert choices(first) == [("house/one", "listed"), ("house/two", "listed")]
        assert (first.is_cached, again.is_cached) == (False, True)
        assert again.models == first.models
        assert again.listed_at_ms == first.listed_at_ms is not None
        stage.server.answers["/v1/models"] = wire.models(["three"])
        fresh = await stage.services.list_models("house", refresh=True)
        assert choices(fresh) == [("house/three", "listed")]
        assert len(stage.server.requests) == 2
        assert "sesame" in stage.server.requests[0].headers[wire.key_header]


async def test_all_pages_of_a_list_are_read() -> None:
    gemini, anthropic = WIRES[3], WIRES[2]
    more = {**gemini.list_of(["one"]), "nextPageToken": "p 2"}
    answers: dict[str, Answer] = {
        "/v1/models": page(json.dumps(more)),
        "/v1/models?pageSize=1000&pageToken=p%202": gemini.models(["one", "two"]),
    }
    async with open_stage(answers, gemini) as stage:
        found = await stage.services.list_models("house")
    assert choices(found) == [("house/one", "listed"), ("house/two", "listed")]
    more = {**anthropic.list_of(["one"]), "has_more": True, "last_id": "one"}
    answers = {
        "/v1/models": page(json.dumps(more)),
        "/v1/models?limit=1000&after_id=one": anthropic.models(["two"]),
    }
    async with open_stage(answers, anthropic) as stage:
        found = await stage.services.list_models("house")
    assert choices(found) == [("house/one", "listed"), ("house/two", "listed")]


async def test_a_list_is_kept_in_the_data_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with open_stage(CHAT.pages(ids=["one"]), data=data) as stage:
        first = await stage.services.list_models("house")
        [file] = (data / FOLDER_NAME).iterdir()
        assert (file.name, file.stat().st_mode & 0o777) == ("house.json", 0o600)
        assert b"sesame" not in file.read_bytes()
        selection = wish_for(stage.server.url("/v1"))
        async with open_http_client() as http:
            again = await ModelServices(selection, http, ModelCache(data)).list_models("house")
            assert (again.models, again.is_cached) == (first.models, True)
            assert len(stage.server.requests) == 1
            # The list of another address is not this provider's; a broken file is none.
            file.write_bytes(file.read_bytes().replace(b"127.0.0.1", b"127.0.0.2"))
            assert not (
                await ModelServices(selection, http, ModelCache(data)).list_models("house")
            ).is_cached
            file.write_bytes(b"{")
            assert not (
                await ModelServices(selection, http, ModelCache(data)).list_models("house")
            ).is_cached
    assert len(stage.server.requests) == 3


async def test_a_list_that_can_not_be_kept_is_given_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    async with open_stage(CHAT.pages(ids=["one"]), data=tmp_path / "data") as stage:
        found = await stage.services.list_models("house")
        assert choices(found) == [("house/one", "listed")]
        assert "could not be kept" in found.problem


async def test_models_of_the_configuration_stand_before_the_listed_ones() -> None:
    async with open_stage(CHAT.pages(ids=["one", "two"]), models=["mine", "two"]) as stage:
        found = await stage.services.list_models("house")
        assert choices(found) == [
            ("house/mine", "manual"),
            ("house/one", "listed"),
            ("house/two", "listed"),
        ]


async def test_without_an_answer_the_list_from_before_holds() -> None:
    async with open_stage(CHAT.pages(ids=["one"])) as stage:
        first = await stage.services.list_models("house")
        stage.server.answers["/v1/models"] = refusal("503 No", "Busy")
        found = await stage.services.list_models("house", refresh=True)
        assert (found.models, found.is_cached) == (first.models, True)
        assert "Busy" in found.problem


async def test_without_any_list_the_models_that_are_known_hold() -> None:
    async with open_http_client() as http:
        services = ModelServices(ModelSelection(environ={}), http, ModelCache(None))
        for name in ("openai", "anthropic", "gemini"):
            found = await services.list_models(name)
            assert [model.choice for model in found.models] == [
                f"{name}/{each.model}" for each in KNOWN_MODELS[name]
            ]
            assert {model.source for model in found.models} == {ModelSource.KNOWN}
            assert (found.listed_at_ms, found.is_cached) == (None, False)
            assert f"{name} needs a key" in found.problem
    async with open_stage({}, models=["mine"]) as stage:
        found = await stage.services.list_models("house")
        assert choices(found) == [("house/mine", "manual")]
        assert "404" in found.problem


async def test_a_provider_of_which_nothing_is_known_says_why() -> None:
    async with open_stage({"/v1/models": refusal("401 No", "bad key")}) as stage:
        with pytest.raises(AuthError, match="bad key"):
            await stage.services.list_models("house")
        with pytest.raises(NotFoundError, match="no provider 'nobody'"):
            await stage.services.list_models("nobody")
    with pytest.raises(NetworkError, match="refused the connection"):
        await stage.services.list_models("house")


async def test_what_a_provider_leaves_out_is_filled_from_what_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example = KNOWN_MODELS["openai"][0]
    async with open_web_server(CHAT.pages(ids=[example.model, "new"])) as server:
        here = msgspec.structs.replace(KNOWN["openai"], base_url=server.url("/v1"))
        monkeypatch.setitem(KNOWN, "openai", here)
        async with open_http_client() as http:
            services = ModelServices(wish_for(server.url("/v1")), http, ModelCache(None))
            known, new = (await services.list_models("house")).models
    assert known.title == example.title
    assert known.context_tokens == example.context_tokens
    assert (known.source, new.source) == (ModelSource.LISTED, ModelSource.LISTED)
    assert new.context_tokens is None


async def test_a_list_without_end_is_cut_off() -> None:
    async def flood(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n[")
        while True:
            await stream.send_all(b" " * 65536)

    async with open_stage({"/v1/models": flood}) as stage:
        with pytest.raises(ProviderError, match="list of models is longer than"):
            await stage.services.list_models("house")


async def test_the_rehearsal_model_is_its_own_list() -> None:
    async with open_stage({}) as stage:
        found = await stage.services.list_models("rehearsal")
        assert choices(found) == [("rehearsal/rehearsal", "built_in")]
        with pytest.raises(ValidationError, match="no connection to test"):
            await stage.services.test_provider("rehearsal")


# ── short texts ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.dialect)
async def test_a_prompt_becomes_a_text(wire: Wire) -> None:
    async with open_stage(wire.pages(), wire) as stage:
        answer = await stage.services.complete(
            stage.target, "Greet me.", system="You greet.", seconds=20
        )
        [request] = stage.server.requests
    assert (answer.text, answer.is_whole) == (TEXT, True)
    assert answer.usage is not None
    assert answer.usage.output_tokens == 2
    assert b"Greet me." in request.body
    assert b"You greet." in request.body
    assert "sesame" in request.headers[wire.key_header]


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (refusal("401 No", "bad key"), AuthError, "bad key"),
        (refusal("429 No", "slow down"), OverloadedError, "slow down"),
        (page("<title>Hello</title>"), ProviderError, "a web page"),
        (page(b"", content_type="text/event-stream"), NetworkError, "ended before the answer"),
    ],
    ids=["401", "429", "a web page", "nothing"],
)
async def test_a_text_that_does_not_come(answer: bytes, error: type[Exception], said: str) -> None:
    async with open_stage(CHAT.pages(answer=answer)) as stage:
        with pytest.raises(error, match=said):
            await stage.services.complete(stage.target, "Greet me.", seconds=20)


async def test_a_text_has_a_deadline() -> None:
    async def silent(_: Any) -> None:
        await trio.sleep_forever()

    async with open_stage(CHAT.pages(answer=silent)) as stage:
        with pytest.raises(DeadlineError, match=f"house/{MODEL} did not answer within 0.2 s"):
            await stage.services.complete(stage.target, "Greet me.", seconds=0.2)


async def completed(*steps: Any, seconds: float = 20) -> str:
    """What a runtime whose model plays these steps completes."""
    model = callboard.ScriptedModel(steps)
    async with callboard.open_runtime(model=model) as runtime:
        text = await runtime.complete("Sum it up.", system="Be short.", seconds=seconds)
        assert await runtime.sessions() == []
    [request] = model.requests
    assert (request.system, request.tools) == ("Be short.", ())
    return text


async def test_a_runtime_completes_with_its_model_and_records_nothing() -> None:
    assert await completed(reply("  A short\ntext. ", thinking="Hm.")) == "A short\ntext."
    assert await completed(reply("Half of i", finish="length")) == "Half of i"
    assert len(await completed(reply("x" * (MAX_TEXT_CHARS + 10)))) == MAX_TEXT_CHARS


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (reply(""), "wrote no text"),
        (reply(refusal="I won't."), "refused to answer: I won't"),
        (reply("So", finish=None), "cut off before its end"),
        (fail("out of cards"), "out of cards"),
    ],
    ids=["empty", "refused", "cut off", "failed"],
)
async def test_an_answer_that_is_no_text_is_an_error(step: Any, said: str) -> None:
    with pytest.raises(ProviderError, match=said):
        await completed(step)


async def test_the_services_of_a_runtime(tmp_path: Path) -> None:
    async with open_web_server(CHAT.pages(ids=[MODEL])) as server:
        house = ProviderSettings(name="house", base_url=server.url("/v1"))
        async with callboard.open_runtime(
            settings=Settings(providers={"house": house}), environ={}, data=tmp_path / "data"
        ) as runtime:
            found = await runtime.list_models("house")
            report = await runtime.test_provider("house", model=MODEL)
            text = await runtime.complete("Greet me.", model=f"house/{MODEL}")
            assert (choices(found), report.works, text) == (
                [(f"house/{MODEL}", "listed")],
                True,
                TEXT,
            )
            assert (await runtime.list_models("house")).is_cached
        async with callboard.open_runtime(
            model=MODEL, base_url=server.url("/v1"), environ={}
        ) as runtime:
            # The server of a base URL is a provider too.
            assert (await runtime.test_provider("custom", model=MODEL)).works
            assert choices(await runtime.list_models("custom")) == [(f"custom/{MODEL}", "listed")]


async def test_a_base_url_in_a_wire_format_that_is_named() -> None:
    gemini = WIRES[3]
    async with open_web_server(gemini.pages()) as server:
        async with callboard.open_runtime(
            model=MODEL, base_url=server.url("/v1"), dialect="gemini", environ={}
        ) as runtime:
            session = await runtime.create_session()
            assert await session.run("Greet me.") == TEXT
    with pytest.raises(ValidationError, match="dialect goes with base_url"):
        async with callboard.open_runtime(model="rehearsal", dialect="gemini"):
            pass


def test_a_list_is_forgotten_when_the_wire_format_changes(tmp_path: Path) -> None:
    provider = KNOWN["ollama"]
    cache = ModelCache(tmp_path)
    assert cache.load(provider) is None
    cache.save(provider, (ListedModel(model="m"),))
    assert ModelCache(tmp_path).load(provider) == cache.load(provider) is not None
    other = msgspec.structs.replace(provider, dialect=DialectName.ANTHROPIC)
    assert ModelCache(tmp_path).load(other) is None
