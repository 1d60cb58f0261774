"""The rehearsal model drives tools until it answers: 200 and more paraphrases, and bad days."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
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

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
FILE_TOOLS = (
    "get_current_time",
    "list_directory",
    "read_file",
    "write_file",
    "edit_file",
    "move_file",
    "delete_file",
    "search_files",
)
ALL_TOOLS = (*FILE_TOOLS, "web_fetch", "run_code")
MAX_ROUNDS = 80


class World:
    """Files in memory, a stopped clock, pages and a recorder: the tools' real arguments and results.

    `denied` names tools whose calls a person refuses.
    """

    def __init__(self, files: dict[str, str] | None = None, denied: Sequence[str] = ()) -> None:
        self.files = dict(files or {})
        self.denied = denied
        self.pages = {"https://example.com/news": "<h1>Nothing happened</h1>"}
        self.ran: list[tuple[str, str]] = []

    def run(self, name: str, arguments: dict[str, Any]) -> str:
        if name in self.denied:
            return error("permission_denied", "A person said no.")
        try:
            return json.dumps({"status": "success", "result": getattr(self, name)(**arguments)})
        except FileNotFoundError as missing:
            return error("file_not_found", f"{missing}: there is no such file.")
        except ValueError as conflict:
            return error("edit_conflict", str(conflict))
        except re.error as broken:
            return error("validation_error", f"pattern: {broken}")
        except ConnectionError as unreachable:
            return error("network_error", str(unreachable))

    def get_current_time(self, timezone: str = "UTC", format: str = "iso8601") -> str:  # ruff: ignore[builtin-argument-shadowing]
        there = NOW.astimezone(ZoneInfo(timezone))
        return there.isoformat() if format == "iso8601" else there.strftime("%A, %B %d, %Y %H:%M")

    def list_directory(
        self, path: str, recursive: bool = False, include_hidden: bool = False
    ) -> dict[str, Any]:
        root = path.strip("./")
        prefix = f"{root}/" if root else ""
        names = [n[len(prefix) :] for n in self.files if n.startswith(prefix)]
        if not recursive:
            names = [n.partition("/")[0] for n in names]
        shown = [n for n in dict.fromkeys(names) if include_hidden or not n.startswith(".")]
        return {"entries": [{"name": n, "type": "file", "size": 1} for n in shown]}

    def read_file(self, path: str) -> dict[str, Any]:
        return {"content": self._content(path), "size": len(self._content(path))}

    def write_file(self, path: str, content: str, mode: str = "overwrite") -> dict[str, Any]:
        before = self.files.get(path, "") if mode == "append" else ""
        self.files[path] = before + content
        return {"path": path, "size": len(self.files[path]), "bytes_written": len(content)}

    def edit_file(self, path: str, edits: list[dict[str, Any]]) -> dict[str, Any]:
        text = self._content(path)
        for edit in edits:
            found = text.count(edit["old_text"])
            if found != edit.get("count", 1):
                raise ValueError(f"old_text occurs {found} times")
            text = text.replace(edit["old_text"], edit["new_text"])
        self.files[path] = text
        return {"path": path, "replacements": sum(e.get("count", 1) for e in edits), "diff": ""}

    def move_file(self, **names: str) -> dict[str, Any]:
        self.files[names["to"]] = self._content(names["from"])
        del self.files[names["from"]]
        return names

    def delete_file(self, path: str, recursive: bool = False) -> dict[str, Any]:
        inside = [n for n in self.files if recursive and n.startswith(path.rstrip("/") + "/")]
        deleted = inside or [path]
        for name in deleted:
            self._content(name)
            del self.files[name]
        return {"deleted": deleted}

    def search_files(
        self, pattern: str = "", path: str = "", glob: str | None = None
    ) -> dict[str, Any]:
        kept = glob.replace(".", r"\.").replace("*", ".*") if glob else ".*"
        matches: list[dict[str, Any]] = []
        for name, text in self.files.items():
            if not name.startswith(path.strip("./")) or not re.search(f"(^|/){kept}$", name):
                continue
            lines = enumerate(text.splitlines(), 1)
            found = [
                {"file": name, "line": n, "text": x} for n, x in lines if re.search(pattern, x)
            ]
            matches += found if pattern else [{"file": name}]
        return {"matches": matches, "truncated": False}

    def web_fetch(self, url: str) -> dict[str, Any]:
        if url not in self.pages:
            raise ConnectionError(f"{url}: no such host")
        return {"url": url, "status": 200, "title": "", "text": self.pages[url], "truncated": False}

    def run_code(self, language: str, code: str) -> dict[str, Any]:
        self.ran.append((language, code))
        return {"stdout": f"{language} ran {len(code)} characters", "stderr": "", "exit_code": 0}

    def _content(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]


def error(error_type: str, message: str) -> str:
    return json.dumps({"status": "error", "error_type": error_type, "message": message})


class Conversation:
    """Runs turns as the runtime does: answer, calls, results, until an answer without calls."""

    def __init__(self, world: World, tools: Sequence[str] = ALL_TOOLS) -> None:
        self.world = world
        self.tools = tools
        self.items: list[Item] = []
        self.rounds: list[list[tuple[str, dict[str, Any]]]] = []
        self.answers: list[str] = []
        self.events: list[list[AnyStreamEvent]] = []

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return [call for calls in self.rounds for call in calls]

    async def say(self, text: str) -> str:
        self.items.append(Input(text))
        self.rounds, self.answers = [], []
        for _ in range(MAX_ROUNDS):
            answer = await self._answer()
            self.items.append(answer)
            self.answers.append(answer.text)
            if not answer.calls:
                return answer.text
            self.rounds.append([(c.name, json.loads(c.arguments)) for c in answer.calls])
            for call in answer.calls:
                content = self.result(call)
                failed = '"status": "error"' in content
                self.items.append(Result(call.call_id, call.name, content, is_error=failed))
        raise AssertionError(f"no end after {MAX_ROUNDS} rounds: {text!r}")

    def result(self, call: Call) -> str:
        return self.world.run(call.name, json.loads(call.arguments))

    async def _answer(self) -> Answer:
        batches: list[list[AnyStreamEvent]] = []

        async def emit(batch: list[AnyStreamEvent]) -> None:
            batches.append(batch)
            await trio.lowlevel.checkpoint()

        request = ModelRequest(
            model="rehearsal",
            rounds=[Round(self.items)],
            tools=tuple(
                ToolDefinition(name=name, description=name, parameters={}) for name in self.tools
            ),
        )
        await RehearsalModel().run(request, emit)
        self.events.extend(batches)
        return assembled([event for batch in batches for event in batch])


def assembled(events: Sequence[AnyStreamEvent]) -> Answer:
    """Checks the order that every answer keeps, and makes one of its events."""
    text = ""
    calls: list[Call] = []
    open_call: tuple[int, str, str, str] | None = None
    for event in events[:-1]:
        match event:
            case TextDelta():
                assert not calls
                text += event.text
            case ToolCallStart():
                assert open_call is None
                assert event.index == len(calls)
                open_call = (event.index, event.call_id, event.name, "")
            case ToolCallDelta():
                assert open_call is not None
                assert open_call[0] == event.index
                open_call = (*open_call[:3], open_call[3] + event.arguments)
            case ToolCallEnd():
                assert open_call is not None
                calls.append(Call(open_call[1], open_call[2], open_call[3]))
                open_call = None
            case _:
                raise AssertionError(f"unexpected event {event}")
    assert open_call is None
    assert len({call.call_id for call in calls}) == len(calls)
    end = events[-1]
    assert end == Done(StopReason.TOOL_CALLS if calls else StopReason.END)
    return Answer((Text(text), *calls))


def iso(zone: str) -> str:
    return NOW.astimezone(ZoneInfo(zone)).isoformat()


# The paraphrases: each group holds templates and one check of what they must have done.

PLACES = (
    "Tokyo", "Paris", "New York", "San Francisco", "Beijing", "Mumbai", "Munich", "Nairobi",
    "São Paulo", "Reykjavik", "Cairo", "Kathmandu", "Sydney", "Mexico City", "Ho Chi Minh City",
    "Germany", "New Zealand", "Buenos Aires", "Port-au-Prince", "Washington", "UTC", "Asia/Tokyo",
)  # fmt: skip
STEMS = ("now", "notes", "report-2026", "my_list", "a", "Q3.final", "docs/plan", "x/y/deep", "été")
EXTENSIONS = ("txt", "md", "log", "json", "csv")
CONTENTS = (
    "hello world", "buy milk and eggs", "delete a.txt", "it's five o'clock", "100% sure?",
    "read it back, then list files", "line one; line two", "ünïcödé ✓", "a, b and c", "don't panic",
    "What time is it in Paris?", "x = {1: [2, 3]}",
)  # fmt: skip
WORDS = ("alpha", "TODO", "foo bar", "1.5", "a+b", "naïve", "C:", "(x)", "it's")

Values = dict[str, str]
Check = Callable[[World, Conversation, str, Values], None]


def values(rng: random.Random) -> Values:
    names = [f"{stem}.{rng.choice(EXTENSIONS)}" for stem in rng.sample(STEMS, 3)]
    place, other = rng.sample(PLACES, 2)
    content = rng.choice(CONTENTS)
    old, new = rng.sample(WORDS, 2)
    return {
        "place": place, "other": other, "file": names[0], "file2": names[1], "file3": names[2],
        "content": content, "old": old, "new": new,
    }  # fmt: skip


def seeded(v: Values) -> dict[str, str]:
    return {
        "keep.txt": "untouched",
        v["file2"]: f"first {v['old']}\nsecond\nthird {v['old']} end",
        v["file3"]: "third file",
    }


def zone(name: str) -> str:
    found = zone_of(name)
    assert found is not None
    return found


def told_time(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert iso(zone(v["place"])) in answer
    assert [name for name, _ in c.calls] == ["get_current_time"]


def told_two_times(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert iso(zone(v["place"])) in answer
    assert iso(zone(v["other"])) in answer
    assert [len(calls) for calls in c.rounds] == [2]


def saved_time_and_read(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file"]] == iso(zone(v["place"]))
    assert w.files[v["file"]] in answer
    assert [name for name, _ in c.calls] == ["get_current_time", "write_file", "read_file"]
    assert len(c.rounds) == 3


def saved_time(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file"]] == iso(zone(v["place"]))
    assert v["file"] in answer


def wrote(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file"]] == v["content"]
    assert [name for name, _ in c.calls] == ["write_file"]
    assert v["file"] in answer


def wrote_and_read(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file"]] == v["content"]
    assert v["content"] in answer
    assert [name for name, _ in c.calls] == ["write_file", "read_file"]


def appended(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file2"]] == seeded(v)[v["file2"]] + v["content"]


def appended_line(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file2"]] == seeded(v)[v["file2"]] + "\n" + v["content"] + "\n"


def replaced(w: World, c: Conversation, answer: str, v: Values) -> None:
    before = seeded(v)[v["file2"]]
    assert w.files[v["file2"]] == before.replace(v["old"], v["new"])


def read(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file2"]] in answer
    assert [name for name, _ in c.calls] == ["read_file"]


def read_two(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file2"]] in answer
    assert w.files[v["file3"]] in answer
    assert [len(calls) for calls in c.rounds] == [2]


def listed(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert [name for name, _ in c.calls] == ["list_directory"]
    assert "keep.txt" in answer


def found(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert [name for name, _ in c.calls] == ["search_files"]
    assert f"first {v['old']}" in answer
    assert f"third {v['old']} end" in answer
    assert "second" not in answer


def moved(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file"]] == seeded(v)[v["file2"]]
    assert v["file2"] not in w.files


def renamed(w: World, c: Conversation, answer: str, v: Values) -> None:
    folder = v["file2"].rpartition("/")[0]
    inside = f"{folder}/{v['file']}" if folder and "/" not in v["file"] else v["file"]
    assert w.files[inside] == seeded(v)[v["file2"]]
    assert v["file2"] not in w.files


def copied(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file"]] == w.files[v["file2"]] == seeded(v)[v["file2"]]


def deleted(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert v["file2"] not in w.files
    assert v["file3"] in w.files
    assert [name for name, _ in c.calls] == ["delete_file"]


def deleted_two(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert set(w.files) == {"keep.txt"}
    assert [len(calls) for calls in c.rounds] == [2]


def created_empty(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file"]] == ""


def fetched(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert [a for n, a in c.calls if n == "web_fetch"] == [{"url": "https://example.com/news"}]
    assert "<h1>Nothing happened</h1>" in answer


def fetched_to_file(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.files[v["file"]] == "<h1>Nothing happened</h1>"


def ran_python(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.ran == [("python", "print(6*7)")]
    assert "python ran 10 characters" in answer


def ran_bash(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert w.ran == [("bash", "ls -l | wc -l")]
    assert "bash ran 13 characters" in answer


def several(w: World, c: Conversation, answer: str, v: Values) -> None:
    assert iso(zone(v["place"])) in answer
    assert seeded(v)[v["file2"]] in answer
    assert w.files[v["file"]] == v["content"]
    assert [len(calls) for calls in c.rounds] == [3]


PARAPHRASES: list[tuple[Check, tuple[str, ...]]] = [
    (told_time, (
        "What time is it in {place}?",
        "what's the time in {place}",
        "Could you please tell me the current time in {place}?",
        "time in {place} please",
        "Hi! Do you know what time it is in {place} right now?",
        "Show me the local time for {place}.",
        "I need the time in {place}",
        "How late is it in {place}?",
        "In {place}, what time is it?",
        "check the clock in {place}",
    )),
    (told_two_times, (
        "What time is it in {place} and {other}?",
        "Give me the time in {place} and in {other}.",
        "What time is it in {place}? And in {other}?",
        "compare the time in {place} with the time in {other}",
        "Tell me what time it is in {place}, and also what time it is in {other}.",
    )),
    (saved_time_and_read, (
        "What time is it in {place}? Save it to {file} and read it back.",
        "Get the time in {place}, write it to {file}, then show me the file.",
        "Look up the current time in {place}; store it in {file}; read {file}.",
        "Find out what time it is in {place} and put it into a file called {file}. Then print that file.",
        "Write the time in {place} to {file} and then read it back to me",
        "Please save the current time in {place} as {file}, and afterwards open it",
        "1. Check the time in {place}\n2. Save the result to {file}\n3. Read it back",
        "I'd like you to record the time in {place} in {file} and read it back.",
    )),
    (saved_time, (
        "Save the time in {place} to {file}.",
        "Put the current time of {place} in {file}",
        "Create a file named {file} with the time in {place}",
        "create {file} containing the current time in {place}",
    )),
    (wrote, (
        'Write "{content}" to {file}',
        "write “{content}” into the file {file}, please",
        'Create a file called {file} with the content "{content}"',
        'create {file} containing "{content}".',
        'Save "{content}" as {file}',
        'Make a new file {file} that says "{content}"',
        'Could you put the text "{content}" in {file}?',
        'In {file}, write "{content}"',
        'Store the following in {file}: "{content}"',
        'I want you to create a text file named "{file}" with "{content}" in it.',
        'write to {file}: "{content}"',
        'echo "{content}" > {file}',
        "Would you mind writing `{content}` to {file}?",
        "Write this to {file}:\n{content}",
    )),
    (wrote_and_read, (
        'Write "{content}" to {file} and read it back.',
        'Create {file} with "{content}", then show me what is in it.',
        'Save "{content}" to {file}. Then print {file}.',
        'First create {file} with the text "{content}"; next, read that file',
        'Put "{content}" into {file} and afterwards tell me what the file says',
    )),
    (appended, (
        'Append "{content}" to {file2}',
        'Add "{content}" to the end of {file2}.',
        'please append the text "{content}" to the file {file2}',
        'Add "{content}" to {file2}',
        'write "{content}" at the end of {file2}',
    )),
    (appended_line, (
        'Append the line "{content}" to {file2}',
        'add a line saying "{content}" to {file2}',
        'Add a new line "{content}" at the bottom of {file2}',
    )),
    (replaced, (
        'Replace "{old}" with "{new}" in {file2}',
        'In {file2}, replace every "{old}" with "{new}".',
        'change "{old}" to "{new}" in {file2}',
        'Open {file2} and change all occurrences of "{old}" to "{new}"',
        'substitute "{new}" for "{old}" in {file2}',
        'please swap the word "{old}" for "{new}" in the file {file2}',
        'Edit {file2}: "{old}" -> "{new}"',
    )),
    (read, (
        "Read {file2}",
        "show me {file2}",
        "cat {file2}",
        "What's in {file2}?",
        "what does {file2} say",
        "Can you print the contents of {file2}?",
        "open the file {file2} please",
        "I want to see what is inside {file2}",
        'Display "{file2}"',
        "let me have a look at {file2}",
        "{file2}",
    )),
    (read_two, (
        "Read {file2} and {file3}",
        "show me the contents of {file2} and of {file3}",
        "What is in {file2}, and what is in {file3}?",
        "read {file2}; also read {file3}",
    )),
    (listed, (
        "List the files",
        "ls",
        "What files are there?",
        "show me all files in this folder",
        "Which files are in the workspace?",
        "list everything in the current directory, please",
        "Could you list the contents of this directory?",
    )),
    (found, (
        'Search for "{old}"',
        'find "{old}" in {file2}',
        'Which files contain "{old}"?',
        'grep "{old}" {file2}',
        'look for the text "{old}" in all files',
        'search {file2} for "{old}"',
        'Where does "{old}" appear?',
        'Find all lines with "{old}" in {file2}.',
    )),
    (moved, (
        "move {file2} to {file}",
        "mv {file2} {file}",
        "Please move the file {file2} to {file}.",
        "relocate {file2} to {file}",
    )),
    (renamed, (
        "Rename {file2} to {file}",
        "change the name of {file2} to {file}",
        "Read {file2}, then rename it to {file}.",
    )),
    (copied, (
        "Copy {file2} to {file}",
        "make a copy of {file2} called {file}",
        "write the contents of {file2} to {file}",
        "Read {file2} and save it as {file}",
        "cp {file2} {file}",
    )),
    (deleted, (
        "Delete {file2}",
        "remove the file {file2}",
        "rm {file2}",
        "Please get rid of {file2}.",
        "Could you delete {file2} for me? Thanks!",
        "Don't touch {file3}, just delete {file2}.",
    )),
    (deleted_two, (
        "Delete {file2} and {file3}",
        "remove both {file2} and {file3}",
        "delete {file2}, then delete {file3}",
    )),
    (created_empty, (
        "Create an empty file {file}",
        "touch {file}",
        "make a new file called {file}",
    )),
    (fetched, (
        "Fetch https://example.com/news",
        "What does https://example.com/news say?",
        "Show me https://example.com/news.",
        "go to https://example.com/news, please",
    )),
    (fetched_to_file, (
        "Download https://example.com/news to {file}",
        "fetch https://example.com/news and save it to {file}",
        "Get https://example.com/news; write the result to {file}.",
        "Save the page https://example.com/news as {file}",
    )),
    (ran_python, (
        "Run `print(6*7)` in Python",
        "execute this python code: print(6*7)",
        "Run this:\n```python\nprint(6*7)\n```",
        "calculate 6*7",
    )),
    (ran_bash, (
        "Run `ls -l | wc -l` in bash",
        "execute the shell command `ls -l | wc -l`",
        "```bash\nls -l | wc -l\n```\nRun that please.",
    )),
    (several, (
        'What time is it in {place}, what is in {file2}, and write "{content}" to {file}.',
        'Read {file2}. Tell me the time in {place}. Also save "{content}" to {file}.',
        'Create {file} with "{content}"; read {file2}; what time is it in {place}?',
    )),
]  # fmt: skip

SEEDS = (1, 2)
CASES = [
    pytest.param(check, template, seed, id=f"{check.__name__}-{number}-{seed}")
    for check, templates in PARAPHRASES
    for number, template in enumerate(templates)
    for seed in SEEDS
]


def test_there_are_at_least_two_hundred_paraphrases() -> None:
    assert len({(case.values[1], case.values[2]) for case in CASES}) >= 200


@pytest.mark.parametrize(("check", "template", "seed"), CASES)
async def test_a_paraphrase_does_what_it_says(check: Check, template: str, seed: int) -> None:
    v = values(random.Random(f"{template} {seed}"))
    world = World(seeded(v))
    conversation = Conversation(world)
    answer = await conversation.say(template.format(**v))
    check(world, conversation, answer, v)
    assert world.files["keep.txt"] == "untouched"
    assert "did not understand" not in answer


# One turn, step by step


async def test_the_first_line_says_what_it_is_and_how_to_get_a_real_model() -> None:
    conversation = Conversation(World())
    await conversation.say("What time is it in Tokyo?")
    first, second = conversation.answers
    line = first.splitlines()[0]
    assert "rules, not a language model" in line
    assert "--model" in line
    assert line not in second
    await conversation.say("And in Paris?")
    assert conversation.answers[0].splitlines()[0] == line


async def test_text_arrives_word_by_word_and_is_whole() -> None:
    conversation = Conversation(World({"a.txt": "one two  three\n\n four "}))
    answer = await conversation.say("Read a.txt")
    deltas = [e.text for batch in conversation.events for e in batch if isinstance(e, TextDelta)]
    assert "".join(deltas) == "".join(conversation.answers)
    assert max(len(delta.split()) for delta in deltas) == 1
    assert "one two  three\n\n four " in answer


async def test_a_long_answer_streams_in_a_bounded_number_of_pieces() -> None:
    conversation = Conversation(World({"a.txt": "word " * 1_500}))
    await conversation.say("Read a.txt")
    last = [e for batch in conversation.events for e in batch if isinstance(e, TextDelta)]
    assert len(last) < 400
    assert len("".join(e.text for e in last).split()) >= 1_500


async def test_independent_requests_are_asked_for_at_once_and_dependent_ones_in_turn() -> None:
    world = World({"a.txt": "A", "b.txt": "B"})
    conversation = Conversation(world)
    await conversation.say("Read a.txt and b.txt, then append 'x' to b.txt, and read b.txt again.")
    assert conversation.rounds == [
        [("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})],
        [("write_file", {"path": "b.txt", "content": "x", "mode": "append"})],
        [("read_file", {"path": "b.txt"})],
    ]


async def test_several_values_are_saved_with_their_names() -> None:
    world = World()
    await Conversation(world).say("What time is it in Tokyo and Oslo? Save both to t.txt.")
    assert world.files["t.txt"] == f"Tokyo: {iso('Asia/Tokyo')}\nOslo: {iso('Europe/Oslo')}"


async def test_it_in_a_later_turn_means_what_came_before() -> None:
    world = World()
    conversation = Conversation(world)
    await conversation.say("What time is it in Tokyo?")
    await conversation.say("Save it to now.txt")
    assert world.files == {"now.txt": iso("Asia/Tokyo")}
    assert iso("Asia/Tokyo") in await conversation.say("read it")
    await conversation.say("rename it to then.txt")
    await conversation.say("delete it")
    assert world.files == {}


def test_the_model_keeps_nothing_between_calls() -> None:
    shared = RehearsalModel()
    assert isinstance(shared, LocalModel)
    assert not vars(shared)


async def test_a_person_can_say_no_and_the_rest_goes_on() -> None:
    world = World({"now.txt": "old", "b.txt": "B"}, denied=["write_file"])
    conversation = Conversation(world)
    answer = await conversation.say(
        "What time is it in Tokyo? Save it to now.txt and read it back. Also read b.txt."
    )
    assert "A person said no (permission_denied)" in answer
    assert iso("Asia/Tokyo") in answer
    assert "B" in answer
    assert world.files["now.txt"] == "old"
    assert ("read_file", {"path": "now.txt"}) not in conversation.calls


async def test_a_missing_file_is_reported_and_nothing_that_needs_it_is_tried() -> None:
    world = World({"b.txt": "B"})
    conversation = Conversation(world)
    answer = await conversation.say(
        "Copy a.txt to c.txt, delete b.txt, and replace 'x' by 'y' in a.txt"
    )
    assert "a.txt: there is no such file (file_not_found)" in answer
    assert [name for name, _ in conversation.calls] == ["read_file", "delete_file", "read_file"]
    assert world.files == {}


async def test_text_that_is_not_in_the_file_is_not_replaced() -> None:
    world = World({"a.txt": "hello"})
    conversation = Conversation(world)
    answer = await conversation.say('Replace "bye" with "ciao" in a.txt')
    assert "does not contain" in answer
    assert [name for name, _ in conversation.calls] == ["read_file"]


async def test_only_the_first_occurrence_is_replaced_when_asked_so() -> None:
    world = World({"a.txt": "x, x and x"})
    await Conversation(world).say('Replace the first "x" with "y" in a.txt')
    assert world.files["a.txt"] == "y, x and x"


async def test_appending_a_line_starts_a_line_only_where_one_is_needed() -> None:
    world = World({"ends.txt": "one\n", "open.txt": "one"})
    conversation = Conversation(world)
    for name in ("ends.txt", "open.txt", "new.txt"):
        await conversation.say(f'Append the line "two" to {name}')
    assert world.files == {"ends.txt": "one\ntwo\n", "open.txt": "one\ntwo\n", "new.txt": "two\n"}


@pytest.mark.parametrize("missing", FILE_TOOLS[:4])
async def test_a_tool_that_is_not_offered_is_named_and_never_asked_for(missing: str) -> None:
    tools = [name for name in FILE_TOOLS if name != missing]
    conversation = Conversation(World({"a.txt": "A"}), tools)
    answer = await conversation.say(
        "What time is it in Tokyo? Read a.txt. List the files. Write 'x' to b.txt."
    )
    assert missing in answer
    assert {name for name, _ in conversation.calls} == set(FILE_TOOLS[:4]) - {missing}


async def test_http_request_and_shell_stand_in_for_what_is_missing() -> None:
    class Other(World):
        def http_request(self, url: str) -> dict[str, Any]:
            return {"status": 200, "body": f"body of {url}"}

        def shell(self, command: str) -> dict[str, Any]:
            return {"stdout": f"did {command}", "stderr": "", "exit_code": 3}

    conversation = Conversation(Other(), ("http_request", "shell"))
    answer = await conversation.say("Fetch https://example.com/a. Run `ls` in bash.")
    assert "body of https://example.com/a" in answer
    assert "did ls" in answer
    assert "exit code 3" in answer


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
        "delete *.txt",
        "What would happen if you deleted a.txt?",
        'Search for "delete a.txt"',
        "read a.txt but do not delete it",
    ],
)
async def test_nothing_is_deleted_that_was_not_asked_for(text: str) -> None:
    world = World({"a.txt": "A", "b.txt": "yes"})
    await Conversation(world).say(text)
    assert world.files["a.txt"] == "A"
    assert world.files["b.txt"] == "yes"


@pytest.mark.parametrize(
    "text",
    ["asdf qwer zxcv", "", "   ", "?!", "help", "What can you do?", "Hi there!", "🎉🎉", "Tell me a joke",
     "summarize a.txt", "What is 2+2?", "the quick brown fox", "what's the weather in Paris?", "\x00\x01"],
)  # fmt: skip
async def test_what_it_does_not_understand_calls_nothing_and_says_what_it_can(text: str) -> None:
    conversation = Conversation(World({"a.txt": "A"}), FILE_TOOLS)
    answer = await conversation.say(text)
    assert conversation.calls == []
    assert "read a file" in answer
    assert "run a piece of Python" not in answer


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Save it", "Which file"),
        ("Write 'hello'", "Which file"),
        ("read a file", "Which file"),
        ("delete it", "Which file"),
        ("Rename a.txt", "which name"),
        ("Replace 'a' with 'b'", "which file"),
        ("save to a.txt", "What should I write"),
        ("What time is it in Gotham?", "Gotham"),
        ("Write a poem about rain to a.txt", "can not compose"),
        ("create a directory called foo", "can not make an empty folder"),
        ("Make a folder named docs", "can not make an empty folder"),
        ("mkdir foo", "can not make an empty folder"),
        ("read all files", "by their names"),
        ("read every file", "by their names"),
        ("read *.txt", "by their names"),
    ],
)
async def test_what_is_missing_is_asked_for_and_nothing_is_called(text: str, asked: str) -> None:
    conversation = Conversation(World())
    assert asked.lower() in (await conversation.say(text)).lower()
    assert conversation.calls == []


async def test_a_message_that_is_too_long_is_refused_with_the_limit() -> None:
    conversation = Conversation(World())
    assert "32768" in await conversation.say("x" * 40_000)
    assert "2000" in await conversation.say("delete a.txt and " * 1_500)
    assert conversation.calls == []


async def test_more_steps_than_it_takes_are_refused_and_the_first_ones_done() -> None:
    world = World()
    text = ". ".join(f"Write 'x' to {number}.txt" for number in range(80))
    answer = await Conversation(world).say(text)
    assert len(world.files) == 64
    assert "at most 64 steps" in answer


# Results of every kind


class Strange(Conversation):
    """Gives each call the same raw result, or none."""

    def __init__(self, content: str | None) -> None:
        super().__init__(World())
        self.content = content

    def result(self, call: Call) -> str:
        return "" if self.content is None else self.content


@pytest.mark.parametrize(
    "content",
    ["", "plain text", "[1, 2]", "null", "{}", '{"status": 7}', '{"status":"success"}', "[" * 5_000,
     '{"status":"success","result":{"entries":[1,{"name":2}]}}', '{"status":"pending_approval"}',
     '{"status":"error"}', '{"status":"success","result":{"content":null}}', "\ud800"],
)  # fmt: skip
async def test_a_strange_result_is_no_reason_to_fail(content: str) -> None:
    conversation = Strange(content)
    answer = await conversation.say(
        "What time is it in Tokyo? Save it to a.txt, read it, list the files, replace 'a' with 'b' "
        "in c.txt, search for 'x', move d.txt to e.txt and run `ls` in bash."
    )
    assert answer
    assert len(conversation.calls) <= 9


async def test_text_that_is_not_unicode_is_written_as_well_as_can_be() -> None:
    world = World()
    await Conversation(world).say('Write "a\ud800b" to a.txt')
    assert world.files == {"a.txt": "a?b"}


async def test_a_result_that_never_came_is_said() -> None:
    conversation = Conversation(World({"a.txt": "A"}))
    await conversation.say("read a.txt")
    conversation.items = [item for item in conversation.items[:-1] if type(item) is not Result]
    answer = await conversation._answer()
    assert "no result" in answer.text
    assert answer.calls == ()


async def test_a_history_without_any_input_is_answered() -> None:
    conversation = Conversation(World())
    answer = await conversation._answer()
    assert answer.calls == ()
    assert "I can" in answer.text


# Any text at all

SCRAPS = st.sampled_from(
    [
        "read",
        "write",
        "save",
        "delete",
        "move",
        "rename",
        "copy",
        "list",
        "search",
        "find",
        "replace",
        "append",
        "create",
        "run",
        "fetch",
        "a.txt",
        "b.md",
        "docs/",
        "*.py",
        "..",
        "it",
        "them",
        "that",
        "'x",
        "y'",
        '"q"',
        "`ls`",
        "```py\n1```",
        "https://e.com",
        "Tokyo",
        "Paris",
        "time",
        "what",
        "is",
        "the",
        "in",
        "to",
        "into",
        "with",
        "from",
        "and",
        "or",
        "then",
        ",",
        ".",
        ";",
        ":",
        "?",
        "!",
        "->",
        ">",
        "if",
        "don't",
        "not",
        "all",
        "first",
        "file",
        "folder",
        "line",
        "called",
        "please",
        "\n",
        "'",
        '"',
        "(",
        ")",
        "é",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=200) | st.lists(SCRAPS, max_size=25).map(" ".join), content=st.none() | st.text(max_size=30))  # fmt: skip
async def test_any_text_ends_in_an_answer_and_asks_for_each_step_once(
    text: str, content: str | None
) -> None:
    conversation = Strange(content) if content is not None else Conversation(World({"a.txt": "x"}))
    answer = await conversation.say(text)
    assert answer.strip()
    assert {name for name, _ in conversation.calls} <= set(ALL_TOOLS)
    assert len(conversation.rounds) <= 64
    for _, arguments in conversation.calls:
        assert msgspec.json.encode(arguments)
        assert all(value is not None for value in arguments.values())
