"""What development tools get of the operator: a name, credentials, indexes and certificates."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.__main__ import main
from callboard.config.files import load_settings, parse_settings
from callboard.config.sections import GitSettings
from callboard.config.settings import Settings
from callboard.embedding.access import workshop_of
from callboard.embedding.models import with_keys
from callboard.providers.catalog.catalog import ModelSelection
from callboard.runtime.errors import ValidationError
from callboard.tools.workshop import Author, Workshop

TOKEN = "ghp-7d41c0ffee"


def workshop(settings: Settings | None = None, **environ: str) -> Workshop:
    given = settings or Settings()
    return workshop_of(
        lambda: given, ModelSelection(settings=given, environ={"PATH": "/usr/bin:/bin", **environ})
    )


def test_the_configuration_says_who_commits_before_the_users_own_git(tmp_path: Path) -> None:
    assert workshop(HOME=str(tmp_path)).author() is None
    (tmp_path / "more").write_text('[user]\n\temail = "a;$(id)@example.org"\n')
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Ada\n[include]\n\tpath = more\n")
    assert workshop(HOME=str(tmp_path)).author() == Author("Ada", "a;$(id)@example.org")
    own = Settings(git=GitSettings(name="Bob", email="bob@example.org"))
    assert workshop(own, HOME=str(tmp_path)).author() == Author("Bob", "bob@example.org")


@pytest.mark.parametrize(
    "text",
    [
        '[git]\nname = "Ada"',
        '[git]\nname = "Ada"\nemail = ""',
        '[git]\nname = "A\\nb"\nemail = "a@b"',
        '[git]\nname = "Ada"\nemail = "a@b> <c@d"',
        '[git]\nnom = "Ada"',
        '[tests]\ncommand = "pytest"',
        '[providers.git]\nbase_url = "https://git.example"',
    ],
)
def test_what_git_could_not_write_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        parse_settings(text, Path("callboard.toml"))
    good = parse_settings('[git]\nname = "Ada"\nemail = "a@b"', Path("callboard.toml"))
    assert good.git.name == "Ada"


def test_an_index_with_a_password_stays_with_the_operator(tmp_path: Path) -> None:
    environ = {
        "PIP_INDEX_URL": "https://index.example/simple/",
        "npm_config_registry": "https://ada:secret@npm.example",
        "PIP_EXTRA_INDEX_URL": "https://other.example",
    }
    given = ModelSelection(settings=Settings(), environ=environ)
    assert workshop_of(Settings, given).indexes == {"PIP_INDEX_URL": "https://index.example/simple"}
    authorities = tmp_path / "authorities.pem"
    assert workshop(SSL_CERT_FILE=str(authorities)).certificates() is None
    authorities.write_bytes(b"certificates")
    assert workshop(SSL_CERT_FILE=str(authorities)).certificates() == b"certificates"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path))
    monkeypatch.setattr("callboard.runtime.disk.core_dumps.forbid_core_dumps", lambda: None)
    monkeypatch.setattr("os.isatty", lambda _: False)
    (tmp_path / "config").mkdir()
    return tmp_path


def keys(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"ada:{TOKEN}".encode())))
    return main(["keys", *words])


def test_a_credential_is_kept_for_its_server(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in ("https://github.com/", "https://git.corp.example:8443"):
        assert keys(monkeypatch, "set", "git", "--origin", place) == 0
    capsys.readouterr()
    assert keys(monkeypatch, "list", "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    stored = [(row["origin"], row["used"]) for row in rows if row["provider"] == "git"]
    assert stored == [("https://git.corp.example:8443", True), ("https://github.com:443", True)]
    settings = load_settings()
    wish = with_keys(
        ModelSelection(settings=settings, environ={"CALLBOARD_HOME": str(home)}), home / "data"
    )
    credential = workshop_of(lambda: settings, wish).credential
    found = credential("https://github.com:443")
    assert found is not None
    assert found.reveal() == f"ada:{TOKEN}"
    assert credential("https://gitlab.com:443") is None
    assert keys(monkeypatch, "remove", "git") == 0
    assert credential("https://github.com:443") is None


@pytest.mark.parametrize(
    "words",
    [
        ("git",),
        ("git", "--origin", "http://github.com"),
        ("git", "--origin", "github.com"),
        ("git", "--origin", "https://a:b@github.com"),
        ("openai", "--origin", "https://github.com"),
    ],
)
def test_a_credential_needs_a_server_that_it_may_go_to(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    assert keys(monkeypatch, "set", *words) != 0
    assert capsys.readouterr().err
    assert not list((home / "data").glob("keys*"))


def test_the_git_that_is_asked_is_the_systems_and_none_of_path(tmp_path: Path) -> None:
    """A folder of PATH may lie in a workspace, where programs of a model's put what they like."""
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    planted = tmp_path / "work" / ".venv" / "bin" / "git"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho planted@example.org\n")
    planted.chmod(0o755)
    path = f"{planted.parent}:/usr/bin:/bin"
    assert workshop(HOME=str(tmp_path), PATH=path).author() == Author("Ada", "ada@example.org")
    assert not (tmp_path / "ran").exists()
    subprocess.run([planted], check=True)  # the control: it would have run
    assert (tmp_path / "ran").exists()
