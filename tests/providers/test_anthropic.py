"""What is sent: the Messages request, feature by feature."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from callboard.providers.anthropic.dialect import ANTHROPIC
from callboard.providers.anthropic.history import (
    GO_ON,
    MAX_IMAGE_BYTES,
    NOTHING_RETURNED,
    NOTHING_SAID,
    OMITTED,
)
from callboard.providers.anthropic.schema import MAX_NODES, answer_format, tool_schema
from callboard.providers.provider import ListedModel, ModelPage, ModelRequest, ToolChoice
from callboard.providers.tool_names import sent_name
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
)
from support.providers.conversations import split_rounds

MARK = {"cache_control": {"type": "ephemeral"}}
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOL = ToolDefinition(name="read_file", description="Reads a file.", parameters=PARAMETERS)
PLAIN, ADAPTIVE, DEFAULT_ON = "claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-5"
BETWEEN, ALWAYS_ON, FOREIGN = "claude-sonnet-5-5", "claude-opus-5-5", "kimi-k2"
SHOWN = {"type": "adaptive", "display": "summarized"}


def body_of(*rounds: Round | list[Item], **fields: Any) -> Any:
    made = [each if isinstance(each, Round) else Round(each) for each in rounds]
    fields = {"model": PLAIN, "provider": "mine", **fields}
    return json.loads(ANTHROPIC.build(ModelRequest(rounds=made, **fields)).body)


def options_of(**fields: Any) -> Any:
    """What is asked of the model, without the conversation and the default limit."""
    body = body_of([Input("a")], **fields)
    if "max_output_tokens" not in fields:
        del body["max_tokens"]
    return {k: v for k, v in body.items() if k not in {"model", "stream", "messages", "tools"}}


def contents_of(*items: Item, **fields: Any) -> list[Any]:
    """What the messages hold, without marks; their roles alternate."""
    messages = body_of(*split_rounds(items), **fields)["messages"]
    for place, message in enumerate(messages):
        assert message["role"] == ("user", "assistant")[place % 2]
    return [
        [{k: v for k, v in block.items() if k != "cache_control"} for block in each["content"]]
        for each in messages
    ]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def answer(*parts: Part, provider: str = "mine", dialect: str = "anthropic") -> Answer:
    return Answer(parts, dialect=dialect, provider=provider, model=PLAIN)


def opaque(kind: str, dialect: str = "anthropic", **fields: Any) -> Opaque:
    return Opaque(dialect, kind, msgspec.Raw(json.dumps({"type": kind, **fields}).encode()))


def answered(*parts: Part, **fields: Any) -> Any:
    """How the parts of an answer are sent back."""
    return contents_of(Input("q"), answer(*parts, **fields), Input("next"))[1]


def test_the_whole_request() -> None:
    request = ModelRequest(
        model=PLAIN,
        provider="mine",
        system="Be brief.",
        rounds=[Round([Input("hé")])],
        tools=(TOOL,),
        max_output_tokens=100,
        temperature=0.5,
        stop_sequences=("END", " "),
        seed=7,
    )
    built = ANTHROPIC.build(request)
    assert built.path == "/messages"
    assert built.headers == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "anthropic-version": "2023-06-01",
    }
    assert built.tool_names == {}
    assert json.loads(built.body) == {
        "model": PLAIN,
        "stream": True,
        "max_tokens": 100,
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "tools": [
            {
                "name": "read_file",
                "description": "Reads a file.",
                "input_schema": PARAMETERS,
                **MARK,
            }
        ],
        "system": [{**text("Be brief."), **MARK}],
        "messages": [{"role": "user", "content": [{**text("hé"), **MARK}]}],
    }


def test_a_single_question_is_not_marked_for_the_cache() -> None:
    assert body_of([Input("a")], system="s") == {
        "model": PLAIN,
        "stream": True,
        "max_tokens": 64_000,
        "system": [text("s")],
        "messages": [{"role": "user", "content": [text("a")]}],
    }


def test_a_turn_with_calls_and_the_ends_of_two_requests_marked() -> None:
    calls = [Call("i", "read_file", '{"path": "a"}'), Call("j", "read_file", "{}")]
    rounds: list[list[Item]] = [
        [
            Input("read both"),
            answer(Text("Reading."), *calls),
            Result("i", "read_file", '{"status":"success"}'),
            Result("j", "read_file", '{"status":"error"}', is_error=True),
        ],
        [Input("thanks")],
    ]
    assert body_of(*rounds)["messages"] == [
        {"role": "user", "content": [{**text("read both"), **MARK}]},
        {
            "role": "assistant",
            "content": [
                text("Reading."),
                {"type": "tool_use", "id": "i", "name": "read_file", "input": {"path": "a"}},
                {"type": "tool_use", "id": "j", "name": "read_file", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "i",
                    "content": '{"status":"success"}',
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "j",
                    "content": '{"status":"error"}',
                    "is_error": True,
                },
                {**text("thanks"), **MARK},
            ],
        },
    ]


def test_a_long_conversation_has_four_marks() -> None:
    rounds: list[list[Item]] = [[Input(f"q{n}"), answer(Text("a"))] for n in range(5)]
    request = ModelRequest(
        model=PLAIN, system="s", tools=(TOOL,), rounds=[*map(Round, rounds), Round([Input("q")])]
    )
    body = json.loads(ANTHROPIC.build(request).body)
    marked = [n for n, m in enumerate(body["messages"]) if "cache_control" in m["content"][-1]]
    assert marked == [8, 10]
    assert json.dumps(body).count("cache_control") == 4


def test_a_round_is_encoded_once_for_a_provider() -> None:
    kept = Round([Input("a"), answer(Thinking("hm", "proof"), Text("b"))])
    assert body_of(kept, [Input("c")])["messages"][1]["content"][0]["type"] == "thinking"
    kept.encoded["anthropic mine inputs"] = b'{"type":"text","text":"kept"}'
    assert body_of(kept, [Input("c")])["messages"][0]["content"] == [{**text("kept"), **MARK}]
    other = body_of(kept, [Input("c")], provider="other")["messages"]
    assert [message["content"] for message in other] == [
        [{**text("a"), **MARK}],
        [text("b")],
        [{**text("c"), **MARK}],
    ]


def test_reasoning_goes_back_unchanged_and_first_to_its_provider_alone() -> None:
    hidden = opaque("redacted_thinking", data="x")
    parts = (Thinking("hm", "proof"), hidden, Text("a"), Thinking("unsigned"), Call("i", "t", "{}"))
    call = {"type": "tool_use", "id": "i", "name": "t", "input": {}}
    own = [
        {"type": "thinking", "thinking": "hm", "signature": "proof"},
        {"type": "redacted_thinking", "data": "x"},
        text("a"),
        call,
    ]
    result = Result("i", "t", "{}")
    for fields, sent in (
        ({}, own),
        ({"provider": "other"}, [text("a"), call]),
        ({"dialect": "gemini"}, [text("a"), call]),
    ):
        contents = contents_of(Input("q"), answer(*parts, **fields), result, tools=(TOOL,))
        assert contents[1] == sent


def test_an_answer_never_ends_with_reasoning() -> None:
    hidden = opaque("redacted_thinking", data="x")
    assert answered(Text("a"), Thinking("hm", "proof"), hidden) == [text("a")]
    only = contents_of(Input("q"), answer(Thinking("hm", "proof"), hidden), Input("next"))
    assert only == [[text("q"), text("next")]]


def test_what_the_provider_ran_goes_back_in_place() -> None:
    use = opaque("server_tool_use", id="s", name="web_search", input={})
    found = opaque("web_search_tool_result", tool_use_id="s", content=[])
    parts = (Text("a"), use, found, Text("b"))
    assert [block["type"] for block in answered(*parts)] == [
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
    assert answered(*parts, provider="other") == [text("a"), text("b")]


@pytest.mark.parametrize(
    "part",
    [
        opaque("compaction", content="c"),
        opaque("fallback"),
        opaque("server_tool_use", id="s", name="advisor", input={}),
        Opaque("anthropic", "server_tool_use", msgspec.Raw(b"[]")),
        opaque("redacted_thinking", dialect="gemini", data="x"),
    ],
)
def test_what_needs_a_beta_header_or_is_of_another_format_stays_here(part: Opaque) -> None:
    assert answered(Text("a"), part) == [text("a")]


@pytest.mark.parametrize(
    ("chars", "sent"),
    [
        (2, [text("abc"), {**text("de"), "citations": [{"n": 1}]}]),
        (5, [{**text("abcde"), "citations": [{"n": 1}]}]),
        (9, [{**text("abcde"), "citations": [{"n": 1}]}]),
        (0, [{**text("abcde"), "citations": [{"n": 1}]}]),
    ],
)
def test_citations_go_back_with_the_text_that_they_belong_to(chars: int, sent: Any) -> None:
    cited = opaque("citations", chars=chars, citations=[{"n": 1}])
    assert answered(Text("abcde"), cited) == sent
    assert answered(Text("abcde"), cited, provider="other") == [text("abcde")]


def test_citations_without_their_text_stay_here() -> None:
    cited = opaque("citations", chars=1, citations=[{"n": 1}])
    broken = Opaque("anthropic", "citations", msgspec.Raw(b"[]"))
    none = opaque("citations", chars=1, citations=[])
    assert answered(cited, Text("a"), broken) == [text("a")]
    assert answered(Text("a "), cited) == [text("a ")]
    assert answered(Text("a"), none) == [text("a")]
    assert len(answered(Text("a"), cited, cited)) == 1


def test_blank_texts_are_left_out_and_a_refusal_is_text() -> None:
    assert answered(Text(" \n"), Refusal("No."), Text("")) == [text("No.")]
    assert contents_of(Input("a"), Input(" "), Input("b")) == [
        [text("a"), text(NOTHING_SAID), text("b")]
    ]


def test_answers_and_inputs_in_a_row_are_one_message() -> None:
    contents = [
        message["content"]
        for message in body_of(
            [Input("a"), answer(Text("b"))], [answer(Text("c"))], [], [Input("d")]
        )["messages"]
    ]
    assert [[block["text"] for block in content] for content in contents] == [
        ["a"],
        ["b", "c"],
        ["d"],
    ]


def test_a_conversation_begins_and_ends_with_a_person() -> None:
    assert contents_of(answer(Text("a")), Input("b")) == [
        [text(OMITTED)],
        [text("a")],
        [text("b")],
    ]
    assert contents_of(Input("a"), answer(Text("b")))[-1] == [text(GO_ON)]
    assert contents_of() == [[text(GO_ON)]]


def test_ids_and_names_that_the_api_refuses_are_sent_as_others() -> None:
    odd = Call("functions.t:0", "a.b", '{"é": 1}')
    contents = contents_of(
        Input("q"), answer(odd), Result("functions.t:0", "a.b", ""), tools=(TOOL,)
    )
    [call], [result] = contents[1], contents[2]
    assert call["id"] == result["tool_use_id"] != "functions.t:0"
    assert (call["name"], call["input"]) == (sent_name("a.b"), {"é": 1})
    assert result["content"] == NOTHING_RETURNED


def test_calls_in_the_history_have_their_tools_defined() -> None:
    body = body_of([Input("q"), answer(Call("i", "a.b", "{}")), Result("i", "a.b", "{}")])
    assert body["tools"] == [{"name": sent_name("a.b"), "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}


def test_files_are_shown_before_the_words() -> None:
    png = Attachment("image/PNG; x=y", b"\x89", "a.png")
    pdf = Attachment("application/pdf", b"%PDF", "b\n.pdf")
    notes = Attachment("application/json", b'{"a":1}')
    assert contents_of(Input("look", (png, pdf, notes))) == [
        [
            {
                "type": "image",
                "source": {
                    "type": "base64",
                    "media_type": "image/png",
                    "data": base64.b64encode(b"\x89").decode(),
                },
            },
            {
                "type": "document",
                "source": {
                    "type": "base64",
                    "media_type": "application/pdf",
                    "data": base64.b64encode(b"%PDF").decode(),
                },
                "title": "b .pdf",
            },
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": '{"a":1}'},
            },
            text("look"),
        ]
    ]


@pytest.mark.parametrize(
    "attachment",
    [
        Attachment("audio/wav", b"x", "a.wav"),
        Attachment("image/tiff", b"x", "a.tiff"),
        Attachment("image/png", b"", "a.png"),
        Attachment("image/png", bytes(MAX_IMAGE_BYTES + 1), "a.png"),
        Attachment("text/plain", b" \n", "a.txt"),
    ],
)
def test_a_file_that_can_not_be_shown_becomes_a_note(attachment: Attachment) -> None:
    [[block]] = contents_of(Input("", (attachment,)))
    assert block["type"] == "text"
    assert attachment.name in block["text"]
    assert "can't be shown" in block["text"]


@pytest.mark.parametrize(
    ("model", "effort", "options"),
    [
        ("claude-3-5-haiku-latest", ThinkingEffort.HIGH, {}),
        (PLAIN, None, {}),
        (PLAIN, ThinkingEffort.OFF, {}),
        (PLAIN, ThinkingEffort.LOW, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (FOREIGN, ThinkingEffort.LOW, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (PLAIN, ThinkingEffort.HIGH, {"thinking": {"type": "enabled", "budget_tokens": 24_576}}),
        (ADAPTIVE, None, {}),
        (ADAPTIVE, ThinkingEffort.OFF, {}),
        (ADAPTIVE, ThinkingEffort.LOW, {"thinking": SHOWN, "output_config": {"effort": "low"}}),
        (DEFAULT_ON, None, {"thinking": SHOWN}),
        (DEFAULT_ON, ThinkingEffort.OFF, {"thinking": {"type": "disabled"}}),
        (BETWEEN, ThinkingEffort.OFF, {"thinking": {"type": "between_tools"}}),
        (ALWAYS_ON, None, {"thinking": SHOWN}),
        (ALWAYS_ON, ThinkingEffort.OFF, {"output_config": {"effort": "low"}}),
        (ALWAYS_ON, ThinkingEffort.HIGH, {"thinking": SHOWN, "output_config": {"effort": "high"}}),
    ],
)
def test_thinking_is_asked_for_as_the_family_takes_it(
    model: str, effort: ThinkingEffort | None, options: Any
) -> None:
    assert options_of(model=model, thinking=effort) == options


@pytest.mark.parametrize(
    ("limit", "budget"), [(1024, None), (1025, 1024), (4000, 2000), (100_000, 8192)]
)
def test_a_budget_fits_the_answer(limit: int, budget: int | None) -> None:
    options = options_of(thinking=ThinkingEffort.MEDIUM, max_output_tokens=limit)
    assert options.get("thinking", {}).get("budget_tokens") == budget


def test_a_budget_waits_until_the_calls_of_another_provider_are_done() -> None:
    think: dict[str, Any] = {"thinking": ThinkingEffort.LOW, "tools": (TOOL,)}
    call, result = Call("i", "t", "{}"), Result("i", "t", "{}")
    own: list[Item] = [Input("q"), answer(Thinking("hm", "proof"), call), result]
    foreign: list[Item] = [Input("q"), answer(Text("a"), call, provider="other"), result]
    done: list[Item] = [answer(Text("b")), Input("next")]
    assert "thinking" in body_of(own, **think)
    assert "thinking" not in body_of(foreign, **think)
    assert "thinking" in body_of(foreign, done, **think)
    assert "thinking" in body_of(foreign, model=ADAPTIVE, **think)


@pytest.mark.parametrize(
    ("model", "fields", "options"),
    [
        (PLAIN, {"temperature": 1.5}, {"temperature": 1.0}),
        (PLAIN, {"temperature": 0.2, "top_p": 0.9}, {"temperature": 0.2}),
        (PLAIN, {"top_p": 0.9}, {"top_p": 0.9}),
        (FOREIGN, {"temperature": 0.2, "top_p": 0.9}, {"temperature": 0.2, "top_p": 0.9}),
        ("claude-opus-4-7", {"temperature": 0.2, "top_p": 0.9}, {}),
        (ALWAYS_ON, {"temperature": 0.2}, {"thinking": SHOWN}),
        (
            ADAPTIVE,
            {"temperature": 0.2, "top_p": 0.97, "thinking": ThinkingEffort.HIGH},
            {"top_p": 0.97, "thinking": SHOWN, "output_config": {"effort": "high"}},
        ),
        (
            ADAPTIVE,
            {"top_p": 0.5, "thinking": ThinkingEffort.HIGH},
            {"thinking": SHOWN, "output_config": {"effort": "high"}},
        ),
    ],
)
def test_sampling_is_sent_where_it_is_taken(model: str, fields: Any, options: Any) -> None:
    assert options_of(model=model, **fields) == options


@pytest.mark.parametrize(
    ("model", "fields", "options"),
    [
        (PLAIN, {}, {}),
        (PLAIN, {"tool_choice": ToolChoice.NONE}, {"tool_choice": {"type": "none"}}),
        (PLAIN, {"tool_choice": ToolChoice.REQUIRED}, {"tool_choice": {"type": "any"}}),
        (PLAIN, {"forced_tool": "gone"}, {"tool_choice": {"type": "any"}}),
        (
            PLAIN,
            {"forced_tool": "read_file", "tool_choice": ToolChoice.NONE},
            {"tool_choice": {"type": "tool", "name": "read_file"}},
        ),
        (
            PLAIN,
            {"tool_choice": ToolChoice.REQUIRED, "thinking": ThinkingEffort.HIGH},
            {"tool_choice": {"type": "any"}},
        ),
        (
            DEFAULT_ON,
            {"tool_choice": ToolChoice.REQUIRED, "thinking": ThinkingEffort.HIGH},
            {"tool_choice": {"type": "any"}, "thinking": {"type": "disabled"}},
        ),
        (ALWAYS_ON, {"tool_choice": ToolChoice.REQUIRED}, {"thinking": SHOWN}),
        (
            ALWAYS_ON,
            {"tool_choice": ToolChoice.NONE},
            {"tool_choice": {"type": "none"}, "thinking": SHOWN},
        ),
    ],
)
def test_the_choice_of_a_tool_wins_over_thinking(model: str, fields: Any, options: Any) -> None:
    assert options_of(model=model, tools=(TOOL,), **fields) == options


def test_without_tools_there_is_no_choice() -> None:
    assert options_of(forced_tool="read_file", tool_choice=ToolChoice.REQUIRED) == {}


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-2.1", 4096),
        ("claude-instant-1.2", 4096),
        ("claude-3-opus-20240229", 4096),
        ("claude-3-5-sonnet-20241022", 8192),
        ("claude-3-7-sonnet-latest", 64_000),
        ("claude-opus-4-20250514", 32_000),
        ("anthropic/claude-opus-4.1", 32_000),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", 64_000),
        ("claude-haiku-4-5@20251001", 64_000),
        ("claude-mythos-preview", 64_000),
        ("claude-novelty-9", 64_000),
        ("MiniMax-M2", 8192),
    ],
)
def test_the_limit_of_an_answer_that_the_api_demands(model: str, limit: int) -> None:
    assert body_of([Input("a")], model=model)["max_tokens"] == limit


OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CLOSED = {**OBJECT, "additionalProperties": False}


def test_the_schema_of_an_answer_is_a_parameter_where_there_is_one() -> None:
    config = {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}}
    assert options_of(answer_schema=OBJECT) == config
    options = options_of(answer_schema=OBJECT, model=ADAPTIVE, thinking=ThinkingEffort.LOW)
    assert options["output_config"] == {"effort": "low", **config["output_config"]}


@pytest.mark.parametrize(
    ("model", "schema"),
    [("claude-sonnet-4-0", OBJECT), (FOREIGN, OBJECT), (PLAIN, {"type": "object"})],
)
def test_elsewhere_the_schema_of_an_answer_is_a_rule(model: str, schema: Any) -> None:
    options = options_of(answer_schema=schema, model=model, system="Be brief.")
    [block] = options.pop("system")
    assert options == {}
    assert block["text"].startswith("Be brief.\n\nAnswer with JSON")
    assert block["text"].endswith(json.dumps(schema, separators=(",", ":")))
    [alone] = options_of(answer_schema=schema, model=model, system=" ")["system"]
    assert alone["text"].startswith("Answer with JSON")


@pytest.mark.parametrize(
    ("schema", "reduced"),
    [
        (
            {
                "$schema": "s",
                "title": "T",
                "type": "object",
                "properties": {
                    "n": {"type": "integer", "minimum": 1, "description": "A count."},
                    "d": {"type": "string", "format": "date"},
                    "p": {"type": "string", "pattern": "^a", "format": "regex"},
                    "l": {"type": "array", "items": {"$ref": "#/$defs/L"}, "minItems": 1},
                    "u": {"oneOf": [{"const": 1}, {"type": ["string", "null"]}]},
                    "e": {"enum": ["a", None], "default": "a"},
                },
                "$defs": {"L": {"type": "number", "maximum": 2}},
            },
            {
                "type": "object",
                "properties": {
                    "n": {
                        "type": "integer",
                        "description": 'A count. It must match {"minimum":1}.',
                    },
                    "d": {"type": "string", "format": "date"},
                    "p": {
                        "type": "string",
                        "description": 'It must match {"pattern":"^a","format":"regex"}.',
                    },
                    "l": {
                        "type": "array",
                        "items": {"type": "number", "description": 'It must match {"maximum":2}.'},
                        "minItems": 1,
                    },
                    "u": {
                        "anyOf": [{"const": 1}, {"anyOf": [{"type": "string"}, {"type": "null"}]}]
                    },
                    "e": {
                        "enum": ["a", None],
                        "description": 'It must match {"default":"a"}.',
                    },
                },
                "required": [],
                "additionalProperties": False,
            },
        ),
        ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        (
            {
                "$ref": "#/definitions/A~1B",
                "description": "d",
                "definitions": {"A/B": {"type": "null"}},
            },
            {"type": "null", "description": "d"},
        ),
    ],
)
def test_the_schema_of_an_answer_is_reduced_without_a_change_of_meaning(
    schema: Any, reduced: Any
) -> None:
    before = json.dumps(schema)
    assert answer_format(schema) == reduced
    assert json.dumps(schema) == before


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {**OBJECT, "additionalProperties": True},
        {**OBJECT, "patternProperties": {"x": {}}},
        {**OBJECT, "required": ["b"]},
        {"type": "array"},
        {"type": "array", "items": {"type": "string"}, "prefixItems": []},
        {"allOf": [{"type": "string"}]},
        {"type": "string", "not": {"const": "a"}},
        {"enum": [["a"]]},
        {"enum": 1},
        {"anyOf": {"type": "string"}},
        {"type": "novelty"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}},
        {"$ref": "#/$defs/A", "minimum": 1, "$defs": {"A": {"type": "integer"}}},
        {"$ref": "#/$defs/gone", "$defs": {"A": 1}},
        {"$ref": "https://e.example"},
        {"$ref": 7},
        {"type": "object", "properties": {f"p{n}": {"type": "null"} for n in range(MAX_NODES)}},
    ],
)
def test_a_schema_that_would_lose_its_meaning_is_no_parameter(schema: Any) -> None:
    assert answer_format(schema) is None


def test_the_schema_of_tools_keeps_its_references_and_has_an_object_at_its_root() -> None:
    leaf = {"type": "object", "properties": {"leaves": {"$ref": "#/$defs/Leaf"}}}
    definitions = {"$defs": {"Leaf": leaf}}
    assert tool_schema({"$ref": "#/$defs/Leaf", **definitions}) == {**leaf, **definitions}
    assert tool_schema({**leaf, **definitions}) == {**leaf, **definitions}
    assert tool_schema({}) == {"type": "object"}
    assert tool_schema({"$ref": "#/gone"}) == {"type": "object"}


@pytest.mark.parametrize("name", ["größe", "$filter", "from file", "x" * 65, "", "a\n"])
def test_arguments_whose_names_are_refused_are_described(name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    said = json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
    assert tool_schema(schema) == {
        "type": "object",
        "description": f"The arguments are an object that matches this schema: {said}",
    }
    definitions = {"$defs": {"Root": schema}}
    assert "properties" not in tool_schema({"$ref": "#/$defs/Root", **definitions})
    # The controls: names that are taken, and any within an argument.
    for known in ("x" * 64, "a.b-c_1"):
        kept = {"type": "object", "properties": {known: schema}}
        assert tool_schema(kept) == kept


def test_composition_at_the_root_of_a_tools_schema_becomes_words() -> None:
    choice = [{"required": ["a"]}, {"required": ["b"]}]
    assert tool_schema({"type": "object", "description": "d.", "anyOf": choice}) == {
        "type": "object",
        "description": "d. The arguments must also match this schema: "
        '{"anyOf":[{"required":["a"]},{"required":["b"]}]}',
    }


def test_the_pages_of_the_list_of_models() -> None:
    first, second = ANTHROPIC.list_models(), ANTHROPIC.list_models("a/b")
    assert (first.path, first.body) == ("/models?limit=1000", b"")
    assert second.path == "/models?limit=1000&after_id=a%2Fb"
    assert first.headers == {"accept": "application/json", "anthropic-version": "2023-06-01"}


def test_a_page_of_models_is_read() -> None:
    listed = [
        {
            "type": "model",
            "id": "claude-x",
            "display_name": "Claude X",
            "max_input_tokens": 200_000,
            "max_tokens": 64_000,
            "lifecycle": "active",
        },
        {"id": "claude-old", "lifecycle": "retired"},
        {"id": "plain", "display_name": "plain", "max_tokens": "many"},
        {"id": ""},
        {"id": "a\nb"},
        "x",
    ]
    body = {"data": listed, "has_more": True, "last_id": "plain"}
    models = (
        ListedModel(
            model="claude-x",
            title="Claude X",
            context_tokens=200_000,
            max_output_tokens=64_000,
        ),
        ListedModel(model="plain"),
    )
    assert ANTHROPIC.read_models(json.dumps(body).encode()) == ModelPage(models, "plain")
    last = json.dumps({**body, "has_more": False}).encode()
    assert ANTHROPIC.read_models(last) == ModelPage(models)
    endless = json.dumps({"data": [], "has_more": True, "last_id": "x"}).encode()
    assert ANTHROPIC.read_models(endless) == ModelPage(())


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"data": {}}', b"[" * 100_000])
def test_a_body_that_is_no_list_of_models_is_an_error(body: bytes) -> None:
    with pytest.raises(ProviderError, match="no list of models"):
        ANTHROPIC.read_models(body)
