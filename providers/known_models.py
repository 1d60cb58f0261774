"""The models that built-in providers are known to have: what is shown when they can't be asked.

From the providers' own documentation, November 2026, with the windows that it gives. What a
provider lists itself always wins.
"""

from __future__ import annotations

from .provider import ListedModel

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
"""By the name of the built-in provider; servers of open models have what was put on them."""
