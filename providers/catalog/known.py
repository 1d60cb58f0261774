"""The built-in table of providers and their models."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...config.base_url import origin
from ...config.settings import DialectName
from ..provider import ListedModel
from .keys import has_environment_key


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
        """Return the environment variable of its key: the one that is set, else the first."""
        if has_environment_key(self.key_env, environ):
            return self.key_env
        other = self.other_key_env
        return other if has_environment_key(other, environ) else self.key_env

    def why_unused(self, environ: Mapping[str, str]) -> str | None:
        """Return why the key of the built-in provider of its name is not used, if there is one."""
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
"""Providers whose key decides the model when nothing names one, in this order."""

LOCAL_ORDER = ("ollama", "llamacpp")
"""Servers of this machine to look for when nothing names a model and no key is set."""


_MILLION = 1_000_000


def _model(model: str, title: str, context: int, output: int | None = None) -> ListedModel:
    return ListedModel(model=model, title=title, context_tokens=context, max_output_tokens=output)


KNOWN_MODELS: dict[str, tuple[ListedModel, ...]] = {
    "openai": (
        _model("gpt-6-luna", "GPT-6 Luna", 1_050_000, 128_000),
        _model("gpt-6-sol", "GPT-6 Sol", 1_050_000, 128_000),
        _model("gpt-6-astra", "GPT-6 Astra", 1_050_000, 128_000),
        _model("gpt-5.6-luna", "GPT-5.6 Luna", 1_050_000, 128_000),
        _model("gpt-5.6-terra", "GPT-5.6 Terra", 1_050_000, 128_000),
        _model("gpt-5.6-sol", "GPT-5.6 Sol", 1_050_000, 128_000),
        _model("gpt-5.5", "GPT-5.5", 1_050_000, 128_000),
    ),
    "anthropic": (
        _model("claude-haiku-5-5", "Claude Haiku 5.5", _MILLION, 128_000),
        _model("claude-sonnet-5-5", "Claude Sonnet 5.5", _MILLION, 128_000),
        _model("claude-opus-5-5", "Claude Opus 5.5", _MILLION, 128_000),
        _model("claude-fable-5-1", "Claude Fable 5.1", _MILLION, 128_000),
        _model("claude-haiku-4-5", "Claude Haiku 4.5", 200_000, 64_000),
    ),
    "gemini": (
        _model("gemini-3.8-flash", "Gemini 3.8 Flash", 1_048_576, 65_536),
        _model("gemini-3.7-flash", "Gemini 3.7 Flash", 1_048_576, 65_536),
        _model("gemini-3.1-pro-preview", "Gemini 3.1 Pro Preview", 1_048_576, 65_536),
        _model("gemini-2.5-flash", "Gemini 2.5 Flash", 1_048_576, 65_536),
        _model("gemini-2.5-pro", "Gemini 2.5 Pro", 1_048_576, 65_536),
    ),
    "openrouter": (ListedModel(model="openrouter/auto", title="Auto Router"),),
    "groq": (
        _model("openai/gpt-oss-120b", "GPT-OSS 120B", 131_072, 65_536),
        _model("openai/gpt-oss-20b", "GPT-OSS 20B", 131_072, 65_536),
    ),
    "deepseek": (
        _model("deepseek-flash", "DeepSeek V4.1 Flash", _MILLION, 384_000),
        _model("deepseek-v4-pro", "DeepSeek V4 Pro", _MILLION, 384_000),
    ),
    "mistral": (
        ListedModel(model="mistral-medium-latest", title="Mistral Medium"),
        ListedModel(model="mistral-large-latest", title="Mistral Large"),
        ListedModel(model="mistral-small-latest", title="Mistral Small"),
    ),
}
"""The known models of each built-in provider. Servers of open models have whatever was installed on them."""
