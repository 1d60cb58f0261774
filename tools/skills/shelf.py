"""Where skills are: the user's own, and those of a workspace that a person approved.

A workspace is a stranger's word: neither the name nor the description of its skills reaches a model
before a person approved exactly this content. The user's own come first, and no skill of a workspace
can take the name of one of them. What is hashed is what is used: the files are read once, and checked
against the approval afterwards, so there is no moment in which they could be exchanged.

All methods of `SkillShelf` block on the disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ...config.skill_approvals import SkillApprovals
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.handles import ReadableFiles
from ..failures import failed
from ..processes.threads import run_read
from ..workspace.workspace import open_workspace
from .front_matter import FrontMatter, SkillFault, read_front

FOLDER_NAME = "skills"
"""In the data folder: the user's own skills, each a folder."""
WORKSPACE_FOLDERS = (".callboard/skills", "skills")
"""In a workspace; the first one wins."""
TEXT_NAME = "SKILL.md"

MAX_SKILLS = 100
"""Folders that are read in one place: each skill costs a model a line in every request."""
MAX_ENTRIES = 1_000
"""Names that are listed to find them in one place."""
MAX_TEXT_BYTES = 64 * 1024
"""The largest SKILL.md: as large as any result for a model."""
MAX_FILES = 200
"""The most files of one skill, folders included."""
MAX_BYTES = 4 * 1024 * 1024
"""The size of all files of one skill: they are hashed whenever they are used."""
MAX_LINE_CHARS = 300
"""How much of a description the system prompt shows: enough to choose by."""
MAX_LISTED_FILES = 50
"""Names of a skill's files in a result; its text says which matter."""

HEADING = (
    "Skills: instructions for tasks of a kind. When a task is of such a kind, read the skill first "
    "with the tool `skill`."
)

SkillState = Literal["own", "approved", "new", "changed", "broken", "hidden"]


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that was found.

    Attributes:
        name: The name of its folder.
        description: What it is for; empty when it is broken.
        state: Models are told of `own` and `approved` skills. `new` ones wait for an approval, as
            do `changed` ones, whose content is no longer the approved one. `broken` ones say why
            in `problem`; `hidden` ones have the name of another that comes first.
        path: Its folder: absolute for the user's own, else relative to the workspace.
        digest: For a skill of a workspace, the hash that an approval is for.
    """

    name: str
    state: SkillState
    path: str
    description: str = ""
    digest: str = ""
    problem: str = ""

    @property
    def is_listed(self) -> bool:
        """Whether models are told of it."""
        return self.state in {"own", "approved"}


class SkillContent(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a skill, as they were at one moment."""

    name: str
    files: dict[str, bytes]

    @property
    def digest(self) -> str:
        """The SHA-256 of all names and contents."""
        listed = [[name, hashlib.sha256(data).hexdigest()] for name, data in self.files.items()]
        return hashlib.sha256(msgspec.json.encode([self.name, sorted(listed)])).hexdigest()

    def read(self) -> tuple[FrontMatter, str]:
        """Return the front matter and the instructions; raise `SkillFault`."""
        return read_front(_text(self.files.get(TEXT_NAME)), self.name)

    @property
    def body(self) -> str:
        """The instructions; raises `SkillFault`."""
        return self.read()[1]

    def file(self, name: str) -> str:
        """Return one of the files as text; raise `ToolFailure`."""
        data = self.files.get(name)
        if data is None:
            known = ", ".join(sorted(self.files)[:50])
            raise ToolFailure(
                ErrorType.FILE_NOT_FOUND,
                f"The skill {self.name} has no file {name[:100]!r}. It has: {known}.",
            )
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ToolFailure(
                ErrorType.BINARY_FILE, f"{name} of the skill {self.name} is not UTF-8 text."
            ) from None


def load_skill(files: ReadableFiles, path: str) -> SkillContent:
    """Read all files of the skill in a folder below the root, once; raise `SkillFault`."""
    try:
        listing = files.entries(path, recursive=True, include_hidden=True, max_entries=MAX_FILES)
    except ToolFailure as failure:
        raise SkillFault(f"it can't be read ({failure})") from failure
    if listing.truncated:
        raise SkillFault(f"it has more than {MAX_FILES} files")
    left = MAX_BYTES
    found: dict[str, bytes] = {}
    for info in listing.entries:
        if info.kind == "directory":
            continue
        if info.kind != "file":
            raise SkillFault(f"{info.path} is a link or a special file; a skill holds copies")
        name = info.path if path == "." else info.path[len(path) + 1 :]
        found[name] = _read(files, path, name, left)
        left -= len(found[name])
    return SkillContent(name=_base(path), files=found)


class SkillShelf:
    """The skills of one user. Without a data folder there are none, and none of a workspace can be approved."""

    def __init__(self, data: Path | None) -> None:
        self._own = None if data is None else data / FOLDER_NAME
        self._approvals = None if data is None else SkillApprovals(data)

    def may_have_any(self) -> bool:
        """Return whether a model may be told of any skill: two quick looks, for most turns."""
        if self._own is None or self._approvals is None:
            return False
        return self._own.is_dir() or self._approvals.has_any

    def listed(self, workspace: Path) -> list[Skill]:
        """Return the skills that models are told of in a workspace."""
        # What nobody approved need not be read, however much of it there is.
        return [skill for skill in self._found(workspace, all_states=False) if skill.is_listed]

    def all(self, workspace: Path) -> list[Skill]:
        """Return every skill, whatever its state; raise `ValidationError` for a bad folder."""
        return self._found(workspace, all_states=True)

    def content(self, workspace: Path, name: str) -> SkillContent:
        """Return a skill that models are told of, as it is now.

        Raises `ToolFailure` when there is none of that name, or nobody approved its present content.
        """
        skills = self.all(workspace)
        skill = next((each for each in skills if each.name == name), None)
        if skill is None:
            known = ", ".join(each.name for each in skills if each.is_listed) or "none"
            raise ToolFailure(
                ErrorType.FILE_NOT_FOUND, f"There is no skill {name[:100]!r}. There are: {known}."
            )
        if not skill.is_listed:
            raise _refused(skill)
        root, path = (self._own, skill.name) if skill.state == "own" else (workspace, skill.path)
        assert root is not None
        with open_workspace(root) as files:
            try:
                content = load_skill(files, path)
            except SkillFault as fault:
                raise _refused(_broken(skill.path, fault)) from fault
        # Again: these are the bytes that are used, and there was time to change them.
        if skill.state == "approved" and content.digest != skill.digest:
            raise _refused(msgspec.structs.replace(skill, state="changed"))
        return content

    def _found(self, workspace: Path, *, all_states: bool) -> list[Skill]:
        found: list[Skill] = []
        names: set[str] = set()
        for skill in (*self._own_skills(), *self._workspace_skills(workspace, all_states)):
            if skill.name in names:
                problem = "another skill of this name comes first"
                skill = msgspec.structs.replace(skill, state="hidden", problem=problem)
            names.add(skill.name)
            found.append(skill)
        return found

    def _own_skills(self) -> Iterator[Skill]:
        if self._own is None or not self._own.is_dir():
            return
        with open_workspace(self._own) as files:
            for name in _folders(files, "."):
                path = str(self._own / name)
                try:
                    text = _text(_read(files, name, TEXT_NAME, MAX_TEXT_BYTES))
                    front, _ = read_front(text, name)
                except SkillFault as fault:
                    yield _broken(path, fault)
                else:
                    yield Skill(name=name, description=front.description, state="own", path=path)

    def _workspace_skills(self, workspace: Path, all_states: bool) -> Iterator[Skill]:
        approved = {} if self._approvals is None else self._approvals.of(workspace)
        if not approved and not all_states:
            return
        with open_workspace(workspace) as files:
            for place in WORKSPACE_FOLDERS:
                for name in _folders(files, place):
                    path = f"{place}/{name}"
                    if all_states or path in approved:
                        yield _workspace_skill(files, path, approved.get(path))


def _workspace_skill(files: ReadableFiles, path: str, approved: str | None) -> Skill:
    try:
        content = load_skill(files, path)
        front, _ = content.read()
    except SkillFault as fault:
        return _broken(path, fault)
    digest = content.digest
    state: SkillState = "new"
    if approved is not None:
        state = "approved" if approved == digest else "changed"
    return Skill(
        name=content.name, description=front.description, state=state, path=path, digest=digest
    )


def _folders(files: ReadableFiles, path: str) -> list[str]:
    try:
        listing = files.entries(
            path, recursive=False, include_hidden=False, max_entries=MAX_ENTRIES
        )
    except ToolFailure:
        return []
    return [_base(info.path) for info in listing.entries if info.kind == "directory"][:MAX_SKILLS]


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _read(files: ReadableFiles, folder: str, name: str, most: int) -> bytes:
    try:
        data = files.read(f"{folder}/{name}", limit=most + 1).data
    except ToolFailure as failure:
        raise SkillFault(f"{name} can't be read ({failure})") from failure
    if len(data) > most:
        whole = f"{MAX_TEXT_BYTES} bytes" if name == TEXT_NAME else f"all of it {MAX_BYTES} bytes"
        raise SkillFault(f"{name} is too large: it may have {whole}")
    return data


def _text(data: bytes | None) -> str:
    if data is None:
        raise SkillFault(f"it has no {TEXT_NAME}")
    if len(data) > MAX_TEXT_BYTES:
        raise SkillFault(f"{TEXT_NAME} is too large: it may have {MAX_TEXT_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SkillFault(f"{TEXT_NAME} is not UTF-8 text ({error})") from error


def _broken(path: str, fault: SkillFault) -> Skill:
    return Skill(name=_base(path), state="broken", path=path, problem=str(fault))


def _refused(skill: Skill) -> ToolFailure:
    if skill.state == "broken":
        return failed(f"The skill {skill.name} is not used: {skill.problem}.")
    why = "was changed since it was approved" if skill.state == "changed" else "is not approved"
    return ToolFailure(
        ErrorType.PERMISSION_DENIED,
        f"The skill {skill.name} of this workspace {why}. A person can look at it and approve it: "
        f"callboard skills allow {skill.name}",
        reason=f"the skill {why}",
    )


# ── for a session ────────────────────────────────────────────────────────────────────────────────


class OpenSkills:
    """A `SkillReader` for the calls of one session, on its workspace; `names` limits it to some."""

    def __init__(
        self, shelf: SkillShelf, workspace: str, names: tuple[str, ...] | None = None
    ) -> None:
        self._shelf = shelf
        self._workspace = workspace
        self._names = names

    async def read(self, name: str, file: str | None = None) -> dict[str, Any]:
        """See `SkillReader`."""
        return await run_read(self._read, name, file)

    def _read(self, name: str, file: str | None) -> dict[str, Any]:
        if self._names is not None and name not in self._names:
            known = ", ".join(self._names) or "none"
            raise ToolFailure(
                ErrorType.FILE_NOT_FOUND,
                f"This agent has no skill {name[:100]!r}. It has: {known}.",
            )
        content = self._shelf.content(Path(self._workspace), name)
        if file is not None:
            return {"name": name, "file": file, "content": content.file(file)}
        output: dict[str, Any] = {"name": name, "instructions": content.body.strip()}
        if others := sorted(other for other in content.files if other != TEXT_NAME):
            output["files"] = others[:MAX_LISTED_FILES]
        return output


async def skills_prompt(
    shelf: SkillShelf, workspace: str, names: tuple[str, ...] | None = None
) -> str:
    """Return the part of a system prompt that lists skills, of these names only; empty for none."""
    if names == () or not shelf.may_have_any():
        return ""
    listed = await run_read(shelf.listed, Path(workspace))
    return skill_lines([skill for skill in listed if names is None or skill.name in names])


def skill_lines(skills: Sequence[Skill]) -> str:
    """Return a line for each skill below a heading; empty when there are none."""
    if not skills:
        return ""
    lines = [HEADING]
    for skill in skills:
        said = skill.description
        short = said if len(said) <= MAX_LINE_CHARS else said[: MAX_LINE_CHARS - 1] + "…"
        lines.append(f"- {skill.name}: {short}")
    return "\n".join(lines)
