from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from callboard.config.settings import DialectName, ProviderSettings, Settings
from callboard.providers.catalog.catalog import (
    ModelSelection,
    ResolvedModel,
    resolve_model,
    servers_to_ask,
    unknown_model,
)
from callboard.providers.catalog.known import KEY_ORDER, KNOWN, KNOWN_MODELS
from callboard.runtime.definitions import Agent
from callboard.runtime.errors import AuthError, CallboardError, NotFoundError, ValidationError
from callboard.runtime.redaction import Secret

KEY = {"OPENAI_API_KEY": "sk-hunter2"}
OLLAMA = KNOWN["ollama"].base_url
LLAMACPP = KNOWN["llamacpp"].base_url


def resolve(
    choice: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    base_url: str | None = None,
    agent: Agent | None = None,
    settings: Settings | None = None,
    listed: Mapping[str, Sequence[str]] | None = None,
) -> ResolvedModel:
    selection = ModelSelection(
        choice=choice,
        base_url=base_url,
        agent=agent,
        settings=settings or Settings(),
        environ=environ or {},
    )
    # Nothing may be decided by a server that was not to be asked.
    asked = {endpoint.base_url for endpoint in servers_to_ask(selection)}
    return resolve_model(
        selection, {url: ids for url, ids in (listed or {}).items() if url in asked}
    )


def key_of(resolved: ResolvedModel) -> str | None:
    assert resolved.endpoint is not None
    return resolved.endpoint.key.reveal() if resolved.endpoint.key is not None else None


def test_the_strongest_wish_decides() -> None:
    agent = Agent(name="writer", model="ollama/agents")
    settings = Settings(model="ollama/configured")
    decided = [
        resolve("ollama/named", agent=agent, settings=settings, environ=KEY),
        resolve(agent=agent, settings=settings, environ=KEY),
        resolve(agent=Agent(), settings=settings, environ=KEY),
        resolve(agent=Agent(), environ=KEY, listed={OLLAMA: ["found"]}),
        resolve(listed={OLLAMA: ["found"], LLAMACPP: ["other"]}),
        resolve(listed={LLAMACPP: ["other"]}),
        resolve(),
    ]
    assert [(model.choice, model.reason) for model in decided] == [
        ("ollama/named", "because --model says so"),
        ("ollama/agents", "because agent 'writer' prefers it"),
        ("ollama/configured", "because it is the configured default"),
        ("openai/gpt-6-luna", "because OPENAI_API_KEY is set"),
        ("ollama/found", "because a server answers at http://127.0.0.1:11434/v1"),
        ("llamacpp/other", "because a server answers at http://127.0.0.1:8080/v1"),
        ("rehearsal/rehearsal", "because no model is configured"),
    ]
    assert decided[-1].endpoint is None


def test_servers_are_asked_only_when_their_answer_decides() -> None:
    def asked(**selection: str) -> list[str]:
        endpoints = servers_to_ask(ModelSelection(environ={}, **selection))  # type: ignore[arg-type]
        return [endpoint.base_url for endpoint in endpoints]

    assert asked() == [OLLAMA, LLAMACPP]
    assert asked(choice="ollama") == [OLLAMA]
    assert asked(choice="llama3.2") == [OLLAMA, LLAMACPP]
    assert asked(base_url="http://127.0.0.1:9/v1/") == ["http://127.0.0.1:9/v1"]
    assert asked(choice="openai/x") == asked(choice="openai") == asked(choice="rehearsal") == []
    assert asked(choice="x", base_url="http://127.0.0.1:9/v1") == []
    assert servers_to_ask(ModelSelection(environ=KEY)) == ()


def test_a_provider_alone_gets_its_default_or_the_first_model_that_it_lists() -> None:
    assert resolve("openai", environ=KEY).model == "gpt-6-luna"
    listed = {OLLAMA: ["nomic-embed-text", "llama3.2", "qwen3"]}
    assert resolve("ollama", listed=listed).model == "llama3.2"
    with pytest.raises(ValidationError, match="ollama needs the name of a model"):
        resolve("ollama", listed={OLLAMA: ["nomic-embed-text"]})


def test_a_model_id_may_hold_slashes() -> None:
    resolved = resolve("openrouter/meta/llama", environ={"OPENROUTER_API_KEY": "k"})
    assert (resolved.provider, resolved.model) == ("openrouter", "meta/llama")


def test_a_bare_model_is_found_on_a_server_of_this_machine() -> None:
    assert resolve("qwen3", listed={LLAMACPP: ["qwen3"]}).choice == "llamacpp/qwen3"
    with pytest.raises(NotFoundError, match=r"'qwen3' is not a provider.*Write PROVIDER/MODEL"):
        resolve("qwen3", listed={OLLAMA: ["llama3.2"]})


def test_an_unknown_provider_is_answered_with_those_that_exist() -> None:
    mine = ProviderSettings(name="mine", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(NotFoundError, match="no provider 'opnai'") as caught:
        resolve("opnai/gpt-5", settings=Settings(providers={"mine": mine}))
    for name in ("mine", "openai", "ollama", "openrouter", "rehearsal", "--base-url"):
        assert name in str(caught.value)


def test_keys_decide_in_their_order() -> None:
    environ = {"GOOGLE_API_KEY": "google", "GROQ_API_KEY": "groq"}
    found = resolve(environ=environ)
    assert (found.choice, key_of(found)) == ("gemini/gemini-3.8-flash", "google")
    assert found.reason == "because GOOGLE_API_KEY is set"
    environ["GEMINI_API_KEY"] = "gemini"
    assert key_of(resolve(environ=environ)) == "gemini"
    environ["ANTHROPIC_API_KEY"] = "anthropic"
    assert resolve(environ=environ).choice == "anthropic/claude-sonnet-5-5"
    assert resolve(environ={**environ, **KEY}).provider == "openai"
    assert resolve(environ={"GROQ_API_KEY": "groq"}).provider == "rehearsal"


def dialect_of(resolved: ResolvedModel) -> str:
    assert resolved.endpoint is not None
    return resolved.endpoint.dialect.name


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("openai", "openai_responses"),
        ("anthropic", "anthropic"),
        ("gemini", "gemini"),
        ("deepseek", "openai_chat"),
        ("ollama", "openai_chat"),
    ],
)
def test_each_provider_speaks_its_own_wire_format(name: str, dialect: str) -> None:
    known = KNOWN[name]
    environ = {known.key_env: "k"} if known.key_env else {}
    assert known.dialect == dialect == dialect_of(resolve(f"{name}/m", environ=environ))
    # Under another name at the same address, it still does.
    mine = ProviderSettings(name="mine", base_url=known.base_url)
    assert dialect_of(resolve("mine/m", settings=Settings(providers={"mine": mine}))) == dialect


def test_a_configured_provider_may_speak_any_wire_format() -> None:
    for dialect in DialectName:
        mine = ProviderSettings(
            name="mine", base_url="https://models.example/v1", dialect=dialect, models=("a", "b")
        )
        resolved = resolve("mine", settings=Settings(providers={"mine": mine}))
        assert (dialect_of(resolved), resolved.model) == (dialect, "a")


@pytest.mark.parametrize(
    ("base_url", "dialect", "spoken"),
    [
        ("http://127.0.0.1:9/v1", None, "openai_chat"),
        ("http://127.0.0.1:9/v1", "anthropic", "anthropic"),
        ("https://api.anthropic.com/v1", None, "anthropic"),
        ("https://api.openai.com/v1/", None, "openai_responses"),
        ("https://api.openai.com/v1", "openai_chat", "openai_chat"),
        ("https://generativelanguage.googleapis.com/v1", None, "gemini"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", None, "openai_chat"),
    ],
)
def test_a_base_url_speaks_what_is_said_or_what_its_origin_does(
    base_url: str, dialect: str | None, spoken: str
) -> None:
    environ = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}
    selection = ModelSelection(choice="m", base_url=base_url, dialect=dialect, environ=environ)
    assert dialect_of(resolve_model(selection)) == spoken


def test_a_wire_format_that_does_not_exist_is_refused() -> None:
    selection = ModelSelection(
        choice="m", base_url="http://127.0.0.1:9/v1", dialect="grpc", environ={}
    )
    with pytest.raises(ValidationError, match="no wire format 'grpc'; there are: openai_chat"):
        resolve_model(selection)


def test_changing_a_built_in_provider_leaves_what_it_knows_of_its_keys() -> None:
    gemini = ProviderSettings(
        name="gemini", base_url=KNOWN["gemini"].base_url, key_env="GEMINI_API_KEY", model="m"
    )
    vllm = ProviderSettings(name="vllm", base_url=KNOWN["vllm"].base_url, key_env="VLLM_API_KEY")
    settings = Settings(providers={"gemini": gemini, "vllm": vllm})
    found = resolve("gemini", settings=settings, environ={"GOOGLE_API_KEY": "google"})
    assert (found.model, key_of(found)) == ("m", "google")
    assert key_of(resolve("vllm/m", settings=settings)) is None
    elsewhere = msgspec.structs.replace(vllm, base_url="https://models.example/v1")
    with pytest.raises(AuthError, match="vllm needs a key"):
        resolve("vllm/m", settings=Settings(providers={"vllm": elsewhere}))


def test_every_default_model_is_among_those_that_are_known() -> None:
    for name, models in KNOWN_MODELS.items():
        ids = [each.model for each in models]
        assert len(ids) == len(set(ids))
        assert KNOWN[name].model in {None, *ids}
    for name in KEY_ORDER:
        assert all(each.context_tokens for each in KNOWN_MODELS[name])


def test_an_unknown_model_is_answered_with_those_that_exist() -> None:
    assert "It has: a, b." in str(unknown_model("ollama", "c", ["b", "a"]))
    assert "and 80 more" in str(unknown_model("p", "c", [f"m{n}" for n in range(100)]))
    assert "lists no models" in str(unknown_model("p", "c", []))


def test_a_provider_that_wants_a_key_says_which_variable_holds_it() -> None:
    with pytest.raises(AuthError, match="openai needs a key: set OPENAI_API_KEY"):
        resolve("openai/gpt-5", environ={"OPENAI_API_KEY": "  "})
    assert key_of(resolve("openai/gpt-5", environ={"OPENAI_API_KEY": " sk-1\n"})) == "sk-1"
    assert key_of(resolve("ollama/llama3.2", environ=KEY)) is None


@pytest.mark.parametrize("value", ["sk-hunter2\r\nX-Evil: 1", "sk-hunter2ä", "hunter2" * 2000])
def test_a_broken_key_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(AuthError, match="OPENAI_API_KEY does not hold a key") as caught:
        resolve("openai/gpt-5", environ={"OPENAI_API_KEY": value})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "base_url",
    [
        "https://evil.example/v1",
        "https://api.openai.com.evil.example/v1",
        "https://api.openai.com:8443/v1",
        "http://127.0.0.1:9/v1",
    ],
)
def test_a_key_stays_with_its_own_origin(base_url: str) -> None:
    environ = {**KEY, "CALLBOARD_API_KEY": "custom-key"}
    resolved = resolve("gpt-5", base_url=base_url, environ=environ)
    assert (resolved.provider, key_of(resolved)) == ("custom", "custom-key")
    assert key_of(resolve("gpt-5", base_url=base_url, environ=KEY)) is None
    at_home = resolve("openai/gpt-5", base_url="https://api.openai.com/v1/", environ=environ)
    assert (at_home.choice, key_of(at_home)) == ("openai/gpt-5", "sk-hunter2")


def test_a_configured_provider_gets_the_key_that_it_names_and_no_other() -> None:
    other = ProviderSettings(name="openai", base_url="https://proxy.example/v1")
    named = ProviderSettings(name="openai", base_url="https://proxy.example/v1", key_env="PROXY")
    environ = {**KEY, "PROXY": "proxy-key"}

    def key(provider: ProviderSettings) -> str | None:
        settings = Settings(providers={"openai": provider})
        return key_of(resolve("openai/gpt-5", settings=settings, environ=environ))

    assert key(other) is None
    assert key(named) == "proxy-key"


def test_a_key_travels_in_clear_text_to_this_machine_only() -> None:
    environ = {"CALLBOARD_API_KEY": "hunter2"}
    with pytest.raises(
        AuthError, match=r"CALLBOARD_API_KEY is not sent to 10.0.0.5:8000"
    ) as caught:
        resolve("m", base_url="http://10.0.0.5:8000/v1", environ=environ)
    assert "hunter2" not in str(caught.value)
    assert key_of(resolve("m", base_url="http://10.0.0.5:8000/v1")) is None
    assert key_of(resolve("m", base_url="https://10.0.0.5:8000/v1", environ=environ)) == "hunter2"
    assert key_of(resolve("m", base_url="http://localhost:9/v1", environ=environ)) == "hunter2"


def stored_key(provider: str, origin: str) -> Secret | None:
    """A store with one key, and one that is locked."""
    if provider == "groq":
        raise AuthError("The stored keys are locked.")
    here = (provider, origin) == ("openai", "https://api.openai.com:443")
    return Secret("stored-key") if here else None


def test_a_stored_key_is_taken_for_its_origin_when_the_environment_has_none() -> None:
    def resolved(choice: str | None = None, **selection: Any) -> ResolvedModel:
        selection = {"environ": {}, "stored": stored_key, **selection}
        return resolve_model(ModelSelection(choice=choice, **selection))

    assert key_of(resolved("openai/gpt-5")) == "stored-key"
    assert key_of(resolved("openai/gpt-5", environ=KEY)) == "sk-hunter2"
    default = resolved()
    assert (default.choice, key_of(default)) == ("openai/gpt-6-luna", "stored-key")
    assert default.reason == "because a key is stored for openai"
    assert key_of(resolved("m", base_url="https://api.openai.com/other")) == "stored-key"
    assert key_of(resolved("m", base_url="https://evil.example/v1")) is None
    moved = ProviderSettings(name="openai", base_url="https://evil.example/v1")
    assert key_of(resolved("openai/m", settings=Settings(providers={"openai": moved}))) is None
    with pytest.raises(AuthError, match="set DEEPSEEK_API_KEY, or store one"):
        resolved("deepseek/m")
    with pytest.raises(AuthError, match="locked"):
        resolved("groq/m")


def test_a_stored_key_does_not_travel_in_clear_text() -> None:
    with pytest.raises(AuthError, match=r"The stored key is not sent to 10\.0\.0\.5:8000"):
        resolve_model(
            ModelSelection(
                environ={},
                choice="m",
                base_url="http://10.0.0.5:8000/v1",
                stored=lambda *_: Secret("stored-key"),
            )
        )


def test_a_provider_that_is_inactive_is_not_used() -> None:
    settings = Settings(inactive=("openai", "ollama"))
    listed = {OLLAMA: ["llama3.2"], LLAMACPP: ["open"]}
    assert resolve(settings=settings, environ=KEY, listed=listed).choice == "llamacpp/open"
    for choice in ("openai/gpt-5", "ollama/llama3.2"):
        with pytest.raises(NotFoundError, match="deactivated"):
            resolve(choice, settings=settings, environ=KEY)
        # Nor is it asked for a model of which nothing would be used.
        with pytest.raises(NotFoundError, match="deactivated"):
            servers_to_ask(ModelSelection(choice="ollama", settings=settings, environ={}))
        assert resolve(choice, environ=KEY).choice == choice


def test_a_base_url_takes_any_model_name_as_it_is() -> None:
    url = "http://127.0.0.1:9/v1"
    assert resolve("meta-llama/Llama-3", base_url=url).model == "meta-llama/Llama-3"
    assert resolve("custom/x", base_url=url).choice == "custom/x"
    assert resolve(base_url=url, listed={url: ["only"]}).choice == "custom/only"
    with pytest.raises(ValidationError, match="needs --model MODEL"):
        resolve(base_url=url)
    with pytest.raises(ValidationError, match="no list of models came from"):
        resolve_model(ModelSelection(environ={}, base_url=url))
    with pytest.raises(ValidationError, match=r"nothing answered at .* Is the server running"):
        resolve_model(ModelSelection(environ={}, base_url=url), {url: None})
    with pytest.raises(ValidationError, match="--base-url: a base URL begins with http"):
        resolve("x", base_url="127.0.0.1:9")
    with pytest.raises(NotFoundError, match="give that URL again, or pass --model"):
        resolve("custom/x")


def test_every_known_provider_can_be_used_with_a_model() -> None:
    for known in KNOWN.values():
        environ = {known.key_env: "k"} if known.key_env else {}
        resolved = resolve(f"{known.name}/some/model", environ=environ)
        assert resolved.endpoint is not None
        assert resolved.endpoint.base_url == known.base_url
        assert resolved.model == "some/model"


def test_a_local_server_without_the_key_that_it_wants_is_passed_over() -> None:
    locked = ProviderSettings(name="ollama", base_url=OLLAMA, key_env="OLLAMA_KEY")
    settings = Settings(providers={"ollama": locked})
    listed = {OLLAMA: ["locked"], LLAMACPP: ["open"]}
    assert resolve(settings=settings, listed=listed).choice == "llamacpp/open"
    environ = {"OLLAMA_KEY": "k"}
    assert resolve(settings=settings, listed=listed, environ=environ).choice == "ollama/locked"


@pytest.mark.parametrize(
    "choice", ["/", "//", "/x", " ", "custom", "rehearsal/x", "\x00/\x00", "ä/ö", "opena\ni/x"]
)
def test_an_odd_name_is_answered_in_one_line(choice: str) -> None:
    with pytest.raises(CallboardError) as caught:
        resolve(choice, environ=KEY)
    assert str(caught.value).isprintable()


def test_a_provider_of_a_built_in_name_speaks_its_wire_format_elsewhere() -> None:
    def at(base_url: str, key_env: str | None = None) -> Settings:
        its = ProviderSettings(name="anthropic", base_url=base_url, key_env=key_env)
        return Settings(providers={"anthropic": its})

    environ = {"ANTHROPIC_API_KEY": "sk-hunter2"}
    resolved = resolve("anthropic", settings=at("https://proxy.example/v1"), environ=environ)
    assert dialect_of(resolved) == "anthropic"
    assert resolved.model == KNOWN["anthropic"].model
    assert key_of(resolved) is None
    openai = resolve("anthropic/m", settings=at("https://proxy.example/openai/v1"))
    assert dialect_of(openai) == "openai_chat"
    unused = r"\$ANTHROPIC_API_KEY is not used: it is the key for https://api\.anthropic\.com"
    with pytest.raises(AuthError, match=unused):
        resolve("anthropic", settings=at("https://proxy.example/v1", "MINE"), environ=environ)
    with pytest.raises(AuthError, match=r"keys set anthropic`\.$"):
        resolve("anthropic", settings=at("https://proxy.example/v1", "MINE"))
