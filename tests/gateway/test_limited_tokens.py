"""A token with limits does nothing, and hears nothing, that reaches beyond them."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import callboard
from callboard.embedding.runtime import host_of
from callboard.runtime.store.rows import SessionRow
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, RawClient, open_daemon, open_greeted, open_raw

INVALID_PARAMS, NOT_AUTHORIZED, NOT_FOUND = -32602, -32002, -32003

DELETE = callboard.reply(calls=[("delete_file", {"path": "old.txt"})])
WRITE = callboard.reply(calls=[("write_file", {"path": "new.txt", "content": "hi"})])


async def begun(raw: RawClient, **params: str) -> str:
    answer = await raw.call("session/new", **params)
    session_id: str = answer["result"]["session_id"]
    return session_id


async def asked(daemon: Daemon, session_id: str) -> str:
    """The question of a session, once it is asked."""
    store = daemon.runtime.store
    with trio.fail_after(20):
        # ruff: ignore[async-busy-wait] nothing tells of it
        while not (rows := await store.approvals(session_id=session_id, state="waiting")):  # noqa: ASYNC110
            await trio.sleep(0.01)
    return rows[0].approval_id


async def test_an_answer_of_a_limited_token_is_for_what_it_sees_alone() -> None:
    model = callboard.ScriptedModel([DELETE, callboard.reply("a"), DELETE, callboard.reply("b")])
    async with open_daemon(model) as daemon, open_greeted(daemon) as whole:
        session_id = await begun(whole)
        token = daemon.new_token("one", Role.APPROVER, sessions=(session_id,))
        async with open_greeted(daemon, token) as one:
            await whole.call("session/prompt", session_id=session_id, content="Delete.")
            question = await asked(daemon, session_id)
            shown = (await one.call("approval/get", approval_id=question))["result"]
            assert set(shown["scopes"]) <= {"call", "turn", "session"}
            for scope in ("agent", "always"):
                refused = await one.call(
                    "approval/resolve",
                    approval_id=question,
                    decision="allow",
                    remember={"scope": scope},
                )
                assert refused["error"]["code"] == NOT_AUTHORIZED
            assert (await whole.call("grant/list"))["result"]["grants"] == []
            taken = await one.call(
                "approval/resolve",
                approval_id=question,
                decision="allow",
                remember={"scope": "session"},
            )
            assert "result" in taken


async def test_ids_of_others_are_as_good_as_none() -> None:
    model = callboard.ScriptedModel([DELETE, callboard.reply("a")])
    async with open_daemon(model) as daemon, open_greeted(daemon) as whole:
        session_id, other_id = await begun(whole), await begun(whole)
        token = daemon.new_token("other", Role.APPROVER, sessions=(other_id,))
        await whole.call("session/prompt", session_id=session_id, content="Delete.")
        question = await asked(daemon, session_id)
        await whole.call(
            "approval/resolve",
            approval_id=question,
            decision="allow",
            remember={"scope": "session"},
        )
        (grant,) = (await whole.call("grant/list"))["result"]["grants"]
        async with open_greeted(daemon, token) as other:
            for name in (grant["grant_id"], "grant_none"):
                refused = (await other.call("grant/revoke", grant_id=name))["error"]
                assert refused["message"] == f"there is no grant {name}"
            # Those of others take no place on a page.
            page = await other.call("approval/list", state=None, limit=1)
            assert page["result"]["approvals"] == []
        assert "result" in await whole.call("grant/revoke", grant_id=grant["grant_id"])


async def test_the_folder_of_a_session_is_not_of_others_who_can_not_see_it() -> None:
    agents = [callboard.Agent(name=name) for name in ("general", "other")]
    async with open_daemon(agents=agents) as daemon, open_greeted(daemon) as whole:
        row = (await whole.call("session/new"))["result"]
        token = daemon.new_token("part", Role.OPERATOR, agents=("other",))
        async with open_greeted(daemon, token) as part:
            params = {"agent": "other", "workspace": row["workspace"]}
            refused = (await part.call("session/new", **params))["error"]
            assert refused["code"] == INVALID_PARAMS
            assert "not the folder of a session that this token is for" in refused["message"]
            own = (await part.call("session/new", agent="other"))["result"]
            again = {"agent": "other", "workspace": own["workspace"]}
            assert "result" in await part.call("session/new", **again)  # the control
        assert "result" in await whole.call("session/new", workspace=row["workspace"])


async def test_memories_of_others_take_no_place_and_are_not_added_to() -> None:
    agents = [callboard.Agent(name="other")]
    async with open_daemon(agents=agents) as daemon, open_greeted(daemon) as whole:
        own, other = await begun(whole), await begun(whole, agent="other")
        await whole.call("memory/store", session_id=own, text="An apple of its own.")
        for number in range(3):
            await whole.call("memory/store", session_id=other, text=f"The apple {number}.")
        by_agent = daemon.new_token("by-agent", Role.OPERATOR, agents=("general",))
        async with open_greeted(daemon, by_agent) as limited:
            for method, params in (
                ("memory/list", {"limit": 1}),
                ("memory/search", {"query": "apple", "limit": 1}),
            ):
                (memory,) = (await limited.call(method, **params))["result"]["memories"]
                assert memory["text"] == "An apple of its own."
            found = await limited.call("memory/search", query="apple", agent="other")
            assert found["result"]["memories"] == []
        by_session = daemon.new_token("by-session", Role.OPERATOR, sessions=(own,))
        async with open_greeted(daemon, by_session) as limited:
            refused = await limited.call("memory/store", session_id=own, text="For all of them.")
            assert "for certain sessions" in refused["error"]["message"]


async def test_a_session_that_gets_another_agent_is_heard_no_more() -> None:
    model = callboard.ScriptedModel([callboard.reply("One."), callboard.reply("Two.")])
    agents = [callboard.Agent(name="other")]
    async with open_daemon(model, agents=agents) as daemon, open_greeted(daemon) as whole:
        session_id = await begun(whole)
        token = daemon.new_token("limited", Role.OBSERVER, agents=("general",))
        async with open_greeted(daemon, token) as limited:
            for raw in (limited, whole):
                await raw.call("session/subscribe", session_id=session_id)
            await whole.call("session/set_agent", session_ids=[session_id], agent="other")
            await whole.call("session/prompt", session_id=session_id, content="Between us.")
            heard = limited.heard
            with trio.fail_after(20):  # noqa: ASYNC912
                while not heard or heard[-1]["method"] != "session/lost":
                    heard.append(await limited.receive())
                frames = whole.heard
                while frames[-1]["params"].get("event", {}).get("type") != "turn_ended":
                    frames.append(await whole.receive())
            assert heard[-1]["params"]["error"]["code"] == NOT_FOUND
            await limited.call("session/list")
            assert all("agent_switched" not in str(f) and "Between" not in str(f) for f in heard)


async def test_other_arguments_are_shown_to_approvers_alone(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("canary")
    model = callboard.ScriptedModel([WRITE, callboard.reply("a")])
    async with (
        open_daemon(model, policy="strict", workspace=tmp_path) as daemon,
        open_greeted(daemon) as whole,
    ):
        session = await daemon.runtime.create_session()
        await whole.call("session/prompt", session_id=session.session_id, content="Write.")
        question = await asked(daemon, session.session_id)
        other = '{"path": "secret.txt", "content": "x"}'
        for role, is_shown in ((Role.OBSERVER, False), (Role.APPROVER, True)):
            async with open_greeted(daemon, daemon.new_token(role.value, role)) as raw:
                shown = (await raw.call("approval/get", approval_id=question))["result"]
                assert "content" in shown["parameters"]["properties"]
                answer = await raw.call("approval/get", approval_id=question, arguments=other)
                assert ("canary" in str(answer)) is is_shown
                assert is_shown or answer["error"]["code"] == NOT_AUTHORIZED
                assert not is_shown or answer["result"]["parameters"] is None  # it has it already
        wrong = await whole.call("approval/get", approval_id=question, arguments='{"path": 5}')
        assert wrong["error"]["data"]["field"] == "arguments.path"


async def test_a_question_says_which_calls_a_remembered_answer_would_be_about() -> None:
    model = callboard.ScriptedModel([WRITE, callboard.reply("a")])
    async with open_daemon(model, policy="strict") as daemon, open_greeted(daemon) as whole:
        session_id = await begun(whole)
        await whole.call("session/prompt", session_id=session_id, content="Write.")
        question = await asked(daemon, session_id)
        said = (await whole.call("approval/get", approval_id=question))["result"]
        taken = await whole.call(
            "approval/resolve",
            approval_id=question,
            decision="allow",
            remember={"scope": "session"},
        )
        assert "result" in taken
        (grant,) = (await whole.call("grant/list"))["result"]["grants"]
        assert said["covers"]["paths"]
        assert said["covers"] == grant["binding"]


async def test_an_agent_that_changes_between_the_look_and_the_page_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_daemon(agents=[callboard.Agent(name="other")]) as daemon:
        session = await daemon.runtime.create_session()
        session_id = session.session_id
        token = daemon.new_token("limited", Role.OBSERVER, agents=("general",))
        store = daemon.runtime.store
        read, feeds = store.session, daemon.gateway.daemon.feeds
        is_switching = False

        async def read_late(wanted: str) -> SessionRow | None:
            nonlocal is_switching
            row = await read(wanted)
            if is_switching and row is not None:
                is_switching = False
                keeping = host_of(daemon.runtime).keeping
                await keeping.set_agent([wanted], "other")
                await keeping.rename(wanted, "Between us.")
                feed, _ = feeds._feeds[wanted]
                with trio.fail_after(20):  # noqa: ASYNC912
                    while feed.head_seq < row.head_seq + 2:  # noqa: ASYNC110  nothing tells of it
                        await trio.sleep(0.001)
            return row

        async with open_raw(daemon, token) as limited, open_raw(daemon) as whole:
            for raw in (limited, whole):
                await raw.hello()
            await whole.call("session/subscribe", session_id=session_id, after_seq=0)
            await limited.call("session/subscribe", session_id=session_id, after_seq=0)
            while not any(each["method"] == "session/snapshot" for each in limited.heard):
                limited.heard.append(await limited.receive())
            is_switching = True
            monkeypatch.setattr(store, "session", read_late)
            feed, _ = feeds._feeds[session_id]
            for subscriber in list(feed._subscribers):
                subscriber.fall_behind()  # as when its client reads too slowly
            with trio.fail_after(20):  # noqa: ASYNC912
                while limited.heard[-1]["method"] != "session/lost":
                    limited.heard.append(await limited.receive())
                while "Between" not in str(whole.heard):
                    whole.heard.append(await whole.receive())
        assert "Between" not in str(limited.heard)
        assert "session_created" in str(limited.heard)
