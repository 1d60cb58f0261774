"""`skills.json` in the data folder: which skills of workspaces a person approved. Everything blocks.

An approval is for one content of one folder, by its hash, so that a change of a single letter ends it.
A person's "not now" is kept the same way: the same content is not asked about again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ..runtime.errors import StorageError, ValidationError
from .private_file import locked, make_private_folder, read_private, write_private

FILE_NAME = "skills.json"
LOCK_NAME = "skills.lock"

MAX_FILE_BYTES = 1024 * 1024
"""Thousands of approvals, of some hundred bytes each."""

Digests = Mapping[str, str]
"""Approved hashes, by the skill's folder relative to its workspace."""


_Change = Callable[[dict[str, str]], dict[str, str]]


class _Approved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    workspaces: dict[str, dict[str, str]] = {}
    put_off: dict[str, dict[str, str]] = {}


class SkillApprovals:
    """The approvals in a data folder, as they are right now."""

    def __init__(self, data: Path) -> None:
        self._data = data

    @property
    def has_any(self) -> bool:
        """Whether there may be approvals; does not read the file."""
        return (self._data / FILE_NAME).exists()

    def of(self, workspace: Path) -> Digests:
        """Return what is approved in a workspace.

        Raises:
            StorageError: The file can't be read, is open to others, or callboard did not write it.
        """
        return self._load().workspaces.get(_key(workspace), {})

    def put_off(self, workspace: Path) -> Digests:
        """Return what a person was asked about and did not approve; raises as `of`."""
        return self._load().put_off.get(_key(workspace), {})

    def allow(self, workspace: Path, folder: str, digest: str) -> None:
        """Approve this content of a folder instead of another one; durable on return.

        Raises:
            StorageError: It can't be written.
        """
        self._change(workspace, approved=lambda folders: {**folders, folder: digest})

    def put_it_off(self, workspace: Path, folder: str, digest: str) -> None:
        """Remember that a person does not want to be asked about this content. Raises as `allow`."""
        self._change(workspace, put_off=lambda folders: {**folders, folder: digest})

    def revoke(self, workspace: Path, folder: str) -> bool:
        """Revoke an approval; return whether there was one. Raises as `allow`."""
        had: list[str] = []

        def change(folders: dict[str, str]) -> dict[str, str]:
            had.extend(name for name in folders if name == folder)
            return {name: digest for name, digest in folders.items() if name != folder}

        self._change(workspace, approved=change)
        return bool(had)

    def _change(
        self, workspace: Path, *, approved: _Change | None = None, put_off: _Change | None = None
    ) -> None:
        make_private_folder(self._data)
        with locked(self._data / LOCK_NAME):
            before, key = self._load(), _key(workspace)
            whole = _Approved(
                _changed(before.workspaces, key, approved), _changed(before.put_off, key, put_off)
            )
            data = msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
            if len(data) > MAX_FILE_BYTES:
                raise ValidationError(
                    f"{self._data / FILE_NAME} would be larger than {MAX_FILE_BYTES} bytes; take "
                    "approvals of workspaces that are gone back first."
                )
            write_private(self._data / FILE_NAME, data, replace=True)

    def _load(self) -> _Approved:
        path = self._data / FILE_NAME
        data = read_private(path, MAX_FILE_BYTES)
        if data is None:
            return _Approved()
        try:
            return msgspec.json.decode(data, type=_Approved)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StorageError(
                f"{path} is not what callboard writes ({error}). Move it away: skills of workspaces "
                "then have to be approved again."
            ) from error


def _key(workspace: Path) -> str:
    """Return the workspace's resolved path, so that links to it mean the same workspace."""
    return str(workspace.resolve())


def _changed(
    workspaces: dict[str, dict[str, str]], key: str, change: _Change | None
) -> dict[str, dict[str, str]]:
    if change is None:
        return workspaces
    folders = change(workspaces.get(key, {}))
    others = {name: its for name, its in workspaces.items() if name != key}
    return {**others, key: folders} if folders else others
