"""What a Chat Completions request holds beside its messages, by server and by family of models."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard.providers.openai.families import openai_family
from callboard.providers.openai_chat.dialect import MAX_STOPS, openai_chat_at
from callboard.providers.provider import ModelRequest, ToolChoice
from callboard.runtime.definitions import ThinkingEffort, ToolDefinition
from callboard.runtime.history import Input, Round

OPENAI = "https://api.openai.com/v1"
AZURE = "https://mine.openai.azure.com/openai/v1"
OPENROUTER = "https://openrouter.ai/api/v1"
DEEPSEEK = "https://api.deepseek.com/v1"
GROQ = "https://api.groq.com/openai/v1"
MISTRAL = "https://api.mistral.ai/v1"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"
XAI = "https://api.x.ai/v1"
LOCAL = "http://127.0.0.1:8000/v1"

TOOL = ToolDefinition(name="look", description="Looks.", parameters={"type": "object"})
ANSWER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
OFF, LOW, HIGH = ThinkingEffort.OFF, ThinkingEffort.LOW, ThinkingEffort.HIGH


def body_of(base_url: str, model: str = "m", **fields: Any) -> Any:
    request = ModelRequest(model=model, rounds=[Round([Input("a")])], **fields)
    return json.loads(openai_chat_at(base_url).build(request).body)


def options_of(base_url: str, model: str = "m", **fields: Any) -> dict[str, Any]:
    body = body_of(base_url, model, **fields)
    usual = {"model", "stream", "stream_options", "messages", "tools"}
    return {key: value for key, value in body.items() if key not in usual}


def test_sampling_goes_out_as_it_is() -> None:
    fields = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "stop_sequences": ("END", "")}
    for base_url in (LOCAL, OPENROUTER, OPENAI):
        assert options_of(base_url, "gpt-4.1", **fields) == {
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": 7,
            "stop": ["END"],
        }
    assert options_of(MISTRAL, seed=7) == {"random_seed": 7}
    assert options_of(GEMINI, seed=7) == {}
    assert options_of(XAI, stop_sequences=("END",)) == {}
    many = tuple(map(str, range(2 * MAX_STOPS)))
    assert options_of(LOCAL, stop_sequences=many) == {"stop": list(many[:MAX_STOPS])}


def test_the_limit_has_the_name_that_the_server_knows() -> None:
    for base_url in (OPENAI, AZURE):
        assert options_of(base_url, max_output_tokens=9) == {"max_completion_tokens": 9}
    for base_url in (LOCAL, GROQ, DEEPSEEK, "https://api.openai.com.evil.test/v1"):
        assert options_of(base_url, max_output_tokens=9) == {"max_tokens": 9}


@pytest.mark.parametrize("model", ["o3", "o4-mini", "gpt-5", "gpt-5-mini-2025-08-07", "gpt-6-x"])
def test_reasoning_models_of_openai_get_no_sampling_parameters(model: str) -> None:
    fields: dict[str, Any] = {"temperature": 0.5, "top_p": 0.9, "stop_sequences": ("END",)}
    assert options_of(OPENAI, model, **fields) == {}
    # The control: elsewhere the same name says nothing.
    assert set(options_of(LOCAL, model, **fields)) == {"temperature", "top_p", "stop"}


@pytest.mark.parametrize(
    ("model", "off", "low", "high"),
    [
        ("gpt-4.1", None, None, None),
        ("gpt-5-chat-latest", None, None, None),
        ("o3", "low", "low", "high"),
        ("o4-mini-2025-04-16", "low", "low", "high"),
        ("gpt-5", "minimal", "low", "high"),
        ("gpt-5-nano", "minimal", "low", "high"),
        ("gpt-5-codex", "low", "low", "high"),
        ("gpt-5-pro", None, None, "high"),
        ("gpt-5.1", "none", "low", "high"),
        ("gpt-5.1-codex-max", "low", "low", "high"),
        ("gpt-5.6-terra", "none", "low", "high"),
        ("gpt-6-astra", "none", "low", "high"),
        ("ft:gpt-5.1:me", "none", "low", "high"),
        ("my-own-o3", None, None, None),
        ("gpt-oss-120b", None, None, None),
    ],
)
def test_efforts_of_openais_models(
    model: str, off: str | None, low: str | None, high: str | None
) -> None:
    for thinking, effort in ((None, None), (OFF, off), (LOW, low), (HIGH, high)):
        options = options_of(OPENAI, model, thinking=thinking)
        assert options.get("reasoning_effort") == effort
        assert openai_family(model).effort(thinking) == effort


def test_models_of_openai_that_refuse_tools_while_they_reason_do_not_reason_beside_tools() -> None:
    for model in ("gpt-5.2", "gpt-5.4-mini", "gpt-5.6-terra", "gpt-6-astra"):
        for thinking in (None, OFF, HIGH):
            options = options_of(OPENAI, model, thinking=thinking, tools=(TOOL,))
            assert options == {"reasoning_effort": "none"}
    # The control: without tools, and for those that don't refuse.
    assert options_of(OPENAI, "gpt-5.2", thinking=HIGH) == {"reasoning_effort": "high"}
    for model in ("o3", "gpt-5-mini", "gpt-5.1"):
        options = options_of(OPENAI, model, thinking=HIGH, tools=(TOOL,))
        assert options == {"reasoning_effort": "high"}


def test_sampling_is_sent_while_a_model_that_may_reason_does_not() -> None:
    assert options_of(OPENAI, "gpt-5.1", temperature=0.5) == {"temperature": 0.5}
    assert set(options_of(OPENAI, "gpt-5.2", temperature=0.5, thinking=OFF)) == {
        "temperature",
        "reasoning_effort",
    }
    assert options_of(OPENAI, "gpt-5.1", temperature=0.5, thinking=LOW) == {
        "reasoning_effort": "low"
    }


@pytest.mark.parametrize(
    ("base_url", "model", "off", "high"),
    [
        (LOCAL, "qwen3", {}, {"reasoning_effort": "high"}),
        (GROQ, "openai/gpt-oss-20b", {"reasoning_effort": "low"}, {"reasoning_effort": "high"}),
        (GROQ, "llama-3.3-70b", {}, {}),
        (MISTRAL, "magistral", {}, {}),
        (XAI, "grok-4", {}, {}),
        (GEMINI, "gemini-x", {"reasoning_effort": "minimal"}, {"reasoning_effort": "high"}),
        (
            OPENROUTER,
            "openai/gpt-5",
            {"reasoning": {"effort": "low"}},
            {"reasoning": {"effort": "high"}},
        ),
        (
            OPENROUTER,
            "qwen/qwen3",
            {"reasoning": {"enabled": False}},
            {"reasoning": {"effort": "high"}},
        ),
        (
            DEEPSEEK,
            "deepseek-v4-pro",
            {"thinking": {"type": "disabled"}},
            {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        ),
    ],
)
def test_how_much_to_reason_is_said_as_the_server_wants_it(
    base_url: str, model: str, off: dict[str, Any], high: dict[str, Any]
) -> None:
    assert options_of(base_url, model) == {}
    assert options_of(base_url, model, thinking=OFF) == off
    assert options_of(base_url, model, thinking=HIGH) == high


def test_whether_a_tool_must_be_asked_for() -> None:
    named = {"type": "function", "function": {"name": "look"}}
    for choice, sent in (
        ({}, {}),
        ({"tool_choice": ToolChoice.REQUIRED}, {"tool_choice": "required"}),
        ({"tool_choice": ToolChoice.NONE}, {"tool_choice": "none"}),
        ({"forced_tool": "look"}, {"tool_choice": named}),
        ({"forced_tool": "look", "tool_choice": ToolChoice.NONE}, {"tool_choice": named}),
        ({"forced_tool": "gone"}, {"tool_choice": "required"}),
    ):
        assert options_of(LOCAL, tools=(TOOL,), **choice) == sent
        # Without tools there is nothing to choose, and the field is refused.
        assert options_of(LOCAL, **choice) == {}


def test_deepseek_does_not_think_while_a_tool_is_forced() -> None:
    for choice in ({"tool_choice": ToolChoice.REQUIRED}, {"forced_tool": "look"}):
        options = options_of(DEEPSEEK, tools=(TOOL,), thinking=HIGH, **choice)
        assert options.pop("tool_choice")
        assert options == {"thinking": {"type": "disabled"}}
    # `none` is refused too: then it is offered none.
    body = body_of(DEEPSEEK, tools=(TOOL,), thinking=HIGH, tool_choice=ToolChoice.NONE)
    assert "tools" not in body
    assert "tool_choice" not in body


def test_the_schema_of_an_answer_is_strict_where_it_can_be() -> None:
    loose = {"type": "object", "properties": {"city": {"type": "string"}}}
    sent = options_of(OPENAI, answer_schema=ANSWER)["response_format"]
    assert sent == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": ANSWER, "strict": True},
    }
    sent = options_of(OPENAI, answer_schema=loose)["response_format"]
    assert sent["json_schema"] == {"name": "answer", "schema": loose, "strict": False}


def test_a_server_that_knows_no_schema_reads_it_in_the_system_prompt() -> None:
    for system in ("", "Be brief."):
        body = body_of(DEEPSEEK, answer_schema=ANSWER, system=system)
        assert body["response_format"] == {"type": "json_object"}
        prompt = body["messages"][0]
        assert prompt["role"] == "system"
        assert prompt["content"].startswith(system)
        assert json.dumps(ANSWER, separators=(",", ":")) in prompt["content"]
        assert "JSON" in prompt["content"]


def test_only_anthropics_models_at_openrouter_are_marked_for_the_cache() -> None:
    assert options_of(OPENROUTER, "anthropic/claude") == {"cache_control": {"type": "ephemeral"}}
    assert options_of(OPENROUTER, "openai/gpt-5") == {}
    assert options_of(LOCAL, "anthropic/claude") == {}


def test_one_dialect_for_each_kind_of_server() -> None:
    assert openai_chat_at(LOCAL) is openai_chat_at("http://10.0.0.1/v1")
    assert openai_chat_at(OPENAI) is openai_chat_at(AZURE)
    assert openai_chat_at(OPENAI) is not openai_chat_at(LOCAL)
