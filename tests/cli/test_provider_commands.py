"""`callboard providers` and `callboard models`, as processes."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from command import Command, Finished
from model_pages import CHAT, MODEL, WIRES, refusal
from web_server import open_web_server

from callboard.__main__ import main
from callboard.config.files import load_settings
from callboard.config.key_store import open_key_store
from callboard.config.settings import KeySettings
from callboard.providers.known_providers import KNOWN
from callboard.providers.script import reply
from callboard.providers.scripted_server import open_scripted_server
from callboard.runtime.secrets import Secret

KEY = "sesame-4711-opens"


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For what needs no process of its own."""
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path))
    for variable in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(variable)
    # A command gives core dumps up for good, which is not for the process of all tests.
    monkeypatch.setattr("callboard.runtime.core_dumps.forbid_core_dumps", lambda: None)
    return tmp_path


class Calls:
    """Commands in this process, which is fast; nothing of them may need an event loop of ours."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys

    def __call__(self, *words: str) -> Finished:
        code = main(words)
        out, err = self._capsys.readouterr()
        return Finished(code, out, err)


@pytest.fixture
def call(home: Path, capsys: pytest.CaptureFixture[str]) -> Calls:
    return Calls(home, capsys)


def check_refused(finished: Finished, said: str, code: int = 1) -> None:
    assert (finished.code, finished.out) == (code, "")
    assert said in finished.err
    assert finished.err.count("\n") == 1


async def test_providers_are_listed_with_the_state_of_their_keys(command: Command) -> None:
    assert (await command("keys", "set", "groq", stdin=KEY.encode())).code == 0
    environ = {"OPENAI_API_KEY": KEY, "GOOGLE_API_KEY": KEY}
    listed = await command("providers", "--json", environ=environ)
    lines = {line["name"]: line for line in listed.lines}
    assert list(lines) == list(KNOWN)
    assert {name: lines[name]["key"] for name in ("openai", "gemini", "groq")} == {
        "openai": "environment",
        "gemini": "environment",
        "groq": "stored",
    }
    assert (lines["anthropic"]["key"], lines["vllm"]["key"]) == ("missing", "none")
    assert lines["gemini"]["key_env"] == "GOOGLE_API_KEY"
    assert (lines["ollama"]["source"], lines["openai"]["source"]) == ("callboard.toml", "built_in")
    assert lines["anthropic"]["dialect"] == "anthropic"
    plain = await command("providers", environ=environ)
    assert (plain.code, plain.err) == (0, "")
    row = next(line for line in plain.out.splitlines() if line.startswith("openai "))
    assert row.split() == [
        *("openai", "openai_responses", KNOWN["openai"].base_url),
        *("$OPENAI_API_KEY", "built-in"),
    ]
    assert KEY not in listed.out + plain.out


async def test_a_provider_is_added_changed_switched_off_and_removed(command: Command) -> None:
    async with open_scripted_server([reply("Hello."), reply("Again.")], models=("m",)) as server:
        added = await command("providers", "add", "house", "--base-url", server.base_url + "/")
        assert (added.code, added.out) == (0, "Added house.\n")
        managed = command.home / "config" / "managed.toml"
        assert stat.S_IMODE(managed.stat().st_mode) == 0o600
        assert (await command("run", "--model", "house/m", "Hi.")).code == 0
        check_refused(
            await command("providers", "add", "house", "--base-url", server.base_url), "already"
        )
        edited = await command(
            *("providers", "edit", "house", "--model", "m", "--models", "m, n"),
            *("--key-env", "HOUSE_KEY", "--json"),
        )
        assert edited.lines == [
            {
                "name": "house",
                "base_url": server.base_url,
                "dialect": "openai_chat",
                "key": "missing",
                "key_env": "HOUSE_KEY",
                "active": True,
                "source": "managed",
                "model": "m",
                "models": ["m", "n"],
            }
        ]
        await command("providers", "edit", "house", "--key-env", "", "--models", "")
        house = load_settings(command.home / "config" / "callboard.toml").providers["house"]
        assert (house.key_env, house.model, house.models) == (None, "m", ())

        assert (await command("models", "default", "house/m")).code == 0
        off = await command("providers", "deactivate", "house")
        assert off.out == "Deactivated house.\n"
        assert "The default model is still house/m" in off.err
        check_refused(
            await command("run", "--model", "house", "Hi."), "`callboard providers activate house`"
        )
        assert "(inactive)" in (await command("providers")).out
        assert (await command("providers", "activate", "house")).code == 0
        assert "Again." in (await command("run", "Hi.")).out
        assert (await command("models", "default", "--unset")).code == 0
        assert (await command("providers", "remove", "house")).out == "Removed house.\n"
        check_refused(await command("providers", "remove", "house"), "No command added")


def test_a_built_in_provider_is_changed_and_put_back(call: Calls) -> None:
    [line] = call("providers", "edit", "anthropic", "--model", "claude-x", "--json").lines
    assert (line["model"], line["source"], line["dialect"]) == ("claude-x", "managed", "anthropic")
    assert line["key_env"] == "ANTHROPIC_API_KEY"
    assert "as it was built in" in call("providers", "remove", "anthropic").out
    listed = call("providers", "--json").lines
    assert next(each for each in listed if each["name"] == "anthropic")["source"] == "built_in"


def test_what_the_operator_wrote_is_changed_there(call: Calls) -> None:
    config = call.home / "config" / "callboard.toml"
    config.parent.mkdir()
    house = '[providers.house]\nbase_url = "http://127.0.0.1:9/v1"\n'
    config.write_text(f'model = "house/x"\ninactive = ["groq"]\n{house}')
    for words in (["edit", "house", "--model", "m"], ["remove", "house"]):
        check_refused(call("providers", *words), f"house stands in {config}")
    check_refused(call("providers", "activate", "groq"), "take it out there")
    default = call("models", "default", "openai/gpt-6-luna", "--json")
    assert default.lines == [{"model": "house/x", "source": "callboard.toml"}]
    assert "which wins" in default.err
    assert "house" not in config.with_name("managed.toml").read_text()


def test_a_key_stays_behind_when_its_provider_moves(call: Calls) -> None:
    call("providers", "add", "house", "--base-url", "https://models.house.example/v1")
    store = open_key_store(call.home / "data", KeySettings(), {})
    store.put("house", "https://models.house.example:443", Secret(KEY))
    moved = call("providers", "edit", "house", "--base-url", "https://other.example/v1")
    assert "is not sent to https://other.example:443" in moved.err
    left = call("providers", "remove", "house")
    assert "`callboard keys remove house` removes it" in left.err


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["add", "house"], "--base-url", 2),
        (["add", "house", "--base-url", "nonsense"], "begins with http", 1),
        (["add", "house", "--base-url", f"https://me:{KEY}@h/v1"], "no user name", 1),
        (["add", "a/b", "--base-url", "http://h/v1"], "no name of a provider", 1),
        (["add", "rehearsal", "--base-url", "http://h/v1"], "is built in", 1),
        (["add", "x", "--base-url", "http://h/v1", "--key-env", KEY], "never the key", 1),
        (["add", "x", KEY, "--base-url", "http://h/v1"], "`callboard keys set`", 2),
        (["add", "x", "--base-url", "http://h/v1", "--dialect", "soap"], "openai_responses", 2),
        (["edit", "openai"], "Nothing of openai was changed", 1),
        (["edit", "openai", "--base-url", ""], "--base-url is empty", 1),
        (["edit", "nobody", "--model", "m"], "no provider 'nobody'", 1),
        (["deactivate", "nobody"], "no provider 'nobody'", 1),
        (["test", "nobody"], "no provider 'nobody'", 1),
        (["bogus"], "'bogus'", 2),
    ],
)
def test_wrong_input(call: Calls, words: list[str], said: str, code: int) -> None:
    finished = call("providers", *words)
    check_refused(finished, said, code)
    assert KEY not in finished.err
    assert not (call.home / "config").exists()


async def test_a_provider_is_tested(command: Command) -> None:
    gemini = WIRES[3]
    async with open_web_server(gemini.pages()) as server:
        place = ("--base-url", server.url("/v1"), "--dialect", "gemini")
        await command("providers", "add", "house", *place)
        works = await command("providers", "test", "house")
        assert works.out.startswith(f"house works: {MODEL} answered in ")
        [report] = (await command("providers", "test", "house", "--json")).lines
        assert (report["works"], report["fault"], report["listed"]) == (True, None, 1)
        missing = await command("providers", "test", "house", "--model", "house/gone")
        check_refused(missing, "callboard: house (model): The provider knows no such model")
        server.answers["/v1/models"] = refusal("401 No", "bad key")
        failed = await command("providers", "test", "house", "--json")
        assert failed.code == 1
        assert json.loads(failed.out)["fault"] == "key"
        assert failed.err == ""
    check_refused(await command("providers", "test", "house"), "house (tcp): 127.0.0.1:")
    check_refused(await command("providers", "test", "openai"), "openai (key): openai needs a key")


async def test_models_are_listed_kept_and_chosen(command: Command) -> None:
    async with open_web_server(CHAT.pages(ids=["one", "two"])) as server:
        await command("providers", "add", "house", "--base-url", server.url("/v1"))
        listed = await command("models", "house", "--json")
        assert [(line["choice"], line["source"]) for line in listed.lines] == [
            ("house/one", "listed"),
            ("house/two", "listed"),
        ]
        server.answers["/v1/models"] = CHAT.models(["three"])
        assert "house/one" in (await command("models", "house")).out
        assert "house/three" in (await command("models", "house", "--refresh")).out
        assert len(server.requests) == 2
        known = await command("models", "default", "house/three")
        assert (known.out, known.err) == ("The default model is house/three.\n", "")
        assert (await command("models", "default")).out == "house/three  (managed)\n"
        unlisted = await command("models", "default", "house/four")
        assert unlisted.code == 0
        assert "did not list four" in unlisted.err
        # All that can be asked: servers of this machine that are not there are left out.
        every = await command("models")
        assert [line.split()[0] for line in every.out.splitlines()] == [
            "house/three",
            "rehearsal/rehearsal",
        ]
    gone = await command("models", "house", "--refresh")
    assert "house/three" in gone.out
    assert "refused the connection" in gone.err


def test_models_that_are_known_without_a_key(call: Calls) -> None:
    listed = call("models", "gemini")
    assert "gemini/gemini-3.8-flash" in listed.out
    assert "(known)" in listed.out
    assert "needs a key: set GEMINI_API_KEY" in listed.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nobody"], "no provider 'nobody'"),
        (["default", "openai"], "write openai/MODEL"),
        (["default", "openai/"], "write openai/MODEL"),
        (["default", "nobody/m"], "no provider 'nobody'"),
        (["default", "rehearsal/x"], "rehearsal/rehearsal"),
    ],
)
def test_a_model_that_can_not_be_meant(call: Calls, words: list[str], said: str) -> None:
    check_refused(call("models", *words), said)
    assert not (call.home / "config").exists()
