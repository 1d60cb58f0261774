"""The list of models as OpenAI and all compatible servers give it: `GET /models`.

`{"data": [{"id"}]}`, and what some servers add: OpenRouter `name`, `context_length`,
`top_provider.max_completion_tokens` and `architecture.output_modalities`; vLLM `max_model_len`;
Groq `context_window` and `max_completion_tokens`; llama.cpp `meta.n_ctx` (what the server gives), or `n_ctx_train` (what the
model could take); Mistral `max_context_length` and `capabilities.completion_chat`; Together a bare list with `display_name`
and `type`; Ollama without models `null` for the list, and never a window: `/api/ps` has those of loaded models.

Left out are models that can't hold a conversation in text. When the server says what a model is
for, that decides; else a word of its id does, as in `text-embedding-3-small`, `whisper-1`, `tts-1`,
`gpt-image-1`, `omni-moderation-latest`: a word stands between the marks `-_/:.` and is compared
whole, so that `nomic-embed-text` is left out and `gemma-embedder-chat` is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ...runtime.errors import ProviderError
from ..error_answer import find_message, plain_line
from ..lenient_json import attempt
from ..provider import HttpRequest, ListedModel, ModelPage

PATH = "/models"

MAX_MODELS = 10_000
"""Twenty times the longest list there is (OpenRouter's); a longer one is cut."""

MAX_ID_CHARS = 256
"""Longest id; a longer one, or one that can't be printed, is not a model's."""

MAX_TOKENS = 2**40
"""Largest count of tokens that is believed."""

_HEADERS = {"accept": "application/json"}
_MARKS = re.compile(r"[-_/:.]+")
_NUM_CTX = re.compile(r"^num_ctx +(\d{1,12})$", re.MULTILINE)

NOT_CONVERSING = frozenset(
    (
        *("embedding", "embeddings", "embed", "bge", "minilm", "rerank", "reranker"),
        *("tts", "whisper", "transcribe", "audio", "realtime"),
        *("dall", "image", "sora", "moderation", "babbage", "davinci"),
    )
)
"""Words in ids of models that embed, speak, listen, draw, film, rank, judge, or only complete."""

_CONTEXT_KEYS = ("context_length", "context_window", "max_context_length", "max_model_len")


def models_request() -> HttpRequest:
    """Return the GET for the list, which has one page."""
    return HttpRequest(PATH, _HEADERS)


def read_model_list(body: bytes) -> ModelPage:
    """Return the models of a list that can hold a conversation, in its order.

    Raises:
        ProviderError: The body is not a list of models.
    """
    value: Any = attempt(msgspec.json.decode, body)
    listed = value.get("data", value.get("models", ())) if isinstance(value, dict) else value
    if listed is None and isinstance(value, dict):
        listed = ()
    if not isinstance(listed, list | tuple) or (not listed and _is_no_list(value)):
        said = plain_line(find_message(value), 200)
        raise ProviderError(
            f"The provider sent no list of models{f': {said}' if said else ''}. "
            f"Check its base URL, and name a model yourself if it lists none."
        )
    found = [entry for entry in listed if isinstance(entry, dict)]
    is_llamacpp = len(found) == 1 and _is_of_llamacpp(found[0])
    # Ollama says so of what came from its library, which is nearly everything.
    is_ollama = any(each.get("owned_by") == "library" for each in found)
    server: Any = "llamacpp" if is_llamacpp else "ollama" if is_ollama else ""
    return ModelPage(tuple(_models(listed)), local_server=server)


def _is_of_llamacpp(entry: dict[str, Any]) -> bool:
    """Return whether a server of llama.cpp lists this, without its window; of a model that loads it has no `meta`."""
    meta = _object(entry, "meta")
    is_its = "n_ctx_train" in meta or entry.get("owned_by") == "llamacpp"
    return is_its and "n_ctx" not in meta


def read_own_window(props: bytes) -> int | None:
    """Return the context window that llama.cpp's `/props` says, which is that of one request."""
    value = _read_object(props)
    return _first_count(
        [_object(value, "default_generation_settings").get("n_ctx"), value.get("n_ctx")]
    )


def read_running_windows(running: bytes) -> dict[str, int]:
    """Return the context windows of the models that an Ollama server has loaded, by its `/api/ps`."""
    listed = _read_object(running).get("models")
    found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    windows = ((each.get("model"), _first_count([each.get("context_length")])) for each in found)
    return {name: count for name, count in windows if isinstance(name, str) and count is not None}


def read_set_window(shown: bytes) -> int | None:
    """Return the `num_ctx` that the parameters of a model of Ollama set, by its `/api/show`."""
    parameters = _read_object(shown).get("parameters")
    found = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return _first_count([int(found[1])]) if found is not None else None


def _read_object(body: bytes) -> dict[str, Any]:
    value: Any = attempt(msgspec.json.decode, body)
    return value if isinstance(value, dict) else {}


def _is_no_list(value: Any) -> bool:
    return isinstance(value, dict) and "data" not in value and "models" not in value


def _models(listed: list[Any] | tuple[Any, ...]) -> Iterator[ListedModel]:
    seen: set[str] = set()
    for entry in listed:
        if len(seen) == MAX_MODELS:
            return
        if not isinstance(entry, dict):
            continue
        model = entry.get("id")
        if not isinstance(model, str) or not model or model in seen:
            continue
        if len(model) > MAX_ID_CHARS or not model.isprintable() or not _converses(model, entry):
            continue
        seen.add(model)
        yield _model(model, entry)


def _model(model: str, entry: dict[str, Any]) -> ListedModel:
    title = entry.get("display_name") or entry.get("name")
    meta = _object(entry, "meta")
    windows = [
        meta.get("n_ctx"),
        *(entry.get(key) for key in _CONTEXT_KEYS),
        meta.get("n_ctx_train"),
    ]
    limits = [
        _object(entry, "top_provider").get("max_completion_tokens"),
        entry.get("max_completion_tokens"),
    ]
    return ListedModel(
        model=model,
        title=plain_line(title, 100) if isinstance(title, str) and title != model else "",
        context_tokens=_first_count(windows),
        max_output_tokens=_first_count(limits),
    )


def _converses(model: str, entry: dict[str, Any]) -> bool:
    modalities = _object(entry, "architecture").get("output_modalities")
    if isinstance(modalities, list):
        return "text" in modalities
    converses = _object(entry, "capabilities").get("completion_chat")
    if isinstance(converses, bool):
        return converses
    kind = entry.get("type")
    if isinstance(kind, str) and kind in {"chat", "language", "embedding", "image", "rerank"}:
        return kind in {"chat", "language"}
    return NOT_CONVERSING.isdisjoint(_MARKS.split(model.lower()))


def _object(entry: dict[str, Any], key: str) -> dict[str, Any]:
    value = entry.get(key)
    return value if isinstance(value, dict) else {}


def _first_count(values: list[Any]) -> int | None:
    return next((n for n in values if type(n) is int and 0 < n < MAX_TOKENS), None)
