"""The servers that speak Chat Completions, as far as they differ in what they take.

A server is known by the host of its base URL; any other is taken for one of the many that run open
models (vLLM, SGLang, llama.cpp, Ollama, LM Studio, LiteLLM and hosts of them), which ignore fields
that they don't know.

Reasoning goes back where it is asked for. DeepSeek refuses a request whose assistant messages lack
the `reasoning_content` that came with them, and ignores it where it has no use for it. The chat
templates of open models use it beside calls, to go on thinking after the results. OpenRouter wants
`reasoning_details` unchanged. OpenAI, Groq, Cerebras, Mistral and Gemini refuse such fields.

Ids of calls are whatever their provider made them, and a conversation may change providers. OpenAI
refuses ids of more than 40 characters, and what is not known may pass them on to it; Mistral takes
nine letters and digits and nothing else. An id that its server refuses goes out as its hash, the
same for the call and its result and in every request. OpenRouter's go out as they are, since its
`reasoning_details` name calls by them.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import re
from urllib.parse import urlsplit

import msgspec


class CallIds(enum.Enum):
    """Which ids of calls a server takes."""

    ANY = enum.auto()
    UP_TO_40 = enum.auto()
    """OpenAI: "Expected a string with maximum length 40"."""
    NINE = enum.auto()
    """Mistral: "must be a-z, A-Z, 0-9, with a length of 9"."""


class ThinkingStyle(enum.Enum):
    """How a request says how much to reason."""

    NEVER = enum.auto()
    """There is no field for it."""
    OPENAI = enum.auto()
    """`reasoning_effort`, by the family of OpenAI's models."""
    EFFORT = enum.auto()
    """`reasoning_effort`: low, medium, high. No word for off is taken by all of these servers."""
    OPEN_WEIGHTS = enum.auto()
    """`reasoning_effort`, for gpt-oss only."""
    MINIMAL = enum.auto()
    """`reasoning_effort` with `minimal`, the nearest to off that all its models take."""
    OPENROUTER = enum.auto()
    """A `reasoning` object."""
    DEEPSEEK = enum.auto()
    """A `thinking` switch beside `reasoning_effort`. On by default, and while it is on no tool can
    be forced."""


class ReasoningReturn(enum.Enum):
    """Which answers carry their reasoning when they go back to the provider that made them."""

    NEVER = enum.auto()
    WITH_CALLS = enum.auto()
    ALWAYS = enum.auto()
    DEMANDED = enum.auto()
    """Always, and an answer with calls that has none carries an empty one."""


class ChatServer(msgspec.Struct, frozen=True, kw_only=True):
    """What a server takes.

    Attributes:
        name: Name of the kind of server; part of the key of encoded rounds.
        max_tokens_field: The name of the limit of the answer. OpenAI's newer models refuse the
            usual one.
        seed_field: The name of the seed; `None` where it is refused.
        thinking: How a request says how much to reason.
        reasoning_field: The field of a message that carries its reasoning.
        returns: Which messages carry it.
        takes_details: Whether `reasoning_details` go back too.
        takes_images: Whether a message may hold images.
        takes_files: Whether a message may hold PDF files.
        takes_schema: Whether answers can be bound to a JSON Schema; else to a JSON object only.
        takes_stop: Whether stop sequences are accepted.
        takes_cache_mark: Whether prompts for Anthropic's models are marked for caching.
        call_ids: Which ids of calls it takes.
    """

    name: str
    max_tokens_field: str = "max_tokens"
    seed_field: str | None = "seed"
    thinking: ThinkingStyle = ThinkingStyle.EFFORT
    reasoning_field: str = "reasoning_content"
    returns: ReasoningReturn = ReasoningReturn.NEVER
    takes_details: bool = False
    takes_images: bool = True
    takes_files: bool = False
    takes_schema: bool = True
    takes_stop: bool = True
    takes_cache_mark: bool = False
    call_ids: CallIds = CallIds.UP_TO_40

    def sent_id(self, call_id: str) -> str:
        """Return the id under which a call and its result are sent; most are unchanged."""
        kind = self.call_ids
        if kind is CallIds.ANY or (kind is CallIds.UP_TO_40 and 0 < len(call_id) <= 40):
            return call_id
        if kind is CallIds.NINE and _NINE.fullmatch(call_id):
            return call_id
        digest = hashlib.sha256(call_id.encode(errors="surrogatepass"))
        if self.call_ids is CallIds.NINE:
            return base64.b32encode(digest.digest()).decode()[:9]
        return "call_" + digest.hexdigest()[:32]


_NINE = re.compile(r"[a-zA-Z0-9]{9}")


COMPATIBLE = ChatServer(name="compatible", returns=ReasoningReturn.WITH_CALLS)
"""Any server that is not known."""

OPENAI = ChatServer(
    name="openai",
    max_tokens_field="max_completion_tokens",
    thinking=ThinkingStyle.OPENAI,
    takes_files=True,
)

OPENROUTER = ChatServer(
    name="openrouter",
    thinking=ThinkingStyle.OPENROUTER,
    reasoning_field="reasoning",
    returns=ReasoningReturn.ALWAYS,
    takes_details=True,
    takes_files=True,
    takes_cache_mark=True,
    call_ids=CallIds.ANY,
)

DEEPSEEK = ChatServer(
    name="deepseek",
    thinking=ThinkingStyle.DEEPSEEK,
    returns=ReasoningReturn.DEMANDED,
    takes_images=False,
    takes_schema=False,
)

_BY_HOST = {
    "api.openai.com": OPENAI,
    "openrouter.ai": OPENROUTER,
    "api.deepseek.com": DEEPSEEK,
    "api.groq.com": ChatServer(name="groq", thinking=ThinkingStyle.OPEN_WEIGHTS),
    "api.cerebras.ai": ChatServer(name="cerebras", thinking=ThinkingStyle.OPEN_WEIGHTS),
    "api.mistral.ai": ChatServer(
        name="mistral",
        thinking=ThinkingStyle.NEVER,
        seed_field="random_seed",
        call_ids=CallIds.NINE,
    ),
    "api.x.ai": ChatServer(name="xai", thinking=ThinkingStyle.NEVER, takes_stop=False),
    "generativelanguage.googleapis.com": ChatServer(
        name="gemini", thinking=ThinkingStyle.MINIMAL, seed_field=None
    ),
}

_AZURE = (".openai.azure.com", ".services.ai.azure.com")


def server_at(base_url: str) -> ChatServer:
    """Return the kind of server at a base URL."""
    host = urlsplit(base_url).hostname or ""
    if host.endswith(_AZURE):
        return OPENAI
    return _BY_HOST.get(host.removeprefix("www."), COMPATIBLE)
