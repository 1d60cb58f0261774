"""A daemon whose record is in PostgreSQL, and the commands that find it there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from callboard.config.settings import StoreSettings
from callboard.providers.testing.script import reply
from callboard.runtime.errors import StorageError, ValidationError
from callboard.runtime.store.file import ADDRESS_NAME, DATABASE_NAME
from callboard.runtime.store.sqlite_store import open_reader
from support.cli.command import Command
from support.cli.command import command as command
from support.cli.daemon_process import serving
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres

QUESTION = "What time is it in Tokyo?"


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


async def test_sessions_of_a_daemon_are_kept_in_a_database_and_found_there(
    command: Command, url: str
) -> None:
    roots = ("--model", "rehearsal", "--root", str(command.workspace))
    async with serving(command, "--store", url, *roots):
        ran = await command("run", "--model", "rehearsal", QUESTION)
        assert ran.code == 0, ran.err
        listed = await command("sessions")
        assert QUESTION[:20] in listed.out
    data = command.home / "data"
    assert (data / ADDRESS_NAME).read_text(encoding="utf-8") == f"{url}\n"
    assert (data / ADDRESS_NAME).stat().st_mode & 0o777 == 0o600
    assert not (data / DATABASE_NAME).exists()
    # Without a daemon, and without the option: the folder says where its record is.
    listed = await command("sessions")
    assert QUESTION[:20] in listed.out
    ran = await command("run", "--model", "rehearsal", "Again?")
    assert ran.code == 0, ran.err
    reader = await open_reader(data)
    assert len(await reader.sessions()) == 2
    await reader.aclose()
    looked = await command("doctor")
    assert f"MiB in {url}" in looked.out
    refused = await command("backup", str(command.home / "copy.db"))
    assert refused.code != 0
    assert "pg_dump" in refused.err


async def test_a_folder_with_a_record_in_a_file_is_not_silently_left(
    command: Command, url: str
) -> None:
    (command.workspace / "a.txt").write_text("before")
    write = ("write_file", {"path": "a.txt", "content": "after"})
    steps = [reply(calls=[write]), reply("Done.")]
    async with command.open_runtime(steps, on_approval="allow") as runtime:
        await (await runtime.create_session()).run(QUESTION)
    refused = await command("serve", "--store", url, "--port", "0")
    assert refused.code == 1
    assert "callboard store copy" in refused.err
    data = command.home / "data"
    assert not (data / ADDRESS_NAME).exists()
    early = await command("store", "set-aside", "--yes", "--store", url)
    assert (early.code, "does not hold all of session" in early.err) == (1, True)
    assert (data / DATABASE_NAME).exists()
    copied = await command("store", "copy", str(data), url)
    assert copied.code == 0, copied.err
    assert copied.out.startswith("1 session with ")
    again = await command("store", "copy", str(data), url)
    assert again.code == 1
    assert "holds sessions already" in again.err
    aside = await command("store", "set-aside", "--yes", "--store", url)
    assert aside.code == 0, aside.err
    assert not (data / DATABASE_NAME).exists()
    async with serving(command, "--store", url):
        listed = await command("sessions")
        assert QUESTION[:20] in listed.out
        undone = await command("undo", "last", "--yes")
        assert undone.code == 0, undone.err
    assert (command.workspace / "a.txt").read_text() == "before"
    nothing = await command("store", "set-aside", "--yes")
    assert (nothing.code, "nothing to set aside" in nothing.err) == (1, True)
    await command("run", "--model", "rehearsal", "Again?")
    refused = await command("undo", "last", "--yes")
    assert (refused.code, "which in a cluster may be another one" in refused.err) == (1, True)


async def test_a_wrong_store_is_refused_in_words(command: Command) -> None:
    for wrong, words in (
        ("postgresql://me:hunter2@db/callboard", "holds a password"),
        ("sqlite:///x", "and not sqlite://"),
        ("postgresql://me@127.0.0.1:1/x", "does not answer"),
    ):
        refused = await command("serve", "--port", "0", "--store", wrong)
        assert refused.code == 1
        assert words in refused.err
        assert "hunter2" not in refused.err + refused.out


def test_a_store_in_the_settings_is_looked_at_when_they_are_read() -> None:
    with pytest.raises((ValueError, ValidationError), match="holds a password"):
        StoreSettings(url="postgresql://me:hunter2@db/callboard")
    assert StoreSettings(url="postgresql://me@db/callboard").url is not None


def test_what_is_for_files_says_where_the_record_is(command: Command) -> None:
    from callboard.runtime.store.file import keep_address, stored_path

    folder = command.home / "data"
    folder.mkdir(parents=True)
    keep_address(folder, "postgresql://db/callboard")
    with pytest.raises(StorageError, match=r"is in postgresql://db/callboard.*pg_dump"):
        stored_path(folder)
