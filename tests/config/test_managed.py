"""What commands write stands in a file of its own, under the operator's."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from callboard.config.files import load_settings
from callboard.config.managed import (
    load_managed,
    remove_provider,
    save_provider,
    set_active,
    set_default_model,
)
from callboard.config.settings import ManagedSettings, ProviderSettings
from callboard.runtime.errors import NotFoundError, StorageError, ValidationError

HOUSE = ProviderSettings(
    name="house", base_url="https://models.house.example/v1", key_env="HOUSE_KEY", model='q"3\n'
)
PLAIN = ProviderSettings(name="plain.one", base_url="http://127.0.0.1:9/v1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With an empty file of the operator's."""
    (tmp_path / "callboard.toml").write_text("")
    return tmp_path


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "config"
    assert load_managed(folder) == ManagedSettings()
    save_provider(folder, HOUSE)
    save_provider(folder, PLAIN)
    set_default_model(folder, "house/q3")
    wanted = set_active(folder, "groq", active=False)
    assert wanted == ManagedSettings(
        model="house/q3", inactive=("groq",), providers={"house": HOUSE, "plain.one": PLAIN}
    )
    assert load_managed(folder) == wanted
    (folder / "callboard.toml").write_text("")
    settings = load_settings(folder / "callboard.toml")
    assert (settings.model, settings.inactive) == ("house/q3", ("groq",))
    assert settings.providers == wanted.providers


def test_what_was_saved_can_be_taken_back(folder: Path) -> None:
    save_provider(folder, HOUSE)
    set_default_model(folder, "house/q3")
    set_active(folder, "house", active=False)
    set_active(folder, "house", active=False)
    assert load_managed(folder).inactive == ("house",)
    remove_provider(folder, "house")
    assert set_default_model(folder, None) == ManagedSettings()
    set_active(folder, "groq", active=False)
    assert set_active(folder, "groq", active=True) == ManagedSettings()
    with pytest.raises(NotFoundError, match="No command added a provider 'house'"):
        remove_provider(folder, "house")


def test_the_operators_file_wins_and_is_never_written(folder: Path) -> None:
    own = (
        'model = "openai/gpt-5"\ninactive = ["groq"]\n'
        '[providers.house]\nbase_url = "https://own.example"\n'
    )
    (folder / "callboard.toml").write_text(own)
    save_provider(folder, HOUSE)
    save_provider(folder, PLAIN)
    set_default_model(folder, "house/q3")
    set_active(folder, "groq", active=True)
    set_active(folder, "openai", active=False)
    settings = load_settings(folder / "callboard.toml")
    assert settings.model == "openai/gpt-5"
    assert settings.inactive == ("groq", "openai")
    assert settings.providers["house"].base_url == "https://own.example"
    assert settings.providers["plain.one"] == PLAIN
    assert (folder / "callboard.toml").read_text() == own


def test_the_file_is_its_owners_alone_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        save_provider(folder, HOUSE)
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "managed.toml").stat().st_mode) == 0o600
    assert {path.name for path in folder.iterdir()} == {
        "callboard.toml",
        "managed.toml",
        "managed.lock",
    }


def test_writers_at_once_lose_nothing(folder: Path) -> None:
    def work(number: int) -> None:
        save_provider(folder, ProviderSettings(name=f"p{number}", base_url="http://127.0.0.1:9"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(load_managed(folder).providers) == {f"p{n}" for n in range(12)}


@pytest.mark.parametrize("name", ["rehearsal", "custom", "", "a/b", "-x", "x" * 65])
def test_a_name_that_is_none_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(ValidationError, match="name"):
        save_provider(folder, ProviderSettings(name=name, base_url="http://127.0.0.1:9"))
    assert not (folder / "managed.toml").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("modle = 'x'", r"managed\.toml, line 1: modle: .*did you mean 'model'"),
        ("[sandbox]\nminimum = 'none'", r"sandbox: there is no such setting"),
        ("[limits]\nidle_seconds = 0", r"line 2: limits\.idle_seconds"),
        ("x =", "not TOML"),
        ("[providers.custom]\nbase_url = 'http://127.0.0.1'", "built in"),
    ],
)
def test_a_broken_file_is_named_and_not_written_over(folder: Path, text: str, said: str) -> None:
    (folder / "managed.toml").write_text(text)
    with pytest.raises(ValidationError, match=said):
        load_settings(folder / "callboard.toml")
    with pytest.raises(ValidationError, match=said):
        set_default_model(folder, "x/y")
    assert (folder / "managed.toml").read_text() == text


def test_a_folder_that_cant_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="can't be made"):
        set_default_model(tmp_path / "file" / "config", "x/y")
    (tmp_path / "managed.lock").symlink_to("elsewhere")
    with pytest.raises(StorageError, match=r"managed\.lock"):
        set_default_model(tmp_path, "x/y")
    assert not (tmp_path / "elsewhere").exists()
