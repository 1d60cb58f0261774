"""The list of models as Anthropic gives it: `GET /models?limit=1000[&after_id=…]`.

`{"data": [{"type": "model", "id", "display_name", "max_input_tokens", "max_tokens", "lifecycle"}],
"has_more", "last_id"}`. Every model of it holds conversations; those that were retired only fail.
Servers of other makers leave out all but the ids, or say them as Chat Completions does.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from ...runtime.errors import ProviderError
from ..error_answer import find_message, plain_line
from ..lenient_json import attempt
from ..provider import HttpRequest, ListedModel, ModelPage

PATH = "/models"

PAGE_SIZE = 1000
"""Anthropic: "Ranges from 1 to 1000"."""

MAX_ID_CHARS = 256
"""Longest id; a longer one, or one that can't be printed, is not a model's."""

MAX_TOKENS = 2**40
"""Largest count of tokens that is believed."""


def models_request(page: str, version: str) -> HttpRequest:
    """Return the GET for a page of the list."""
    after = f"&after_id={quote(page, safe='')}" if page else ""
    headers = {"accept": "application/json", "anthropic-version": version}
    return HttpRequest(f"{PATH}?limit={PAGE_SIZE}{after}", headers)


def read_model_list(body: bytes) -> ModelPage:
    """Return the models of a page, in its order.

    Raises:
        ProviderError: The body is not a list of models.
    """
    value: Any = attempt(msgspec.json.decode, body)
    listed = value.get("data") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(listed, list):
        said = plain_line(find_message(value), 200)
        raise ProviderError(
            f"The provider sent no list of models{f': {said}' if said else ''}. "
            f"Check its base URL, and name a model yourself if it lists none."
        )
    last = value.get("last_id")
    has_more = value.get("has_more") is True and isinstance(last, str) and bool(listed)
    return ModelPage(
        tuple(_model(entry) for entry in listed[:PAGE_SIZE] if _is_usable(entry)),
        last if has_more and isinstance(last, str) else "",
    )


def _is_usable(entry: Any) -> bool:
    model = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(model, str) or not 0 < len(model) <= MAX_ID_CHARS:
        return False
    return model.isprintable() and entry.get("lifecycle") != "retired"


def _model(entry: dict[str, Any]) -> ListedModel:
    title = entry.get("display_name")
    return ListedModel(
        model=entry["id"],
        title=plain_line(title, 100) if isinstance(title, str) and title != entry["id"] else "",
        context_tokens=_count(entry.get("max_input_tokens")),
        max_output_tokens=_count(entry.get("max_tokens")),
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < MAX_TOKENS else None
