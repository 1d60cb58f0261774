"""Fetching a provider's list of models, page by page."""

from __future__ import annotations

from msgspec.structs import replace

from ...runtime.errors import CallboardError, ProviderError, error_of
from ...runtime.http.client import HttpClient
from ...runtime.stream import StreamError
from ..openai.models import read_own_window
from ..provider import Endpoint, ListedModel, ModelPage

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Largest page that is read; OpenRouter's whole list is 0.5 MB."""

MAX_PROPS_BYTES = 1024 * 1024
"""Largest answer of `/props`: a chat template is some 10 KB."""

MAX_PAGES = 10
"""Pages that are read; Gemini sends 50 models a page, others a thousand."""


async def fetch_models(http: HttpClient, endpoint: Endpoint) -> tuple[ListedModel, ...]:
    """Return the models that a provider lists, from all pages. The caller sets the deadline.

    Raises:
        CallboardError: The connection failed, the provider refused, or the body is not a model list.
    """
    models: dict[str, ListedModel] = {}
    page = ""
    for _ in range(MAX_PAGES):
        fetched = await fetch_page(http, endpoint, page)
        if isinstance(fetched, StreamError):
            raise error_of(fetched.error_type, fetched.message)
        for listed in fetched.models:
            models.setdefault(listed.model, listed)
        if fetched.has_props and (window := await _own_window(http, endpoint)) is not None:
            models = {name: replace(each, context_tokens=window) for name, each in models.items()}
        page = fetched.next_page
        if not page:
            break
    return tuple(models.values())


async def _own_window(http: HttpClient, endpoint: Endpoint) -> int | None:
    """Return the context window of a llama.cpp server, which is mostly smaller than its model's."""
    url = endpoint.base_url.removesuffix("/v1") + "/props"
    key = endpoint.dialect.auth_headers(endpoint.key.reveal()) if endpoint.key else {}
    try:
        async with http.request("GET", url, {"accept": "application/json", **key}) as answer:
            content = await answer.read_all(MAX_PROPS_BYTES + 1)
    except CallboardError:
        return None  # the list is there, and its figure holds
    is_whole = answer.status == 200 and len(content) <= MAX_PROPS_BYTES
    return read_own_window(content) if is_whole else None


async def fetch_page(
    http: HttpClient, endpoint: Endpoint, page: str = ""
) -> ModelPage | StreamError:
    """Return a page of the list, or the provider's refusal.

    Raises:
        NetworkError, DeadlineError: The connection failed.
        ProviderError: The body is not a model list.
    """
    dialect = endpoint.dialect
    key = dialect.auth_headers(endpoint.key.reveal()) if endpoint.key else {}
    request = dialect.list_models(page)
    url, headers = endpoint.base_url + request.path, {**request.headers, **key}
    async with http.request("GET", url, headers) as answer:
        content = await answer.read_all(MAX_PAGE_BYTES + 1)
        if answer.status != 200:
            return dialect.read_error(answer.status, answer.headers, content)
    if len(content) > MAX_PAGE_BYTES:
        raise ProviderError(
            f"The provider's list of models is longer than {MAX_PAGE_BYTES} bytes. Check its base "
            "URL, and name a model yourself."
        )
    return dialect.read_models(content)
