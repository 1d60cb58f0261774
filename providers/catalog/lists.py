"""Fetching a provider's list of models, page by page."""

from __future__ import annotations

from msgspec.structs import replace

from ...runtime.errors import ProviderError, error_of
from ...runtime.http.client import HttpClient
from ...runtime.stream import StreamError
from ..provider import Endpoint, ListedModel, ModelPage

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Largest page that is read; OpenRouter's whole list is 0.5 MB."""

MAX_PAGES = 10
"""Pages that are read; Gemini sends 50 models a page, others a thousand."""


async def fetch_models(
    http: HttpClient, endpoint: Endpoint, *, asks_windows: bool = True
) -> tuple[ListedModel, ...]:
    """Return the models that a provider lists, from all pages. The caller sets the deadline.

    With `asks_windows` a local server is asked what context windows it gives, where its list does not say it.

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
        if asks_windows and fetched.local_server:
            from .windows import windows_of  # here: a start does not ask

            names = [each.model for each in fetched.models]
            windows = await windows_of(http, endpoint, fetched.local_server, names)
            models |= {
                name: replace(models[name], context_tokens=windows[name]) for name in windows
            }
        page = fetched.next_page
        if not page:
            break
    return tuple(models.values())


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
    async with http.stream_get(url, headers) as answer:
        content = await answer.read_all(MAX_PAGE_BYTES + 1)
        if answer.status != 200:
            return dialect.read_error(answer.status, answer.headers, content)
    if len(content) > MAX_PAGE_BYTES:
        raise ProviderError(
            f"The provider's list of models is longer than {MAX_PAGE_BYTES} bytes. Check its base "
            "URL, and name a model yourself."
        )
    return dialect.read_models(content)
