"""What is sent: the Gemini request, checked against the types of Google's own SDK."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.model.answer import AnswerBuilder
from callboard.providers.gemini.decoder import GeminiDecoder
from callboard.providers.gemini.dialect import GEMINI
from callboard.providers.gemini.history import MAX_DEPTH, UNSIGNED
from callboard.providers.provider import Dialect, HttpRequest, ModelRequest, ToolChoice
from callboard.runtime.definitions import ThinkingEffort, ToolDefinition
from callboard.runtime.errors import ProviderError
from callboard.runtime.history import (
    Answer,
    Attachment,
    Call,
    Input,
    Item,
    Opaque,
    Part,
    Refusal,
    Result,
    Round,
    Text,
    Thinking,
    repair_history,
)
from support.providers.conversations import split_rounds
from support.providers.request_rules import check_request

READ_FILE = ToolDefinition(
    name="read_file",
    description="Read the contents of a file from local storage",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The absolute file path to read"},
            "encoding": {"type": "string", "description": "File encoding. Defaults to 'UTF-8'."},
        },
        "required": ["path"],
    },
)
NOW = ToolDefinition(name="now", description="The time.", parameters={"type": "object"})


def build(*items: Item, model: str = "gemini-3-pro-preview", **fields: Any) -> HttpRequest:
    """The request for a history, after the SDK's types accepted it."""
    rounds = [Round(each) for each in split_rounds(repair_history(items))]
    request = ModelRequest(model=model, provider="google", rounds=rounds, **fields)
    made = GEMINI.build(request)
    check_request("gemini", json.loads(made.body))
    return made


def body_of(*items: Item, **fields: Any) -> Any:
    return json.loads(build(*items, **fields).body)


def contents_of(*items: Item, **fields: Any) -> list[Any]:
    contents: list[Any] = body_of(*items, **fields)["contents"]
    return contents


def own(*parts: Part, incomplete: bool = False) -> Answer:
    return Answer(parts, dialect="gemini", provider="google", incomplete=incomplete)


def other(*parts: Part) -> Answer:
    return Answer(parts, dialect="anthropic", provider="anthropic")


def opaque(kind: str, value: Any) -> Opaque:
    return Opaque("gemini", kind, msgspec.Raw(json.dumps(value).encode()))


def user(*texts: str) -> Any:
    return {"role": "user", "parts": [{"text": text} for text in texts]}


def model(*parts: Any) -> Any:
    return {"role": "model", "parts": list(parts)}


HELLO = Input("Hello")


def test_the_smallest_request() -> None:
    request = build(HELLO, model="gemini-2.5-flash")
    assert request.path == "/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert json.loads(request.body) == {"contents": [user("Hello")]}
    assert dict(request.tool_names) == {}
    assert "key" not in f"{request.path}{request.headers}"
    assert GEMINI.auth_headers("k") == {"x-goog-api-key": "k"}
    dialect: Dialect = GEMINI
    assert dialect.name == "gemini"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("models/gemini-x", "/models/gemini-x:"),
        ("tunedModels/mine-1", "/tunedModels/mine-1:"),
        ("a b?c#d%", "/models/a%20b%3Fc%23d%25:"),
    ],
)
def test_a_model_is_a_resource(name: str, path: str) -> None:
    assert build(HELLO, model=name).path == f"{path}streamGenerateContent?alt=sse"


def test_the_system_prompt_has_its_own_place() -> None:
    body = body_of(HELLO, system="Be brief.")
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}


def test_models_without_a_system_instruction_get_it_as_the_first_input() -> None:
    body = body_of(HELLO, system="Be brief.", model="gemma-3-27b-it")
    assert body == {"contents": [user("Be brief.", "Hello")]}
    assert "systemInstruction" in body_of(HELLO, system="Be brief.", model="gemma-4-31b-it")


def test_tools_are_as_the_format_has_them() -> None:
    body = body_of(HELLO, tools=(READ_FILE, NOW))
    assert body["tools"] == [
        {
            "function_declarations": [
                {
                    "name": "read_file",
                    "description": "Read the contents of a file from local storage",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {
                            "path": {
                                "type": "STRING",
                                "description": "The absolute file path to read",
                            },
                            "encoding": {
                                "type": "STRING",
                                "description": "File encoding. Defaults to 'UTF-8'.",
                            },
                        },
                        "required": ["path"],
                    },
                },
                {"name": "now", "description": "The time."},
            ]
        }
    ]
    assert "toolConfig" not in body


def test_tool_choice() -> None:
    def choice(**fields: Any) -> Any:
        config = body_of(HELLO, tools=(READ_FILE, NOW), **fields).get("toolConfig")
        return config and config["functionCallingConfig"]

    assert choice() is None
    assert choice(tool_choice=ToolChoice.REQUIRED) == {"mode": "ANY"}
    assert choice(tool_choice=ToolChoice.NONE) == {"mode": "NONE"}
    assert choice(forced_tool="now") == {"mode": "ANY", "allowedFunctionNames": ["now"]}
    assert choice(forced_tool="gone") == {"mode": "ANY"}
    assert "toolConfig" not in body_of(HELLO, tool_choice=ToolChoice.REQUIRED)


def test_sampling() -> None:
    config = body_of(
        HELLO,
        max_output_tokens=100,
        temperature=0.0,
        top_p=0.5,
        seed=2**31 + 7,
        stop_sequences=("a", "", "b", "c", "d", "e", "f"),
    )["generationConfig"]
    assert config == {
        "maxOutputTokens": 100,
        "temperature": 0.0,
        "topP": 0.5,
        "seed": 7,
        "stopSequences": ["a", "b", "c", "d", "e"],
    }


@pytest.mark.parametrize(
    ("name", "off", "medium", "high"),
    [
        ("gemini-2.5-pro", 128, 8192, 24576),
        ("gemini-2.5-flash", 0, 8192, 24576),
        ("gemini-2.5-flash-lite", 0, 8192, 24576),
        ("gemini-flash-latest", 512, 8192, 24576),
        ("gemini-3-pro-preview", "LOW", "HIGH", "HIGH"),
        ("gemini-3.1-pro-preview", "LOW", "MEDIUM", "HIGH"),
        ("gemini-3-flash-preview", "MINIMAL", "MEDIUM", "HIGH"),
        ("gemini-3.5-flash", "MINIMAL", "MEDIUM", "HIGH"),
        ("gemini-3.8-flash", "LOW", "MEDIUM", "HIGH"),
        ("models/gemini-4-ultra", "LOW", "MEDIUM", "HIGH"),
        ("gemini-2.0-flash", None, None, None),
        ("gemini-2.5-flash-image", None, None, None),
        ("gemma-3-27b-it", None, None, None),
    ],
)
def test_thinking_by_family(name: str, off: Any, medium: Any, high: Any) -> None:
    def thinking(effort: ThinkingEffort) -> Any:
        body = body_of(HELLO, model=name, thinking=effort)
        return body.get("generationConfig", {}).get("thinkingConfig")

    efforts = (ThinkingEffort.OFF, ThinkingEffort.MEDIUM, ThinkingEffort.HIGH)
    for effort, expected in zip(efforts, (off, medium, high), strict=True):
        if expected is None:
            assert thinking(effort) is None
            continue
        key = "thinkingBudget" if isinstance(expected, int) else "thinkingLevel"
        shown = effort is not ThinkingEffort.OFF
        assert thinking(effort) == {"includeThoughts": shown, key: expected}
    assert "generationConfig" not in body_of(HELLO, model=name)


def test_thinking_leaves_room_for_the_answer() -> None:
    fields: dict[str, Any] = {"model": "gemini-2.5-pro", "thinking": ThinkingEffort.HIGH}
    for limit, budget in ((2000, 1000), (100, 512), (200_000, 24576)):
        config = body_of(HELLO, max_output_tokens=limit, **fields)["generationConfig"]
        assert config["thinkingConfig"]["thinkingBudget"] == budget


SCHEMA = {"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}


def test_a_structured_answer() -> None:
    for fields in ({"model": "gemini-2.5-pro"}, {"tools": (NOW,)}):
        config = body_of(HELLO, answer_schema=SCHEMA, **fields)["generationConfig"]
        assert config["responseMimeType"] == "application/json"
        assert config["responseSchema"] == {
            "type": "OBJECT",
            "properties": {"a": {"type": "INTEGER", "nullable": True}},
        }


def test_a_structured_answer_beside_tools_is_asked_for_where_it_would_be_refused() -> None:
    body = body_of(HELLO, answer_schema=SCHEMA, tools=(NOW,), model="gemini-2.5-pro", system="S.")
    assert "generationConfig" not in body
    [part] = body["systemInstruction"]["parts"]
    assert part["text"].startswith("S.\n\nYour answer is JSON")
    assert '"integer"' in part["text"]


def test_parallel_calls_and_their_results() -> None:
    calls = [Call("i", "read_file", '{"path": "a"}'), Call("j", "now", "")]
    assert contents_of(
        Input("read both"),
        own(Text("Reading."), *calls),
        Result("j", "now", "12:00"),
        Result("i", "read_file", '{"status":\n"error"}', is_error=True),
        Input("and?"),
        model="gemini-2.5-pro",
    ) == [
        user("read both"),
        model(
            {"text": "Reading."},
            {"functionCall": {"name": "read_file", "args": {"path": "a"}}},
            {"functionCall": {"name": "now", "args": {}}},
        ),
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "read_file", "response": {"status": "error"}}},
                {"functionResponse": {"name": "now", "response": {"result": "12:00"}}},
                {"text": "and?"},
            ],
        },
    ]


def test_what_is_too_deep_to_be_sent_is_sent_as_text() -> None:
    def nested(depth: int) -> str:
        return '{"a":' * depth + "1" + "}" * depth

    for depth, is_sent in ((MAX_DEPTH - 1, True), (MAX_DEPTH + 5, False), (100_000, False)):
        contents = contents_of(
            HELLO, own(Call("c", "now", nested(depth))), Result("c", "now", nested(depth))
        )
        assert bool(contents[1]["parts"][0]["functionCall"]["args"]) == is_sent
        response = contents[2]["parts"][0]["functionResponse"]["response"]
        assert (response == {"result": nested(depth)}) != is_sent


def test_results_that_are_no_object_are_wrapped() -> None:
    def response(content: str, **fields: Any) -> Any:
        result = Result("c", "now", content, **fields)
        last = contents_of(HELLO, other(Call("c", "now", "{}")), result)[-1]
        return last["parts"][0]["functionResponse"]["response"]

    assert response('{"a": 1}') == {"a": 1}
    assert response("[1]") == {"result": "[1]"}
    assert response("gone", is_error=True) == {"error": "gone"}


def test_what_one_role_says_in_a_row_is_one_content() -> None:
    assert contents_of(Input("a"), Input(""), Input("b")) == [user("a", "b")]
    assert contents_of(Input("a"), own(Text("x")), own(Text("y")), Input("b")) == [
        user("a"),
        model({"text": "x"}, {"text": "y"}),
        user("b"),
    ]
    # An answer that is dropped as a whole leaves two inputs in a row.
    assert contents_of(Input("a"), other(Thinking("hm", "cw==")), Input("b")) == [user("a", "b")]


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    assert contents_of(own(Text("x"))) == [user("Go on."), model({"text": "x"}), user("Go on.")]
    assert contents_of() == [user("Go on.")]
    assert contents_of(Input("")) == [user("Go on.")]


def test_a_refusal_is_text_and_an_incomplete_answer_its_text_so_far() -> None:
    cut = own(Thinking("hm", "cw=="), Text("so f"), Refusal("no"), incomplete=True)
    [_, answer, _] = contents_of(HELLO, cut)
    thought = {"text": "hm", "thought": True, "thoughtSignature": "cw=="}
    assert answer == model(thought, {"text": "so f"}, {"text": "no"})


def test_signatures_go_back_on_the_parts_that_they_came_with() -> None:
    answer = own(
        Thinking("unsigned"),
        Thinking("signed", "czEB"),
        Text("plain, signed"),
        opaque("text_signature", {"chars": 6, "thoughtSignature": "czEC"}),
        opaque("text_signature", {"chars": 0, "thoughtSignature": "czED"}),
        Call("c1", "now", "{}"),
        opaque("function_call", {"id": "g1", "thoughtSignature": "czEE"}),
        Call("c2", "now", "{}"),
        opaque("function_call", {"id": "g2"}),
        opaque("executable_code", {"executableCode": {"code": "1"}, "thoughtSignature": "czEF"}),
        opaque("grounding_metadata", [{"groundingChunks": []}]),
    )
    results = [Result("c1", "now", "{}"), Result("c2", "now", "{}")]
    [_, said, responses] = contents_of(HELLO, answer, *results)
    assert said["parts"] == [
        {"text": "signed", "thought": True, "thoughtSignature": "czEB"},
        {"text": "plain, "},
        {"text": "signed", "thoughtSignature": "czEC"},
        {"text": "", "thoughtSignature": "czED"},
        {"functionCall": {"name": "now", "args": {}, "id": "g1"}, "thoughtSignature": "czEE"},
        {"functionCall": {"name": "now", "args": {}, "id": "g2"}},
        {"executableCode": {"code": "1"}, "thoughtSignature": "czEF"},
    ]
    assert [part["functionResponse"]["id"] for part in responses["parts"]] == ["g1", "g2"]


def test_another_provider_gets_none_of_it() -> None:
    parts = (
        Thinking("hm", "czEB"),
        Text("t"),
        opaque("text_signature", {"chars": 1, "thoughtSignature": "czEC"}),
        Call("c", "now", "{}"),
        opaque("function_call", {"id": "g", "thoughtSignature": "czED"}),
        opaque("executable_code", {"executableCode": {"code": "1"}}),
    )
    plain = [
        {"text": "t"},
        {"functionCall": {"name": "now", "args": {}}, "thoughtSignature": UNSIGNED},
    ]
    strangers = [
        Answer(parts, dialect="gemini", provider="a proxy"),
        Answer(parts, dialect="anthropic", provider="google"),
        other(*parts),
    ]
    for stranger in strangers:
        [_, said, responses] = contents_of(HELLO, stranger, Result("c", "now", "{}"))
        assert said["parts"] == plain
        assert "id" not in responses["parts"][0]["functionResponse"]


def test_only_the_first_call_is_given_a_signature_and_only_where_one_is_demanded() -> None:
    calls = other(Text("t"), Call("a", "now", "{}"), Call("b", "now", "{}"))
    for name, signatures in (
        ("gemini-3-flash-preview", [None, UNSIGNED, None]),
        ("gemini-flash-latest", [None, UNSIGNED, None]),
        ("gemini-2.5-pro", [None, None, None]),
    ):
        [_, said, _] = contents_of(HELLO, calls, model=name)
        assert [part.get("thoughtSignature") for part in said["parts"]] == signatures


def test_opaque_parts_that_lost_what_they_belong_to_are_dropped() -> None:
    lost = (
        opaque("function_call", {"id": "g", "thoughtSignature": "cw=="}),
        Text("t"),
        opaque("function_call", {"id": "g", "thoughtSignature": "cw=="}),
        opaque("text_signature", {"chars": 9, "thoughtSignature": "cw=="}),
        opaque("text_signature", [1]),
        Opaque("gemini", "text_signature", msgspec.Raw(b"{")),
        Opaque("openai_chat", "annotations", msgspec.Raw(b"{}")),
    )
    assert contents_of(HELLO, own(*lost))[1] == model({"text": "t"})
    assert contents_of(HELLO, own(Thinking("hm", "cw=="))) == [user("Hello")]
    nothing = opaque("text_signature", {"chars": 0, "thoughtSignature": "cw=="})
    assert contents_of(HELLO, own(nothing)) == [user("Hello")]


def test_attachments() -> None:
    png = b"\x89PNG"
    item = Input(
        "What is it?",
        (
            Attachment("image/png", png, "a.png"),
            Attachment("application/pdf", b"%PDF", "b.pdf"),
            Attachment("text/plain; charset=utf-8", "für".encode(), "c.txt"),
            Attachment("application/json", b"{}"),
            Attachment("image/gif", b"GIF8", "d.gif"),
            Attachment("", b"?", "e"),
        ),
    )
    [content] = contents_of(item)
    assert content["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(png).decode()}},
        {
            "inlineData": {
                "mimeType": "application/pdf",
                "data": base64.b64encode(b"%PDF").decode(),
            }
        },
        {"text": "c.txt:\n\nfür"},
        {"text": "a file:\n\n{}"},
        {"text": "[d.gif (image/gif) can't be shown to this model.]"},
        {"text": "[e (of unknown type) can't be shown to this model.]"},
        {"text": "What is it?"},
    ]


def test_a_round_is_encoded_once_for_a_provider_and_a_kind_of_model() -> None:
    answer = own(Call("c", "now", "{}"), opaque("function_call", {"thoughtSignature": "cw=="}))
    item = Round([HELLO, answer, Result("c", "now", "{}")])

    def sent(provider: str, name: str) -> bytes:
        request = ModelRequest(model=name, provider=provider, rounds=[item])
        return GEMINI.build(request).body

    first = sent("google", "gemini-3-pro")
    assert len(item.encoded) == 1
    assert sent("google", "gemini-3-pro") == first
    assert len(item.encoded) == 1
    assert b'"cw=="' in first
    assert UNSIGNED.encode() in sent("proxy", "gemini-3-pro")
    assert b"thoughtSignature" not in sent("proxy", "gemini-2.0-flash")
    [key] = [key for key in item.encoded if "google" in key]
    item.encoded[key] = b'{"text":"kept"}\n\n'
    assert b"kept" in sent("google", "gemini-3-pro")


def test_what_was_decoded_goes_back_as_it_came() -> None:
    parts: list[Any] = [
        {"text": "hm", "thought": True, "thoughtSignature": "czE="},
        {"text": "Lo"},
        {"text": "ok", "thoughtSignature": "czI="},
        {"text": "", "thoughtSignature": "czM="},
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t"}, "thoughtSignature": "czQ="},
        {"functionCall": {"name": "now", "args": {"a": [1, "ü"]}, "id": "g1"}},
        {
            "functionCall": {"name": "read_file", "args": {}, "id": "g2"},
            "thoughtSignature": "czU=",
        },
    ]
    candidates: list[Any] = [{"content": {"role": "model", "parts": [part]}} for part in parts]
    chunks = [{"candidates": [item]} for item in [*candidates, {"finishReason": "STOP"}]]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()
    decoder = GeminiDecoder()
    answer = AnswerBuilder()
    answer.add(decoder.feed(body) + decoder.finish())
    assert answer.done is not None
    made = answer.parts()
    results = [Result(part.call_id, part.name, "{}") for part in made if isinstance(part, Call)]
    [_, said, responses] = contents_of(HELLO, own(*made), *results, model="gemini-2.5-pro")
    assert said["parts"] == parts
    assert [part["functionResponse"]["id"] for part in responses["parts"]] == ["g1", "g2"]


TEXTS = st.sampled_from(["", "a", "Grüße 🦊", "\n", "two\n\nlines"])
NAMES = st.sampled_from(["now", "files.read", "1st", "", "x" * 90, "gone"])
JSONS = st.sampled_from(["", "{}", '{"a":\n1}', "[1]", "no json", '{"a":{"b":[null,1.5]}}'])
OPAQUES = st.builds(
    opaque,
    st.sampled_from(["function_call", "text_signature", "inline_data", "grounding_metadata"]),
    st.sampled_from(
        [
            {"id": "g", "thoughtSignature": "cw=="},
            {"chars": 1, "thoughtSignature": "cw=="},
            {"chars": 0, "thoughtSignature": "cw=="},
            {"inlineData": {"mimeType": "image/png", "data": "aaaa"}},
        ]
    ).filter(bool),
)
SOUND_OPAQUES = OPAQUES.filter(
    lambda part: part.kind != "inline_data" or b"inlineData" in bytes(part.data)
)
ANSWER_PARTS = st.one_of(
    st.builds(Text, TEXTS),
    st.builds(Thinking, TEXTS, st.sampled_from([None, "", "cw=="])),
    st.builds(Refusal, TEXTS),
    st.builds(Call, st.sampled_from([f"c{n}" for n in range(30)]), NAMES, JSONS),
    SOUND_OPAQUES,
)
ITEMS = st.one_of(
    st.builds(
        Input,
        TEXTS,
        st.lists(
            st.builds(
                Attachment, st.sampled_from(["image/png", "text/csv", "image/gif", ""]), st.binary()
            ),
            max_size=2,
        ).map(tuple),
    ),
    st.builds(
        Answer,
        st.lists(ANSWER_PARTS, max_size=6).map(tuple),
        dialect=st.sampled_from(["gemini", "anthropic"]),
        provider=st.sampled_from(["google", "proxy"]),
        incomplete=st.booleans(),
    ),
    st.builds(Result, st.sampled_from([f"c{n}" for n in range(30)]), NAMES, JSONS, st.booleans()),
)
MODELS = st.sampled_from(["gemini-3-pro", "gemini-2.5-flash", "gemma-3-4b", "gemini-pro-latest"])


@given(
    st.lists(ITEMS, max_size=12),
    MODELS,
    st.fixed_dictionaries(
        {},
        optional={
            "system": TEXTS,
            "thinking": st.sampled_from(ThinkingEffort),
            "tools": st.just((READ_FILE, NOW)),
            "tool_choice": st.sampled_from(ToolChoice),
            "forced_tool": NAMES,
            "answer_schema": st.just(SCHEMA),
            "max_output_tokens": st.integers(1, 10**6),
            "seed": st.integers(-(2**40), 2**40),
        },
    ),
)
def test_any_history_is_a_request_that_the_sdk_accepts(
    items: list[Item], name: str, fields: dict[str, Any]
) -> None:
    build(*items, model=name, **fields)


def test_models_are_listed_in_pages() -> None:
    first = GEMINI.list_models()
    assert (first.path, first.body) == ("/models?pageSize=1000", b"")
    assert GEMINI.list_models("a/b&c").path == "/models?pageSize=1000&pageToken=a%2Fb%26c"
    listed = {
        "models": [
            {
                "name": "models/gemini-3-pro",
                "displayName": "Gemini 3 Pro",
                "inputTokenLimit": 1048576,
                "outputTokenLimit": 65536,
                "supportedGenerationMethods": ["generateContent", "countTokens"],
                "temperature": 1,
            },
            {"name": "models/embedding-001", "supportedGenerationMethods": ["embedContent"]},
            {"name": "tunedModels/mine", "supportedGenerationMethods": ["generateContent"]},
        ],
        "nextPageToken": "t",
    }
    page = GEMINI.read_models(json.dumps(listed).encode())
    [pro, mine] = page.models
    assert page.next_page == "t"
    assert (pro.model, pro.title) == ("gemini-3-pro", "Gemini 3 Pro")
    assert (pro.context_tokens, pro.max_output_tokens) == (1048576, 65536)
    assert (mine.model, mine.context_tokens) == ("tunedModels/mine", None)
    assert GEMINI.read_models(b"{}").models == ()


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"models": 1}', b'{"error": {"code": 1}}']
)
def test_what_is_no_list_of_models_is_an_error(body: bytes) -> None:
    with pytest.raises(ProviderError, match="not a list of Gemini models"):
        GEMINI.read_models(body)


def test_errors_of_the_service() -> None:
    def read(status: int, value: Any) -> Any:
        return GEMINI.read_error(status, {}, json.dumps(value).encode())

    quota = {
        "error": {
            "code": 429,
            "message": "You exceeded your current quota.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"},
            ],
        }
    }
    for value in (quota, [quota]):
        error = read(429, value)
        assert (error.error_type, error.retryable) == ("overloaded", True)
        assert error.retry_after_seconds == pytest.approx(34.07)
        assert "exceeded your current quota" in error.message
    key = {
        "error": {
            "code": 400,
            "message": "API key not valid.",
            "status": "INVALID_ARGUMENT",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "API_KEY_INVALID",
                }
            ],
        }
    }
    assert read(400, key).error_type == "auth"
    key["error"]["details"] = []
    assert read(400, key).error_type == "provider"
    for delay in ("soon", "-1s", "1e999s", 5, None):
        quota["error"]["details"] = [{"retryDelay": delay}]
        assert read(429, quota).retry_after_seconds in {None, 0.0}
