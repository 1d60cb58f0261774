"""The address of a database: `postgresql://user@host:port/name`, or `postgresql://user@/name?host=/socket/folder`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from ...errors import StorageError, ValidationError
from ...redaction import Secret

SCHEMES = ("postgresql", "postgres")

SECRETS = frozenset({"password", "sslpassword", "oauth_client_secret"})
"""Options of an address that are secrets."""

CREDENTIAL_NAME = "callboard-database"
"""The systemd credential with the password: libpq refuses a password file there, which root may read, too."""

_HOST = r"(?:[^\s:,@\[\]]*|\[[0-9a-fA-F:.]+\])(?::\d*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")


class DatabaseAddress(NamedTuple):
    """An address, and what to call it.

    Attributes:
        url: As libpq takes it. What it lacks comes from `PGPASSFILE`, `PGSERVICE` and the like.
        name: Its host and database, for people.
        password: The password in the address; usually empty.
    """

    url: str
    name: str
    password: str = ""

    @property
    def public_url(self) -> str:
        """The URL without its password."""
        if not self.password:
            return self.url
        parts = urlsplit(self.url)
        user, _, host = parts.netloc.rpartition("@")
        options = [each for each in parts.query.split("&") if _option(each) not in SECRETS]
        netloc = f"{user.partition(':')[0]}@{host}" if user else host
        return urlunsplit(parts._replace(netloc=netloc, query="&".join(options)))


def given_password(environ: Mapping[str, str]) -> Secret | None:
    """Return the password that systemd gave this service (`LoadCredential=callboard-database:FILE`), if it did.

    Raises:
        StorageError: It is there, and can't be read.
    """
    folder = environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return None
    try:
        text = Path(folder, CREDENTIAL_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(
            f"The systemd credential {CREDENTIAL_NAME} can't be read as the password of the database: "
            f"{getattr(error, 'strerror', None) or 'it is not UTF-8'}."
        ) from None
    return Secret(text.strip("\r\n"))


def check_driver() -> None:
    """Raise `ValidationError` if the library for PostgreSQL is not installed."""
    if find_spec("psycopg") is None:
        raise ValidationError(
            "The store in PostgreSQL needs psycopg: pip install 'callboard[postgres]'.",
            field="store",
        )


def is_address(text: str) -> bool:
    """Whether a text is the address of a database, and not a folder."""
    return text.partition("://")[0] in SCHEMES and "://" in text


def address_of(url: str, *, may_hold_password: bool = True) -> DatabaseAddress:
    """Return the address that a URL says.

    Args:
        url: The URL.
        may_hold_password: Whether a password may stand in it. Not where others can read it, as in the
            arguments of a process.

    Raises:
        ValidationError: It is not the URL of a database, or holds a password and must not.
    """
    if not is_address(url):
        scheme = url.partition("://")[0] if "://" in url else ""
        raise ValidationError(
            "The store must be postgresql://HOST/DATABASE"
            + (f", and not {scheme}://…" if scheme else "")
            + ". Without it, sessions are kept in a file of the data directory.",
            field="store",
        )
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    # Behind the last @, as libpq has it: several hosts, each with its port.
    hosts = parts.netloc.rpartition("@")[2] if parts is not None else ""
    if parts is None or not _HOSTS.fullmatch(hosts):
        # What is wrong may be a password with a character that ends the host, so nothing of it is said.
        raise ValidationError(
            "The address of the store is not a URL: postgresql://USER@HOST:PORT/DATABASE is one. Other "
            "characters than letters and digits are written as %XX in it.",
            field="store",
        )
    database = unquote(parts.path.lstrip("/"))
    name = f"postgresql://{hosts}/{database}"
    options = [each for each in parts.query.split("&") if _option(each) in SECRETS]
    password = parts.password or next((each.partition("=")[2] for each in options), "")
    if password and not may_hold_password:
        raise ValidationError(
            f"The address of the store {name} holds a password, which others could read. Leave it out, "
            "and put it into a password file (PGPASSFILE, ~/.pgpass), a service (PGSERVICE) or "
            "PGPASSWORD.",
            field="store",
        )
    return DatabaseAddress(url, name, unquote(password))


def _option(text: str) -> str:
    """Return the name of an option of the query, as libpq reads it."""
    return unquote(text.partition("=")[0])
