"""The parts of `callboard acp` that need no process: updates, prompts, lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import trio
import trio.testing

from callboard.cli.acp import content as content_module
from callboard.cli.acp import wire
from callboard.cli.acp.calls import MAX_SHOWN_CHARS, fenced, file_of_uri, shown_call
from callboard.cli.acp.connection import (
    AnsweredRequest,
    EditorConnection,
    EditorRefused,
    EditorRequest,
)
from callboard.cli.acp.content import read_prompt, trace_of
from callboard.cli.acp.questions import EditorChannel
from callboard.cli.acp.run import plain_arguments
from callboard.cli.acp.updates import Updates
from callboard.cli.app import complete_parser
from callboard.cli.terminal.output import Output
from callboard.client.client import Client
from callboard.runtime.approval import ApprovalRequest
from callboard.runtime.channel import UserQuestion
from callboard.runtime.definitions import CallStatus, Tier
from callboard.runtime.event_types.people import FormField, QuestionForm
from callboard.runtime.events import (
    CallFinished,
    CallProgress,
    CallProposed,
    MessageDiscarded,
    Stored,
    StreamBatch,
)
from callboard.runtime.stream import TextDelta, ThinkingDelta
from support.acp.editor import chosen, validator
from support.waits import until


class Heard(Output):
    """Output that keeps what was written."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.lines: list[dict[str, Any]] = []

    def write(self, text: str) -> None:
        self.lines += [json.loads(line) for line in text.splitlines()]


def proposed(name: str, arguments: str) -> Stored:
    event = CallProposed(
        turn_id="t", message_id="m", call_id="c", index=0, name=name, arguments=arguments
    )
    return Stored("s", 1, 0, event)


def live(*pieces: TextDelta | ThinkingDelta) -> StreamBatch:
    return StreamBatch(stream_id="s", offset=0, events=list(pieces))


async def test_one_batch_is_one_chunk_and_withdrawn_text_is_another_message(tmp_path: Path) -> None:
    updates = Updates(tmp_path, set(), is_replay=False)
    [first] = await updates.take(live(TextDelta("a"), TextDelta("b")))
    [withdrawn] = await updates.take(MessageDiscarded("s", "again"))
    thought, second = await updates.take(live(ThinkingDelta("Hm"), TextDelta("c")))
    for update in (first, withdrawn, thought, second):
        shown = wire.SessionNotification(session_id="s", update=update)
        validator("SessionNotification").validate(json.loads(msgspec.json.encode(shown)))
    said = [json.loads(msgspec.json.encode(each)) for each in (first, withdrawn, second)]
    assert [each["content"]["text"].strip() for each in said] == ["ab", "(withdrawn)", "c"]
    ids = [each["messageId"] for each in said]
    assert ids[0] == ids[1] != ids[2]


async def test_the_output_of_a_call_costs_a_few_times_its_size(tmp_path: Path) -> None:
    updates = Updates(tmp_path, set(), is_replay=False)
    await updates.take(proposed("shell", '{"command": "make"}'))
    line, sent, last = "x" * 99, 0, ""
    for _ in range(2_000):
        for update in await updates.take(CallProgress("c", line)):
            last = json.loads(msgspec.json.encode(update))["content"][0]["content"]["text"]
            sent += len(last)
    assert 0 < len(last) <= MAX_SHOWN_CHARS + 20
    assert sent < 12 * 2_000 * 100


def test_a_call_names_files_of_the_workspace_and_reads_no_others(tmp_path: Path) -> None:
    work, secret = tmp_path / "work", tmp_path / "secret.txt"
    work.mkdir()
    secret.write_text("secret")
    (work / "link.txt").symlink_to(secret)
    (work / "own.txt").write_text("own")
    for name, old in (("own.txt", "own"), ("link.txt", None), ("../secret.txt", None)):
        arguments = json.dumps({"path": name, "content": "new"})
        [diff] = shown_call("write_file", arguments, work, reads=work).content
        assert isinstance(diff, wire.ToolCallContentDiff)
        assert diff.old_text == old
    assert not shown_call("read_file", '{"path": "artifact:c"}', work).locations
    for broken in ("no json", "[1]", '{"path": 1}', '{"path": "a\\u0000b"}', "{}"):
        assert shown_call("write_file", broken, work, reads=work).content == ()


@pytest.mark.parametrize(
    ("arguments", "raw", "new"),
    [
        ('{"content":"new","path":"a.txt"}', None, "new"),
        (
            '{"content":"other","mode":"append","path":"a.txt"}',
            {"content": "other", "mode": "append", "path": "a.txt"},
            "oldother",
        ),
    ],
    ids=["as proposed", "changed"],
)
async def test_a_call_that_has_run_is_shown_with_the_arguments_with_which_it_ran(
    tmp_path: Path, arguments: str, raw: dict[str, Any] | None, new: str
) -> None:
    (tmp_path / "a.txt").write_text("old")
    updates = Updates(tmp_path, set(), is_replay=False)
    await updates.take(proposed("write_file", '{"path": "a.txt", "content": "new"}'))
    (tmp_path / "a.txt").write_text(new)
    ran = CallFinished(
        turn_id="t",
        call_id="c",
        name="write_file",
        status=CallStatus.SUCCESS,
        result="{}",
        arguments=arguments,
    )
    [update] = await updates.take(Stored("s", 2, 0, ran))
    shown = json.loads(msgspec.json.encode(update))
    assert shown.get("rawInput") == raw
    path = str(tmp_path / "a.txt")
    assert shown["content"] == [{"type": "diff", "path": path, "oldText": "old", "newText": new}]


def test_nothing_in_a_text_closes_its_block() -> None:
    text = "```\n# Allowed\n````"
    block = fenced(text)
    assert block.splitlines()[0] == block.splitlines()[-1] == "`````"


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a%20b", "/a b"),
        ("file://localhost/a", "/a"),
        ("file://elsewhere/a", None),
        ("https://a/b", None),
        ("file:relative", None),
        ("file:///a%00b", None),
        ("file://[", None),
    ],
)
def test_files_have_uris(uri: str, path: str | None) -> None:
    assert file_of_uri(uri) == (None if path is None else Path(path))


def test_a_text_that_is_not_on_the_disk_is_attached(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    uri = (tmp_path / "a.txt").as_uri()
    for text, of, is_attached in (
        ("old", uri, False),
        ("new", uri, True),
        ("old", f"{uri}#L1", True),
        ("old", "https://example.org/a.txt", True),
    ):
        resource = wire.EmbeddedResourceResource(uri=of, text=text)
        prompt = read_prompt([wire.ContentBlockResource(resource=resource)], tmp_path, {})
        assert bool(prompt.attachments) is is_attached


@pytest.mark.parametrize("is_linked", [True, False])
@pytest.mark.parametrize(
    ("text", "is_attached"), [("new", True), ("longer", False), ("äää", False)]
)
def test_a_file_that_is_too_long_to_send_along_is_read_from_the_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    *,
    is_attached: bool,
    is_linked: bool,
) -> None:
    monkeypatch.setattr(content_module, "MAX_FILE_BYTES", 5)
    (tmp_path / "a.txt").write_text("longer")
    uri = (tmp_path / "a.txt").as_uri()
    resource = wire.EmbeddedResourceResource(uri=uri, text=text)
    link = wire.ContentBlockResourceLink(uri=uri, name="a.txt")
    block = link if is_linked else wire.ContentBlockResource(resource=resource)
    prompt = read_prompt([block], tmp_path, {uri: text} if is_linked else {})
    assert prompt.text == "a.txt "
    assert [each.data.decode() for each in prompt.attachments] == [text] * is_attached


def test_what_is_no_place_in_a_trace_is_left_out() -> None:
    for meta in (b"null", b'{"traceparent": 1}', b"[]", b'{"other": "x"}'):
        assert trace_of(msgspec.Raw(meta)) is None


async def test_a_crash_is_the_error_of_one_request() -> None:
    async def crash(request: EditorRequest) -> AnsweredRequest:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("a bug")

    async def work(request: EditorRequest) -> AnsweredRequest:
        await trio.lowlevel.checkpoint()
        return AnsweredRequest()

    heard, (near, far) = Heard(), trio.testing.memory_stream_one_way_pair()
    async with trio.open_nursery() as nursery:
        connection = EditorConnection(heard, nursery)
        connection.methods = {"crash": crash, "work": work}
        lines = [{"jsonrpc": "2.0", "id": name, "method": name} for name in ("crash", "work")]
        await near.send_all(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        await near.aclose()
        await connection.run(far)
    answers = {line["id"]: line for line in heard.lines}
    assert answers["crash"]["error"]["code"] == -32603
    assert answers["work"]["result"] == {}


async def answered_in_two(line: bytes, cut: int) -> object:
    """What the editor's answer is, when its line comes in two pieces behind an empty one."""
    heard, (near, far) = Heard(), trio.testing.memory_stream_one_way_pair()
    found: list[wire.ReadTextFileResponse | EditorRefused] = []

    async def ask(connection: EditorConnection) -> None:
        asked = wire.ReadTextFileRequest(session_id="s", path="/a")
        decoder = msgspec.json.Decoder(wire.ReadTextFileResponse)
        answer = await connection.ask("fs/read_text_file", asked, decoder)
        found.append(answer)

    async with trio.open_nursery() as nursery:
        connection = EditorConnection(heard, nursery)
        nursery.start_soon(connection.run, far)
        nursery.start_soon(ask, connection)
        await until(lambda: heard.lines)  # it is asked
        await near.send_all(b"\n" + line[:cut])
        await near.send_all(line[cut:])
        await near.aclose()
    return found[0]


async def test_lines_are_put_together_wherever_they_were_cut() -> None:
    line = b'{"jsonrpc": "2.0", "id": "callboard-1", "result": {"content": "\xc3\xa9"}}\n'
    for cut in range(1, len(line)):
        assert await answered_in_two(line, cut) == wire.ReadTextFileResponse(content="é")


class Marked:
    """A daemon whose session has read what strangers may have written, or not."""

    is_tainted = False

    async def session(self, session_id: str) -> Marked:
        await trio.lowlevel.checkpoint()
        return self


def asked_about(arguments: str) -> ApprovalRequest:
    return ApprovalRequest(
        approval_id="a",
        session_id="s",
        turn_id="t",
        call_id="c",
        tool="write_file",
        tier=Tier.SYSTEM,
        reason="",
        arguments=arguments,
        digest="",
        expires_at_ms=0,
        scopes=("call", "session"),
    )


@pytest.mark.parametrize(("tainted", "remember"), [(False, "session"), (True, None)])
async def test_always_holds_for_once_when_the_session_was_tainted_meanwhile(
    tainted: bool, remember: str | None
) -> None:
    heard, (near, far) = Heard(), trio.testing.memory_stream_one_way_pair()
    client, found = Marked(), []
    request = asked_about("{}")

    async def ask(channel: EditorChannel) -> None:
        found.append(await channel.approve(request))

    async with trio.open_nursery() as nursery:
        connection = EditorConnection(heard, nursery)
        channel = EditorChannel(
            connection,
            cast("Client", client),
            "s",
            Path("/w"),
            lambda call_id: None,
            lambda: False,
            has_forms=False,
        )
        nursery.start_soon(connection.run, far)
        nursery.start_soon(ask, channel)
        await until(lambda: heard.lines)  # it is asked, and "always" is offered
        client.is_tainted = tainted
        answer = chosen("allow_session") | {"jsonrpc": "2.0", "id": heard.lines[0]["id"]}
        await near.send_all(json.dumps(answer).encode() + b"\n")
        await near.aclose()
    kinds = [option["kind"] for option in heard.lines[0]["params"]["options"]]
    assert kinds == ["reject_once", "allow_once", "allow_always"]
    assert (found[0].decision, found[0].remember) == ("allow", remember)


@pytest.mark.parametrize(
    ("path", "new"), [("a.txt", "new"), ("b.txt", "other")], ids=["first", "changed"]
)
async def test_a_second_question_about_a_call_shows_what_it_is_about(
    tmp_path: Path, path: str, new: str
) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"old {name}")
    updates = Updates(tmp_path, set(), is_replay=False)
    await updates.take(proposed("write_file", '{"path": "a.txt", "content": "new"}'))
    arguments = {"content": new, "path": path}
    request = asked_about(json.dumps(arguments, separators=(",", ":")))
    heard, (near, far) = Heard(), trio.testing.memory_stream_one_way_pair()
    async with trio.open_nursery() as nursery:
        connection = EditorConnection(heard, nursery)
        client = cast("Client", Marked())
        channel = EditorChannel(
            connection, client, "s", tmp_path, updates.shown, lambda: False, has_forms=False
        )
        nursery.start_soon(connection.run, far)
        nursery.start_soon(channel.approve, request)
        await until(lambda: heard.lines)
        answer = chosen("deny") | {"jsonrpc": "2.0", "id": heard.lines[0]["id"]}
        await near.send_all(json.dumps(answer).encode() + b"\n")
        await near.aclose()
    call = heard.lines[0]["params"]["toolCall"]
    assert (call["title"], call["rawInput"]) == (f"write_file {path}", arguments)
    assert call["locations"] == [{"path": str(tmp_path / path)}]
    diff = {"type": "diff", "path": str(tmp_path / path)}
    assert call["content"][0] == {**diff, "oldText": f"old {path}", "newText": new}


PLAIN: tuple[tuple[str, ...], ...] = (
    (),
    ("--agent", "coder"),
    ("--data", "~/d d", "--agent", "a\tb"),
    ("--config", "./x/../c.toml", "--data", "0", "--agent", "True"),
)


@pytest.mark.parametrize("tokens", PLAIN)
def test_a_plain_command_line_is_read_as_the_parser_reads_it(tokens: tuple[str, ...]) -> None:
    _, bound, _ = complete_parser().parse_args(
        ["acp", *tokens], print_error=False, exit_on_error=False
    )
    read = {f"--{name}": str(value) for name, value in bound.arguments.items()}
    found = plain_arguments(tokens)
    assert found is not None
    assert read == {
        name: str(Path(text)) if name != "--agent" else text for name, text in found.items()
    }


@pytest.mark.parametrize(
    "line",
    [
        *(
            "--help",
            "-h",
            "--version",
            "--login",
            "coder",
            "--agent",
            "--agent coder more",
            "--agnet x",
        ),
        *("--agent=coder", "--agent --login", "--agent a --agent b", "--data none", "--data NULL"),
    ],
)
def test_any_other_command_line_is_the_parsers(line: str) -> None:
    assert plain_arguments(line.split()) is None
    assert plain_arguments(["--agent", ""]) is None


CLOSED = {"result": {"outcome": {"outcome": "cancelled"}}}
NOT_ASKED = {"error": {"code": -32800, "message": "cancelled"}}
NOT_FILLED_IN = {"result": {"action": "cancel"}}
QUESTION = UserQuestion(
    question_id="q", session_id="s", turn_id="t", call_id="c", question="Which?"
)
FORM = QuestionForm(fields=(FormField(name="door", title="Door"),))


@pytest.mark.parametrize("is_ending", [True, False])
@pytest.mark.parametrize(
    ("asked", "answer", "taken_for"),
    [
        (None, CLOSED, "deny"),
        (None, NOT_ASKED, "deny"),
        (QUESTION, NOT_FILLED_IN, "(The person closed the question without an answer.)"),
        (msgspec.structs.replace(QUESTION, options=("yes", "no"), form=FORM), NOT_FILLED_IN, 1),
    ],
    ids=["a call", "a call, refused", "a model's", "a server's"],
)
async def test_a_question_that_a_cancel_closes_is_no_answer_and_one_that_is_closed_alone_is_a_no(
    asked: UserQuestion | None, answer: dict[str, Any], taken_for: str | int, *, is_ending: bool
) -> None:
    heard, (near, far) = Heard(), trio.testing.memory_stream_one_way_pair()
    found = list[str | int | None]()
    async with trio.open_nursery() as nursery:
        connection = EditorConnection(heard, nursery)
        client = cast("Client", Marked())
        channel = EditorChannel(
            connection,
            client,
            "s",
            Path("/w"),
            lambda call_id: None,
            lambda: is_ending,
            has_forms=True,
        )

        async def ask() -> None:
            if asked is None:
                found.append((await channel.approve(asked_about("{}"))).decision)
            else:
                said = await channel.ask(asked)
                found.append(said.text or said.option)

        nursery.start_soon(connection.run, far)
        nursery.start_soon(ask)
        await until(lambda: heard.lines)
        said = answer | {"jsonrpc": "2.0", "id": heard.lines[0]["id"]}
        await near.send_all(json.dumps(said).encode() + b"\n")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert found == ([] if is_ending else [taken_for])
