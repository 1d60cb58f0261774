"""Whatever stands in a file of the configuration or of tokens, reading it ends with a word about it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.config.files import load_settings
from callboard.config.keys.tokens import Credentials
from callboard.runtime.errors import StorageError, ValidationError
from callboard.runtime.wire.fields import Role


@pytest.mark.parametrize(
    "content",
    [
        b'{"credentials":[{"name":"\xff\xfe"',
        b'{"credentials":[{"name":"\xff\xfe"}]}',
        b'{"credentials":' + b"[" * 200_000,
        b'{"credentials":"',
    ],
)
def test_damaged_tokens_are_named(tmp_path: Path, content: bytes) -> None:
    credentials = Credentials(tmp_path)
    credentials.create("first", Role.ADMIN)
    assert len(credentials.list()) == 1
    credentials.path.write_bytes(content)
    with pytest.raises(StorageError, match=r"tokens\.json is damaged"):
        credentials.list()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[server]\nport = 9" + "9" * 5000, "is not TOML"),
        ("[server]\nx = " + "[" * 20_000, "is not TOML"),
        (f'[server]\nroots = ["/{"a" * 5000}"]', "at most 4095 bytes"),
        ('[server]\nroots = ["/."]', "not an absolute path"),
        ('[server]\nroots = ["//"]', "not an absolute path"),
    ],
)
def test_a_configuration_that_no_machine_bears_is_refused(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "callboard.toml"
    file.write_text('[server]\nroots = ["/srv"]')
    assert load_settings(file).server.roots == ("/srv",)
    file.write_text(text)
    with pytest.raises(ValidationError, match=problem):
        load_settings(file)


def test_a_pipe_is_no_configuration(tmp_path: Path) -> None:
    file = tmp_path / "callboard.toml"
    os.mkfifo(file)
    with pytest.raises(StorageError, match="not a regular file"):
        load_settings(file)
