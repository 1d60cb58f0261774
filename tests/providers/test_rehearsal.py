"""The rehearsal model asks for the right calls in 200 and more phrasings, and fails in no other way
than by saying so: nothing is changed that was not asked for, and any text and any result end in an
answer."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard.providers.provider import LocalModel, ModelRequest
from callboard.providers.rehearsal.model import RehearsalModel
from callboard.providers.rehearsal.places import zone_of
from callboard.runtime.definitions import ToolDefinition
from callboard.runtime.history import Answer, Call, Input, Item, Result, Round, Text
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)

TOOLS = (
    "get_current_time", "list_directory", "read_file", "write_file", "edit_file", "move_file",
    "delete_file", "search_files", "web_fetch", "web_search",
)  # fmt: skip
FILES = {"a.txt": "old one\nold two\n", "b.txt": "B", "docs/plan.md": "the plan", "c.ini": "port"}


class Conversation:
    """Runs turns as the runtime does: answer, calls, results, until an answer without calls.

    `files` are in memory; what else the tools return is made up. `results` answer every call
    instead, and calls of a tool in `denied` are refused.
    """

    def __init__(
        self, *, tools: Sequence[str] = TOOLS, denied: str = "", results: str | None = None
    ) -> None:
        self.files = dict(FILES)
        self.items: list[Item] = []
        self.rounds: list[list[tuple[str, dict[str, Any]]]] = []
        self.answers: list[str] = []
        self.pieces: list[str] = []
        self._tools = tools
        self._denied = denied
        self._results = results

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return [call for calls in self.rounds for call in calls]

    async def say(self, text: str) -> str:
        self.items.append(Input(text))
        self.rounds, self.answers = [], []
        for _ in range(80):
            answer = await self.answer()
            self.items.append(answer)
            self.answers.append(answer.text)
            if not answer.calls:
                return answer.text
            self.rounds.append([(c.name, json.loads(c.arguments)) for c in answer.calls])
            for call in answer.calls:
                content = self._results
                if content is None:
                    content = json.dumps(self._run(call.name, json.loads(call.arguments)))
                self.items.append(
                    Result(call.call_id, call.name, content, is_error='"error_type"' in content)
                )
        raise AssertionError(f"no end: {text!r}")

    def _run(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        path = arguments.get("path") or arguments.get("from", "")
        if tool == self._denied:
            return {"status": "error", "error_type": "permission_denied", "message": "Ann said no."}
        if tool in {"read_file", "move_file", "delete_file"} and path not in self.files:
            return {"status": "error", "error_type": "file_not_found", "message": f"No {path}."}
        result: Any = {}
        match tool:
            case "get_current_time":
                result = time_in(arguments.get("timezone", "UTC"))
            case "list_directory":
                result = {"entries": [{"name": "old.txt", "type": "file"}]}
            case "read_file":
                result = {"content": self.files[path]}
            case "write_file":
                before = self.files.get(path, "") if arguments.get("mode") == "append" else ""
                self.files[path] = before + arguments["content"]
                result = {"bytes_written": len(arguments["content"])}
            case "move_file":
                self.files[arguments["to"]] = self.files.pop(path)
            case "delete_file":
                del self.files[path]
            case "web_fetch":
                result = {"text": "All is well."}
        return {"status": "success", "result": result}

    async def answer(self) -> Answer:
        events: list[AnyStreamEvent] = []

        async def emit(batch: list[AnyStreamEvent]) -> None:
            events.extend(batch)
            await trio.lowlevel.checkpoint()

        tools = tuple(ToolDefinition(name=n, description=n, parameters={}) for n in self._tools)
        request = ModelRequest(model="rehearsal", rounds=[Round(self.items)], tools=tools)
        await RehearsalModel().run(request, emit)
        self.pieces += [event.text for event in events if isinstance(event, TextDelta)]
        return assembled(events)


def assembled(events: Sequence[AnyStreamEvent]) -> Answer:
    """Make an answer of events, and check the order that every answer keeps."""
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    rest = [event for event in events if not isinstance(event, TextDelta)]
    calls: list[Call] = []
    for index in range(0, len(rest) - 1, 3):
        start, delta, end = rest[index : index + 3]
        assert isinstance(start, ToolCallStart)
        assert isinstance(delta, ToolCallDelta)
        assert start.index == delta.index == len(calls)
        assert end == ToolCallEnd(start.index)
        calls.append(Call(start.call_id, start.name, delta.arguments))
    assert len({call.call_id for call in calls}) == len(calls)
    assert events[-1] == Done(StopReason.TOOL_CALLS if calls else StopReason.END)
    return Answer((Text(text), *calls))


def time_in(zone: str) -> str:
    return f"2026-03-14T15:09:26 in {zone}"


# Calls as the table writes them.


def clock(zone: str, **more: str) -> tuple[str, dict[str, Any]]:
    return ("get_current_time", {"timezone": zone} | more)


def listing(path: str = ".", **more: Any) -> tuple[str, dict[str, Any]]:
    return ("list_directory", {"path": path} | more)


def read(path: str) -> tuple[str, dict[str, Any]]:
    return ("read_file", {"path": path})


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return ("write_file", {"path": path, "content": content})


def append(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return ("write_file", {"path": path, "mode": "append", "content": content})


def edit(path: str, old: str, new: str, **more: int) -> tuple[str, dict[str, Any]]:
    return ("edit_file", {"path": path, "edits": [{"old_text": old, "new_text": new} | more]})


def search(pattern: str, **more: str) -> tuple[str, dict[str, Any]]:
    return ("search_files", {"pattern": pattern} | more)


def move(source: str, target: str) -> tuple[str, dict[str, Any]]:
    return ("move_file", {"from": source, "to": target})


def delete(path: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return ("delete_file", {"path": path} | more)


def fetch(url: str) -> tuple[str, dict[str, Any]]:
    return ("web_fetch", {"url": url})


TOKYO, SEOUL = clock("Asia/Tokyo"), clock("Asia/Seoul")
IN_TOKYO, IN_SEOUL = time_in("Asia/Tokyo"), time_in("Asia/Seoul")

# Each group: the calls, and one phrasing a line, whose `|` stands for a line break.
PHRASINGS: list[tuple[list[tuple[str, dict[str, Any]]], str]] = [
    ([TOKYO], """
        What time is it in Tokyo?
        what's the time in Tokyo
        Could you please tell me the current time in Tokyo?
        time in Tokyo please
        Hi! Do you know what time it is in Tokyo right now?
        Show me the local time for Tokyo.
        I need the time in Tokyo
        How late is it in Tokyo?
        In Tokyo, what time is it?
        check the clock in Tokyo
        current time Tokyo
        TIME IN TOKYO?
        find the time in Tokyo
        And in Tokyo?
        time in Asia/Tokyo"""),
    ([TOKYO, SEOUL], """
        What time is it in Tokyo and Seoul?
        Give me the time in Tokyo and in Seoul.
        What time is it in Tokyo? And in Seoul?
        compare the time in Tokyo with the time in Seoul
        Tell me what time it is in Tokyo, and also what time it is in Seoul.
        Show me Tokyo's time and Seoul's time
        List the current times in Tokyo and Seoul"""),
    ([("get_current_time", {})], """
        What time is it?
        what's the time
        Tell me the time please"""),
    ([("get_current_time", {"format": "human_readable"})], """
        What day is it today?
        Tell me today's date"""),
    ([clock("America/Los_Angeles")], "what time is it in San Francisco?"),
    ([clock("America/Sao_Paulo")], "What time is it in São Paulo?"),
    ([clock("Europe/Berlin")], "current time in Germany?"),
    ([TOKYO, write("now.txt", IN_TOKYO), read("now.txt")], """
        What time is it in Tokyo? Save it to now.txt and read it back.
        Get the time in Tokyo, write it to now.txt, then show me the file.
        Look up the current time in Tokyo; store it in now.txt; read now.txt.
        Find out what time it is in Tokyo and put it into a file called now.txt. Then print that file.
        Write the time in Tokyo to now.txt and then read it back to me
        Please save the current time in Tokyo as now.txt, and afterwards open it
        1. Check the time in Tokyo|2. Save the result to now.txt|3. Read it back
        I'd like you to record the time in Tokyo in now.txt and read it back.
        Check the clock in Tokyo, save that as now.txt, then open now.txt."""),
    ([TOKYO, write("now.txt", IN_TOKYO)], """
        What time is it in Tokyo? Save it to now.txt.
        Save the time in Tokyo to now.txt.
        Put the current time of Tokyo in now.txt
        Create a file named now.txt with the time in Tokyo
        create now.txt containing the current time in Tokyo
        Get me the time for Tokyo & store that in now.txt, thanks!
        Can you figure out the time in Tokyo and leave it in now.txt?"""),
    ([TOKYO, append("a.txt", IN_TOKYO)], "add the time in Tokyo to a.txt"),
    ([TOKYO, SEOUL, write("t.txt", f"Tokyo: {IN_TOKYO}\nSeoul: {IN_SEOUL}")], """
        What time is it in Tokyo and Seoul? Save both to t.txt.
        Time in Tokyo? And in Seoul? Save them to t.txt
        Get the time in Tokyo and the time in Seoul and write both times to t.txt"""),
    ([TOKYO, SEOUL, write("t.txt", IN_TOKYO), append("t.txt", IN_SEOUL)],
        "Tell me the time in Tokyo, write it to t.txt, and append the time in Seoul to it."),
    ([listing(), TOKYO, write("now.txt", IN_TOKYO)],
        "List the files here and write the time in Tokyo to now.txt."),
    ([listing()], """
        List the files
        List the files here.
        ls
        What files are there?
        show me all files in this folder
        Which files are in the workspace?
        list everything in the current directory, please
        Could you list the contents of this directory?
        What is here?
        show me the files in this workspace
        Can you list the files, please?"""),
    ([listing("docs")], """
        What's in the docs folder?
        How many files are in the docs folder?
        List the files in the docs directory.
        list the files in docs
        ls docs
        Look what's in the docs folder"""),
    ([listing("docs/")], """
        list docs/
        which files are in docs/?
        take a look what files are in docs/"""),
    ([listing(recursive=True)], """
        list all files recursively
        show the directory tree"""),
    ([listing(include_hidden=True)], "list all the files including hidden ones"),
    ([read("a.txt")], """
        Read a.txt
        Read a.txt.
        show me a.txt
        cat a.txt
        What's in a.txt?
        what does a.txt say
        Can you print the contents of a.txt?
        open the file a.txt please
        I want to see what is inside a.txt
        Display "a.txt"
        let me have a look at a.txt
        a.txt
        Give me the content of a.txt
        is there anything in a.txt?
        let me see what's inside a.txt
        Read a.txt!!! Now!!!
        look what is in a.txt
        The file is called a.txt. Read it."""),
    ([read("docs/plan.md")], """
        Open docs/plan.md
        read plan.md in the docs folder
        what does docs/plan.md say?"""),
    ([read("a.txt"), read("b.txt")], """
        Read a.txt and b.txt
        show me the contents of a.txt and of b.txt
        What is in a.txt, and what is in b.txt?
        read a.txt; also read b.txt
        Read a.txt and b.txt at the same time"""),
    ([write("list.txt", "buy milk")], """
        Write 'buy milk' to list.txt.
        Write "buy milk" to list.txt
        write “buy milk” into the file list.txt, please
        Create a file called list.txt with the content "buy milk"
        create list.txt containing "buy milk".
        Save "buy milk" as list.txt
        Make a new file list.txt that says "buy milk"
        Could you put the text "buy milk" in list.txt?
        In list.txt, write "buy milk"
        Store the following in list.txt: "buy milk"
        I want you to create a text file named "list.txt" with "buy milk" in it.
        write to list.txt: "buy milk"
        echo "buy milk" > list.txt
        Would you mind writing `buy milk` to list.txt?
        Write this to list.txt:|buy milk
        Write to list.txt: buy milk
        write buy milk to list.txt
        Write the text buy milk to list.txt
        Please write, in a file named list.txt, "buy milk".
        make me a file list.txt with `buy milk` inside
        Make a todo list in list.txt with: buy milk
        create a list.txt with buy milk"""),
    ([write("list.txt", "buy milk"), read("list.txt")], """
        Write "buy milk" to list.txt and read it back.
        Create list.txt with "buy milk", then show me what is in it.
        Save "buy milk" to list.txt. Then print list.txt.
        First create list.txt with the text "buy milk"; next, read that file
        Put "buy milk" into list.txt and afterwards tell me what the file says
        Create list.txt with:|buy milk||Then read it"""),
    ([write("x.txt", "x")], "Write x to x.txt."),
    ([write("c.txt", "delete a.txt")], """
        Write "delete a.txt" to c.txt
        Write delete a.txt to c.txt"""),
    ([write("c.txt", "first read b.txt, then delete a.txt")],
        "Write to c.txt: first read b.txt, then delete a.txt"),
    ([write("c.txt", "What time is it in Paris?")], 'Write "What time is it in Paris?" to c.txt'),
    ([write("c.txt", "it's five o'clock")], "Save 'it's five o'clock' as c.txt"),
    ([write("my notes.txt", "x")], "save 'x' to 'my notes.txt'"),
    ([write("m.txt", "Meeting at 3pm. Bring snacks")],
        "Write to m.txt: Meeting at 3pm. Bring snacks."),
    ([write("t.txt", "- milk\n- eggs")], "Create t.txt with:|- milk|- eggs|"),
    ([write("docs/x.txt", "x")], "Save 'x' to x.txt in the docs folder"),
    ([write("x.txt", "hello"), write("y.txt", "world")],
        "Write hello to x.txt and world to y.txt"),
    ([write("x.txt", "hello"), write("y.txt", "hello")], "Put hello in x.txt and y.txt"),
    ([write("new.txt", "")], """
        Create an empty file new.txt
        touch new.txt
        make a new file called new.txt"""),
    ([append("b.txt", "more")], """
        Append "more" to b.txt
        Add "more" to the end of b.txt.
        please append the text "more" to the file b.txt
        Add "more" to b.txt
        write "more" at the end of b.txt
        echo "more" >> b.txt
        insert "more" into b.txt
        append more to b.txt"""),
    ([read("b.txt"), append("b.txt", "\nGood night.\n")], """
        Append the line 'Good night.' to b.txt
        add a line saying "Good night." to b.txt
        Add a new line "Good night." at the bottom of b.txt
        add another line saying "Good night." to b.txt"""),
    ([read("a.txt"), append("a.txt", "Good night.\n"), read("a.txt")],
        "Append the line 'Good night.' to a.txt and read it."),
    ([read("a.txt"), edit("a.txt", "old", "new", count=2)], """
        Replace "old" with "new" in a.txt
        In a.txt, replace every "old" with "new".
        change "old" to "new" in a.txt
        substitute "new" for "old" in a.txt
        please swap the word "old" for "new" in the file a.txt
        Edit a.txt: "old" -> "new"
        replace old with new in a.txt
        in a.txt, swap "old" for "new"
        update a.txt: replace "old" with "new"
        Edit a.txt and change 'old' to 'new'
        fix the typo 'old' -> 'new' in a.txt
        replace all occurrences of the word old with new in a.txt"""),
    ([read("a.txt"), read("a.txt"), edit("a.txt", "one", "1")], """
        Open a.txt and change all occurrences of "one" to "1"
        open a.txt, replace one with 1 in it"""),
    ([read("a.txt"), edit("a.txt", " one", "")], "remove ' one' from a.txt"),
    ([read("b.txt"), edit("b.txt", "B", "C"), read("b.txt")],
        "replace B with C in b.txt and show the result"),
    ([search("TODO")], """
        Search for "TODO"
        Which files contain "TODO"?
        look for the text "TODO" in all files
        Where does "TODO" appear?
        search for TODO
        grep TODO
        find "TODO" in the files
        Search my files for TODO"""),
    ([search("TODO", path="a.txt")], """
        find "TODO" in a.txt
        grep "TODO" a.txt
        search a.txt for "TODO"
        Find all lines with "TODO" in a.txt.
        does a.txt contain "TODO"?
        search for TODO in a.txt"""),
    ([search("TODO", path="docs/")], """
        search for "TODO" in docs/
        look up "TODO" in docs/"""),
    ([search(r"a\+b\(1\.5\)")], 'Search for "a+b(1.5)"'),
    ([write("x.txt", "x"), search("x", path="x.txt")], "Write 'x' to x.txt, then search it for x"),
    ([move("a.txt", "x.txt")], """
        move a.txt to x.txt
        mv a.txt x.txt
        Please move the file a.txt to x.txt.
        relocate a.txt to x.txt
        Rename a.txt to x.txt
        change the name of a.txt to x.txt"""),
    ([read("a.txt"), move("a.txt", "x.txt")], "Read a.txt, then rename it to x.txt."),
    ([move("a.txt", "old/a.txt")], """
        move a.txt into old/
        Move a.txt to the old folder"""),
    ([move("a.txt", "old/a.txt"), move("b.txt", "old/b.txt")], "Move a.txt and b.txt into old/"),
    ([move("docs/plan.md", "docs/done.md")], "rename docs/plan.md to done.md"),
    ([read("b.txt"), write("x.txt", "B")], """
        Copy b.txt to x.txt
        make a copy of b.txt called x.txt
        write the contents of b.txt to x.txt
        Read b.txt and save it as x.txt
        cp b.txt x.txt
        copy the contents of b.txt into x.txt"""),
    ([delete("a.txt")], """
        Delete a.txt
        Delete the file a.txt.
        remove the file a.txt
        rm a.txt
        Please get rid of a.txt.
        Could you delete a.txt for me? Thanks!
        Don't touch b.txt, just delete a.txt.
        delete a.txt if it exists"""),
    ([delete("a.txt"), delete("b.txt")], """
        Delete a.txt and b.txt
        remove both a.txt and b.txt
        delete a.txt, then delete b.txt"""),
    ([delete("docs")], "Delete the docs folder"),
    ([delete("build/", recursive=True)], "Throw away build/ and everything in it"),
    ([write("list.txt", "buy milk"), delete("list.txt")],
        "Write 'buy milk' to list.txt, then delete list.txt."),
    ([write("h.txt", "hi"), move("h.txt", "x.txt"), delete("x.txt")],
        'Write "hi" to h.txt. Then rename it to x.txt. Then delete it.'),
    ([fetch("https://example.com/news")], """
        Fetch https://example.com/news
        What does https://example.com/news say?
        Show me https://example.com/news.
        go to https://example.com/news, please"""),
    ([fetch("https://example.com/news"), write("x.txt", "All is well.")], """
        Download https://example.com/news to x.txt
        fetch https://example.com/news and save it to x.txt
        Get https://example.com/news; write the result to x.txt.
        Save the page https://example.com/news as x.txt"""),
    ([fetch("https://example.com")], "visit example.com"),
    ([("web_search", {"query": "trio"})], """
        Search the web for trio
        search the internet for "trio"
        Look for trio on the web"""),
    ([listing(), write("files.txt", "old.txt")], """
        save the list of files to files.txt
        List the files and save the list to files.txt
        List the files here. Save the result to files.txt."""),
    ([TOKYO, read("b.txt"), write("x.txt", "x")], """
        What time is it in Tokyo, what is in b.txt, and write "x" to x.txt.
        Tell me the time in Tokyo. Read b.txt. Also save "x" to x.txt."""),
]  # fmt: skip

CASES = [
    pytest.param(phrasing.strip().replace("|", "\n"), calls, id=phrasing.strip())
    for calls, phrasings in PHRASINGS
    for phrasing in phrasings.strip().splitlines()
]


def test_there_are_at_least_two_hundred_phrasings() -> None:
    assert len({case.values[0] for case in CASES}) >= 200


@pytest.mark.parametrize(("text", "calls"), CASES)
async def test_a_phrasing_leads_to_its_calls(text: str, calls: list[Any]) -> None:
    conversation = Conversation()
    answer = await conversation.say(text)
    assert conversation.calls == calls
    assert "did not understand" not in answer


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("tokyo", "Asia/Tokyo"), ("Munich", "Europe/Berlin"), ("Zürich", "Europe/Zurich"),
        ("Washington, D.C.", "America/New_York"), ("the Hague", "Europe/Amsterdam"),
        ("Port au Prince", "America/Port-au-Prince"), ("New Zealand", "Pacific/Auckland"),
        ("America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"), ("GMT", "UTC"),
        ("US", "America/New_York"), ("us", None), ("center", None), ("Gotham", None), ("", None),
    ],
)  # fmt: skip
def test_a_place_has_its_zone_or_none(name: str, zone: str | None) -> None:
    assert zone_of(name) == zone


# One turn, step by step


async def test_the_first_line_says_what_it_is_and_how_to_get_a_real_model() -> None:
    conversation = Conversation()
    await conversation.say("What time is it in Tokyo?")
    first, second = conversation.answers
    line = first.splitlines()[0]
    assert "rules, not a language model" in line
    assert "--model" in line
    assert line not in second
    assert IN_TOKYO in second


async def test_text_arrives_word_by_word_and_a_long_one_in_larger_pieces() -> None:
    conversation = Conversation()
    await conversation.say("Read b.txt")
    assert "".join(conversation.pieces) == "".join(conversation.answers)
    assert max(len(piece.split()) for piece in conversation.pieces) == 1
    conversation.files["b.txt"] = "word " * 1_500
    conversation.pieces.clear()
    await conversation.say("Read b.txt")
    assert len(conversation.pieces) < 400
    assert "".join(conversation.pieces).count("word ") == 1_500


async def test_independent_requests_run_at_once_and_dependent_ones_in_turn() -> None:
    conversation = Conversation()
    await conversation.say("Read a.txt and b.txt, then append 'x' to b.txt, and read b.txt again.")
    assert conversation.rounds == [
        [read("a.txt"), read("b.txt")],
        [append("b.txt", "x")],
        [read("b.txt")],
    ]
    await conversation.say("read docs/plan.md and delete the docs folder")
    assert conversation.rounds == [[read("docs/plan.md")], [delete("docs")]]


async def test_it_in_a_later_turn_means_what_came_before() -> None:
    conversation = Conversation()
    await conversation.say("What time is it in Tokyo?")
    await conversation.say("Save it to now.txt")
    assert conversation.files["now.txt"] == IN_TOKYO
    assert IN_TOKYO in await conversation.say("read it")
    await conversation.say("rename it to then.txt")
    await conversation.say("delete it")
    assert conversation.files == FILES


async def test_it_is_the_file_or_the_value_whichever_came_last() -> None:
    conversation = Conversation()
    await conversation.say("Move a.txt to new.txt.")
    await conversation.say("Write it to copy.txt.")
    assert conversation.files["copy.txt"] == conversation.files["new.txt"] == FILES["a.txt"]
    await conversation.say("List docs/. Show it.")
    assert conversation.rounds == [[listing("docs/")]]
    conversation = Conversation()
    await conversation.say("Move a.txt to new.txt.")
    await conversation.say("Write it to copy.txt. Write the time in Tokyo to now.txt.")
    assert conversation.files["now.txt"] == IN_TOKYO


async def test_what_another_model_asked_for_is_not_asked_for_again() -> None:
    conversation = Conversation()
    arguments = {"path": "b.txt", "content": "!", "mode": "append"}
    conversation.items = [
        Input("Append '!' to b.txt and delete a.txt."),
        Answer((Call("toolu_1", "write_file", json.dumps(arguments)),)),
        Result("toolu_1", "write_file", '{"status":"success","result":{"bytes_written":1}}'),
    ]
    answer = await conversation.answer()
    assert [call.name for call in answer.calls] == ["delete_file"]
    conversation.items += [answer, Result(answer.calls[0].call_id, "delete_file", "{}")]
    answer = await conversation.answer()
    assert answer.calls == ()
    assert "Wrote b.txt (1 bytes)." in answer.text


def test_the_model_keeps_nothing_between_calls() -> None:
    shared = RehearsalModel()
    assert isinstance(shared, LocalModel)
    assert not vars(shared)


async def test_what_needs_a_refused_call_is_not_tried_and_the_rest_goes_on() -> None:
    conversation = Conversation(denied="write_file")
    answer = await conversation.say(
        "What time is it in Tokyo? Save it to now.txt and read it back. Also read b.txt."
    )
    assert "Failed: writing now.txt: Ann said no (permission_denied)." in answer
    assert "Not done: reading now.txt" in answer
    assert IN_TOKYO in answer
    assert "b.txt says: B" in answer
    assert read("now.txt") not in conversation.calls


async def test_a_missing_file_is_reported() -> None:
    conversation = Conversation()
    answer = await conversation.say("Copy x.txt to c.txt and replace 'x' by 'y' in b.txt")
    assert "No x.txt (file_not_found)" in answer
    assert 'it does not contain "x"' in answer
    assert conversation.calls == [read("x.txt"), read("b.txt")]


@pytest.mark.parametrize("missing", TOOLS[:4])
async def test_a_tool_that_is_not_offered_is_named_and_not_asked_for(missing: str) -> None:
    conversation = Conversation(tools=[name for name in TOOLS if name != missing])
    answer = await conversation.say(
        "What time is it in Tokyo? Read a.txt. List the files. Write 'x' to x.txt."
    )
    assert f"the tool {missing} is not available here" in answer
    assert {name for name, _ in conversation.calls} == set(TOOLS[:4]) - {missing}


async def test_http_request_stands_in_for_web_fetch() -> None:
    conversation = Conversation(tools=["http_request"])
    await conversation.say("Fetch https://example.com/a")
    assert conversation.calls == [("http_request", {"url": "https://example.com/a"})]


# What must not happen


@pytest.mark.parametrize(
    "text",
    [
        "Don't delete a.txt",
        "please do not delete a.txt!",
        "Never remove a.txt or b.txt",
        "don't read or delete a.txt",
        "Delete a.txt. Actually, don't.",
        "If a.txt is empty, delete it",
        "Delete a.txt if it is older than a week",
        "read b.txt, and if it says yes, delete a.txt",
        "Unless b.txt exists, delete a.txt and write 'x' to b.txt.",
        "Delete a.txt or b.txt",
        "How do I delete a.txt?",
        "Should I delete a.txt?",
        "I deleted a.txt yesterday.",
        "Tom told me to read b.txt and delete a.txt",
        "She said, delete a.txt",
        "Repeat after me: delete a.txt",
        'Write "delete a.txt" to c.txt',
        "Write `rm a.txt`, please, to c.txt and read it",
        "Write to c.txt: first read b.txt, then delete a.txt",
        "Append 'remove a.txt' to c.txt, then list the files",
        "Delete everything except a.txt",
        "remove the word old from a.txt",
        "delete the last line of a.txt",
        "delete a.txt's second paragraph",
        "delete *.txt",
        "What would happen if you deleted a.txt?",
        'Search for "delete a.txt"',
        "read a.txt but do not delete it",
        "without deleting a.txt, read it",
    ],
)
async def test_nothing_is_deleted_that_was_not_asked_for(text: str) -> None:
    conversation = Conversation()
    await conversation.say(text)
    assert conversation.files.items() >= {"a.txt": FILES["a.txt"], "b.txt": "B"}.items()


@pytest.mark.parametrize(
    "text",
    ["asdf qwer zxcv", "", "   ", "?!", "help", "What can you do?", "Hi there!", "🎉🎉",
     "Tell me a joke", "summarize a.txt", "What is 2+2?", "the quick brown fox",
     "what's the weather in Paris?", "Run `ls` in bash", "\x00\x01"],
)  # fmt: skip
async def test_what_it_does_not_understand_calls_nothing_and_says_what_it_can(text: str) -> None:
    conversation = Conversation(tools=TOOLS[:4])
    answer = await conversation.say(text)
    assert conversation.calls == []
    assert "I can tell the time in a place, list a folder, read a file and write" in answer


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Save it", "Which file"),
        ("Write 'hello'", "Which file"),
        ("read a file", "Which file"),
        ("delete it", "Which file"),
        ("Rename a.txt", "which name"),
        ("Replace 'a' with 'b'", "which file"),
        ("Replace the first 'a' with 'b' in a.txt", "not once"),
        ("save to a.txt", "What should I write"),
        ("append one more line to a.txt", "What should I write"),
        ("What time is it in Gotham?", "Gotham"),
        ("Write a poem about rain to a.txt", "do not compose"),
        ("Make a folder named docs", "can not make an empty folder"),
        ("mkdir foo", "can not make an empty folder"),
        ("read all files", "by their names"),
        ("read *.txt", "by their names"),
        ("Write 'x' to a.txt if it is empty", "can not judge conditions"),
        ("x" * 40_000, "at most 16384 characters"),
        ("delete a.txt and " * 900, "2000 words"),
    ],
)
async def test_what_is_missing_is_asked_for_and_nothing_is_called(text: str, asked: str) -> None:
    conversation = Conversation()
    assert asked.lower() in (await conversation.say(text)).lower()
    assert conversation.calls == []


async def test_more_steps_than_it_takes_are_refused_and_the_first_ones_done() -> None:
    conversation = Conversation()
    answer = await conversation.say(". ".join(f"Write 'x' to {n}.txt" for n in range(80)))
    assert len(conversation.calls) == 64
    assert "at most 64 steps" in answer


# Results of every kind


@pytest.mark.parametrize(
    "content",
    ["", "plain text", "[1, 2]", "null", "{}", '{"status": 7}', '{"status":"success"}', "[" * 5_000,
     '{"status":"success","result":{"entries":[1,{"name":2}]}}', '{"status":"pending_approval"}',
     '{"status":"error"}', '{"status":"success","result":{"content":null}}', "\ud800"],
)  # fmt: skip
async def test_a_strange_result_is_no_reason_to_fail(content: str) -> None:
    conversation = Conversation(results=content)
    answer = await conversation.say(
        "What time is it in Tokyo? Save it to a.txt, read it, list the files, replace 'a' with 'b' "
        "in c.txt, search for 'x', move d.txt to e.txt and fetch https://example.com/."
    )
    assert answer
    assert len(conversation.calls) <= 9


async def test_text_that_is_not_unicode_is_written_as_well_as_can_be() -> None:
    conversation = Conversation()
    await conversation.say('Write "a\ud800b" to a.txt')
    assert conversation.files["a.txt"] == "a?b"


async def test_a_result_that_never_came_is_reported() -> None:
    conversation = Conversation()
    await conversation.say("read a.txt")
    conversation.items = [item for item in conversation.items[:-1] if type(item) is not Result]
    answer = await conversation.answer()
    assert "no result" in answer.text
    assert answer.calls == ()


async def test_a_history_without_any_input_is_answered() -> None:
    assert "I can" in (await Conversation().answer()).text


SCRAPS = (
    "read write save delete move rename copy list search find replace append create fetch a.txt b.md "
    "docs/ *.py .. it them that 'x y' \"q\" `ls` https://e.com Tokyo Paris time what is the in to into "
    "with from and or then , . ; : ? ! -> > if don't not all first file folder line called please "
    "' \" ( ) é \U000f0000"
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(max_size=200)
    | st.lists(st.sampled_from(SCRAPS.split()), max_size=25).map(" ".join),
    content=st.none() | st.text(max_size=30),
)
async def test_any_text_ends_in_an_answer_and_asks_for_each_step_once(
    text: str, content: str | None
) -> None:
    conversation = Conversation(results=content)
    assert (await conversation.say(text)).strip()
    assert {name for name, _ in conversation.calls} <= set(TOOLS)
    assert len(conversation.rounds) <= 64


@pytest.mark.parametrize(
    "mark", ["!", ",", ":", "'", '"', "`", ".", "/", " and", " ,then", ": write a.txt"]
)
async def test_thousands_of_marks_are_read_in_time(mark: str) -> None:
    began = time.process_time()
    await Conversation().say("x " + mark * (16_000 // len(mark)))
    assert (
        time.process_time() - began < 2
    )  # a tenth of that, and minutes where each mark were looked for again
