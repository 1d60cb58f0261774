"""Lists of models of OpenAI and compatible servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.openai.models import MAX_MODELS, read_model_list
from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.providers.provider import ListedModel
from callboard.runtime.errors import ProviderError


def read(value: Any) -> tuple[ListedModel, ...]:
    page = OPENAI_CHAT.read_models(json.dumps(value).encode())
    assert page.next_page == ""
    return page.models


def ids(*entries: Any) -> list[str]:
    return [listed.model for listed in read({"object": "list", "data": list(entries)})]


def test_the_request_is_a_get_of_the_list() -> None:
    request = OPENAI_CHAT.list_models()
    assert (request.path, request.body) == ("/models", b"")


def test_openais_list_without_what_can_not_converse() -> None:
    names = (
        "gpt-6-astra gpt-4o o3 gpt-5.1-codex text-embedding-3-small whisper-1 tts-1-hd "
        "gpt-4o-mini-tts gpt-4o-transcribe dall-e-3 gpt-image-1 omni-moderation-latest sora-2 "
        "gpt-realtime gpt-4o-audio-preview babbage-002 davinci-002 nomic-embed-text:latest "
        "BAAI/bge-m3 qwen3-reranker gemma-embedder-chat"
    )
    listed = ids(*({"id": name, "object": "model"} for name in names.split()))
    assert listed == ["gpt-6-astra", "gpt-4o", "o3", "gpt-5.1-codex", "gemma-embedder-chat"]


def test_what_servers_add_is_read() -> None:
    openrouter = {
        "id": "x/chat-image",
        "name": "X: Chat",
        "context_length": 200_000,
        "top_provider": {"max_completion_tokens": 64_000},
        "architecture": {"output_modalities": ["text", "image"]},
    }
    painter = {"id": "x/painter", "architecture": {"output_modalities": ["image"]}}
    assert read({"data": [openrouter, painter]}) == (
        ListedModel(
            model="x/chat-image", title="X: Chat", context_tokens=200_000, max_output_tokens=64_000
        ),
    )
    groq = {"id": "llama", "context_window": 131_072, "max_completion_tokens": 32_768}
    vllm = {"id": "qwen", "max_model_len": 4096}
    llamacpp = {"id": "gemma", "meta": {"n_ctx_train": 8192}}
    assert [(m.context_tokens, m.max_output_tokens) for m in read({"data": [groq]})] == [
        (131_072, 32_768)
    ]
    assert [m.context_tokens for m in read({"data": [vllm, llamacpp]})] == [4096, 8192]
    mistral = {"id": "ocr", "capabilities": {"completion_chat": False}}
    assert ids(mistral, {**mistral, "capabilities": {"completion_chat": True}}) == ["ocr"]
    together = [
        {"id": "a", "type": "chat", "display_name": "A"},
        {"id": "b", "type": "embedding"},
        {"id": "c", "type": "rerank"},
    ]
    assert read(together) == (ListedModel(model="a", title="A"),)


@pytest.mark.parametrize("value", [{"data": []}, {"data": None}, {"object": "list", "data": None}])
def test_a_server_without_models_lists_none(value: Any) -> None:
    assert read(value) == ()


def test_broken_entries_are_left_out() -> None:
    odd: list[Any] = [None, 7, {}, {"id": 3}, {"id": ""}, {"id": "a\nb"}, {"id": "x" * 300}, []]
    assert ids(*odd, {"id": "m"}, {"id": "m"}) == ["m"]
    odd_fields = {"id": "m", "name": 7, "context_length": -1, "meta": [], "architecture": "x"}
    assert read({"data": [odd_fields]}) == (ListedModel(model="m"),)
    assert len(ids(*({"id": f"m{n}"} for n in range(MAX_MODELS + 10)))) == MAX_MODELS


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"7", b'"x"', b"{}", b'{"data": 7}', b"[" * 100_000, b'{"data": {"id": "m"}}'],
)
def test_what_is_no_list_is_an_error(body: bytes) -> None:
    with pytest.raises(ProviderError, match="no list of models"):
        read_model_list(body)


def test_the_providers_words_are_told() -> None:
    with pytest.raises(ProviderError, match="no list of models: the reason"):
        read_model_list(b'{"error": {"message": "the reason"}}')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "id", "name", "meta", "type"]), inner)
    ),
    max_leaves=10,
)


@given(JSON)
def test_any_json_is_a_list_or_an_error(value: Any) -> None:
    try:
        models = read(value)
    except ProviderError:
        return
    assert all(listed.model for listed in models)
