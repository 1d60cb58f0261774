"""Signatures of deliveries: GitHub's, Stripe's, Standard Webhooks', and the secret itself as a bearer token.

| form | signed | header |
|---|---|---|
| github | the body | `X-Hub-Signature-256: sha256=HEX` |
| stripe | `TIME.BODY` | `Stripe-Signature: t=TIME,v1=HEX` |
| standard | `ID.TIME.BODY` | `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,BASE64` |
| bearer | nothing | `Authorization: Bearer SECRET` |

What identifies a delivery is signed, or it could be sent once more under another name: GitHub's id stands in a
header that is not, so the body is the identity there. A time that is signed must be near the present.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from .hook import SignatureForm

WINDOW_SECONDS = 300
"""How far a signed time may be from now, either way: what Stripe and Standard Webhooks advise."""
STANDARD_PREFIX = "whsec_"
"""Begins a secret of Standard Webhooks, whose rest is base64."""
MAX_SIGNATURES = 8
"""In one header: a sender has two while it changes its secret."""

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_TIME = re.compile(r"[0-9]{1,12}")


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery whose signature is right.

    Attributes:
        identity: The same for repetitions, and for them alone. Printable.
        is_named: Whether the sender named it; else it is known by its body.
        name, event: What its sender calls it, and what it is about; only for people, and may be empty.
    """

    identity: str
    is_named: bool
    name: str = ""
    event: str = ""


class _Named(msgspec.Struct):
    id: str = ""
    type: str = ""


_NAMED = msgspec.json.Decoder(_Named)  # at import, since threads use it


_HEADERS: dict[str, SignatureForm] = {
    "x-hub-signature-256": "github",
    "stripe-signature": "stripe",
    "webhook-signature": "standard",
    "authorization": "bearer",
}


def form_of(headers: Mapping[str, str]) -> SignatureForm | None:
    """Return the form of signature that a request has, right or wrong."""
    return next((form for name, form in _HEADERS.items() if name in headers), None)


def checked(
    form: SignatureForm, secret: str, headers: Mapping[str, str], body: bytes, now: float
) -> Delivery | None:
    """Return the delivery if its signature is right and new enough, else `None`.

    Takes as long for a wrong one as for a right one.

    Args:
        form: How it is signed.
        secret: The hook's.
        headers: Of the request, with names in lower case.
        body: All of it.
        now: The wall clock, in Unix seconds.
    """
    match form:
        case "github":
            return _github(secret, headers, body)
        case "stripe":
            return _stripe(secret, headers, body, now)
        case "standard":
            return _standard(secret, headers, body, now)
        case "bearer":
            return _bearer(secret, headers, body)


def standard_headers(secret: str, delivery_id: str, body: bytes, now: int) -> dict[str, str]:
    """Return the headers that sign a body by Standard Webhooks."""
    signature = base64.b64encode(_standard_mac(secret, delivery_id, str(now), body)).decode()
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(now),
        "webhook-signature": f"v1,{signature}",
    }


def _github(secret: str, headers: Mapping[str, str], body: bytes) -> Delivery | None:
    given = headers.get("x-hub-signature-256", "").removeprefix("sha256=")
    if not _is_one_of(_mac(secret.encode(), body).hexdigest(), [given]):
        return None
    return Delivery(
        identity=_digest(body),
        is_named=True,
        name=_word(headers.get("x-github-delivery", "")),
        event=_word(headers.get("x-github-event", "")),
    )


def _stripe(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> Delivery | None:
    pairs = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")]
    times = [value for name, _, value in pairs if name == "t"]
    at = times[0] if len(times) == 1 else ""
    given = [value for name, _, value in pairs if name == "v1"][:MAX_SIGNATURES]
    right = _mac(secret.encode(), f"{at}.".encode(), body).hexdigest()
    if not _is_one_of(right, given) or not _is_near(at, now):
        return None
    named = _named(body)
    name = _word(named.id)
    return Delivery(
        identity=name or _digest(body), is_named=True, name=name, event=_word(named.type)
    )


def _standard(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> Delivery | None:
    name, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    given = [
        each.removeprefix("v1,")
        for each in headers.get("webhook-signature", "").split(" ")[:MAX_SIGNATURES]
    ]
    right = base64.b64encode(_standard_mac(secret, name, at, body)).decode()
    if not _is_one_of(right, given) or not _is_near(at, now) or not _word(name):
        return None
    return Delivery(identity=name, is_named=True, name=name, event=_word(_named(body).type))


def _bearer(secret: str, headers: Mapping[str, str], body: bytes) -> Delivery | None:
    kind, _, given = headers.get("authorization", "").partition(" ")
    if not _is_one_of(secret, [given.strip() if kind.lower() == "bearer" else ""]):
        return None
    name = headers.get("idempotency-key", "")
    if not name:
        return Delivery(identity=_digest(body), is_named=False)
    return Delivery(
        identity=hashlib.sha256(name.encode()).hexdigest(), is_named=True, name=_word(name)
    )


def _standard_mac(secret: str, delivery_id: str, at: str, body: bytes) -> bytes:
    key = secret.encode()
    if secret.startswith(STANDARD_PREFIX):
        with suppress(binascii.Error, ValueError):  # else one of another maker that begins so
            key = base64.b64decode(secret.removeprefix(STANDARD_PREFIX), validate=True)
    return _mac(key, f"{delivery_id}.{at}.".encode(), body).digest()


def _mac(key: bytes, *parts: bytes) -> hmac.HMAC:
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        mac.update(part)
    return mac


def _is_one_of(right: str, given: list[str]) -> bool:
    """Compare in constant time; as bytes, because `compare_digest` takes no text beyond ASCII."""
    return any(hmac.compare_digest(right.encode(), each.encode()) for each in given)


def _is_near(at: str, now: float) -> bool:
    return _TIME.fullmatch(at) is not None and abs(now - int(at)) <= WINDOW_SECONDS


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _word(text: str) -> str:
    """Return what a sender calls something, if it is a word that can stand in a prompt; else nothing."""
    return text if _WORD.fullmatch(text) else ""


def _named(body: bytes) -> _Named:
    try:
        return _NAMED.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Named()
