"""Logins at servers over HTTP: OAuth, as the package speaks it, over our connections.

What a login gave (tokens, the client's registration, where they belong) is one entry of the key store, under the server's
name and URL. In a turn nobody is sent to a browser: a token is renewed, and what needs a person fails.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import httpx2
import msgspec
import trio
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth, issuers_match
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from ...config.base_url import is_loopback, may_carry_key
from ...config.mcp.settings import LOGIN, MCP_KEYS, McpSettings, key_place
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import CallboardError
from ...runtime.redaction import Secret, redact, redactor
from .launch import values_of
from .state import LoginDesk, McpPlaces

NOWHERE = "http://127.0.0.1/callback"
"""Where a browser is sent to by who never sends one there."""
MAX_PROBLEM_CHARS = 300
REVOKE_SECONDS = 10.0
"""For an issuer to take a login back; a person waits, and the login is forgotten here in any case."""
_FORM = {"content-type": "application/x-www-form-urlencoded"}


class StoredLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login as it is kept.

    Attributes:
        issuer: Who gave it; another one gets nothing of it.
        tokens, client, metadata, resource: What the server and the issuer said, in their own form.
        expires_at: When the access token ends, in Unix seconds; `None` when that was not said.
    """

    issuer: str
    tokens: dict[str, Any]
    client: dict[str, Any]
    metadata: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    expires_at: float | None = None


_LOGIN = msgspec.json.Decoder(StoredLogin)


async def login_at(places: McpPlaces, server: McpSettings) -> Login | None:
    """Return what signs the requests to a server; `None` when nobody has logged in, and nobody is there to."""
    login = Login(places, server)
    if places.desk is None:
        await login.take_stored()
        return login if login.is_stored else None
    return login


class Login(OAuthClientProvider):
    """The login at one server, as the package asks for it.

    Attributes:
        is_stored: Whether there is one in the key store.
    """

    def __init__(self, places: McpPlaces, server: McpSettings) -> None:
        assert server.url is not None
        desk = places.desk
        super().__init__(
            server.url,
            OAuthClientMetadata(
                client_name="callboard",
                redirect_uris=[AnyUrl(NOWHERE if desk is None else desk.redirect_uri)],
                grant_types=["authorization_code", "refresh_token"],
            ),
            self,
            self._show,
            self._wait,
            places.client_document,
        )
        self.is_stored = False
        self._places = places
        self._server = server
        self._desk: LoginDesk | None = desk
        self._failure: ToolFailure | None = None
        self._shown = ""
        self._issuer = ""
        self._refresh = ""

    # ── the flow ─────────────────────────────────────────────────────────────────────────────────

    async def async_auth_flow(  # noqa: ASYNC900  httpx2 wants one, and ends it
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Sign a request, and log in or renew the token when the server wants it; httpx2 calls this.

        The package's own flow holds a lock until the request is answered. With a token that is good none is
        needed, and a call that takes long holds nobody up.
        """
        if self._failure is not None:
            raise self._failure  # nobody is asked the same twice
        if self._initialized and self.context.is_token_valid():
            self._add_auth_header(request)
            answer = yield request
            if not _is_challenge(answer):
                return
        flow = super().async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                answer = yield outgoing
                outgoing = await flow.asend(answer)
        except StopAsyncIteration:
            return
        except ToolFailure as failure:
            self._failure = failure
            raise
        except (OAuthFlowError, ValueError, httpx2.InvalidURL, httpx2.StreamError) as error:
            if isinstance(error.__cause__, CallboardError):  # the connection broke
                raise error.__cause__ from None
            self._failure = self._needed(_words(error))
            raise self._failure from error
        finally:
            await flow.aclose()

    async def _initialize(self) -> None:
        if self._desk is not None:
            self.context.client_info = await self._configured_client()
        self._initialized = True

    async def _perform_authorization(self) -> httpx2.Request:
        if self._desk is not None:
            return await super()._perform_authorization()
        wanted = set((self.context.client_metadata.scope or "").split())
        tokens = self.context.current_tokens
        granted = set(((tokens and tokens.scope) or "").split())
        if tokens is None or not self.context.can_refresh_token() or not wanted <= granted:
            more = " ".join(sorted(wanted - granted)) if tokens is not None else ""
            raise self._needed(f"it wants more: {more}" if more else "")
        return await self._refresh_token()

    async def _refresh_token(self) -> httpx2.Request:
        # A second process may have renewed it: a token that is used twice ends the login at many issuers.
        if self._desk is None:
            await self.take_stored()
        tokens = self.context.current_tokens
        self._refresh = (tokens and tokens.refresh_token) or ""
        return await super()._refresh_token()

    def _expected_issuer(self) -> str:
        issuer = super()._expected_issuer()
        if self._desk is None and self._issuer and not issuers_match(issuer, self._issuer):
            raise self._needed("it names another issuer than the one that gave the login")
        return issuer

    def _needed(self, problem: str = "") -> ToolFailure:
        why = f" ({redact(' '.join(problem.split()))[:MAX_PROBLEM_CHARS]})" if problem else ""
        return ToolFailure(
            ErrorType.PERMISSION_DENIED,
            f"it wants a login{why}: a person logs in with `callboard mcp login {self._server.name}`",
        )

    # ── the person ───────────────────────────────────────────────────────────────────────────────

    async def _show(self, url: str) -> None:
        await trio.lowlevel.checkpoint()
        # RFC 6749, 3.1: a code is never sent in clear text, and no server sends a browser to this machine.
        if not url.startswith("https://") and not (
            is_loopback(url) and is_loopback(self.context.server_url)
        ):
            raise OAuthFlowError("the page to log in at is not https")
        self._shown = url

    async def _wait(self) -> AuthorizationCodeResult:
        assert self._desk is not None
        return AuthorizationCodeResult(**await self._desk.authorize(self._shown))

    async def _configured_client(self) -> OAuthClientInformationFull | None:
        said = {"id": self._server.client_id, "secret": self._server.client_secret}
        kept = {name: value for name, value in said.items() if value is not None}
        if "id" not in kept:
            return None
        values = await trio.to_thread.run_sync(values_of, self._places, self._server, kept)
        return OAuthClientInformationFull(
            client_id=values["id"],
            client_secret=values.get("secret"),
            token_endpoint_auth_method="client_secret_basic" if "secret" in values else "none",
            redirect_uris=self.context.client_metadata.redirect_uris,
        )

    # ── what is kept (the package's `TokenStorage`) ──────────────────────────────────────────────

    async def take_stored(self) -> None:
        """Take the login from the key store, if there is one."""
        store = self._places.logins
        if store is None:
            return
        place = self._place()
        secret = await trio.to_thread.run_sync(
            partial(store.get, MCP_KEYS, place, LOGIN, masks=False)
        )
        if secret is None:
            return
        stored = _LOGIN.decode(secret.reveal())
        context = self.context
        context.current_tokens = OAuthToken.model_validate(stored.tokens)
        context.client_info = OAuthClientInformationFull.model_validate(stored.client)
        if stored.metadata is not None:
            context.oauth_metadata = OAuthMetadata.model_validate(stored.metadata)
        if stored.resource is not None:
            resource = ProtectedResourceMetadata.model_validate(stored.resource)
            context.protected_resource_metadata = resource
            context.auth_server_url = stored.issuer
        context.token_expiry_time = stored.expires_at
        self._issuer = stored.issuer
        self.is_stored = True
        self._mask()

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep what the issuer has given."""
        context = self.context
        if tokens.refresh_token is None and self._refresh:
            tokens.refresh_token = self._refresh  # it stays as it was (RFC 6749, 6)
        self._mask()
        assert context.client_info is not None
        kept = StoredLogin(
            issuer=super()._expected_issuer(),
            tokens=_said(tokens) or {},
            client=_said(context.client_info) or {},
            metadata=_said(context.oauth_metadata),
            resource=_said(context.protected_resource_metadata),
            expires_at=None if tokens.expires_in is None else time.time() + tokens.expires_in,
        )
        secret = Secret(msgspec.json.encode(kept).decode())
        store = self._places.logins
        if store is not None:
            await trio.to_thread.run_sync(
                partial(store.put, MCP_KEYS, self._place(), secret, LOGIN, masks=False)
            )
        self.is_stored = True

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Mask its secret; it is kept with the tokens."""
        await trio.lowlevel.checkpoint()
        self._mask()

    async def get_tokens(self) -> OAuthToken | None:
        """Return nothing: `take_stored` has them."""
        await trio.lowlevel.checkpoint()
        return None

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return nothing: `take_stored` has it."""
        await trio.lowlevel.checkpoint()
        return None

    async def revoke(self) -> str:
        """See the function of that name."""
        context, http = self.context, self._places.http
        tokens, metadata = context.current_tokens, context.oauth_metadata
        if tokens is None:
            return ""
        url = "" if metadata is None else str(metadata.revocation_endpoint or "")
        if not url or http is None:
            return "its issuer takes no login back; it ends by itself"
        if not may_carry_key(url):
            return "where its issuer takes logins back is not https"
        # The refresh token first: with it goes what was made of it (RFC 7009, 2.1), at most issuers.
        for kind in ("refresh_token", "access_token"):
            token = getattr(tokens, kind)
            if token is None:
                continue
            client = context.client_info.client_id if context.client_info is not None else ""
            form = {"token": token, "token_type_hint": kind, "client_id": client}
            form, headers = context.prepare_token_auth(form, dict(_FORM))
            body = urlencode(form).encode()
            async with http.request("POST", url, headers, body) as answer:
                if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
                    return f"its issuer answered with HTTP {answer.status}"
        return ""

    def _place(self) -> str:
        return key_place(self._server.name, self.context.server_url)

    def _mask(self) -> None:
        tokens, client = self.context.current_tokens, self.context.client_info
        secrets = [client.client_secret] if client is not None else []
        if tokens is not None:
            secrets += [tokens.access_token, tokens.refresh_token]
        for secret in filter(None, secrets):
            redactor.add(Secret(secret))


async def revoke(places: McpPlaces, server: McpSettings) -> str:
    """Have the issuer take a stored login back (RFC 7009); return why that failed, or `""`."""
    login = Login(places, server)
    try:
        await login.take_stored()
        with trio.move_on_after(REVOKE_SECONDS):
            return await login.revoke()
    except (CallboardError, ValueError, OAuthFlowError) as error:
        return redact(_words(error))[:MAX_PROBLEM_CHARS]
    return "its issuer did not answer in time"


def _words(error: BaseException) -> str:
    """Return what went wrong, without what the issuer sent: a token may be in that."""
    for each in (error, error.__cause__, error.__context__):
        if isinstance(each, ValidationError):
            places = {str(part) for its in each.errors() for part in its["loc"]}
            return f"what was answered is not of the protocol ({', '.join(sorted(places))})"
    return str(error)


def _is_challenge(answer: httpx2.Response) -> bool:
    """Whether a server wants a token, another one, or one that may do more."""
    if answer.status_code == HTTPStatus.FORBIDDEN:
        return extract_field_from_www_auth(answer, "error") == "insufficient_scope"
    return answer.status_code == HTTPStatus.UNAUTHORIZED


def _said(model: BaseModel | None) -> dict[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)
