"""What is installed for tests is locked, hashed and listed; an audit that nobody answers is no failure."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOCKS = tuple(ROOT / ".ci" / f"{name}.txt" for name in ("requirements", "audit", "ray"))

PLAYED_AUDIT = """#!/bin/sh
comma=
printf '{"dependencies": ['
for word in "$@"; do
  case "$word" in -r*)
    printf '%s{"name": "%s", "version": "1", "vulns": [{"id": "X-1", "fix_versions": []}]}' "$comma" "${word##*/}"
    comma=,
  esac
done
printf ']}'
"""


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "dependencies"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_each_locked_package_has_one_version_and_hashes_and_no_address(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    packages = re.split(r"\n(?=\S)", text.strip())
    assert len(packages) > 10
    for package in packages:
        first, *hashes = package.splitlines()
        assert re.match(r"[a-z0-9._-]+(\[[a-z0-9,_-]+\])?==\S+ .*\\$", first), first
        assert hashes
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes)
    assert "://" not in text
    assert "--index" not in text


def test_what_is_locked_declared_installed_and_listed_is_the_same(
    script: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)  # a developer may have more
    assert script["problems"]() == []


def test_what_the_lock_lacks_is_found(
    script: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LOCKS[0].read_text(encoding="utf-8")
    lock = tmp_path / "requirements.txt"
    lock.write_text(re.sub(r"(?m)^(trio|msgspec)==\S+", r"\1==0.1", text), encoding="utf-8")
    monkeypatch.setitem(script["problems"].__globals__, "LOCK", lock)
    found = "\n".join(script["problems"]())
    assert re.search(r"trio>=\S+ is not in the lock \(it has 0\.1\)", found)
    assert re.search(r"msgspec \S+ is installed, which the lock does not have", found)
    monkeypatch.setenv("CI", "true")
    lock.write_text("", encoding="utf-8")
    assert "trio is installed, and not locked" in script["problems"]()


def test_an_audit_fails_for_what_is_known_and_not_for_what_is_not(
    script: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flaw = {"id": "X-1", "fix_versions": ["2.0"], "aliases": [], "description": ""}
    clean = {"name": "a", "version": "1.0", "vulns": []}
    unknown = {"name": "b", "skip_reason": "not found"}
    assert script["reported"]([clean, unknown]) == 0
    assert "1 of 2 packages are known there, 0 vulnerabilities" in capsys.readouterr().out
    assert script["reported"]([clean, {**clean, "vulns": [flaw]}]) == 1
    assert "a 1.0: X-1, mended in 2.0" in capsys.readouterr().out
    monkeypatch.setitem(script["ACCEPTED"], "X-1", "not ours")
    assert script["reported"]([{**clean, "vulns": [flaw]}]) == 0

    def fail(*_: object, **__: object) -> None:
        raise subprocess.CalledProcessError(1, "pip")

    monkeypatch.setitem(script["audit"].__globals__, "_run", fail)
    assert script["audit"]() == 0
    assert "nobody could be asked" in capsys.readouterr().out


def test_an_audit_asks_about_each_lock_of_what_tests_install(
    script: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The tool is played by a script that knows a flaw of each lock it is asked about."""
    python = tmp_path / "python"
    python.write_text(PLAYED_AUDIT, encoding="utf-8")
    python.chmod(0o700)
    monkeypatch.setitem(script["audit"].__globals__, "_new_environment", lambda *_: python)
    assert script["audit"]() == 1
    told = capsys.readouterr().out
    assert "2 of 2 packages are known there, 2 vulnerabilities" in told
    assert "requirements.txt 1: X-1" in told
    assert "ray.txt 1: X-1" in told
