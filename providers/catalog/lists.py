"""Fetching a provider's list of models, page by page."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from ...runtime.errors import CallboardError, ProviderError, error_of
from ...runtime.http.client import HttpClient
from ...runtime.stream import StreamError
from ..openai.models import read_own_window, read_running_windows, read_set_window
from ..provider import Endpoint, ListedModel, ModelPage

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Largest page that is read; OpenRouter's whole list is 0.5 MB."""

MAX_ASIDE_BYTES = 1024 * 1024
"""Largest answer of `/props` or `/api/show`: a chat template is some 10 KB, a license 50."""
MAX_SHOWN = 20
"""Models of an Ollama server that are asked about one by one: more than most machines have."""

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
            windows = await _own_windows(http, endpoint, fetched)
            models |= {
                name: replace(models[name], context_tokens=windows[name]) for name in windows
            }
        page = fetched.next_page
        if not page:
            break
    return tuple(models.values())


async def _own_windows(http: HttpClient, endpoint: Endpoint, page: ModelPage) -> dict[str, int]:
    """Return the context windows that a server gives, which are mostly smaller than its models'."""
    names = [each.model for each in page.models]
    if page.local_server == "llamacpp":
        window = read_own_window(await _ask(http, endpoint, "/props"))
        return {} if window is None else dict.fromkeys(names, window)
    running = read_running_windows(await _ask(http, endpoint, "/api/ps"))
    windows = {name: running[name] for name in names if name in running}
    for name in [name for name in names if name not in windows][:MAX_SHOWN]:
        shown = await _ask(http, endpoint, "/api/show", msgspec.json.encode({"model": name}))
        if (window := read_set_window(shown)) is not None:
            windows[name] = window
    return windows


async def _ask(http: HttpClient, endpoint: Endpoint, path: str, body: bytes | None = None) -> bytes:
    """Return what a server says at a path beside the wire format's; nothing where it does not."""
    url = endpoint.base_url.removesuffix("/v1") + path
    key = endpoint.dialect.auth_headers(endpoint.key.reveal()) if endpoint.key else {}
    headers = {"accept": "application/json", "content-type": "application/json", **key}
    method = "GET" if body is None else "POST"
    try:
        async with http.request(method, url, headers, body) as answer:
            content = await answer.read_all(MAX_ASIDE_BYTES + 1)
    except CallboardError:
        return b""  # the list is there, and its figures hold
    return content if answer.status == 200 and len(content) <= MAX_ASIDE_BYTES else b""


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
