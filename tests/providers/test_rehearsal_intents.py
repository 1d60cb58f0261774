"""Plain English becomes steps: one line a phrasing, as a new user would write it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.rehearsal.intents import understand
from callboard.providers.rehearsal.language import Kind, tokenize
from callboard.providers.rehearsal.steps import (
    Clock,
    DeleteFile,
    EditFile,
    FetchUrl,
    Intent,
    LineBreak,
    ListFolder,
    Memory,
    MoveFile,
    ReadFile,
    ResultOf,
    RunCode,
    Said,
    SearchFiles,
    SearchWeb,
    WriteFile,
)


def clock(zone: str | None, place: str = "", human: bool = False) -> Clock:
    return Clock(zone, place, human)


def write(path: str, text: str, append: bool = False) -> WriteFile:
    return WriteFile(path, (Said(text),), append)


def put(path: str, *steps: int, append: bool = False) -> tuple[str, tuple[int, ...], bool]:
    """A write of the results of other steps, whatever their labels."""
    return (path, steps, append)


def edit(path: str, old: str, new: str) -> list[Any]:
    return [ReadFile(path), ("edit", path, old, new)]


def seen(intent: Intent) -> Any:
    """An intent as the table writes it."""
    if isinstance(intent, WriteFile):
        steps = tuple(p.step for p in intent.content if isinstance(p, ResultOf))
        return put(intent.path, *steps, append=intent.append) if steps else intent
    if isinstance(intent, EditFile):
        return ("edit", intent.path, intent.old, intent.new)
    return intent


BERLIN, SEOUL = clock("Europe/Berlin", "Berlin"), clock("Asia/Seoul", "Seoul")

PHRASINGS: list[tuple[str, list[Any]]] = [
    ("yo, what's the time over in Berlin rn?", [BERLIN]),
    ("hey there, mind telling me the hour in Seoul?", [SEOUL]),
    ("current time Seoul", [SEOUL]),
    ("TIME IN SEOUL?", [clock("Asia/Seoul", "SEOUL")]),
    ("I wonder what time it might be in Seoul.", [SEOUL]),
    ("what time would it be in Seoul now", [SEOUL]),
    ("Seoul", [SEOUL]),
    ("it's 5pm here, what about Seoul?", [SEOUL]),
    ("Show me Berlin's time and Seoul's time", [BERLIN, SEOUL]),
    ("What time is it?", [clock(None)]),
    ("What day is it today?", [clock(None, "", True)]),
    ("Tell me today's date", [clock(None, "", True)]),
    ("What is the date in Toronto, Canada?", [clock("America/Toronto", "Toronto, Canada", True)]),
    ("time in Europe/Berlin", [clock("Europe/Berlin", "Europe/Berlin")]),
    ("Get me the time for Seoul & store that in s.txt, thanks!", [SEOUL, put("s.txt", 0)]),
    ("Can you figure out the time in Seoul and leave it in s.txt?", [SEOUL, put("s.txt", 0)]),
    ("Check the clock in Seoul, save that as s.txt, then open s.txt.",
     [SEOUL, put("s.txt", 0), ReadFile("s.txt")]),
    ("add the time in Seoul to s.txt", [SEOUL, put("s.txt", 0, append=True)]),
    ("Save the time in Berlin, then the time in Seoul, to t.txt",
     [BERLIN, SEOUL, put("t.txt", 0, 1)]),
    ("Tell me the time in Berlin, write it to t.txt, and append the time in Seoul to it.",
     [BERLIN, put("t.txt", 0), SEOUL, put("t.txt", 2, append=True)]),
    ("make me a file hello.py with `print(\"hi\")` inside", [write("hello.py", 'print("hi")')]),
    ("Read a.txt. What time is it in Berlin and Seoul? Save both to t.txt",
     [ReadFile("a.txt"), BERLIN, SEOUL, put("t.txt", 1, 2)]),
    ("Read a.txt. Time in Berlin? And in Seoul? Save both to t.txt",
     [ReadFile("a.txt"), BERLIN, SEOUL, put("t.txt", 1, 2)]),
    ("Read a.txt. Time in Berlin? Save all results to t.txt",
     [ReadFile("a.txt"), BERLIN, put("t.txt", 0, 1)]),
    ("copy the contents of a.txt into b.txt", [ReadFile("a.txt"), put("b.txt", 0)]),
    ("copy a.txt into the backup folder", [ReadFile("a.txt"), put("backup/a.txt", 0)]),
    ("Save https://e.com/a to a.html", [FetchUrl("https://e.com/a"), put("a.html", 0)]),
    ("look up \"alpha\" in docs/", [SearchFiles("alpha", "docs/")]),
    ("list the *.md files in docs/", [SearchFiles("", "docs/", "*.md")]),
    ("List the current times in Berlin and Seoul", [BERLIN, SEOUL]),
    ("find the time in Seoul", [SEOUL]),
    ("Write 'x' to a.txt, then search it for x", [write("a.txt", "x"), SearchFiles("x", "a.txt")]),
    ("Edit a.txt and change 'x' to 'y'", edit("a.txt", "x", "y")),
    ("open a.txt, replace foo with bar in it", [ReadFile("a.txt"), *edit("a.txt", "foo", "bar")]),
    ("Compose a file called i.txt: Hello, my name is Bob.", [write("i.txt", "Hello, my name is Bob")]),
    ("Write to m.txt: Meeting at 3pm. Bring snacks.", [write("m.txt", "Meeting at 3pm. Bring snacks")]),
    ("Create t.txt with:\n- milk\n- eggs\n\nThen read it",
     [write("t.txt", "- milk\n- eggs"), ReadFile("t.txt")]),
    ("Make a todo list in todo.txt with: wash car, feed dog", [write("todo.txt", "wash car, feed dog")]),
    ("Write Hello to hi.txt, World to world.txt and read both files",
     [write("hi.txt", "Hello"), write("world.txt", "World"), ReadFile("hi.txt"), ReadFile("world.txt")]),
    ("Create three files: a.txt with 'one', b.txt with 'two' and c.txt with 'three'",
     [write("a.txt", "one"), write("b.txt", "two"), write("c.txt", "three")]),
    ("Put hello in a.txt, b.txt and c.txt",
     [write("a.txt", "hello"), write("b.txt", "hello"), write("c.txt", "hello")]),
    ("create a.txt with eggs and b.txt with milk and bread",
     [write("a.txt", "eggs"), write("b.txt", "milk and bread")]),
    ("Please write, in a file named p.txt, \"roses are red\".", [write("p.txt", "roses are red")]),
    ("set the contents of a.txt to \"fresh\"", [write("a.txt", "fresh")]),
    ("Put the numbers 1, 2, 3 into nums.txt", [write("nums.txt", "1, 2, 3")]),
    ("Write the word delete to actions.txt", [write("actions.txt", "delete")]),
    ("Write Tokyo to city.txt", [write("city.txt", "Tokyo")]),
    ("Save \"it's five o'clock\" as note.txt", [write("note.txt", "it's five o'clock")]),
    ("save 'don't stop' to 'my file.txt'", [write("my file.txt", "don't stop")]),
    ("write 'x' to notes", [write("notes", "x")]),
    ("Save 'x' to plan.txt in the docs folder", [write("docs/plan.txt", "x")]),
    ("Make a file t.txt. Write \"abc\" in it. Then show it.",
     [write("t.txt", ""), write("t.txt", "abc", True), ReadFile("t.txt")]),
    ("Clear a.txt", [write("a.txt", "")]),
    ("echo \"hi\" >> a.txt", [write("a.txt", "hi", True)]),
    ("insert \"x\" into a.txt", [write("a.txt", "x", True)]),
    ("save the list of files to files.txt", [ListFolder("."), put("files.txt", 0)]),
    ("List the files in docs and save the list to l.txt", [ListFolder("docs"), put("l.txt", 0)]),
    ("Open notes/today.md", [ReadFile("notes/today.md")]),
    ("let me see what's inside config.json", [ReadFile("config.json")]),
    ("a.txt - what does it say?", [ReadFile("a.txt")]),
    ("The file is called a.txt. Read it.", [ReadFile("a.txt")]),
    ("Read a.txt, b.txt and c.txt at the same time",
     [ReadFile("a.txt"), ReadFile("b.txt"), ReadFile("c.txt")]),
    ("Give me the content of \"release notes.md\"", [ReadFile("release notes.md")]),
    ("read a.txt in the docs folder", [ReadFile("docs/a.txt")]),
    ("read Makefile and LICENSE", [ReadFile("Makefile"), ReadFile("LICENSE")]),
    ("read the file notes", [ReadFile("notes")]),
    ("is there anything in inbox.txt?", [ReadFile("inbox.txt")]),
    ("Read a.txt!!! Now!!!", [ReadFile("a.txt")]),
    ("What's in the src folder?", [ListFolder("src")]),
    ("How many files are in docs?", [ListFolder("docs")]),
    ("list files in src/ and docs/", [ListFolder("src/"), ListFolder("docs/")]),
    ("show the directory tree", [ListFolder(".", True)]),
    ("list all the files including hidden ones", [ListFolder(".", False, True)]),
    ("ls docs", [ListFolder("docs")]),
    ("could you look what is in the folder notes", [ListFolder("notes")]),
    ("Look what's in the notes folder", [ListFolder("notes")]),
    ("can you have a look what is inside the folder docs?", [ListFolder("docs")]),
    ("take a look what files are in docs/", [ListFolder("docs/")]),
    ("look what is in a.txt", [ReadFile("a.txt")]),
    ("append !! to a.txt", [write("a.txt", "!!", True)]),
    ("append ??? to a.txt", [write("a.txt", "???", True)]),
    ("Append ... to a.txt. Then read it.", [write("a.txt", "...", True), ReadFile("a.txt")]),
    ("write *** to a.txt and // to b.txt", [write("a.txt", "***"), write("b.txt", "//")]),
    ("put ;;; into a.txt", [write("a.txt", ";;;")]),
    ("add Well done!! to a.txt", [write("a.txt", "Well done!!", True)]),
    ("replace ! with ? in a.txt", edit("a.txt", "!", "?")),
    ("Read a.txt! To b.txt, append 'x'.", [ReadFile("a.txt"), write("b.txt", "x", True)]),
    ("write some more milk to a.txt", [write("a.txt", "some more milk")]),
    ("Search the web for trio", [SearchWeb("trio")]),
    ("search the internet for 'structured concurrency'", [SearchWeb("structured concurrency")]),
    ("Look for trio nurseries on the web", [SearchWeb("trio nurseries")]),
    ("search for web in f.txt", [SearchFiles("web", "f.txt")]),
    ("Search my files for web", [SearchFiles("web")]),
    ("list all .py files", [SearchFiles("", None, "*.py")]),
    ("find me all text files", [SearchFiles("", None, "*.txt")]),
    ("Is there a file called budget.csv?", [SearchFiles("", None, "budget.csv")]),
    ("where is settings.json?", [SearchFiles("", None, "settings.json")]),
    ("Where does the word banana appear in f.txt?", [SearchFiles("banana", "f.txt")]),
    ("look for \"TODO\" in all the python files", [SearchFiles("TODO", None, "*.py")]),
    ("search for TODO in src/", [SearchFiles("TODO", "src/")]),
    ("search docs for \"install\"", [SearchFiles("install", "docs")]),
    ("look in config.yaml for port", [SearchFiles("port", "config.yaml")]),
    ("does a.txt contain \"foo\"?", [SearchFiles("foo", "a.txt")]),
    ("find the regex \"a+b\" in a.txt", [SearchFiles("a+b", "a.txt", None, True)]),
    ("in config.ini, swap \"8080\" for \"9090\"", edit("config.ini", "8080", "9090")),
    ("substitute new for old in a.txt", edit("a.txt", "old", "new")),
    ("Swap out foo for bar in a.txt", edit("a.txt", "foo", "bar")),
    ("fix the typo 'teh' -> 'the' in l.txt", edit("l.txt", "teh", "the")),
    ("update a.txt: replace \"1\" with \"2\"", edit("a.txt", "1", "2")),
    ("replace all occurrences of the word foo with nothing in a.txt", edit("a.txt", "foo", "")),
    ("remove 'foo' from a.txt", edit("a.txt", "foo", "")),
    ("replace hello with bye in g.txt and show the result",
     [*edit("g.txt", "hello", "bye"), ReadFile("g.txt")]),
    ("rename a.txt to b.txt and move b.txt into archive/",
     [MoveFile("a.txt", "b.txt"), MoveFile("b.txt", "archive/b.txt")]),
    ("Please change a.txt's name to b.txt", [MoveFile("a.txt", "b.txt")]),
    ("put data.csv in the data folder", [MoveFile("data.csv", "data/data.csv")]),
    ("Move a.txt and b.txt into old/", [MoveFile("a.txt", "old/a.txt"), MoveFile("b.txt", "old/b.txt")]),
    ("rename docs/a.txt to b.txt", [MoveFile("docs/a.txt", "docs/b.txt")]),
    ("back up c.ini to c.bak", [ReadFile("c.ini"), put("c.bak", 0)]),
    ("Write \"hello\" in h.txt. Then rename it to b.txt. Then delete it.",
     [write("h.txt", "hello"), MoveFile("h.txt", "b.txt"), DeleteFile("b.txt")]),
    ("Throw away the folder build/ and everything in it", [DeleteFile("build/", True)]),
    ("Delete the logs folder", [DeleteFile("logs")]),
    ("Kindly delete a.txt as well as b.txt", [DeleteFile("a.txt"), DeleteFile("b.txt")]),
    ("delete a.txt if it exists", [DeleteFile("a.txt")]),
    ("when you're done reading a.txt, delete it", [ReadFile("a.txt"), DeleteFile("a.txt")]),
    ("Do these things: read a.txt, delete b.txt", [ReadFile("a.txt"), DeleteFile("b.txt")]),
    ("visit example.com", [FetchUrl("https://example.com")]),
    ("curl https://e.com/v1?x=1&y=2", [FetchUrl("https://e.com/v1?x=1&y=2")]),
    ("Run this Python: print(sum(range(10)))", [RunCode("python", "print(sum(range(10)))")]),
    ("Use python to compute 2**10", [RunCode("python", "print(2**10)")]),
    ("what is 17 * 23?", [RunCode("python", "print(17 * 23)")]),
    ("execute `ls -la` in bash and save the output to l.txt",
     [RunCode("bash", "ls -la"), put("l.txt", 0)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "intents"), PHRASINGS, ids=[text for text, _ in PHRASINGS])
def test_a_phrasing_is_understood(text: str, intents: list[Any]) -> None:
    understanding = understand(text)
    assert [seen(step.intent) for step in understanding.steps] == intents
    assert understanding.problems == ()


@pytest.mark.parametrize(
    "text",
    [
        "append one more line to a.txt",
        "append another line to a.txt",
        "add two lines to a.txt",
        "add more text to a.txt",
        "write something to a.txt",
    ],
)
def test_a_text_that_is_not_said_is_asked_for(text: str) -> None:
    understanding = understand(text)
    assert understanding.steps == ()
    [problem] = understanding.problems
    assert problem.startswith("What should I write?")


@pytest.mark.parametrize("said", ["one more line saying", "another line:", "one more line"])
def test_a_line_that_is_said_is_appended(said: str) -> None:
    steps = understand(f"append {said} eggs to s.txt").steps
    assert steps[1].intent == WriteFile("s.txt", (LineBreak(0), Said("eggs"), Said("\n")), True)


def test_a_new_line_waits_for_what_the_file_ends_with() -> None:
    steps = understand('add another line saying "eggs" to s.txt').steps
    assert steps[0].intent == ReadFile("s.txt")
    assert steps[0].quiet
    assert steps[1].intent == WriteFile("s.txt", (LineBreak(0), Said("eggs"), Said("\n")), True)
    assert steps[1].after == {0}


def test_steps_on_one_file_wait_for_each_other_and_others_do_not() -> None:
    steps = understand("write 'x' to a.txt, read a.txt, read b.txt, list the files").steps
    assert [set(step.needs) for step in steps] == [set(), {0}, set(), set()]
    assert [set(step.after) for step in steps] == [set(), set(), set(), {0}]


def test_a_folder_that_is_deleted_waits_for_what_is_read_in_it() -> None:
    steps = understand("read docs/a.txt and delete the docs folder").steps
    assert steps[1].after == {0}


def test_memory_gives_it_a_meaning() -> None:
    memory = Memory(files=("a.txt",), value="noon")
    assert understand("save it to b.txt", memory).steps[0].intent == write("b.txt", "noon")
    assert understand("read it", memory).steps[0].intent == ReadFile("a.txt")
    assert understand("read it").steps == ()


def test_quotations_paths_and_addresses_are_one_token_each() -> None:
    text = "read 'it's “one”' `a b` \u2018x\u2019 https://e.com/a?b=1, (./b/c.d). e.g. 3.14"
    assert [(t.kind, t.text) for t in tokenize(text)] == [
        (Kind.WORD, "read"),
        (Kind.QUOTE, "it's “one”"),
        (Kind.CODE, "a b"),
        (Kind.QUOTE, "x"),
        (Kind.URL, "https://e.com/a?b=1"),
        (Kind.COMMA, ","),
        (Kind.PATH, "./b/c.d"),
        (Kind.END, ")."),
        (Kind.WORD, "e.g"),
        (Kind.END, "."),
        (Kind.WORD, "3.14"),
    ]


@given(st.text())
def test_tokens_stand_in_order_within_the_text(text: str) -> None:
    end = 0
    for token in tokenize(text):
        assert end <= token.start < token.end <= len(text)
        end = token.end


@given(st.text(alphabet=" '\"`.,:;?!\n()a/*->“\u2018", max_size=300))
def test_a_heap_of_marks_is_read_to_its_end(text: str) -> None:
    understand(text)


@pytest.mark.parametrize("mark", [" !", " .", "x!", " ! to", "!? to a.", " ...", "*", "/"])
def test_thousands_of_marks_ask_for_nothing(mark: str) -> None:
    assert understand("x " + mark[:-1] + mark[-1] * 30_000).steps == ()
    assert understand((mark + " ") * 900).steps == ()
