"""The providers that need no configuration but their key: plain data, templates for others."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..config.base_url import origin
from ..config.settings import DialectName
from .provider_keys import has_environment_key


class KnownProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that needs no configuration but its key.

    Attributes:
        name: As in `PROVIDER/MODEL`.
        base_url: Everything before the wire format's own path.
        dialect: Its wire format.
        key_env: The environment variable of its key; `None` when it wants none.
        other_key_env: A second name of that variable, looked at when the first is not set.
        key_required: Whether a request without a key is pointless.
        model: Its model when only the provider is named, or `None`.
        models: Models that it was configured to have, beside those that it lists.
        hidden: The built-in provider of its name, which it takes the place of elsewhere.
    """

    name: str
    base_url: str
    dialect: DialectName = DialectName.OPENAI_CHAT
    key_env: str | None = None
    other_key_env: str | None = None
    key_required: bool = True
    model: str | None = None
    models: tuple[str, ...] = ()
    hidden: KnownProvider | None = None

    def variable(self, environ: Mapping[str, str]) -> str | None:
        """The environment variable that its key is in; when in none, the one to set."""
        if has_environment_key(self.key_env, environ):
            return self.key_env
        other = self.other_key_env
        return other if has_environment_key(other, environ) else self.key_env

    def why_unused(self, environ: Mapping[str, str]) -> str | None:
        """Why the key of the built-in provider of its name is not taken, when there is one."""
        if self.hidden is None:
            return None
        variable = self.hidden.variable(environ)
        if variable == self.key_env or not has_environment_key(variable, environ):
            return None
        return (
            f"${variable} is not used: it is the key for {origin(self.hidden.base_url)}, and "
            f"key_env of {self.name} does not name it."
        )


KNOWN = {
    known.name: known
    for known in (
        KnownProvider(
            name="openai",
            base_url="https://api.openai.com/v1",
            dialect=DialectName.OPENAI_RESPONSES,
            key_env="OPENAI_API_KEY",
            model="gpt-6-luna",
        ),
        KnownProvider(
            name="anthropic",
            base_url="https://api.anthropic.com/v1",
            dialect=DialectName.ANTHROPIC,
            key_env="ANTHROPIC_API_KEY",
            model="claude-sonnet-5-5",
        ),
        KnownProvider(
            name="gemini",
            base_url="https://generativelanguage.googleapis.com/v1beta",
            dialect=DialectName.GEMINI,
            key_env="GEMINI_API_KEY",
            other_key_env="GOOGLE_API_KEY",
            model="gemini-3.8-flash",
        ),
        KnownProvider(name="ollama", base_url="http://127.0.0.1:11434/v1", key_required=False),
        KnownProvider(name="llamacpp", base_url="http://127.0.0.1:8080/v1", key_required=False),
        KnownProvider(
            name="vllm",
            base_url="http://127.0.0.1:8000/v1",
            key_env="VLLM_API_KEY",
            key_required=False,
        ),
        KnownProvider(
            name="openrouter",
            base_url="https://openrouter.ai/api/v1",
            key_env="OPENROUTER_API_KEY",
            model="openrouter/auto",
        ),
        KnownProvider(
            name="groq",
            base_url="https://api.groq.com/openai/v1",
            key_env="GROQ_API_KEY",
        ),
        KnownProvider(
            name="deepseek",
            base_url="https://api.deepseek.com/v1",
            key_env="DEEPSEEK_API_KEY",
            model="deepseek-flash",
        ),
        KnownProvider(
            name="mistral",
            base_url="https://api.mistral.ai/v1",
            key_env="MISTRAL_API_KEY",
            model="mistral-medium-latest",
        ),
    )
}

KEY_ORDER = ("openai", "anthropic", "gemini")
"""Whose key is taken when nothing names a model."""

LOCAL_ORDER = ("ollama", "llamacpp")
"""Which servers on this machine are looked for when nothing names a model and no key is set."""
