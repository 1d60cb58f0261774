"""`skills.json` in the data folder: which skills of workspaces a person approved. Everything blocks.

An approval is for one content of one folder, by its hash, so that a change of a single letter ends it.
A person's "not now" is kept the same way: the same content is not asked about again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ..runtime.errors import StorageError, ValidationError
from .private_file import locked, make_private_folder, read_private, write_private

FILE_NAME = "skills.json"
LOCK_NAME = "skills.lock"

MAX_FILE_BYTES = 1024 * 1024
"""Thousands of approvals, of some hundred bytes each."""

TEXTS_FOLDER = "skill-texts"
MAX_KEPT_BYTES = 256 * 1024
"""Of one text: a SKILL.md or AGENTS.md has 64 KiB at most."""

Digests = Mapping[str, str]
"""Approved hashes, by the skill's folder relative to its workspace."""


class _Approved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    workspaces: dict[str, dict[str, str]] = {}
    put_off: dict[str, dict[str, str]] = {}


# At import, since threads use it: see config/keys/tokens.
_DECODER = msgspec.json.Decoder(_Approved)


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
        self._change("workspaces", workspace, folder, digest)

    def put_it_off(self, workspace: Path, folder: str, digest: str) -> None:
        """Remember that a person does not want to be asked about this content. Raises as `allow`."""
        self._change("put_off", workspace, folder, digest)

    def revoke(self, workspace: Path, folder: str) -> bool:
        """Revoke an approval; return whether there was one. Raises as `allow`."""
        return self._change("workspaces", workspace, folder, None)

    def keep_text(self, workspace: Path, folder: str, digest: str, text: str) -> None:
        """Keep what a person saw and approved, so that a change of it can be shown. Raises as `allow`."""
        make_private_folder(self._data / TEXTS_FOLDER)
        data = f"{digest}\n{text}".encode(errors="replace")[:MAX_KEPT_BYTES]
        write_private(self._text_file(workspace, folder), data, replace=True)

    def approved_text(self, workspace: Path, folder: str) -> str | None:
        """Return what a person saw when they approved what is approved now; `None` where that was not kept."""
        data = read_private(self._text_file(workspace, folder), MAX_KEPT_BYTES)
        digest, _, text = (data or b"").decode(errors="replace").partition("\n")
        return text if digest and digest == self.of(workspace).get(folder) else None

    def _text_file(self, workspace: Path, folder: str) -> Path:
        name = hashlib.sha256(f"{_key(workspace)}\0{folder}".encode()).hexdigest()[:40]
        return self._data / TEXTS_FOLDER / name

    def _change(
        self,
        kind: Literal["workspaces", "put_off"],
        workspace: Path,
        folder: str,
        digest: str | None,
    ) -> bool:
        """Set or remove a folder's hash; return whether there was one."""
        make_private_folder(self._data)
        with locked(self._data / LOCK_NAME):
            whole, key = self._load(), _key(workspace)
            workspaces = dict(getattr(whole, kind))
            folders = dict(workspaces.pop(key, {}))
            had = folders.pop(folder, None) is not None
            if digest is not None:
                folders[folder] = digest
            if folders:
                workspaces[key] = folders
            whole = msgspec.structs.replace(whole, **{kind: workspaces})
            data = msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
            if len(data) > MAX_FILE_BYTES:
                raise ValidationError(
                    f"{self._data / FILE_NAME} would be larger than {MAX_FILE_BYTES} bytes; take "
                    "approvals of workspaces that are gone back first."
                )
            write_private(self._data / FILE_NAME, data, replace=True)
        return had

    def _load(self) -> _Approved:
        path = self._data / FILE_NAME
        data = read_private(path, MAX_FILE_BYTES)
        if data is None:
            return _Approved()
        try:
            return _DECODER.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StorageError(
                f"{path} is not what callboard writes ({error}). Move it away: skills of workspaces "
                "then have to be approved again."
            ) from error


def _key(workspace: Path) -> str:
    """Return the workspace's resolved path, so that links to it mean the same workspace."""
    return str(workspace.resolve())
