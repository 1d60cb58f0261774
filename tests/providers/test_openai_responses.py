"""What is sent: the Responses request, and what goes back of the answers before."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from callboard.providers.openai_responses.dialect import OPENAI_RESPONSES
from callboard.providers.provider import ModelRequest, ToolChoice
from callboard.runtime.definitions import ThinkingEffort, ToolDefinition
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

TOOL = ToolDefinition(
    name="read_file",
    description="Reads a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)
CLOSED = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}


def body_of(*rounds: Round | list[Item], model: str = "m", **fields: Any) -> Any:
    made = [each if isinstance(each, Round) else Round(each) for each in rounds]
    request = ModelRequest(model=model, rounds=made, **{"provider": "mine", **fields})
    return json.loads(OPENAI_RESPONSES.build(request).body)


def items_of(*items: Item, **fields: Any) -> list[Any]:
    found: list[Any] = body_of(list(items), **fields)["input"]
    return found


def answer(*parts: Part, **fields: Any) -> Answer:
    given = {"dialect": "openai_responses", "provider": "mine", "model": "m", **fields}
    return Answer(parts, **given)


def opaque(kind: str, value: Any) -> Opaque:
    return Opaque("openai_responses", kind, msgspec.Raw(json.dumps(value).encode()))


def user(content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content}


def assistant(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text, **fields}


def call(call_id: str, arguments: str = "{}", name: str = "t") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(call_id: str, text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def reasoning(encrypted: str, *texts: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text} for text in texts]
    return {"type": "reasoning", "summary": summary, "encrypted_content": encrypted}


def test_the_whole_request() -> None:
    request = ModelRequest(
        model="gpt-4.1",
        system="Be brief.",
        rounds=[Round([Input("hé")])],
        tools=(TOOL,),
        max_output_tokens=100,
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop_sequences=("END",),
    )
    built = OPENAI_RESPONSES.build(request)
    assert built.path == "/responses"
    assert built.headers == {"content-type": "application/json", "accept": "text/event-stream"}
    assert dict(built.tool_names) == {}
    # The format has no seed and no stop sequences.
    assert json.loads(built.body) == {
        "model": "gpt-4.1",
        "stream": True,
        "store": False,
        "tools": [
            {
                "type": "function",
                "name": "read_file",
                "description": "Reads a file.",
                "parameters": TOOL.parameters,
                "strict": False,
            }
        ],
        "instructions": "Be brief.",
        "max_output_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "input": [user("hé")],
    }


def test_what_is_not_set_is_not_sent() -> None:
    assert body_of([Input("a")]) == {
        "model": "m",
        "stream": True,
        "store": False,
        "input": [user("a")],
    }


def test_a_limit_below_the_api_s_own_is_raised_to_it() -> None:
    assert body_of([Input("a")], max_output_tokens=1)["max_output_tokens"] == 16


EFFORT = ThinkingEffort


@pytest.mark.parametrize(
    ("model", "thinking", "sent", "is_encrypted", "samples"),
    [
        ("gpt-4.1", EFFORT.HIGH, None, False, True),
        ("o3", None, None, True, False),
        ("o3", EFFORT.OFF, {"effort": "low"}, True, False),
        ("o4-mini", EFFORT.MEDIUM, {"effort": "medium", "summary": "auto"}, True, False),
        ("gpt-5-mini", EFFORT.OFF, {"effort": "minimal"}, True, False),
        ("openai/gpt-5", EFFORT.LOW, {"effort": "low", "summary": "auto"}, True, False),
        ("gpt-5.2", EFFORT.OFF, {"effort": "none"}, True, True),
        ("gpt-5.2", EFFORT.HIGH, {"effort": "high", "summary": "auto"}, True, False),
        ("gpt-5-pro", EFFORT.LOW, {"summary": "auto"}, True, False),
        ("gpt-5-chat-latest", EFFORT.HIGH, None, False, True),
        ("grok-4", EFFORT.HIGH, None, True, True),
        ("qwen3", EFFORT.HIGH, {"effort": "high"}, False, True),
        ("qwen3", EFFORT.OFF, None, False, True),
    ],
)
def test_reasoning_is_asked_for_as_the_model_takes_it(
    model: str,
    thinking: ThinkingEffort | None,
    sent: Any,
    is_encrypted: bool,
    samples: bool,
) -> None:
    body = body_of([Input("a")], model=model, thinking=thinking, temperature=0.5, top_p=0.5)
    assert body.get("reasoning") == sent
    assert body.get("include") == (["reasoning.encrypted_content"] if is_encrypted else None)
    assert ("temperature" in body, "top_p" in body) == (samples, samples)


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, None),
        ({"tool_choice": ToolChoice.NONE}, "none"),
        ({"tool_choice": ToolChoice.REQUIRED}, "required"),
        ({"forced_tool": "read_file"}, {"type": "function", "name": "read_file"}),
        ({"forced_tool": "read_file", "tool_choice": ToolChoice.NONE},
         {"type": "function", "name": "read_file"}),
        ({"forced_tool": "gone"}, "required"),
    ],
)  # fmt: skip
def test_the_choice_of_a_tool(fields: dict[str, Any], sent: Any) -> None:
    assert body_of([Input("a")], tools=(TOOL,), **fields).get("tool_choice") == sent
    assert "tool_choice" not in body_of([Input("a")], **fields)


def test_a_tool_is_strict_when_its_schema_is_so_already() -> None:
    strict = msgspec.structs.replace(TOOL, parameters=CLOSED)
    [sent] = body_of([Input("a")], tools=(strict,))["tools"]
    assert (sent["parameters"], sent["strict"]) == (CLOSED, True)
    optional = {**CLOSED, "properties": {"path": {"type": "string", "default": "x"}}}
    [sent] = body_of([Input("a")], tools=(msgspec.structs.replace(TOOL, parameters=optional),))[
        "tools"
    ]
    assert (sent["parameters"], sent["strict"]) == (optional, False)


@pytest.mark.parametrize(
    ("schema", "sent", "is_strict"),
    [
        (TOOL.parameters, None, False),
        (CLOSED, CLOSED, True),
        ({**CLOSED, "additionalProperties": True}, None, False),
    ],
)
def test_an_answer_is_bound_to_its_schema(schema: Any, sent: Any, is_strict: bool) -> None:
    assert body_of([Input("a")], answer_schema=schema)["text"] == {
        "format": {
            "type": "json_schema",
            "name": "answer",
            "schema": sent or schema,
            "strict": is_strict,
        }
    }


def test_a_turn_with_calls() -> None:
    rounds: list[list[Item]] = [
        [
            Input("read both"),
            answer(Text("Reading."), Call("i", "t", '{"path": "a"}'), Call("j", "t", "{}")),
            Result("i", "t", '{"status":"success"}'),
            Result("j", "t", '{"status":"error"}', is_error=True),
        ],
        [answer(Text("Done."))],
        [Input("thanks")],
    ]
    assert body_of(*rounds)["input"] == [
        user("read both"),
        assistant("Reading."),
        call("i", '{"path": "a"}'),
        call("j"),
        output("i", '{"status":"success"}'),
        output("j", '{"status":"error"}'),
        assistant("Done."),
        user("thanks"),
    ]


def test_inputs_in_a_row_are_one_message_and_empty_rounds_are_none() -> None:
    assert items_of(Input("a"), Input(""), Input("b")) == [user("a\n\nb")]
    assert body_of([Input("a")], [], [Input("b")])["input"] == [user("a"), user("b")]


def test_reasoning_goes_back_in_its_place() -> None:
    items = items_of(
        Input("a"),
        answer(
            Thinking("one", "e1"), Call("i", "t", "{}"), Thinking("", "e2"), Call("j", "t", "{}")
        ),
        Result("i", "t", "r"),
        Result("j", "t", "s"),
        answer(Thinking("", "e3"), Thinking("two", "e4"), Text("b")),
        model="gpt-5",
    )
    assert items == [
        user("a"),
        reasoning("e1", "one"),
        call("i"),
        reasoning("e2"),
        call("j"),
        output("i", "r"),
        output("j", "s"),
        reasoning("e3"),
        reasoning("e4", "two"),
        assistant("b"),
    ]


SIGNED = (Thinking("hm", "e"), opaque("compaction", {"id": "c", "encrypted_content": "x"}))


@pytest.mark.parametrize(
    ("fields", "model", "goes_back"),
    [
        ({}, "gpt-5", True),
        ({"model": "o3"}, "gpt-5", True),
        ({"provider": "other"}, "gpt-5", False),
        ({"dialect": "anthropic_messages"}, "gpt-5", False),
        ({"incomplete": True}, "gpt-5", False),
        ({"model": "x-ai/grok-4"}, "openai/gpt-5", False),
        ({"model": "openai/o3"}, "openai/gpt-5", True),
    ],
)
def test_reasoning_goes_back_to_who_gave_it_alone(
    fields: dict[str, Any], model: str, goes_back: bool
) -> None:
    items = items_of(answer(*SIGNED, Text("a"), **fields), model=model)
    kept = [
        reasoning("e", "hm"),
        {"type": "compaction", "id": "c", "encrypted_content": "x"},
    ]
    assert items == [*(kept if goes_back else []), assistant("a")]


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-5-chat-latest", "chatgpt-4o-latest"])
def test_a_model_that_does_not_reason_gets_no_reasoning(model: str) -> None:
    items = items_of(answer(*SIGNED, Text("a")), model=model)
    assert [item["type"] for item in items] == ["compaction", "message"]


@pytest.mark.parametrize(
    "parts", [(Thinking("hm", "e"),), (Text("a"), Thinking("hm", "e")), (Thinking("hm"), Text("a"))]
)
def test_reasoning_that_led_to_nothing_or_is_not_signed_stays_here(
    parts: tuple[Part, ...],
) -> None:
    texts = [part.text for part in parts if isinstance(part, Text)]
    items = items_of(answer(*parts), Input("b"), model="gpt-5")
    assert items == [*map(assistant, texts), user("b")]


def test_one_round_is_encoded_for_each_that_asks() -> None:
    round_ = Round([Input("a"), answer(*SIGNED, Text("b"))])
    lengths = [
        len(body_of(round_, model=model, provider=provider)["input"])
        for model, provider in (
            ("gpt-5", "mine"),
            ("gpt-4.1", "mine"),
            ("gpt-5", "other"),
            ("x/gpt-5", "mine"),
        )
    ] * 2
    assert lengths == [4, 3, 2, 2] * 2


def test_a_round_is_encoded_once() -> None:
    round_ = Round([Input("a")])
    assert body_of(round_)["input"] == [user("a")]
    [key] = round_.encoded
    round_.encoded[key] = b'{"kept":1}'
    assert body_of(round_)["input"] == [{"kept": 1}]


def test_items_of_server_side_tools_go_back_as_the_api_takes_them() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    parts = (
        Thinking("", "e"),
        opaque("web_search_call", {**search, "created_by": "x"}),
        Text("a"),
        opaque("annotations", [{"type": "url_citation"}]),
        Text("b"),
    )
    assert items_of(answer(*parts), model="gpt-5") == [reasoning("e"), search, assistant("ab")]


@pytest.mark.parametrize(
    "part",
    [
        opaque("web_search_call", {"id": "ws_1", "status": "in_progress"}),
        opaque("mcp_list_tools", {"id": "m", "server_label": "s", "tools": []}),
        opaque("shell_call", {"id": "sh", "status": "completed", "call_id": "c"}),
        opaque("computer_call", {"id": "cu", "status": "completed", "call_id": "c"}),
        opaque("mcp_approval_request", {"id": "r"}),
        opaque("web_search_call", {"status": "completed"}),
        opaque("web_search_call", [1]),
        Opaque("openai_responses", "web_search_call", msgspec.Raw(b"\xff{")),
        Opaque("gemini", "compaction", msgspec.Raw(b'{"id":"c","encrypted_content":"x"}')),
        opaque("something_new", {"id": "n"}),
    ],
)
def test_what_the_api_would_refuse_stays_here(part: Opaque) -> None:
    assert items_of(answer(Text("a"), part, Text("b"))) == [assistant("ab")]


def test_the_phase_of_a_message_goes_back() -> None:
    parts = (
        Text("Looking."),
        opaque("phase", "commentary"),
        Text("It is."),
        opaque("phase", "final_answer"),
        Text("x"),
        opaque("phase", "unheard of"),
    )
    assert items_of(answer(*parts)) == [
        assistant("Looking.", phase="commentary"),
        assistant("It is.", phase="final_answer"),
        assistant("x"),
    ]
    assert items_of(answer(*parts, provider="other")) == [assistant("Looking.It is.x")]


def test_an_incomplete_answer_is_sent_as_its_text_and_an_empty_one_not_at_all() -> None:
    cut = answer(Thinking("hm", "e"), Text("so f"), Refusal("no"), incomplete=True)
    assert items_of(cut, model="gpt-5") == [assistant("so fno")]
    assert items_of(answer(Text("")), answer(Thinking("hm")), Input("a")) == [user("a")]


PNG = Attachment("image/PNG; x=y", b"\x89", "a.png")


def test_images_and_documents_are_shown_and_other_files_told_of() -> None:
    files = (
        PNG,
        Attachment("application/pdf", b"%PDF", "b.pdf"),
        Attachment("application/pdf", b"%PDF"),
        Attachment("text/plain", b"hi", "c.txt"),
        Attachment("audio/wav", b"x", "d.wav"),
    )
    [item] = items_of(Input("see", files))
    pdf = "data:application/pdf;base64,JVBERg=="
    assert item["content"][:4] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,iQ==", "detail": "auto"},
        {"type": "input_file", "filename": "b.pdf", "file_data": pdf},
        {"type": "input_file", "filename": "file.pdf", "file_data": pdf},
    ]
    text, note = item["content"][4:]
    assert (text["type"], note["type"]) == ("input_text", "input_text")
    assert "hi" in text["text"]
    assert "can't be shown" in note["text"]


def test_text_files_alone_are_part_of_the_text() -> None:
    [item] = items_of(Input("see", (Attachment("text/plain", b"hi", "c.txt"),)))
    assert item["content"].startswith("see\n\n[File c.txt")


def test_the_list_of_models_is_openai_s() -> None:
    built = OPENAI_RESPONSES.list_models()
    assert (built.path, built.body) == ("/models", b"")
    page = OPENAI_RESPONSES.read_models(b'{"data":[{"id":"gpt-5"},{"id":"tts-1"}]}')
    assert [model.model for model in page.models] == ["gpt-5"]
