"""What is typed into a chat besides prompts: files, lines of one's own shell, commands, earlier inputs."""

from __future__ import annotations

import base64
from contextlib import chdir
from pathlib import Path

import pytest
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.screen import Char, Screen

from callboard.cli.chat import input_aids
from callboard.cli.chat.files import is_dropped_file, mentioned
from callboard.cli.chat.input_aids import ChatCompleter
from callboard.cli.chat.prompt import added_rows
from callboard.cli.terminal.clipboard import clipboard_image, put_text
from callboard.cli.terminal.folding import folds_rows
from callboard.providers.testing.script import reply
from support.cli.chat_scene import chatting, leave, prompt, say, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command

CTRL_C, CTRL_R, CTRL_J, CTRL_V, ESC, DOWN = "\x03", "\x12", "\n", "\x16", "\x1b", "\x1b[B"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
ANSWER = "See:\n```sh\nls -l\n```\n"


async def test_files_and_own_commands_go_with_a_prompt(command: Command) -> None:
    """A file by its sign and Tab, the output of one's own command once agreed, in several lines."""
    command.extra["SHELL"] = "/bin/sh"
    (command.workspace / "notes.txt").write_text("words of the file")
    async with scripted(command, reply("One."), reply("Two.")) as server:
        async with chatting(command) as terminal:
            await say(terminal, "!echo dear; echo reader")
            await terminal.expect("(runs as you, outside the sandbox)")
            await terminal.expect("  dear\n  reader\n")
            await terminal.expect("Give the output to the model with your next prompt? [y/N]")
            await terminal.type("y\n")
            await terminal.expect("it goes with your next prompt")
            await say(terminal, "What is this?")
            await terminal.expect(
                "may hold words of others: from now on less runs without a question"
            )
            await terminal.expect("  One.\n")
            for no in ("\n", "\x03"):
                await say(terminal, "!echo mine")
                await terminal.expect("[y/N]")
                await terminal.type(no)
                await terminal.expect("/help")
            assert "not waited for" not in terminal.seen
            await terminal.type("Read @no\t")
            await terminal.expect("notes.txt")
            await terminal.type(f"{CTRL_J}!echo no\r")
            await terminal.expect("attached: notes.txt")
            await terminal.expect("  Two.\n")
    first, second = (str(request.body["messages"][-1]) for request in server.requests)
    assert "$ echo dear; echo reader\\ndear\\nreader\\n" in first
    assert "words of the file" in second
    assert "!echo no" in second  # a text of several lines reaches no shell
    assert "mine" not in second


async def test_menus_open_while_typing_and_earlier_prompts_are_edited(command: Command) -> None:
    """A command and a file from the menu, two prompts back, with what `--verbose` says of each request."""
    answers = (reply("One."), reply("Two."), reply("Three."))
    async with scripted(command, *answers) as server, chatting(command, "--verbose") as terminal:
        await say(terminal, "First")
        await terminal.expect("  One.\n")
        await terminal.expect("request 1: local/scripted, ")
        await terminal.expect("/help")
        await terminal.type("/us")
        await terminal.expect("show tokens and cost of this session")
        await terminal.type("\t\r")
        await terminal.expect("local/scripted  1 call")
        await terminal.expect("/help")
        await terminal.type("What is @")
        await terminal.expect("a.txt")
        await terminal.type(f"{DOWN}\r")
        await terminal.type("about?\r")
        await terminal.expect("▸ What is @a.txt about?")
        await terminal.expect("attached: a.txt")
        await terminal.expect("  Two.\n")
        await terminal.expect("/help")
        await terminal.type(ESC + ESC)
        await terminal.expect("an earlier prompt: Enter goes on from there")
        await terminal.expect("▸ What is @a.txt about?")
        await terminal.type(ESC + ESC)
        await terminal.expect("First")
        await terminal.type(" of all\r")
        await terminal.expect("this is a copy")
        await terminal.expect("  Three.\n")
    said = [
        [each["content"] for each in request.body["messages"] if each["role"] == "user"]
        for request in server.requests
    ]
    assert said[0] == ["First"]
    assert said[2] == ["First of all"]
    assert "old" in str(said[1][1])


async def test_a_large_file_is_asked_about_and_others_say_their_size(command: Command) -> None:
    """It is paid for with each later prompt, too."""
    (command.workspace / "big.txt").write_text("word " * 60_000)
    (command.workspace / "old.txt").write_bytes(b"caf\xe9")
    async with scripted(command, reply("One.")) as server, chatting(command) as terminal:
        await say(terminal, "Compare @big.txt and @old.txt")
        await terminal.expect("big.txt is 300 kB, about 75,000 tokens, and each later prompt")
        await terminal.expect("Attach it? [y/N]")
        await terminal.type("n\n")
        await terminal.expect("old.txt: 1 byte of it is not UTF-8, and shown as �")
        await terminal.expect("attached: old.txt (4 bytes)")
        await terminal.expect("  One.\n")
    sent = str(server.requests[0].body["messages"][-1])
    assert "caf�" in sent
    assert "word word" not in sent


async def test_an_image_on_the_clipboard_goes_with_the_next_prompt(command: Command) -> None:
    """Asked of the desktop's own program; shown before it is sent, and taken back by Ctrl-C."""
    programs, folder = command.home / "bin", command.home / "clipboard"
    programs.mkdir()
    for name in ("sh", "cat"):
        (programs / name).symlink_to(f"/bin/{name}")
    command.extra |= {"WAYLAND_DISPLAY": "wayland-0", "PATH": str(programs)}
    async with scripted(command, reply("A dot.")) as server, chatting(command) as terminal:
        await terminal.type(CTRL_V)
        await terminal.expect("is read by wl-paste, which is not installed")
        (programs / "wl-paste").write_text(f'#!/bin/sh\n[ "$3" = image/png ] && cat {folder}\n')
        (programs / "wl-paste").chmod(0o700)
        await terminal.type(CTRL_V)
        await terminal.expect("there is no image on the clipboard")
        folder.write_bytes(PNG)
        await terminal.type(CTRL_V)
        await terminal.expect("with the next prompt: clipboard.png (16 bytes)")
        await terminal.type(CTRL_C)
        await terminal.type(CTRL_V)
        await terminal.expect("with the next prompt: clipboard.png (16 bytes)")
        await say(terminal, "What is it?")
        await terminal.expect("attached: clipboard.png")
        await terminal.expect("  A dot.\n")
    assert str(server.requests[0].body).count(base64.b64encode(PNG).decode()) == 1


PLATFORMS = {
    "wayland": ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, "wl-copy"),
    "x11": ("linux", {"DISPLAY": ":0"}, "xclip -selection clipboard -in"),
    "x11 with xsel": ("linux", {"DISPLAY": ":0"}, "xsel --clipboard --input"),
    "macos": ("darwin", {}, "pbcopy"),
}


@pytest.mark.parametrize("name", PLATFORMS)
async def test_a_text_is_put_on_the_clipboard_of_the_desktop(name: str, tmp_path: Path) -> None:
    """Not by a program of the folder, nor over ssh, nor when it says that it can't."""
    platform, environ, line = PLATFORMS[name]
    kept, program = tmp_path / "kept", tmp_path / line.split()[0]
    program.write_text(
        f'#!/bin/sh\n[ "${{0##*/}} $*" = "{line} " ] || [ "${{0##*/}} $*" = "{line}" ] && cat > {kept}\n'
    )
    program.chmod(0o700)
    environ = {**environ, "PATH": str(tmp_path)}
    assert await put_text("a\nö", environ, platform)
    assert kept.read_text() == "a\nö"
    kept.unlink()
    for other in ({"SSH_CONNECTION": "1.2.3.4"}, {"PATH": "."}):
        with chdir(tmp_path):
            assert not await put_text("a", {**environ, **other}, platform)
    assert not kept.exists()
    program.write_text("#!/bin/sh\nexit 1\n")
    assert not await put_text("a", environ, platform)


@pytest.mark.parametrize(
    ("program", "prints"),
    [
        ("pngpaste", r"printf '\211PNG\r\n\032\n\0\0\0\0\0\0\0\0'"),
        ("osascript", f"echo '\u00abdata PNGf{PNG.hex().upper()}\u00bb'"),
    ],
)
async def test_an_image_is_read_from_the_clipboard_of_macos(
    program: str, prints: str, tmp_path: Path
) -> None:
    (tmp_path / program).write_text(f"#!/bin/sh\n{prints}\n")
    (tmp_path / program).chmod(0o700)
    image = await clipboard_image({"PATH": str(tmp_path)}, "darwin")
    assert (image.media_type, image.data) == ("image/png", PNG)


def test_the_menu_is_for_commands_and_files_alone() -> None:
    wanted = ("/", "/us", "@", "look at @a", '@"', "/home")
    assert [text for text in wanted if not ChatCompleter.is_wanted(text)] == []
    others = ("", "/usage ", "/home/me/pic.png", "me@host", "@a and", "1/2")
    assert [text for text in others if ChatCompleter.is_wanted(text)] == []


def test_what_a_narrower_terminal_folds_is_counted() -> None:
    """The rows above the cursor by what stands in them, not by their width; double-width characters fold whole."""
    screen = Screen()
    for y, text in enumerate(["x" * 79, "short", "漢" * 20, "", "▸ typed"]):
        x = 0
        for character in text:
            screen.data_buffer[y][x] = Char(character)
            x += screen.data_buffer[y][x].width
    assert added_rows(screen, Point(x=7, y=4), 79) == 0
    assert added_rows(screen, Point(x=7, y=4), 40) == 1
    assert added_rows(screen, Point(x=7, y=4), 39) == 2 + 1
    assert added_rows(screen, Point(x=50, y=4), 40) == 1 + 1


def test_terminals_that_cut_off_what_is_too_wide_are_known() -> None:
    assert folds_rows({"TERM": "xterm-256color"})
    assert folds_rows({"TERM": "screen-256color", "TMUX": "/tmp/x", "XTERM_VERSION": "XTerm(1)"})
    cutting: list[dict[str, str]] = [{"STY": "1"}, {"XTERM_VERSION": "XTerm(1)"}, {"TERM": "linux"}]
    assert not any(map(folds_rows, cutting))


async def test_nothing_that_is_piped_reaches_a_shell_or_attaches_a_file(command: Command) -> None:
    (command.workspace / "notes.txt").write_text("words of the file")
    async with scripted(command, reply("One."), reply("Two.")) as server:
        await command("chat", stdin=b"!touch made\n@notes.txt\n")
    assert not (command.workspace / "made").exists()
    assert "!touch made" in str(server.requests[0].body)
    assert "words of the file" not in str(server.requests[1].body)


async def test_a_copy_writes_no_codes_of_terminals_into_a_file(command: Command) -> None:
    async with scripted(command, reply("One.")):
        done = await command("chat", stdin=b"Hello\n/copy\n", environ={"SSH_TTY": "/dev/pts/0"})
    assert "\x1b]52" not in done.out
    assert "there is no terminal" in done.out + done.err


async def test_a_conversation_is_summed_up_when_the_person_says_so(command: Command) -> None:
    async with scripted(command, reply("One. " * 90), reply("NOTES"), reply("Two.")) as server:
        async with chatting(command) as terminal:
            await say(terminal, "/compact")
            await terminal.expect("there is no session yet")
            await prompt(terminal, "Count.", "One. One.")
            shown = "summed up the history: a summary stands for its first 1 round"
            await prompt(
                terminal, "/compact the figures", shown, "in the place of the oldest round"
            )
            await prompt(terminal, "Go on.", "Two.")
    said = str(server.requests[-1].body["messages"])
    assert "NOTES" in said
    assert "One. One." not in said
    assert "matters in them: the figures" in str(server.requests[1].body)


async def test_answers_are_copied_and_sessions_counted_and_forked(command: Command) -> None:
    """Help in groups, a command that was mistyped, the clipboard, usage, a copy of the session, a search."""
    async with scripted(command, reply(ANSWER), reply("In the copy.")) as server:
        async with chatting(command) as terminal:
            await say(terminal, "/help")
            await terminal.expect("Turns\n  /steer TEXT")
            await terminal.expect("Sessions\n  /sessions")
            await say(terminal, "/uasge")
            await terminal.expect("Enter runs /usage,")
            await terminal.expect("/usage")
            await terminal.type(CTRL_C)
            await prompt(terminal, "Which command?")
            await say(terminal, "/copy")
            await terminal.expect(f"\x1b]52;c;{base64.b64encode(ANSWER.encode()).decode()}\x07")
            await say(terminal, "/copy code")
            await terminal.expect(f"\x1b]52;c;{base64.b64encode(b'ls -l').decode()[:4]}")
            await say(terminal, "/usage")
            await terminal.expect("local/scripted  1 call  10 in  5 out")
            await say(terminal, "/fork")
            await terminal.expect("this is a copy")
            await terminal.expect("▸ Which command?\n")
            await terminal.expect("/help")
            await terminal.type(f"{CTRL_R}which")
            await terminal.expect("`which'")
            await terminal.type(CTRL_C)  # ends the search, and its words are no input
            await terminal.type(f"{CTRL_R}which\r")  # finds the earlier prompt
            await terminal.type("\r")
            await terminal.expect("  In the copy.\n")
    asked = [
        each["content"] for each in server.requests[1].body["messages"] if each["role"] == "user"
    ]
    assert asked == ["Which command?"] * 2
    assert len((await command("sessions")).out.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("look at @a.txt, please", ["a.txt"]),
        ('@"with space.txt" and @a.txt @a.txt', ["with space.txt", "a.txt"]),
        ("mail me@a.txt or @nobody", []),
        ("what is {folder}/pic.png?", []),
        ("'{folder}/my pic.png' what is it", ["my pic.png"]),
        ("{folder}/my\\ pic.png", ["my pic.png"]),
        ("file://{folder}/my%20pic.png", ["my pic.png"]),
        ("{folder}/a.txt", []),  # which is no picture
        (
            f"@{'a' * 300} @a.txt",
            ["a.txt"],
        ),  # what no file can be called, and whose home there is not
        (f"/{'b' * 300}.png", []),
        ("@~nobody-here/a.txt @a.txt", ["a.txt"]),
    ],
)
def test_a_prompt_names_files(tmp_path: Path, text: str, found: list[str]) -> None:
    for name in ("a.txt", "with space.txt", "my pic.png"):
        (tmp_path / name).touch()
    text = text.format(folder=tmp_path)
    assert [path.name for path in mentioned(text, tmp_path)] == found
    is_first = bool(found) and text.startswith(("/", "'"))
    assert is_dropped_file(text) == (is_first or text.startswith("file:"))


async def test_what_names_no_file_and_a_shell_that_is_not_there_end_no_chat(
    command: Command,
) -> None:
    """Each ended the chat with a fault of callboard, and the prompt was lost."""
    command.extra["SHELL"] = "/nowhere/sh"
    async with scripted(command, reply("Well.")) as server, chatting(command) as terminal:
        await say(terminal, "!echo mine")
        await terminal.expect("/nowhere/sh can't run that")
        await terminal.type("@~nobody-here/")
        await prompt(terminal, "a")
        await leave(terminal)
        assert "@~nobody-here/a" in str(server.requests[0].body)


@pytest.mark.parametrize("word", ["exit", " quit ", ":q"])
async def test_a_word_that_ends_a_shell_ends_a_chat(command: Command, word: str) -> None:
    async with scripted(command) as server, chatting(command) as terminal:
        await say(terminal, word)
        assert await terminal.end() == 0
        assert server.requests == []


async def test_what_is_more_than_that_word_or_comes_by_a_pipe_is_a_prompt(command: Command) -> None:
    async with scripted(command, reply("Which exit?"), reply("Bye.")):
        async with chatting(command) as terminal:
            await prompt(terminal, "exit code 3?", "Which exit?")
            await leave(terminal)
        assert "Bye." in (await command("chat", stdin=b"exit\n")).out


async def test_a_long_paste_is_a_sign_in_the_input_line_and_sent_whole(command: Command) -> None:
    log = "\r".join(f"line {number}" for number in range(60))  # as terminals paste
    async with scripted(command, reply("One."), reply("Two.")) as server:
        async with chatting(command) as terminal:
            await terminal.type(f"Why? \x1b[200~{log}\x1b[201~")
            await terminal.expect("[pasted text 1: 60 lines]")
            assert "line 0" not in terminal.seen
            await prompt(terminal, " Say it.", "… 40 more lines", "One.")
            await terminal.type("\x1b[200~a\rb\x1b[201~")  # a short one stands there as it is
            await prompt(terminal, "[pasted text 7: 60 lines]", "Two.")
            await leave(terminal)
        first, second = (request.body["messages"][-1]["content"] for request in server.requests)
    assert first == f"Why? {log} Say it.".replace("\r", "\n")
    assert second == "a\nb[pasted text 7: 60 lines]"


def test_what_is_folded_is_bounded_and_comes_back_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_aids, "MAX_FOLDED_CHARS", 2500)
    pastes = input_aids.Pastes()
    one, many = "x" * 1001, "y\n" * 9
    assert pastes.fold("z" * 1000) == "z" * 1000
    assert pastes.fold("z\n" * 8) == "z\n" * 8  # the end of a line begins none
    assert [pastes.fold(one), pastes.fold(many)] == [
        "[pasted text 1: 1,001 characters]",
        "[pasted text 2: 9 lines]",
    ]
    assert pastes.fold("w" * 1500) == "w" * 1500
    assert (
        pastes.unfold("[pasted text 2: 9 lines] [pasted text 1: 1,001 characters]")
        == f"{many} {one}"
    )
    assert pastes.unfold("[pasted text 1: 9 lines]") == "[pasted text 1: 9 lines]"
