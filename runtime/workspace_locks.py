"""The resource keys of all workspaces, for whoever changes files in one."""

from __future__ import annotations

from weakref import WeakValueDictionary

from .resource_locks import ResourceLocks


class WorkspaceLocks:
    """The keys by workspace, as long as anybody has them."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, ResourceLocks] = WeakValueDictionary()

    def __len__(self) -> int:
        """Of how many workspaces somebody has keys."""
        return len(self._locks)

    def of(self, workspace: str) -> ResourceLocks:
        """The keys of a workspace, which all who work there share."""
        return self._locks.setdefault(workspace, ResourceLocks())
