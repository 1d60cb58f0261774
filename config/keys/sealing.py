"""Sealing a provider's key with the master key: AES-256-GCM, bound to the place that it is for.

A sealed key opens only with the master key that sealed it, and only in its own row: provider, origin,
name and version are authenticated with it, so a row that was copied over another one does not open.
`cryptography` is slow to import, and is imported when something is sealed or opened.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from functools import partial
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
"""AES-256."""

NONCE_BYTES = 12
"""96 bits, as GCM wants. Random ones are safe for 2**32 seals; a key store makes some dozens."""


class KeyBinding(msgspec.Struct, frozen=True, kw_only=True):
    """What a key belongs to.

    Attributes:
        provider: The provider's name.
        origin: Scheme, host and port, the only place that it is sent to.
        name: Which of the provider's keys.
        version: Counts the keys that were stored at this place.
    """

    provider: str
    origin: str
    name: str
    version: int

    @property
    def data(self) -> bytes:
        """The authenticated data. Only an origin could contain a `|`, so no two are equal."""
        return f"{self.provider}|{self.origin}|{self.name}|{self.version}".encode()


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed key; `key_id` says which master key opens it."""

    nonce: bytes
    ciphertext: bytes
    key_id: str


class SealError(Exception):
    """A sealed key does not open: another master key, another row, or changed bytes."""


class MasterKey:
    """Seals and opens keys; `repr` shows its id, which reveals nothing about it.

    Attributes:
        key_id: Derived from the key; equal for equal keys.
    """

    __slots__ = ("_value", "key_id")

    def __init__(self, value: bytes) -> None:
        assert len(value) == KEY_BYTES
        self._value = value
        self.key_id = hashlib.sha256(b"callboard master key\0" + value).hexdigest()[:16]

    @classmethod
    def generate(cls) -> MasterKey:
        """Return a new key from the kernel's random numbers."""
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def parse(cls, data: bytes) -> MasterKey:
        """Return the key in 32 bytes, or in their base64 or hexadecimal text.

        Raises:
            ValueError: It is something else; the message does not repeat it.
        """
        if len(data) == KEY_BYTES:
            return cls(data)
        text = data.strip()
        for decode in (binascii.unhexlify, partial(base64.b64decode, validate=True)):
            try:
                value = decode(text)
            except ValueError:
                continue
            if len(value) == KEY_BYTES:
                return cls(value)
        raise ValueError(
            f"it does not hold {KEY_BYTES} bytes, nor their base64 or hexadecimal text"
        )

    @property
    def text(self) -> bytes:
        """The key as it is kept: base64, one line."""
        return base64.b64encode(self._value) + b"\n"

    def seal(self, value: str, binding: KeyBinding) -> Sealed:
        """Encrypt a key for its place."""
        nonce = os.urandom(NONCE_BYTES)
        ciphertext = self._cipher().encrypt(nonce, value.encode(), binding.data)
        return Sealed(nonce=nonce, ciphertext=ciphertext, key_id=self.key_id)

    def unseal(self, sealed: Sealed, binding: KeyBinding) -> str:
        """Decrypt a key; raise `SealError` when it does not open."""
        from cryptography.exceptions import InvalidTag

        try:
            plain = self._cipher().decrypt(sealed.nonce, sealed.ciphertext, binding.data)
        except (InvalidTag, ValueError) as error:  # ValueError: a nonce of an impossible length
            raise SealError(f"the key of {binding.provider} does not open") from error
        return plain.decode()

    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._value)

    def __repr__(self) -> str:
        return f"MasterKey({self.key_id})"
