"""How changes are taken back: what there is to do, foreseen step by step before anything is done.

A path that is as the change left it is put back; one that is as it was before needs nothing (the
change was broken off, or somebody was first); any other was changed since, and is left alone unless
it is forced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

from ...runtime.changes.file_versions import (
    NOTHING,
    Action,
    Change,
    FileState,
    Kind,
    KnownChange,
    PathMove,
    PathStep,
    path_bytes,
    path_names,
)
from ..workspace.atomic_write import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from ..workspace.paths import is_protected, shown
from ..workspace.resolver import Names, Resolver
from .file_states import Keeper
from .foreseen_tree import ForeseenTree


class Problem(msgspec.Struct, frozen=True):
    """A path that is not put back; with `is_forceable`, `--force` does it all the same."""

    path: str
    why: str
    is_forceable: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class Reversal(msgspec.Struct, frozen=True):
    """What takes one change back, in order; `left` are those of its actions that stay."""

    change: Change
    actions: tuple[Action, ...]
    left: tuple[int, ...] = ()


class UndoPlan(msgspec.Struct, frozen=True):
    """What is to be done.

    Attributes:
        reversals: The latest change first.
        problems: What is left as it is.
        lines: What is done, in words.
        leftovers: What undoings that were broken off may have left, half written.
    """

    reversals: tuple[Reversal, ...]
    problems: tuple[Problem, ...]
    lines: tuple[str, ...]
    leftovers: tuple[Names, ...] = ()


def plan_undo(
    resolver: Resolver, changes: Sequence[KnownChange], later: Iterable[KnownChange], force: bool
) -> UndoPlan:
    """Foresees the undoing of changes; nothing is done.

    Args:
        resolver: The way into the workspace.
        changes: In the order in which they happened.
        later: Changes that happened too, and stay: who changed a path since.
        force: Whether what was changed since is put back too.
    """
    planning = _Planning(resolver, force)
    stays = {known.change.change_id: known.change for known in later}
    for known in reversed(changes):
        planning.since = [c for c in stays.values() if c.at_ms >= known.change.at_ms]
        planning.reverse(known)
    return UndoPlan(tuple(planning.reversals), tuple(planning.problems), tuple(planning.lines))


def temporary_names(change: Change) -> list[Names]:
    """Where an undoing writes what is to be put back, before it gets its name."""
    paths = (each.path for each in change.actions if isinstance(each, PathStep))
    name = f"{TEMPORARY_PREFIX}{change.change_id}{TEMPORARY_SUFFIX}"
    return [(*folder, name) for folder in dict.fromkeys(path_names(path)[:-1] for path in paths)]


class _Left(Exception):
    """A path is left as it is."""

    def __init__(self, names: Names, why: str, *, is_forceable: bool = False) -> None:
        super().__init__(why)
        self.problem = Problem(_shown(names), why, is_forceable)


class _Planning:
    def __init__(self, resolver: Resolver, force: bool) -> None:
        self._tree = ForeseenTree(resolver)
        self._sizes = Keeper(resolver)
        self._force = force
        self.since: list[Change] = []
        self.reversals: list[Reversal] = []
        self.problems: list[Problem] = []
        self.lines: list[str] = []

    def reverse(self, known: KnownChange) -> None:
        """Foresees what takes back what remains of a change."""
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
        if present.holds_as(wanted) and _same_mode(present, wanted):
            return None
        if step.after.kind is Kind.DIRECTORY and wanted.kind is Kind.NOTHING:
            return self._made_folder(names, present)
        if not (present.holds_as(step.after) or present.holds_as(wanted)):
            why = f"it was changed since{self._who(names)}"
            if not (self._force and _can_go(present)):
                raise _Left(names, why, is_forceable=_can_go(present))
        if not wanted.can_come_back:
            raise _Left(names, f"it was not kept: {wanted.why}")
        if wanted.kind is not Kind.NOTHING and not self._tree.has_folder(names):
            raise _Left(names, "the folder that it was in is gone")
        return self._put(names, present, wanted)

    def _made_folder(self, names: Names, present: FileState) -> PathStep | None:
        """A folder that the change made goes when nothing is in it."""
        if present.kind is not Kind.DIRECTORY:
            raise _Left(names, f"it was changed since{self._who(names)}")
        if not self._tree.is_empty(names):
            return None  # it holds what others put there
        return self._put(names, present, NOTHING)

    def _put(self, names: Names, present: FileState, wanted: FileState) -> PathStep:
        if present.kind is Kind.FILE and (why := self._sizes.why_not(present.size_bytes)):
            raise _Left(names, f"what is there now could not be kept: {why}")
        if is_protected(names):
            raise _Left(names, "it is protected")
        if not present.kind is wanted.kind is Kind.DIRECTORY:
            self._tree.put(names, wanted)
        verb = "remove" if wanted.kind is Kind.NOTHING else "put back"
        self.lines.append(f"{verb} {_shown(names)}")
        return PathStep(path_bytes(names), present, wanted)

    def _move(self, move: PathMove) -> PathMove | None:
        names, back = path_names(move.destination), path_names(move.source)
        there, free = self._tree.look(names), self._tree.look(back)
        if there.kind is Kind.NOTHING:
            if free.kind is Kind.NOTHING:
                raise _Left(names, f"it is gone{self._who(names)}")
            return None
        if free.kind is not Kind.NOTHING:
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
        """Which later call it was, if it is one that is on record."""
        path = path_bytes(names)
        for change in self.since:
            for action in change.actions:
                touched = (
                    (action.path,)
                    if isinstance(action, PathStep)
                    else (action.source, action.destination)
                )
                if path in touched:
                    return f" (by {change.call_id})"
        return ""


def _can_go(present: FileState) -> bool:
    """Whether it may be replaced by force, which keeps it."""
    return present.kind not in {Kind.DIRECTORY, Kind.OTHER}


def _same_mode(one: FileState, other: FileState) -> bool:
    return one.kind not in {Kind.FILE, Kind.DIRECTORY} or one.mode == other.mode


def _shown(names: Names) -> str:
    return shown("/".join(names))
