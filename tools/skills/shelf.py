"""Where skills are: the user's own, and those of a workspace that a person approved.

A workspace is a stranger's word: neither the name nor the description of its skills reaches a model
before a person approved exactly this content. The user's own come first, and no skill of a workspace
can take the name of one of them. What is hashed is what is used: the files are read once, and checked
against the approval afterwards, so there is no moment in which they could be exchanged.

The AGENTS.md of a workspace and of the folders above it (`instructions`) are approved in the same way. They are no
skills: models have their whole text in the system prompt, and do not ask for them.

All methods of `SkillShelf` block on the disk.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ...config.skill_approvals import SkillApprovals
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.handles import ReadableFiles
from ...runtime.redaction import redacting_logger
from ...runtime.text import hidden_in
from ..failures import failed
from ..processes.threads import run_read
from ..workspace.paths import shown
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

INSTRUCTIONS_NAME = "AGENTS.md"
"""The name of files with instructions for all work in a folder; an agent's `skills` may have it, too."""
INSTRUCTIONS_DESCRIPTION = "instructions for all work in its folder"
MAX_SAID = 1_000
"""Files that were left out, and workspaces without any, that a runtime remembers."""

logger = redacting_logger(__name__)

SkillKind = Literal["skill", "instructions"]
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
        kind: An AGENTS.md is `instructions`: for all work, and not only for tasks of a kind.
    """

    name: str
    state: SkillState
    path: str
    description: str = ""
    digest: str = ""
    problem: str = ""
    kind: SkillKind = "skill"

    @property
    def is_listed(self) -> bool:
        """Whether models are told of it."""
        return self.state in {"own", "approved"}

    @property
    def known_as(self) -> str:
        """What people call it: an AGENTS.md by its path, since there may be several."""
        return self.path if self.kind == "instructions" else self.name


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
        if self.name == INSTRUCTIONS_NAME:
            return _text(self.files.get(self.name), self.name)
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
        self._said: set[str] = set()

    def may_have_any(self, workspace: str = "") -> bool:
        """Return whether a model may be told of anything, or something is left out that nobody knows of yet.

        Two quick looks, for most turns.
        """
        if self._own is None or self._approvals is None:
            return False
        return self._own.is_dir() or self._approvals.has_any or self._may_leave_out(workspace)

    def _may_leave_out(self, workspace: str) -> bool:
        """Return whether there may be an AGENTS.md that nobody was told of; looks only the first time."""
        return bool(workspace) and self._is_new(workspace) and may_have_instructions(workspace)

    def _is_new(self, what: str) -> bool:
        if len(self._said) >= MAX_SAID:
            self._said.clear()
        is_new = what not in self._said
        self._said.add(what)
        return is_new

    def listed(self, workspace: Path) -> list[Skill]:
        """Return the skills that models are told of in a workspace."""
        # What nobody approved need not be read, however much of it there is.
        return [skill for skill in self._found(workspace, all_states=False) if skill.is_listed]

    def all(self, workspace: Path) -> list[Skill]:
        """Return every skill, whatever its state, and every AGENTS.md; raise `ValidationError` for a bad folder."""
        found = self._found(workspace, all_states=True)
        return found + [skill for skill, _ in self.instructions(workspace)]

    def instructions(self, workspace: Path) -> list[tuple[Skill, SkillContent]]:
        """Return every AGENTS.md with what it holds, the nearest last. One without a word is none."""
        from .instructions import MAX_WHOLE_BYTES, instruction_files  # few workspaces have any

        found: list[tuple[Skill, SkillContent]] = []
        left = MAX_WHOLE_BYTES
        for file in reversed(instruction_files(workspace)):
            content = SkillContent(name=INSTRUCTIONS_NAME, files={})
            skill = Skill(
                name=INSTRUCTIONS_NAME,
                description=INSTRUCTIONS_DESCRIPTION,
                state="new",
                path=file.path,
                kind="instructions",
            )
            try:
                content.files[INSTRUCTIONS_NAME] = data = file.read()
                if not content.body.strip():
                    continue
                if len(data) > left:
                    raise SkillFault(
                        f"with those that lie nearer it has over {MAX_WHOLE_BYTES} bytes"
                    )
            except SkillFault as fault:
                skill = msgspec.structs.replace(skill, state="broken", problem=str(fault))
            else:
                left -= len(data)
                approved = None if self._approvals is None else self._approvals.of(file.folder)
                digest = content.digest
                state = _state((approved or {}).get(INSTRUCTIONS_NAME), digest)
                skill = msgspec.structs.replace(skill, state=state, digest=digest)
            found.append((skill, content))
        return found[::-1]

    def told(self, workspace: Path) -> list[tuple[str, str, str]]:
        """Return the path, the hash and the text of each AGENTS.md that models are told of.

        What is left out is logged, once for each content.
        """
        told: list[tuple[str, str, str]] = []
        for skill, content in self.instructions(workspace):
            if skill.is_listed:
                told.append((skill.path, skill.digest, content.body))
            elif self._is_new(f"{workspace}\0{skill.path}\0{skill.state}\0{skill.digest}"):
                logger.warning("models are not told of %s of %s: %s", *_left_out(skill, workspace))
        return told

    def load(self, workspace: Path, skill: Skill) -> SkillContent:
        """Read what was found, as it is now; raise `SkillFault`."""
        if skill.kind == "instructions":
            found = (content for each, content in self.instructions(workspace) if each == skill)
            if (content := next(found, None)) is None:
                raise SkillFault("it was changed a moment ago")
            return content
        is_own = skill.state == "own" and self._own is not None
        root, path = (self._own, skill.name) if is_own else (workspace, skill.path)
        assert root is not None
        with open_workspace(root) as files:
            return load_skill(files, path)

    def content(self, workspace: Path, name: str) -> SkillContent:
        """Return a skill that models are told of, as it is now.

        Raises `ToolFailure` when there is none of that name, or nobody approved its present content.
        """
        skills = [each for each in self.all(workspace) if each.kind == "skill"]
        skill = next((each for each in skills if each.name == name), None)
        if skill is None:
            known = ", ".join(each.name for each in skills if each.is_listed) or "none"
            raise ToolFailure(
                ErrorType.FILE_NOT_FOUND, f"There is no skill {name[:100]!r}. There are: {known}."
            )
        if not skill.is_listed:
            raise _refused(skill)
        try:
            content = self.load(workspace, skill)
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
    return Skill(
        name=content.name,
        description=front.description,
        state=_state(approved, digest),
        path=path,
        digest=digest,
    )


def _state(approved: str | None, digest: str) -> SkillState:
    if approved is None:
        return "new"
    return "approved" if approved == digest else "changed"


def may_have_instructions(workspace: str | Path) -> bool:
    """Return whether there is an AGENTS.md in a workspace or above it; one may lie above the repository's root."""
    folder = os.path.realpath(workspace)
    while not os.path.lexists(f"{folder}/{INSTRUCTIONS_NAME}"):
        if folder == "/" or os.path.lexists(f"{folder}/.git"):
            return False
        folder = os.path.dirname(folder)
    return True


def place_of_approval(workspace: Path, path: str) -> tuple[Path, str]:
    """Return the folder and the path in it that `SkillApprovals` has for what was found at a path of a workspace.

    An AGENTS.md is approved for its own folder, and so for all workspaces below.
    """
    if os.path.basename(path) != INSTRUCTIONS_NAME:
        return workspace, path
    folder = os.path.join(os.path.realpath(workspace), os.path.dirname(path))
    return Path(os.path.normpath(folder)), INSTRUCTIONS_NAME


def _left_out(skill: Skill, workspace: Path) -> tuple[str, str, str]:
    folder = shown(str(workspace))
    if skill.state == "broken":
        return skill.path, folder, skill.problem
    why = "nobody allowed it" if skill.state == "new" else "it was changed since it was allowed"
    return skill.path, folder, f"{why} (callboard skills show AGENTS.md, then allow AGENTS.md)"


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


def _text(data: bytes | None, name: str = TEXT_NAME) -> str:
    if data is None:
        raise SkillFault(f"it has no {name}")
    if len(data) > MAX_TEXT_BYTES:
        raise SkillFault(f"{name} is too large: it may have {MAX_TEXT_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillFault(f"{name} is not UTF-8 text ({error})") from error
    if (hidden := hidden_in(text)) is not None:
        raise SkillFault(f"{name} has hidden characters, which models read and you don't: {hidden}")
    return text


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


async def workspace_prompt(
    shelf: SkillShelf, workspace: str, names: tuple[str, ...] | None, *, reads_skills: bool
) -> str:
    """Return the part of a system prompt that lists skills and has the text of each AGENTS.md; empty for none.

    With `names`, only what has one of these names counts; without `reads_skills`, no skill does.
    """
    if names == () or not shelf.may_have_any(workspace):
        return ""
    return await run_read(_workspace_prompt, shelf, Path(workspace), names, reads_skills)


def _workspace_prompt(
    shelf: SkillShelf, workspace: Path, names: tuple[str, ...] | None, reads_skills: bool
) -> str:
    parts: list[str] = []
    if reads_skills:
        listed = shelf.listed(workspace)
        parts.append(skill_lines([one for one in listed if names is None or one.name in names]))
    if names is None or INSTRUCTIONS_NAME in names:
        from .instructions import instructions_text  # here: few workspaces have any

        parts.append(instructions_text(shelf.told(workspace)))
    return "\n\n".join(filter(None, parts))


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
