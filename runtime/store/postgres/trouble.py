"""What PostgreSQL says went wrong, in words that say what to do."""

from __future__ import annotations

import re

import psycopg

from ...errors import ConflictError, StorageError, StorageFull


class DatabaseLost(StorageError):
    """The connection broke; what was sent last may have been done or not."""

    retryable = True


class Unexpected(Exception):
    """A commit took something for granted that is otherwise, and did nothing."""


class NotPrepared(StorageError, Unexpected):
    """The database has no such prepared statement any more: nothing was done, and it is prepared again."""

    retryable = True


UNEXPECTED = "CB001"
"""The state that the function `as_expected` raises."""

_OF_ADDRESS = ("option", "dsn", "port", "parameter", " value")
"""With `invalid`, in what libpq says of an address that it can't use, before it connects to anything."""
_OTHERWISE = re.compile(r"(?:definition of service|service file) .* not found|bad value for ")

_AGAIN = frozenset({"40001", "40P01", "23505"})
"""A deadlock, or a row of another writer that came first: nothing was done."""


def trouble(name: str, error: psycopg.Error) -> Exception:
    """Return our error for one of PostgreSQL.

    Args:
        name: What to call the database.
        error: What psycopg raised.
    """
    state = error.sqlstate or ""
    said = _first_line(error)
    if state == UNEXPECTED or state in _AGAIN:
        return Unexpected(said)
    if state == "26000":
        return NotPrepared(f"{name} has forgotten a statement: {said}. Try again.")
    if state == "22003":
        return OverflowError(said)
    if state in {"53100", "53200"} or "No space left" in said:
        return StorageFull(
            f"There is no room for {name}: {said}. Nothing of this was stored. Free some space at the "
            "database and try again."
        )
    if state == "25006":
        return StorageError(
            f"{name} can only be read: it is a standby, or set to be read-only. Connect to the primary; "
            "`target_session_attrs=read-write` in the address finds it among several hosts."
        )
    if state == "42501":
        return StorageError(
            f"{name} does not let its user do this: {said}. Make the user the owner of the database "
            "(alter database … owner to …), or grant it `create` on the schema."
        )
    if state == "57014":
        return StorageError(f"{name} took too long for a query, which was ended: {said}.")
    if state == "55P03":
        return StorageError(
            f"{name} waited too long for another connection: {said}. Nothing of this was stored. A newer callboard that "
            "changes the tables, or a transaction that somebody left open there, may hold them: `select pid, state, query "
            "from pg_stat_activity` shows which. Then try again."
        )
    if _is_lost(error):
        return DatabaseLost(
            f"The connection to {name} was lost: {said}. Nothing new is stored until it is back."
        )
    return StorageError(f"{name} failed: {said} ({state or type(error).__name__}).")


def no_connection(name: str, error: psycopg.Error) -> StorageError:
    """Return our error for a connection that could not be made."""
    said = _first_line(error)
    lower = said.casefold()
    if "too many" in lower or "remaining connection slots" in lower:
        return DatabaseLost(
            f"{name} has no connection left: {said}. A daemon needs four, a node of a cluster up to seven; raise `max_connections`, or end "
            "what holds them."
        )
    if "invalid percent-encoded" in lower:  # libpq repeats the whole part, which may be a password
        return StorageError(
            f"The address of the store {name} is wrong: what follows a % in it is not two hexadecimal digits."
        )
    is_wrong = "invalid" in lower and any(word in lower for word in _OF_ADDRESS)
    if is_wrong or _OTHERWISE.search(lower):
        return StorageError(
            f"The address of the store {name} is wrong: {said}. Its options are those of libpq, and so are their values."
        )
    if "does not support ssl" in lower:
        return StorageError(
            f"{name} does not encrypt connections: {said}. Turn `ssl` on in the server's postgresql.conf, or leave "
            "`sslmode` out of the address if nobody else is on the network."
        )
    if "password" in lower or "authentication" in lower or "no pg_hba.conf entry" in lower:
        return StorageError(
            f"{name} does not let this user in: {said}. The password comes from PGPASSFILE (~/.pgpass), "
            "PGSERVICE or PGPASSWORD; which ways in there are is in the server's pg_hba.conf."
        )
    if "certificate" in lower:
        return StorageError(
            f"{name} has a certificate that is not trusted here: {said}. `sslrootcert` in the address names "
            "the file of the authority that signed it; with sslmode=verify-full the host must be the one in it."
        )
    if "does not exist" in lower:
        return StorageError(
            f"{name} is not there: {said}. Make it first: createdb -O USER DATABASE."
        )
    if "could not translate host name" in lower or "failed to resolve" in lower:
        return DatabaseLost(f"{name} can't be found: {said}. Check the host in the address.")
    return DatabaseLost(
        f"{name} does not answer: {said}. Check that PostgreSQL runs there and can be reached from here."
    )


def another_writes(name: str) -> ConflictError:
    """Return the error for a database that another node writes to."""
    return ConflictError(
        f"Another callboard writes to {name}. End it first, give this one a database of its own, or have both be nodes of a "
        "cluster: each with a name of its own, `[cluster] node` in callboard.toml (docs/scale.md)."
    )


def _is_lost(error: psycopg.Error) -> bool:
    state = error.sqlstate or ""
    if state[:2] in {"08", "57"}:
        return True
    return not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def _first_line(error: psycopg.Error) -> str:
    words = (error.diag.message_primary or str(error) or type(error).__name__).strip()
    line = words.splitlines()[0].strip().rstrip(".?")
    return line.removeprefix("connection failed: ").removeprefix("connection is bad: ")
