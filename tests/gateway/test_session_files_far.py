"""Sessions leave a daemon as files and come back, in pages, while it works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.client.files import fetch_file
from callboard.config.sections import ServerSettings
from callboard.embedding.runtime import host_of
from callboard.gateway.shared import uploads
from callboard.providers.testing.script import reply
from callboard.runtime.errors import (
    AuthError,
    CallboardError,
    ConflictError,
    NotFoundError,
    OverloadedError,
    ValidationError,
)
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.sessions import (
    ExportedPage,
    ExportSession,
    ImportedSessions,
    ImportSessions,
)
from support.gateway.daemon_scene import Daemon, open_client, open_daemon

LONG = 'Grüß dich, 🌍! "quoted" \\ ' * 20_000
"""Of some pages, with all that escaping makes longer."""


def model() -> callboard.ScriptedModel:
    """One that delegates, and then answers."""
    delegating = reply(calls=[("delegate", {"kind": "branch", "task": "Look it up."})])
    return callboard.ScriptedModel([delegating, reply("Noon."), reply("It is noon.")])


async def told(daemon: Daemon) -> callboard.Session:
    """A session with a long prompt and a session below it."""
    session = await daemon.runtime.create_session(title="the clock")
    await session.run(LONG)
    return session


async def test_a_session_and_those_below_it_come_back_as_they_were() -> None:
    async with open_daemon(model(), policy="auto") as daemon, open_client(daemon) as client:
        session = await told(daemon)
        file = await client.export_session(session.session_id)
        here = await host_of(daemon.runtime).keeping.export(session.session_id)
        assert len(here[0]) < len(file)
        assert file.splitlines(keepends=True)[1:] == here[1:]
        new_id = await client.import_session(file)
        first = await client.session(session.session_id)
        again = await client.session(new_id)
        assert (again.title, again.is_tainted) == (first.title, True)
        assert again.workspace != first.workspace  # a new folder of the daemon's
        (child,) = await daemon.runtime.store.children(new_id)
        assert child.parent_id == new_id
        assert (await client.messages(new_id))[0].content == LONG


class Interrupting:
    """A client, before whose second page something happens."""

    def __init__(self, client: Any, session: callboard.Session) -> None:
        self._client = client
        self._session = session
        self.pages = 0

    async def request(
        self, method: str, params: Any, result: Any, *, key: str | None = None
    ) -> Any:
        self.pages += 1
        if self.pages == 2:
            await self._session.rename("another title")
        return await self._client.request(method, params, result, key=key)


async def test_what_happens_during_an_export_is_not_in_the_file() -> None:
    async with open_daemon(model(), policy="auto") as daemon, open_client(daemon) as client:
        session = await told(daemon)
        before = await host_of(daemon.runtime).keeping.export(session.session_id)
        slow = Interrupting(client, session)
        file = await fetch_file(slow, session.session_id)
        assert slow.pages > 3
        assert file.splitlines(keepends=True)[1:] == before[1:]
        assert (await client.session(session.session_id)).title == "another title"
        assert await client.import_session(file)


@pytest.mark.parametrize(("after_seq", "offset"), [(0, 10**9), (0, -1), (-5, 0)])
async def test_a_place_that_is_no_end_of_a_page_is_refused(after_seq: int, offset: int) -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        session_id = (await daemon.runtime.create_session()).session_id
        wrong = ExportSession(session_id=session_id, after_seq=after_seq, offset=offset)
        with pytest.raises(ConflictError, match="export it again"):
            await client.request("session/export", wrong, ExportedPage)
        none = ExportSession(session_id="session_none")
        with pytest.raises(NotFoundError):
            await client.request("session/export", none, ExportedPage)


async def test_a_file_that_is_wrong_stores_nothing(tmp_path: Path) -> None:
    async with (
        open_daemon(settings=ServerSettings(port=0, roots=(str(tmp_path),))) as daemon,
        open_client(daemon) as client,
    ):
        session = await daemon.runtime.create_session()
        file = await client.export_session(session.session_id)
        for bad, match in ((file[:-9], "no event"), (b"", "no head"), (b"\xff", "UTF-8")):
            with pytest.raises(ValidationError, match=match):
                await client.import_session(bad)
        with pytest.raises(ValidationError, match="below a root"):
            await client.import_session(file, workspace="/etc")
        assert len(await client.sessions()) == 1
        new_id = await client.import_session(file, workspace=str(tmp_path))
        assert (await client.session(new_id)).workspace == str(tmp_path)


@pytest.mark.parametrize("limits", [{"agents": ("general",)}, {"sessions": True}])
async def test_a_limited_token_exports_and_imports_nothing(limits: dict[str, Any]) -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        session_id = (await daemon.runtime.create_session()).session_id
        file = await client.export_session(session_id)
        if "sessions" in limits:
            limits = {"sessions": (session_id,)}
        token = daemon.new_token("part", Role.OPERATOR, **limits)
        async with open_client(daemon, token) as part:
            assert (await part.session(session_id)).session_id == session_id
            with pytest.raises(AuthError, match="limited"):
                await part.export_session(session_id)
            with pytest.raises(AuthError, match="limited"):
                await part.import_session(file)
        whole = daemon.new_token("whole", Role.OPERATOR)
        async with open_client(daemon, whole) as other:
            assert await other.import_session(await other.export_session(session_id))


# ── parts ────────────────────────────────────────────────────────────────────────────────────────


def part(number: int, upload_id: str = "u", *, is_last: bool = False) -> ImportSessions:
    return ImportSessions(upload_id=upload_id, part=number, text="ä", is_last=is_last)


async def refusal(client: Any, params: msgspec.Struct) -> CallboardError:
    with pytest.raises(CallboardError) as raised:
        await client.request("session/import", params, ImportedSessions)
    return raised.value


async def test_parts_come_in_order_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:

        async def send(params: ImportSessions, key: str | None = None) -> int:
            answer = await client.request("session/import", params, ImportedSessions, key=key)
            return answer.received_bytes

        assert isinstance(await refusal(client, part(1)), ConflictError)
        assert [await send(part(0)), await send(part(1))] == [2, 4]
        assert [await send(part(2), "k"), await send(part(2), "k")] == [6, 6]  # sent twice
        assert isinstance(await refusal(client, part(2)), ConflictError)
        assert isinstance(await refusal(client, part(3)), ConflictError)  # what there was is void
        assert await send(part(0, "a")) == 2
        assert isinstance(await refusal(client, part(0, "b")), OverloadedError)  # one of a token
        other, third = (daemon.new_token(name, Role.OPERATOR) for name in ("other", "third"))
        async with open_client(daemon, other) as stranger, open_client(daemon, third) as late:
            assert isinstance(await refusal(stranger, part(1, "a")), ConflictError)
            await stranger.request("session/import", part(0, "b"), ImportedSessions)
            assert isinstance(await refusal(late, part(0, "c")), OverloadedError)
        monkeypatch.setattr(uploads, "MAX_UPLOAD_BYTES", 3)
        assert isinstance(await refusal(client, part(1, "a")), ValidationError)
        monkeypatch.setattr(uploads, "IDLE_SECONDS", 0.0)
        await trio.sleep(0.002)
        assert await send(part(0, "c")) == 2  # in the place of one that was given up
        assert isinstance(await refusal(client, part(1, "a")), ConflictError)
