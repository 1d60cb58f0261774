"""`callboard providers` and `callboard models`, as processes."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from callboard.__main__ import main
from callboard.config.files import load_settings
from callboard.config.keys.store import open_key_store
from callboard.config.settings import KeySettings
from callboard.providers.catalog.known import KNOWN
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.redaction import Secret
from support.cli.command import Command, Finished
from support.cli.command import command as command
from support.cli.in_process import fresh_home as fresh_home
from support.providers.model_pages import CHAT, MODEL, WIRES, refusal
from support.web.web_server import open_web_server

KEY = "sesame-4711-opens"


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
def call(fresh_home: Path, capsys: pytest.CaptureFixture[str]) -> Calls:
    return Calls(fresh_home, capsys)


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
        *("openai", "openai_responses", "$OPENAI_API_KEY", "built-in"),
        KNOWN["openai"].base_url,
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
                "note": "",
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
    store = open_key_store(call.home / "data", KeySettings(), os.environ)
    store.put("house", "https://models.house.example:443", Secret(KEY))
    moved = call("providers", "edit", "house", "--base-url", "https://other.example/v1")
    assert "is not sent to https://other.example:443" in moved.err
    left = call("providers", "remove", "house")
    assert "`callboard keys remove house` removes it" in left.err


def test_the_environments_key_stays_behind_when_its_provider_moves(call: Calls) -> None:
    key_env = ("--key-env", "GROQ_API_KEY")
    same = call("providers", "edit", "groq", "--base-url", "https://api.groq.com/v2", "--json")
    assert same.lines[0]["key_env"] == "GROQ_API_KEY"
    assert same.err == ""
    moved = call("providers", "edit", "groq", "--base-url", "https://other.example/v1", "--json")
    assert moved.lines[0]["key_env"] is None
    assert "The key in GROQ_API_KEY is for https://api.groq.com:443, and is not sent" in moved.err
    again = call("providers", "edit", "groq", *key_env, "--json")
    assert again.lines[0]["key_env"] == "GROQ_API_KEY"
    both = call("providers", "edit", "groq", "--base-url", "https://third.example", *key_env)
    assert both.err == ""
    assert load_settings().providers["groq"].key_env == "GROQ_API_KEY"


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["add", "house"], "--base-url", 2),
        (["add", "house", "--base-url", "nonsense"], "begins with http", 1),
        (["add", "house", "--base-url", f"https://me:{KEY}@h/v1"], "no user name", 1),
        (["add", "a/b", "--base-url", "http://h/v1"], "can't be a provider's name", 1),
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
        assert works.out.endswith(" s; it lists 1 model.\n")
        assert " in 0.0 s" not in works.out
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


def own_file(home: Path, text: str) -> None:
    (home / "config").mkdir()
    (home / "config" / "callboard.toml").write_text(text)


def test_a_hidden_providers_key_is_said_not_to_be_used(
    call: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_file(call.home, '[providers.anthropic]\nbase_url = "https://proxy.example/v1"\n')
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    said = "$ANTHROPIC_API_KEY is not used: it is the key for https://api.anthropic.com:443"
    lines = {line["name"]: line for line in call("providers", "--json").lines}
    assert lines["anthropic"]["note"].startswith(said)
    assert (lines["anthropic"]["dialect"], lines["anthropic"]["key"]) == ("anthropic", "none")
    assert said in call("providers").out
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert "is not used" not in call("providers").out


def test_a_key_is_asked_for_only_when_it_is_the_next_step(call: Calls) -> None:
    hint = "It has no key yet: `callboard keys set rem`, or set REM."
    place = ("--base-url", "https://rem.example/v1", "--key-env", "REM")
    assert hint in call("providers", "add", "rem", *place).out
    assert call("providers", "deactivate", "rem").out == "Deactivated rem.\n"
    assert hint in call("providers", "activate", "rem").out
    call("providers", "edit", "openai", "--model", "m")
    assert call("providers", "remove", "openai").out == "openai is as it was built in.\n"


def test_a_key_that_http_would_show_is_said_not_to_be_sent(
    call: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--base-url", "http://10.1.2.3/v1", "--key-env", "REM")
    added = call("providers", "add", "rem", *place)
    assert added.out == "Added rem.\n"
    assert "A key is not sent to http://10.1.2.3:80" in added.err
    monkeypatch.setenv("REM", KEY)
    [row] = [line for line in call("providers").out.splitlines() if line.startswith("rem ")]
    assert "A key is not sent to http://10.1.2.3:80" in row
    assert "(not sent: http)" in call("keys", "list").out
    assert call("keys", "list", "--json").lines[0]["used"] is False
    call("providers", "edit", "rem", "--base-url", "https://10.1.2.3/v1", "--key-env", "REM")
    assert "not sent" not in call("keys", "list").out + call("providers").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["models", "ollama/ok"], "'ollama/ok' is a model, and here a provider is wanted"),
        (["providers", "test", "ollama/ok"], "write ollama alone"),
        (["providers", "deactivate", "rehearsal"], "rehearsal is the model in this process"),
        (["providers", "remove", "rehearsal"], "rehearsal is the model in this process"),
    ],
)
def test_what_is_no_provider_is_said_to_be_what_it_is(
    call: Calls, words: list[str], said: str
) -> None:
    check_refused(call(*words), said)


def test_a_provider_is_named_once_and_said_to_be_inactive(call: Calls) -> None:
    call("providers", "deactivate", "gemini")
    said = call("models", "gemini").err
    assert "gemini: gemini" not in said
    assert "gemini needs a key" in said
    assert "gemini is inactive: `callboard providers activate gemini`" in said
    call("providers", "activate", "gemini")
    assert "inactive" not in call("models", "gemini").err


def test_an_error_names_the_option_that_is_wrong(call: Calls, tmp_path: Path) -> None:
    place = ("--workspace", str(tmp_path), "--model", "rehearsal")
    check_refused(call("run", "hi", *place, "--fallback", "nosuch/x"), "--fallback nosuch/x: There")
    check_refused(call("run", "hi", "--model", " "), "--model is empty", code=2)
    fake = tmp_path / "fake.png"
    fake.write_text("no picture")
    attached = call("run", "hi", *place, "--attach", str(fake))
    check_refused(attached, "is not image/png: rename it")


def test_a_default_whose_provider_is_gone_is_said_to_be_the_default(call: Calls) -> None:
    call("providers", "add", "rem", "--base-url", "http://127.0.0.1:1/v1")
    call("models", "default", "rem/x")
    call("providers", "remove", "rem")
    gone = call("run", "hi")
    check_refused(gone, "The default model is rem/x: `callboard models default` chooses another")


def test_a_key_that_was_left_behind_is_named_when_one_is_missing(call: Calls) -> None:
    place = ("--base-url", "https://rem.example/v1", "--key-env", "REM", "--model", "m")
    call("providers", "add", "rem", *place)
    assert "that is stored" not in call("run", "hi", "--model", "rem").err
    store = open_key_store(call.home / "data", KeySettings(), os.environ)
    store.put("rem", "https://rem.example:443", Secret(KEY))
    moved = ("--base-url", "https://new.example/v1", "--key-env", "REM")
    call("providers", "edit", "rem", *moved)
    said = call("run", "hi", "--model", "rem").err
    assert "stored is for https://rem.example:443, and is not sent to https://new.exam" in said
