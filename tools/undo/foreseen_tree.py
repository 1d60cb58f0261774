"""A workspace as it would be after steps that are only planned."""

from __future__ import annotations

import os

from ...runtime.changes.file_versions import NOTHING, FileState, Kind
from ..workspace.resolver import Names, Resolver
from .file_states import Keeper, likeness, likeness_of_names


class ForeseenTree:
    """What lies where, once everything that was said to it were done.

    Its steps are kept by the moves between them: a look goes back through both, to the disk last.
    """

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._keeper = Keeper(resolver)
        self._steps: list[dict[Names, FileState]] = [{}]
        self._moves: list[tuple[Names, Names]] = []
        self._put: dict[Names, set[str]] = {}

    def put(self, names: Names, state: FileState) -> None:
        """The path is to be so."""
        self._steps[-1][names] = state
        self._put.setdefault(names[:-1], set()).add(names[-1])

    def move(self, source: Names, destination: Names) -> None:
        """What is there is to get another path."""
        self._moves.append((source, destination))
        self._steps.append({})
        self._put.setdefault(destination[:-1], set()).add(destination[-1])

    def look(self, names: Names) -> FileState:
        """What will be at a path. Raises `OSError` where the disk does."""
        found = self._origin(names)
        return found if isinstance(found, FileState) else self._keeper.look(found)

    def has_folder(self, names: Names) -> bool:
        """Whether something can be put there."""
        return len(names) == 1 or self.look(names[:-1]).kind is Kind.DIRECTORY

    def is_empty(self, names: Names) -> bool:
        """Whether nothing will be in a directory."""
        return not self._inside(names)

    def is_like(self, names: Names, inode: int, sign: bytes) -> bool:
        """Whether what will be there is what bore this likeness. Raises `OSError`."""
        found = self._origin(names)
        if isinstance(found, FileState):
            return True  # put back by the plan itself, as it was then
        like = likeness(self._resolver, found)
        if like[0] == inode or like[1] == sign:
            return True
        is_folder = self.look(names).kind is Kind.DIRECTORY
        return is_folder and likeness_of_names(self._below(names), len(names)) == sign

    def _below(self, names: Names) -> list[Names]:
        """What a directory will hold, at any depth."""
        found = [(*names, name) for name in self._inside(names)]
        inner = [each for each in found if self.look(each).kind is Kind.DIRECTORY]
        return [*found, *(name for each in inner for name in self._below(each))]

    def _inside(self, names: Names) -> list[str]:
        """What a directory will hold."""
        inside = set(self._put.get(names, ()))  # what came there, and may have gone on
        found = self._origin(names)
        if not isinstance(found, FileState):
            with (
                self._resolver.open_directory(found, follow=False) as directory,
                os.scandir(directory.fd) as entries,
            ):
                inside.update(entry.name for entry in entries)
        return [name for name in inside if self.look((*names, name)).kind is not Kind.NOTHING]

    def _origin(self, names: Names) -> FileState | Names:
        """What was said about a path, or where it lies on the disk now."""
        for index in range(len(self._steps) - 1, -1, -1):
            if (said := self._said(self._steps[index], names)) is not None:
                return said
            if index == 0:
                break
            source, destination = self._moves[index - 1]
            if names[: len(destination)] == destination:
                names = (*source, *names[len(destination) :])
            elif names[: len(source)] == source:
                return NOTHING
        return names

    def _said(self, steps: dict[Names, FileState], names: Names) -> FileState | None:
        if (own := steps.get(names)) is not None:
            return own
        # Whatever was put above holds nothing yet, be it a directory or none.
        above = (names[:depth] for depth in range(len(names) - 1, 0, -1))
        return NOTHING if any(folder in steps for folder in above) else None
