"""A provider's list of models, fetched page by page over HTTP."""

from __future__ import annotations

from ...runtime.errors import ProviderError, error_of
from ...runtime.http.client import HttpClient
from ...runtime.stream import StreamError
from ..provider import Endpoint, ListedModel, ModelPage

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Of a page of the list: OpenRouter's only one is 0.5 MB."""

MAX_PAGES = 10
"""Of a list: the longest has 50 models in a page, the others a thousand."""


async def fetch_models(http: HttpClient, endpoint: Endpoint) -> tuple[ListedModel, ...]:
    """The models that a provider lists, all pages of them; the deadline is the caller's.

    Raises:
        CallboardError: There is no connection, the provider refused, or the body is no such list.
    """
    models: dict[str, ListedModel] = {}
    page = ""
    for _ in range(MAX_PAGES):
        fetched = await fetch_page(http, endpoint, page)
        if isinstance(fetched, StreamError):
            raise error_of(fetched.error_type, fetched.message)
        for listed in fetched.models:
            models.setdefault(listed.model, listed)
        page = fetched.next_page
        if not page:
            break
    return tuple(models.values())


async def fetch_page(
    http: HttpClient, endpoint: Endpoint, page: str = ""
) -> ModelPage | StreamError:
    """A page of the list, or how the provider refused it.

    Raises:
        NetworkError, DeadlineError: There is no connection, or it broke.
        ProviderError: The body is no such list.
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
