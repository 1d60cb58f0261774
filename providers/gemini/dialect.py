"""Google's Gemini format (`streamGenerateContent`): the request builder and the dialect.

The key goes in a header, never in the URL, which logs and proxies keep.

Contents alternate between `user` and `model`; results are the user's, by name, in the order and
number of the calls, and what follows them joins them. A conversation that would begin or end with
the model is given a short input there, since the service refuses it otherwise.

A schema of the answer beside tools is refused by models before Gemini 3: there it is asked for in
the system instruction instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from ...runtime.definitions import ToolDefinition
from ...runtime.errors import ProviderError
from ...runtime.history import Round
from ...runtime.stream import StreamError
from ..error_answer import read_error_answer
from ..lenient_json import attempt
from ..provider import NO_NAMES, HttpRequest, ListedModel, ModelPage, ModelRequest, ToolChoice
from ..tool_names import sent_name
from ..tool_sets import ToolSet, ToolSets
from .decoder import NAME, GeminiDecoder
from .families import Family, family_of
from .history import encoded_round
from .schema import gemini_parameters, gemini_schema

MAX_STOP_SEQUENCES = 5
"""Stop sequences that the service accepts."""

MAX_SEED = 2**31
"""Seeds are 32-bit numbers; a larger one is taken modulo this, and still repeats."""

MODELS_PER_PAGE = 1000

_HEADERS = {"content-type": "application/json", "accept": "text/event-stream"}
_ROLES = (b"user", b"model", b"user")  # of the lines of an encoded round
_GO_ON = b'{"text":"Go on."}'
_encode = msgspec.json.Encoder().encode


class _Model(msgspec.Struct):
    name: str = ""
    displayName: str = ""
    inputTokenLimit: int | None = None
    outputTokenLimit: int | None = None
    supportedGenerationMethods: list[str] = []


class _Models(msgspec.Struct):
    models: list[_Model] | None = None
    nextPageToken: str = ""
    error: msgspec.Raw = msgspec.Raw()


_decode_models = msgspec.json.Decoder(_Models).decode


class Gemini:
    """Google's format as a `Dialect`."""

    name = NAME

    def __init__(self) -> None:
        self._tools = ToolSets(_encode_tools)

    def build(self, request: ModelRequest) -> HttpRequest:
        """Build the request. A round is encoded when first seen, then joined as bytes."""
        family = family_of(request.model)
        system, config = _generation(request, family)
        body = [b'{"contents":[', *_contents(request.rounds, request.provider, family, system)]
        body.append(b"]")
        if system and family.takes_system:
            body += [b',"systemInstruction":', _encode({"parts": [{"text": system}]})]
        names = NO_NAMES
        if request.tools:
            tools, names = self._tools.encoded(request.tools)
            body += [b',"tools":', tools]
            if choice := _tool_choice(request):
                body += [b',"toolConfig":', _encode({"functionCallingConfig": choice})]
        if config:
            body += [b',"generationConfig":', _encode(config)]
        body.append(b"}")
        path = f"/{_resource(request.model)}:streamGenerateContent?alt=sse"
        return HttpRequest(path, _HEADERS, b"".join(body), names)

    def binds_answer(self, request: ModelRequest) -> bool:
        """Return whether the model takes schemas beside tools, or there are none."""
        return not request.tools or family_of(request.model).takes_schema_with_tools

    def auth_headers(self, key: str) -> dict[str, str]:
        """Return the header that carries the key."""
        return {"x-goog-api-key": key}

    def decoder(self, tool_names: Mapping[str, str] = NO_NAMES) -> GeminiDecoder:
        """Return a new decoder for one answer."""
        return GeminiDecoder(tool_names)

    def list_models(self, page: str = "") -> HttpRequest:
        """Return the GET for a page of the list of models."""
        token = f"&pageToken={quote(page, safe='')}" if page else ""
        return HttpRequest(f"/models?pageSize={MODELS_PER_PAGE}{token}", {})

    def read_models(self, body: bytes) -> ModelPage:
        """Return a page of the list, without models that don't generate content (embeddings).

        Raises:
            ProviderError: The body is not a model list.
        """
        page = attempt(_decode_models, body)
        if page is None or bytes(page.error):
            raise ProviderError(
                "The provider's answer is not a list of Gemini models. Check its base URL."
            )
        models = [
            ListedModel(
                model=model.name.removeprefix("models/"),
                title=model.displayName,
                context_tokens=model.inputTokenLimit,
                max_output_tokens=model.outputTokenLimit,
            )
            for model in page.models or ()
            if model.name and "generateContent" in model.supportedGenerationMethods
        ]
        return ModelPage(tuple(models), page.nextPageToken)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
        """Return what an answer with an error status means; `headers` are in lower case."""
        return read_error_answer(status, headers, body)


def _encode_tools(tools: ToolSet) -> bytes:
    return _encode([{"function_declarations": [_declaration(each) for each in tools]}])


def _declaration(definition: ToolDefinition) -> dict[str, Any]:
    declaration: dict[str, Any] = {
        "name": sent_name(definition.name),
        "description": definition.description,
    }
    parameters = gemini_parameters(definition.parameters)
    if parameters is not None:
        declaration["parameters"] = parameters
    return declaration


def _resource(model: str) -> str:
    path = quote(model, safe="/-._~")
    return path if path.startswith(("models/", "tunedModels/")) else f"models/{path}"


def _tool_choice(request: ModelRequest) -> dict[str, Any] | None:
    if request.forced_tool is not None:
        choice: dict[str, Any] = {"mode": "ANY"}
        if any(definition.name == request.forced_tool for definition in request.tools):
            choice["allowedFunctionNames"] = [sent_name(request.forced_tool)]
        return choice
    if request.tool_choice is ToolChoice.REQUIRED:
        return {"mode": "ANY"}
    return {"mode": "NONE"} if request.tool_choice is ToolChoice.NONE else None


def _generation(request: ModelRequest, family: Family) -> tuple[str, dict[str, Any]]:
    """Return the system instruction and the `generationConfig`."""
    system = request.system
    config: dict[str, Any] = {
        "maxOutputTokens": request.max_output_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        "seed": None if request.seed is None else request.seed % MAX_SEED,
        "stopSequences": [each for each in request.stop_sequences if each][:MAX_STOP_SEQUENCES],
        "thinkingConfig": family.thinking_config(request.thinking, request.max_output_tokens),
    }
    if request.answer_schema is not None:
        if request.tools and not family.takes_schema_with_tools:
            schema = _encode(request.answer_schema).decode()
            asked = f"Your answer is JSON, and nothing else, that matches this schema: {schema}"
            system = f"{system}\n\n{asked}" if system else asked
        else:
            config["responseMimeType"] = "application/json"
            config["responseSchema"] = gemini_schema(request.answer_schema)
    return system, {key: value for key, value in config.items() if value not in (None, [])}


def _contents(
    rounds: Sequence[Round], provider: str, family: Family, system: str
) -> Iterator[bytes]:
    """Yield the contents, separated by commas; what one role says in a row is one content."""
    turns: list[tuple[bytes, list[bytes]]] = []
    if system and not family.takes_system:
        turns.append((b"user", [_encode({"text": system})]))
    for item in rounds:
        encoded = encoded_round(item, provider, needs_signatures=family.needs_signatures)
        for role, parts in zip(_ROLES, encoded.split(b"\n"), strict=True):
            if not parts:
                continue
            if turns and turns[-1][0] == role:
                turns[-1][1].append(parts)
            else:
                turns.append((role, [parts]))
    if not turns or turns[0][0] != b"user":
        turns.insert(0, (b"user", [_GO_ON]))
    if turns[-1][0] != b"user":
        turns.append((b"user", [_GO_ON]))
    for at, (role, said) in enumerate(turns):
        yield b',{"role":"%b","parts":[' % role if at else b'{"role":"%b","parts":[' % role
        yield b",".join(said)
        yield b"]}"


GEMINI = Gemini()
"""The dialect of the service and of what speaks as it does."""
