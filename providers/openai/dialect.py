"""What OpenAI's two wire formats do alike: the key, errors, the list of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...runtime.stream import StreamError
from ..error_answer import read_error_answer
from ..provider import HttpRequest, ModelPage
from .models import models_request, read_model_list
from .strict_schema import strict_schema

ANSWER_NAME = "answer"
"""Name of an answer's schema: the formats want one, and the model sees it."""


class OpenAiDialect:
    """The common part of both dialects."""

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the header that carries the key."""
        return {"authorization": f"Bearer {key}"}

    def list_models(self, page: str = "") -> HttpRequest:
        """Return the GET for the list of models, which has one page."""
        return models_request()

    def read_models(self, body: bytes) -> ModelPage:
        """Return the models of the list that can hold a conversation."""
        return read_model_list(body)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        """Return what an answer with an error status means; `headers` are in lower case."""
        return read_error_answer(status, headers, body)


def answer_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an answer as both formats name it, strict if it can be said so."""
    strict = strict_schema(schema)
    return {
        "name": ANSWER_NAME,
        "schema": schema if strict is None else strict,
        "strict": strict is not None,
    }
