"""What the rehearsal model can plan: steps, each one call of one tool, and contents made of them."""

from __future__ import annotations

import msgspec


class Said(msgspec.Struct, frozen=True):
    """A piece of content that the person gave."""

    text: str


class ResultOf(msgspec.Struct, frozen=True):
    """A piece of content that an earlier step brings: its number, and a name for it."""

    step: int
    label: str = ""


class LineBreak(msgspec.Struct, frozen=True):
    """A line break, when the file that this step read does not end with one."""

    step: int


Content = tuple[Said | ResultOf | LineBreak, ...]


class Clock(msgspec.Struct, frozen=True):
    """The time in a zone; the machine's own without one."""

    zone: str | None = None
    place: str = ""
    human: bool = False


class ListFolder(msgspec.Struct, frozen=True):
    """The entries of a folder."""

    path: str = "."
    recursive: bool = False
    hidden: bool = False


class ReadFile(msgspec.Struct, frozen=True):
    """The content of a file."""

    path: str


class WriteFile(msgspec.Struct, frozen=True):
    """A file made new, or more at its end."""

    path: str
    content: Content
    append: bool = False


class EditFile(msgspec.Struct, frozen=True):
    """Text replaced in a file that step `read` has read, to know how often it is there."""

    path: str
    old: str
    new: str
    read: int
    first_only: bool = False


class MoveFile(msgspec.Struct, frozen=True):
    """A file under another name."""

    source: str
    target: str


class DeleteFile(msgspec.Struct, frozen=True):
    """A file, or a folder, removed."""

    path: str
    recursive: bool = False


class SearchFiles(msgspec.Struct, frozen=True):
    """Text looked for in files; without a pattern, files looked for by their name."""

    pattern: str
    path: str | None = None
    glob: str | None = None
    is_regex: bool = False


class SearchWeb(msgspec.Struct, frozen=True):
    """Words looked for on the web."""

    query: str


class FetchUrl(msgspec.Struct, frozen=True):
    """What an address on the web answers."""

    url: str


class RunCode(msgspec.Struct, frozen=True):
    """A piece of Python or bash."""

    language: str
    code: str


Intent = (
    Clock
    | ListFolder
    | ReadFile
    | WriteFile
    | EditFile
    | MoveFile
    | DeleteFile
    | SearchFiles
    | SearchWeb
    | FetchUrl
    | RunCode
)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One intent with what it waits for.

    Attributes:
        intent: What to do.
        needs: Steps that must have succeeded before.
        after: Steps that must have ended before, well or not.
        quiet: It serves another step, so that only its failure is worth a word.
    """

    intent: Intent
    needs: frozenset[int] = frozenset()
    after: frozenset[int] = frozenset()
    quiet: bool = False


class Understanding(msgspec.Struct, frozen=True, kw_only=True):
    """What a text asks for.

    Attributes:
        steps: What to do, in its order; steps refer to each other by their place here.
        problems: Sentences for the person: what is missing, or was left out, and why.
        unknown: What was not understood, as written.
    """

    steps: tuple[Step, ...] = ()
    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class Memory(msgspec.Struct, frozen=True):
    """What `it` may mean from earlier turns: files that were named, a value that was found."""

    files: tuple[str, ...] = ()
    value: str | None = None


def paths_of(intent: Intent) -> tuple[str, ...]:
    """The paths that a step touches; `.` is the whole workspace."""
    match intent:
        case ListFolder() | ReadFile() | WriteFile() | EditFile() | DeleteFile():
            return (intent.path,)
        case MoveFile():
            return (intent.source, intent.target)
        case SearchFiles():
            return (intent.path or ".",)
        case RunCode():
            return (".",)
        case _:
            return ()


def changes_files(intent: Intent) -> bool:
    """Whether a step may change the workspace."""
    return isinstance(intent, WriteFile | EditFile | MoveFile | DeleteFile | RunCode)
