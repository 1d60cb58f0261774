"""What a runtime's development tools are given: the operator's name, credentials and indexes."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from .config.base_url import checked_base_url
from .config.development_settings import GIT_KEYS, is_name
from .config.settings import Settings
from .providers.catalog import Wish
from .runtime.secrets import Secret
from .tools.development.workshop import Author, Workshop
from .tools.system_programs import find_system_program

GIT_SECONDS = 5.0
"""To read a configuration file; a home folder on a broken network takes forever."""

MAX_CERTIFICATE_BYTES = 4 * 1024 * 1024
"""All authorities that there are take a quarter of it."""

_INDEXES = {
    "PIP_INDEX_URL": "PIP_INDEX_URL",
    "NPM_CONFIG_REGISTRY": "NPM_CONFIG_REGISTRY",
    "npm_config_registry": "NPM_CONFIG_REGISTRY",
}
"""By variable of the operator the one that the package manager gets."""


def workshop_of(settings: Settings, wish: Wish) -> Workshop:
    """What development tools are given.

    Args:
        settings: Say who commits and how tests run.
        wish: Knows the environment and the stored keys.
    """

    def author() -> Author | None:
        return _author(settings, wish.environ)

    def credential(origin: str) -> Secret | None:
        return wish.stored(GIT_KEYS, origin)

    def certificates() -> bytes | None:
        return _certificates(wish.environ)

    return Workshop(
        author=author,
        credential=credential,
        certificates=certificates,
        test_command=settings.tests.command,
        indexes=_indexes(wish.environ),
    )


def _author(settings: Settings, environ: Mapping[str, str]) -> Author | None:
    if settings.git.name is not None and settings.git.email is not None:
        return Author(settings.git.name, settings.git.email)
    git = find_system_program("git")
    if git is None or "HOME" not in environ:
        return None
    name, email = (_configured(git, field, environ) for field in ("user.name", "user.email"))
    return Author(name, email) if is_name(name) and is_name(email) else None


def _configured(git: str, field: str, environ: Mapping[str, str]) -> str:
    """What the user's own configuration says; no repository's counts."""
    kept = {name: environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in environ}
    try:
        ran = subprocess.run(
            [git, "config", "--global", "--includes", "--get", field],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
            cwd="/",
            env=kept,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode(errors="replace").strip()


def _certificates(environ: Mapping[str, str]) -> bytes | None:
    path = environ.get("SSL_CERT_FILE")
    if not path:
        return None
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_CERTIFICATE_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= MAX_CERTIFICATE_BYTES else None


def _indexes(environ: Mapping[str, str]) -> dict[str, str]:
    """The operator's package indexes; one that holds a password stays here."""
    found: dict[str, str] = {}
    for name, variable in _INDEXES.items():
        try:
            found[variable] = checked_base_url(environ.get(name, ""))
        except ValueError:
            continue
    return found
