"""The plan of an undo: every step is foreseen before anything is done.

A path that is as the change left it is put back. One that is as it was before the change needs
nothing: the change was broken off, or somebody was faster. Any other was changed since, and is left
alone unless the undo is forced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

from ...runtime.changes.file_versions import (
    NOTHING,
    Action,
    Change,
    FileKind,
    FileState,
    KnownChange,
    PathMove,
    PathStep,
    path_bytes,
    path_names,
)
from ..workspace.atomic_write import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from ..workspace.paths import is_protected, shown
from ..workspace.resolver import Names, Resolver
from .file_states import Keeper, likeness, likeness_of_names


class Problem(msgspec.Struct, frozen=True):
    """A path that is not put back, and why; `--force` puts it back when `is_forceable`."""

    path: str
    why: str
    is_forceable: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class Reversal(msgspec.Struct, frozen=True):
    """The actions that undo one change, in order; `left` are the places of those that stay."""

    change: Change
    actions: tuple[Action, ...]
    left: tuple[int, ...] = ()


class UndoPlan(msgspec.Struct, frozen=True):
    """The steps of an undo, the latest change first: what is done in words, and what is left as it is.

    `leftovers` are temporary files that interrupted undos may have left.
    """

    reversals: tuple[Reversal, ...]
    problems: tuple[Problem, ...]
    lines: tuple[str, ...]
    leftovers: tuple[Names, ...] = ()


def plan_undo(
    resolver: Resolver, changes: Sequence[KnownChange], later: Iterable[KnownChange], force: bool
) -> UndoPlan:
    """Plan the undo of changes, given in the order in which they happened; nothing is done.

    `later` are changes that happened too, and stay: they name who changed a path since. `force` puts back what
    was changed since.
    """
    planning = _Planning(resolver, force)
    stays = {known.change.change_id: known.change for known in later}
    for known in reversed(changes):
        planning.since = [c for c in stays.values() if c.at_ms >= known.change.at_ms]
        planning.reverse(known)
    return UndoPlan(tuple(planning.reversals), tuple(planning.problems), tuple(planning.lines))


def temporary_names(change: Change) -> list[Names]:
    """Return the temporary files of an undo, where contents are written before they get their names."""
    paths = (each.path for each in change.actions if isinstance(each, PathStep))
    name = f"{TEMPORARY_PREFIX}{change.change_id}{TEMPORARY_SUFFIX}"
    return [(*folder, name) for folder in dict.fromkeys(path_names(path)[:-1] for path in paths)]


def paths_of(action: Action) -> tuple[bytes, ...]:
    """Return the paths that an action changes."""
    return (action.path,) if isinstance(action, PathStep) else (action.source, action.destination)


class _Left(Exception):
    """Raised for a path that is left as it is."""

    def __init__(self, names: Names, why: str, *, is_forceable: bool = False) -> None:
        super().__init__(why)
        self.problem = Problem(_shown(names), why, is_forceable)


class _Planning:
    def __init__(self, resolver: Resolver, force: bool) -> None:
        self._tree = _ForeseenTree(resolver)
        self._sizes = Keeper(resolver)
        self._force = force
        self.since: list[Change] = []
        self.reversals: list[Reversal] = []
        self.problems: list[Problem] = []
        self.lines: list[str] = []

    def reverse(self, known: KnownChange) -> None:
        change = known.change
        actions: list[Action] = []
        left: list[int] = []
        for place in reversed(known.remaining):
            action = change.actions[place]
            try:
                done = self._step(action) if isinstance(action, PathStep) else self._move(action)
            except _Left as why:
                left.append(place)
                self.problems.append(why.problem)
            except OSError as error:
                left.append(place)
                path = action.path if isinstance(action, PathStep) else action.destination
                reason = os.strerror(error.errno or 0)
                self.problems.append(Problem(_shown(path_names(path)), reason))
            else:
                actions += () if done is None else (done,)
        if actions or not left:
            self.reversals.append(Reversal(change, tuple(actions), tuple(left)))

    def _step(self, step: PathStep) -> PathStep | None:
        names, wanted = path_names(step.path), step.before
        present = self._tree.look(names)
        has_mode = present.kind in {FileKind.FILE, FileKind.DIRECTORY}
        if present.holds_as(wanted) and (present.mode == wanted.mode or not has_mode):
            return None
        if step.after.kind is FileKind.DIRECTORY and wanted.kind is FileKind.NOTHING:
            return self._made_folder(names, present)
        if not (present.holds_as(step.after) or present.holds_as(wanted)):
            why = f"it was changed since{self._who(names)}"
            if not (self._force and _can_go(present)):
                raise _Left(names, why, is_forceable=_can_go(present))
        if not wanted.can_come_back:
            raise _Left(names, f"it was not kept: {wanted.why}")
        if wanted.kind is not FileKind.NOTHING and not self._tree.has_folder(names):
            raise _Left(names, "the folder that it was in is gone")
        return self._put(names, present, wanted)

    def _made_folder(self, names: Names, present: FileState) -> PathStep | None:
        """Plan to remove a folder that the change made, when nothing is in it."""
        if present.kind is not FileKind.DIRECTORY:
            raise _Left(names, f"it was changed since{self._who(names)}")
        if self._tree.inside(names):
            return None  # it holds what others put there
        return self._put(names, present, NOTHING)

    def _put(self, names: Names, present: FileState, wanted: FileState) -> PathStep:
        if present.kind is FileKind.FILE and (why := self._sizes.why_not(present.size_bytes)):
            raise _Left(names, f"what is there now could not be kept: {why}")
        if is_protected(names):
            raise _Left(names, "it is protected")
        if not present.kind is wanted.kind is FileKind.DIRECTORY:
            self._tree.put(names, wanted)
        verb = "remove" if wanted.kind is FileKind.NOTHING else "put back"
        self.lines.append(f"{verb} {_shown(names)}")
        return PathStep(path_bytes(names), present, wanted)

    def _move(self, move: PathMove) -> PathMove | None:
        names, back = path_names(move.destination), path_names(move.source)
        there, free = self._tree.look(names), self._tree.look(back)
        if there.kind is FileKind.NOTHING:
            if free.kind is FileKind.NOTHING:
                raise _Left(names, f"it is gone{self._who(names)}")
            return None
        if free.kind is not FileKind.NOTHING:
            raise _Left(back, f"something is there since{self._who(back)}")
        if not self._tree.has_folder(back):
            raise _Left(back, "the folder that it was in is gone")
        if not self._force and not self._tree.is_like(names, move.inode, move.likeness):
            raise _Left(names, f"it was changed since{self._who(names)}", is_forceable=True)
        if is_protected(back) or is_protected(names):
            raise _Left(back, "it is protected")
        self._tree.move(names, back)
        self.lines.append(f"move {_shown(names)} back to {_shown(back)}")
        return PathMove(path_bytes(names), path_bytes(back), move.inode, move.likeness)

    def _who(self, names: Names) -> str:
        path = path_bytes(names)
        for change in self.since:
            if any(path in paths_of(action) for action in change.actions):
                return f" (by {change.call_id})"
        return ""


def _can_go(present: FileState) -> bool:
    """Return whether a forced undo may replace it; its content is kept first."""
    return present.kind not in {FileKind.DIRECTORY, FileKind.OTHER}


def _shown(names: Names) -> str:
    return shown("/".join(names))


class _ForeseenTree:
    """A workspace as it will be after the steps that are planned so far.

    Steps are kept in lists, with a move between one list and the next. A look at a path goes back
    through the steps and undoes the moves on its way; only what no step names is on the disk.
    """

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._keeper = Keeper(resolver)
        self._steps: list[dict[Names, FileState]] = [{}]
        self._moves: list[tuple[Names, Names]] = []
        self._put: dict[Names, set[str]] = {}

    def put(self, names: Names, state: FileState) -> None:
        self._steps[-1][names] = state
        self._put.setdefault(names[:-1], set()).add(names[-1])

    def move(self, source: Names, destination: Names) -> None:
        self._moves.append((source, destination))
        self._steps.append({})
        self._put.setdefault(destination[:-1], set()).add(destination[-1])

    def look(self, names: Names) -> FileState:
        found = self._origin(names)
        return found if isinstance(found, FileState) else self._keeper.look(found)

    def has_folder(self, names: Names) -> bool:
        return len(names) == 1 or self.look(names[:-1]).kind is FileKind.DIRECTORY

    def is_like(self, names: Names, inode: int, sign: bytes) -> bool:
        found = self._origin(names)
        if isinstance(found, FileState):
            return True  # put back by the plan itself, as it was then
        like = likeness(self._resolver, found)
        if like[0] == inode or like[1] == sign:
            return True
        is_folder = self.look(names).kind is FileKind.DIRECTORY
        return is_folder and likeness_of_names(self._below(names), len(names)) == sign

    def _below(self, names: Names) -> list[Names]:
        found = [(*names, name) for name in self.inside(names)]
        inner = [each for each in found if self.look(each).kind is FileKind.DIRECTORY]
        return [*found, *(name for each in inner for name in self._below(each))]

    def inside(self, names: Names) -> list[str]:
        inside = set(self._put.get(names, ()))  # planned, and maybe moved on since
        found = self._origin(names)
        if not isinstance(found, FileState):
            with (
                self._resolver.open_directory(found, follow=False) as directory,
                os.scandir(directory.fd) as entries,
            ):
                inside.update(entry.name for entry in entries)
        return [name for name in inside if self.look((*names, name)).kind is not FileKind.NOTHING]

    def _origin(self, names: Names) -> FileState | Names:
        for index in range(len(self._steps) - 1, -1, -1):
            steps = self._steps[index]
            if (own := steps.get(names)) is not None:
                return own
            # What is planned above it holds nothing yet, whether it is a directory or not.
            if any(names[:depth] in steps for depth in range(len(names) - 1, 0, -1)):
                return NOTHING
            if index == 0:
                break
            source, destination = self._moves[index - 1]
            if names[: len(destination)] == destination:
                names = (*source, *names[len(destination) :])
            elif names[: len(source)] == source:
                return NOTHING
        return names
