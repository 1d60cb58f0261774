from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.config.files import (
    MAX_FILE_BYTES,
    config_file,
    config_folder,
    configuration_files,
    data_folder,
    load_settings,
    parse_settings,
)
from callboard.config.settings import Limits, Settings
from callboard.runtime.definitions import GENERAL_PROMPT, Preset
from callboard.runtime.errors import NotFoundError, StorageError, ValidationError

FILE = Path("callboard.toml")

EVERYTHING = """
model = "local/qwen"
policy = "strict"

[limits]
idle_seconds = 5          # an integer is a number of seconds too
max_calls_per_session = 4

[providers.local]
base_url = "http://127.0.0.1:8000/v1/"
key_env = "LOCAL_KEY"
model = "qwen"

[agents.reader]
prompt = "You read."
tools = ["read_file", "list_directory"]
policy = "auto"

[agents.writer]
prompt = "You write."
"""


def test_a_file_sets_what_it_names_and_leaves_the_rest_at_its_default() -> None:
    settings = parse_settings(EVERYTHING, FILE)
    assert settings.model == "local/qwen"
    assert settings.limits == Limits(idle_seconds=5.0, max_calls_per_session=4)
    assert settings.providers["local"].name == "local"
    assert settings.providers["local"].base_url == "http://127.0.0.1:8000/v1"
    assert settings.agent("reader").tools == ("read_file", "list_directory")
    assert settings.agent("reader").policy is Preset.AUTO


def test_an_agent_without_a_policy_has_the_configured_one() -> None:
    settings = parse_settings(EVERYTHING, FILE)
    assert settings.agent("writer").policy is Preset.STRICT
    assert settings.agent("general").policy is Preset.STRICT
    assert settings.agent("general").prompt == GENERAL_PROMPT
    assert Settings().agent().policy is Preset.BALANCED


def test_an_unknown_agent_is_answered_with_those_that_exist() -> None:
    with pytest.raises(NotFoundError, match=r"'coder'.*general, reader, writer"):
        parse_settings(EVERYTHING, FILE).agent("coder")


def test_an_empty_file_is_the_defaults() -> None:
    assert parse_settings("", FILE) == Settings()


@pytest.mark.parametrize(
    ("text", "line", "field", "problem"),
    [
        ("modle = 'x'", 1, "modle", "did you mean 'model'? Nothing"),
        ("[limits]\nidle_second = 3", 2, "limits.idle_second", "did you mean 'idle_seconds'"),
        ("[limits]\nzzz = 3", 2, "limits.zzz", "known: max_calls_per_session"),
        ("[limits]\nidle_seconds = 'x'", 2, "limits.idle_seconds", "expected number, got string"),
        ("[limits]\nidle_seconds = inf", 2, "limits.idle_seconds", "expected number <="),
        ("[limits]\nidle_seconds = nan", 2, "limits.idle_seconds", "expected number >"),
        ("[limits]\nmax_repeats = 0", 2, "limits.max_repeats", "expected integer >= 1"),
        ("limits.max_repeats = true", 1, "limits.max_repeats", "expected integer, got bool"),
        ("limits = { max_repeats = 0 }", 1, "limits.max_repeats", "expected integer >= 1"),
        ("limits = 3", 1, "limits", "expected table, got integer"),
        ("policy = 'lax'", 1, "policy", "'lax'; choices: auto, balanced, strict."),
        ("\n[agents.a]\ntools = 'all'", 3, "agents.a.tools", "expected array, got string"),
        ("[agents.a]\nname = 'b'", 2, "agents.a.name", "expected 'a'"),
        ("[agents]\na = 3", 2, "agents.a", "expected a table"),
        ("agents = 3", 1, "agents", "expected tables like [agents.NAME]"),
        ('[agents."a/b"]', 1, "agents.a/b", "a name has letters"),
        ("[providers.p]\nmodel = 'm'", 1, "providers.p.base_url", "it is required"),
        ("[providers.p]\nbase_url = 'x'", 1, "providers.p", "begins with http"),
        (
            "[providers.p]\nbase_url = 'http://h'\ndialect = 'soap'",
            3,
            "providers.p.dialect",
            "invalid enum value 'soap'; choices: openai_chat, openai_responses, anthropic, gemini.",
        ),
        (
            "[providers.p]\nbase_url = 'http://h'\nkey_env = 'sk-hunter2'",
            1,
            "providers.p",
            "is the name of an environment variable, and never the key",
        ),
        (
            "[providers.p]\nbase_url = 'http://h'\nmodels = ['']",
            3,
            "providers.p.models",
            "length >= 1",
        ),
        ("[providers.rehearsal]\nbase_url = 'http://h'", 1, "providers.rehearsal", "is built in"),
    ],
)
def test_a_wrong_setting_is_named_with_its_line_and_what_was_expected(
    text: str, line: int, field: str, problem: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_settings(text, FILE)
    assert caught.value.field == field
    assert problem in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).startswith(f"callboard.toml, line {line}: {field}: ")


def test_text_that_is_not_toml_is_named_with_its_place() -> None:
    with pytest.raises(ValidationError, match=r"callboard.toml is not TOML: .*line 2, column 5"):
        parse_settings("[a]\nb = \n", FILE)
    with pytest.raises(ValidationError, match="is not TOML"):
        parse_settings("a = " + "[" * 100_000, FILE)


def test_a_broken_file_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "callboard.toml"
    file.write_bytes(b"model = 'x'\nprompt = '\xff'\n")
    with pytest.raises(ValidationError, match=r"callboard\.toml, line 2: not UTF-8"):
        load_settings(file)
    assert file.read_bytes() == b"model = 'x'\nprompt = '\xff'\n"
    file.write_bytes(b"\xef\xbb\xbfmodel = 'a/b'\r\n")
    assert load_settings(file).model == "a/b"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no configuration file .*none\.toml"):
        load_settings(tmp_path / "none.toml")
    with pytest.raises(StorageError, match="can't be read: Is a directory"):
        load_settings(tmp_path)
    huge = tmp_path / "huge.toml"
    huge.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(ValidationError, match="larger than"):
        load_settings(huge)


def test_a_file_that_others_can_change_says_nothing(tmp_path: Path) -> None:
    """Whoever writes it says what runs without a question, and where keys are sent."""
    folder = tmp_path / "config"
    folder.mkdir(mode=0o755)
    file = folder / "callboard.toml"
    file.write_text('policy = "strict"')
    (elsewhere := tmp_path / "other").mkdir()
    (link := elsewhere / "link.toml").symlink_to(file)
    for path in (file, link):
        assert load_settings(path).policy is Preset.STRICT
    for place, mode, who in (
        (file, 0o646, "everybody"),
        (file, 0o664, "its group"),
        (folder, 0o777, "everybody"),
        (folder, 0o775, "its group"),
    ):
        before = place.stat().st_mode & 0o7777
        if who == "its group":
            if os.geteuid() != 0:  # who is in this group only root can say here
                continue
            os.chown(place, -1, 12345)
        place.chmod(mode)
        for path in (file, link):
            with pytest.raises(StorageError, match=f"{who} can write .*`chmod go-w {place}`"):
                load_settings(path)
        place.chmod(before)
    elsewhere.chmod(0o777)
    with pytest.raises(StorageError, match=f"`chmod go-w {elsewhere}`"):
        load_settings(link)
    assert load_settings(file).policy is Preset.STRICT
    folder.chmod(0o1777)  # as /tmp: others can put files there, and not replace this one
    assert load_settings(file).policy is Preset.STRICT


def test_callboard_home_holds_both_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path))
    assert config_folder() == tmp_path / "config"
    assert data_folder() == tmp_path / "data"
    assert load_settings() == Settings(files=configuration_files(config_file()))
    config_folder().mkdir()
    (config_folder() / "callboard.toml").write_text("policy = 'auto'")
    assert load_settings().policy is Preset.AUTO


def test_without_callboard_home_the_folders_are_the_users_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/home/someone/.local/share")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/home/someone/.config")
    assert data_folder({"CALLBOARD_HOME": " "}) == Path("/home/someone/.local/share/callboard")
    assert config_folder({}) == Path("/home/someone/.config/callboard")


def test_an_environment_that_is_given_says_where_the_folders_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    named = {"XDG_CONFIG_HOME": "/x/config", "XDG_DATA_HOME": "/x/data", "HOME": "/home/other"}
    assert config_folder(named) == Path("/x/config/callboard")
    assert data_folder(named) == Path("/x/data/callboard")
    home = {"HOME": "/home/other", "XDG_CONFIG_HOME": " "}
    assert config_folder(home) == Path("/home/other/.config/callboard")
    assert data_folder(home) == Path("/home/other/.local/share/callboard")
    monkeypatch.setattr("sys.platform", "darwin")
    assert data_folder(home) == Path("/home/other/Library/Application Support/callboard")


def test_no_test_sees_the_users_own_folders(tmp_path: Path) -> None:
    """The fixture of all tests: what no test names is in a folder of the tests."""
    for folder in (config_folder(), data_folder(), config_folder({}), data_folder({})):
        assert folder.is_relative_to(tmp_path.parent.parent)


def test_reading_settings_loads_no_toml_parser_unless_there_is_a_file(tmp_path: Path) -> None:
    code = (
        "import sys; from callboard.config.files import load_settings; load_settings()\n"
        "print(sorted({'tomllib', 'platformdirs', 'httpx'} & set(sys.modules)))"
    )
    environ = {**os.environ, "CALLBOARD_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
