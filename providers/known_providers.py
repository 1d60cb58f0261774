"""The providers that need no configuration but their key: plain data."""

from __future__ import annotations

import msgspec


class KnownProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that needs no configuration but its key.

    Attributes:
        name: As in `PROVIDER/MODEL`.
        base_url: Everything before the wire format's own path.
        key_env: The environment variable of its key; `None` when it wants none.
        key_required: Whether a request without a key is pointless.
        model: Its model when only the provider is named, or `None`.
    """

    name: str
    base_url: str
    key_env: str | None = None
    key_required: bool = True
    model: str | None = None


KNOWN = {
    known.name: known
    for known in (
        KnownProvider(
            name="openai",
            base_url="https://api.openai.com/v1",
            key_env="OPENAI_API_KEY",
            model="gpt-5-mini",
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
            model="deepseek-chat",
        ),
    )
}

FOREIGN_FORMATS = {"anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
"""Known providers whose own wire format callboard does not speak, with the variables of their
keys; their models answer through a compatible server such as OpenRouter.
"""

KEY_ORDER = ("openai",)
"""Whose key is taken when nothing names a model."""

LOCAL_ORDER = ("ollama", "llamacpp")
"""Which servers on this machine are looked for when nothing names a model and no key is set."""
