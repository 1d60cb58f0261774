"""web_search over the answers of the three engines, as they were recorded from them in shape."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from callboard.config.search_engines import KNOWN_ENGINES
from callboard.config.settings import SearchEngine
from callboard.runtime.definitions import ErrorType, ToolFailure, ToolResult
from callboard.runtime.errors import AuthError
from callboard.runtime.redaction import Secret
from callboard.tools.web.client import WebClient
from callboard.tools.web.fetch import UNTRUSTED
from callboard.tools.web.search import MAX_QUERY_CHARS, SearchPlace, WebSearch, web_search
from callboard.tools.web.search_engines import MAX_SNIPPET_CHARS, MAX_TITLE_CHARS
from support.web.web_pages import context, failure_of, open_network, run
from support.web.web_server import Answer, WebServer, page, redirect

SEARXNG, BRAVE, TAVILY = SearchEngine.SEARXNG, SearchEngine.BRAVE, SearchEngine.TAVILY
KEY = "canary-key-0123456789"

SECOND = {"title": "Actors", "url": "https://actors.example/a?b=c"}
HITS = [
    {"title": "Trio", "url": "https://trio.example/", "snippet": "Structured & friendly."},
    {**SECOND, "snippet": "What they are."},
]

ANSWERS: dict[SearchEngine, dict[str, Any]] = {
    SEARXNG: {
        "query": "actors",
        "number_of_results": 0,
        "results": [
            {
                "url": "https://trio.example/",
                "title": "Trio",
                "content": "Structured &amp; friendly.",
                "engine": "duckduckgo",
                "parsed_url": ["https", "trio.example", "/", "", "", ""],
                "engines": ["duckduckgo"],
                "positions": [1],
                "score": 1.0,
                "category": "general",
                "publishedDate": None,
            },
            {**SECOND, "content": "What they are.", "engine": "brave"},
        ],
        "answers": [],
        "infoboxes": [],
        "suggestions": ["actor model"],
        "unresponsive_engines": [["google", "timeout"]],
    },
    BRAVE: {
        "type": "search",
        "query": {"original": "actors", "more_results_available": True},
        "mixed": {"type": "mixed", "main": [{"type": "web", "index": 0, "all": False}]},
        "web": {
            "type": "search",
            "family_friendly": True,
            "results": [
                {
                    "title": "<strong>Trio</strong>",
                    "url": "https://trio.example/",
                    "is_source_local": False,
                    "description": "<strong>Structured</strong> &amp; friendly.",
                    "profile": {"name": "Trio"},
                    "meta_url": {"hostname": "trio.example"},
                },
                {**SECOND, "description": "What they are.", "extra_snippets": ["more"]},
            ],
        },
    },
    TAVILY: {
        "query": "actors",
        "follow_up_questions": None,
        "answer": None,
        "images": [],
        "results": [
            {
                "url": "https://trio.example/",
                "title": "Trio",
                "content": "Structured & friendly.",
                "score": 0.98,
                "raw_content": None,
            },
            {**SECOND, "content": "What they are.", "score": 0.5},
        ],
        "response_time": 0.7,
        "request_id": "1",
    },
}
PATHS = {SEARXNG: "/search", BRAVE: "/res/v1/web/search", TAVILY: "/search"}


class Engine:
    """The tool in front of an engine."""

    def __init__(self, engine: SearchEngine, server: WebServer, network: WebClient) -> None:
        self.server = server
        self._network = network
        self.place = SearchPlace(
            engine=engine,
            base_url=server.url(""),
            key=lambda: Secret(KEY),
            needs_key=KNOWN_ENGINES[engine].needs_key,
            missing="no key: set one",
        )

    def context(self) -> Any:
        return context(self._network, WebSearch(self.place, self._network))

    async def result(self, **arguments: Any) -> ToolResult:
        return await run(web_search, self.context(), **{"query": "actors", **arguments})

    async def failure(self) -> ToolFailure:
        return await failure_of(web_search, self.context(), query="actors")


def answer_of(engine: SearchEngine, hits: list[Any] | None = None) -> dict[str, Any]:
    answer = json.loads(json.dumps(ANSWERS[engine]))
    holder: dict[str, Any] = answer["web"] if engine is BRAVE else answer
    if hits is not None:
        holder["results"] = hits
    return dict(answer)


def in_json(value: object, **headers: str) -> bytes:
    return page(json.dumps(value), content_type="application/json", **headers)


@asynccontextmanager
async def open_engine(engine: SearchEngine, answer: Answer | None = None) -> AsyncGenerator[Engine]:
    given = in_json(ANSWERS[engine]) if answer is None else answer
    async with open_network({PATHS[engine]: given}) as (server, network):
        yield Engine(engine, server, network)


@pytest.mark.parametrize("engine", SearchEngine)
async def test_each_engine_gives_the_same_hits(engine: SearchEngine) -> None:
    async with open_engine(engine) as its:
        result = await its.result(query=" actors\n of trio ")
        assert result.output == {"source": UNTRUSTED, "results": HITS}
        assert result.display == "actors of trio: 2 results"
        assert (await its.result(num_results=1)).output["results"] == HITS[:1]


async def test_each_engine_is_asked_in_its_own_words() -> None:
    async with open_engine(SEARXNG) as its:
        await its.result(query="a&b ü", num_results=7)
        [request] = its.server.requests
        assert parse_qs(urlsplit(request.target).query) == {"q": ["a&b ü"], "format": ["json"]}
        assert request.headers["authorization"] == f"Bearer {KEY}"
    async with open_engine(BRAVE) as its:
        await its.result(query="a&b ü", num_results=7)
        [request] = its.server.requests
        asked = parse_qs(urlsplit(request.target).query)
        assert (asked["q"], asked["count"]) == (["a&b ü"], ["7"])
        assert request.headers["x-subscription-token"] == KEY
    async with open_engine(TAVILY) as its:
        await its.result(query="a&b ü", num_results=7)
        [request] = its.server.requests
        assert request.method == "POST"
        body = json.loads(request.body)
        assert (body["query"], body["max_results"]) == ("a&b ü", 7)
        assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("engine", SearchEngine)
async def test_a_key_stands_in_no_url_no_result_and_no_error(engine: SearchEngine) -> None:
    async with open_engine(engine) as its:
        result = await its.result()
        its.server.answers[PATHS[engine]] = page("no", status="401 Unauthorized")
        failed = await its.failure()
        assert all(KEY not in request.target for request in its.server.requests)
        # The control: it is sent.
        assert all(KEY in str(request.headers) for request in its.server.requests)
    assert KEY not in f"{result}{failed}{failed.details}"
    assert failed.error_type is ErrorType.EXECUTION_ERROR
    assert f"keys set {engine}" in str(failed)


async def test_a_key_does_not_follow_a_redirect_to_another_origin() -> None:
    async with open_network({"/res/v1/web/search": in_json(ANSWERS[BRAVE])}) as (other, _):
        async with open_engine(BRAVE, redirect(other.url("/res/v1/web/search"))) as its:
            failed = await its.failure()
            assert failed.error_type is ErrorType.URL_NOT_ALLOWED
            its.server.answers["/there"] = in_json(ANSWERS[BRAVE])
            its.server.answers[PATHS[BRAVE]] = redirect("/there")
            assert (await its.result()).output["results"] == HITS
        assert other.requests == []


async def test_a_key_is_not_sent_in_clear_text() -> None:
    async with open_engine(BRAVE) as its:
        its.place = msgspec.structs.replace(its.place, base_url="http://search.example")
        failed = await its.failure()
        assert "is not sent to http://search.example" in str(failed)
        assert its.server.requests == []


async def test_without_a_key_it_is_said_what_to_do_where_one_is_needed() -> None:
    for engine in SearchEngine:
        async with open_engine(engine) as its:
            its.place = msgspec.structs.replace(its.place, key=lambda: None)
            if engine is SEARXNG:
                assert (await its.result()).output["results"] == HITS
                assert "authorization" not in its.server.requests[0].names
            else:
                assert str(await its.failure()) == "web_search: no key: set one"
                assert its.server.requests == []


async def test_a_key_that_is_locked_is_an_error_that_says_so() -> None:
    def locked() -> Secret | None:
        raise AuthError("The stored keys are locked.")

    async with open_engine(BRAVE) as its:
        its.place = msgspec.structs.replace(its.place, key=locked)
        assert str(await its.failure()) == "web_search: The stored keys are locked."


async def test_without_an_engine_it_is_said_how_to_name_one() -> None:
    async with open_network({}) as (_, network):
        failed = await failure_of(web_search, context(network), query="actors")
    assert failed.error_type is ErrorType.EXECUTION_ERROR
    assert '[search] engine = "searxng"' in str(failed)
    assert "keys set brave" in str(failed)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": " \u200b\n"}, "query"),
        ({"query": "x" * (MAX_QUERY_CHARS + 1)}, "query"),
        ({"query": "a", "num_results": 0}, "num_results"),
        ({"query": "a", "num_results": 21}, "num_results"),
    ],
)
async def test_a_wrong_argument_is_named(arguments: dict[str, Any], field: str) -> None:
    async with open_network({}) as (_, network):
        failed = await failure_of(web_search, context(network), **arguments)
    assert (failed.error_type, failed.details["field"]) == (ErrorType.VALIDATION_ERROR, field)


@pytest.mark.parametrize("engine", SearchEngine)
async def test_nothing_found_is_no_error(engine: SearchEngine) -> None:
    async with open_engine(engine, in_json(answer_of(engine, []))) as its:
        assert (await its.result()).output["results"] == []
    if engine is BRAVE:  # it leaves the list out
        async with open_engine(engine, in_json({"type": "search"})) as its:
            assert (await its.result()).output["results"] == []


@pytest.mark.parametrize("engine", SearchEngine)
async def test_hits_are_cleaned_and_what_is_none_is_left_out(engine: SearchEngine) -> None:
    words = "description" if engine is BRAVE else "content"
    hits = [
        {"url": "https://a.test/", "title": "a\u202e\n\x1b[1m b", words: "x" * 5000},
        {"url": "https://a.test/", "title": "again", words: ""},
        {"url": "https://b.test/#part", "title": None, words: None},
        {"url": "https://c.test/", "title": "t" * 5000},
        {"url": "javascript:alert(1)", "title": "no"},
        {"url": "https://me:secret@d.test/", "title": "no"},
        {"url": "data:text/html,x", "title": "no"},
        {"url": 7, "title": "no"},
        {"title": "no"},
        "no",
        None,
    ]
    async with open_engine(engine, in_json(answer_of(engine, hits))) as its:
        a, b, c = (await its.result()).output["results"]
    assert (a["title"], a["url"], len(a["snippet"])) == (
        "a [1m b",
        "https://a.test/",
        MAX_SNIPPET_CHARS,
    )
    assert (b["title"], b["url"], b["snippet"]) == ("b.test", "https://b.test/", "")
    assert len(c["title"]) == MAX_TITLE_CHARS


@pytest.mark.parametrize("engine", SearchEngine)
@pytest.mark.parametrize(
    "answer",
    [
        page("<html>", content_type="text/html"),
        page(""),
        in_json([]),
        in_json({"results": "none", "web": {"results": {}}}),
        in_json({"error": "bad", "results": [], "web": {"results": []}}),
        page("[" * 100_000),
        page(b'{"results": [{"title": "caf\xe9"}]}'),
        page('{"results": [' + "1," * 2**21),
    ],
    ids=["html", "empty", "list", "shape", "error", "deep", "not UTF-8", "large"],
)
async def test_what_is_no_answer_of_an_engine_is_a_network_error(
    engine: SearchEngine, answer: bytes
) -> None:
    async with open_engine(engine, answer) as its:
        failed = await its.failure()
    assert failed.error_type is ErrorType.NETWORK_ERROR
    assert f"did not answer as {engine} does" in str(failed)


@pytest.mark.parametrize(
    ("engine", "status", "error", "words"),
    [
        (SEARXNG, "403 Forbidden", ErrorType.EXECUTION_ERROR, "search.formats"),
        (BRAVE, "403 Forbidden", ErrorType.EXECUTION_ERROR, "keys set brave"),
        (BRAVE, "429 Too Many", ErrorType.NETWORK_ERROR, "wait a while"),
        (TAVILY, "432 Plan", ErrorType.NETWORK_ERROR, "wait a while"),
        (SEARXNG, "500 Oops", ErrorType.NETWORK_ERROR, "answered 500 Oops."),
        (TAVILY, "404 Not Found", ErrorType.NETWORK_ERROR, "answered 404"),
    ],
)
async def test_a_refusal_says_what_to_do(
    engine: SearchEngine, status: str, error: ErrorType, words: str
) -> None:
    async with open_engine(engine, page("{}", status=status)) as its:
        failed = await its.failure()
    assert (failed.error_type, words in str(failed)) == (error, True)
