"""`callboard upgrade` and `compact`, and their options; what they do is imported when they run."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from .parameters import Data, Json, data_path

Check = Annotated[bool, Parameter(help="Say what it would do, and do nothing.", negative=())]


def upgrade(*, check: Check = False, json: Json = False, data: Data = None) -> int:
    """Bring the store of an older callboard into the present format, behind a backup of it.

    Only while no other process works with the data folder. Commands that write do the same when
    they open it, without the backup.
    """
    from .store_desk import upgrade_store

    return upgrade_store(data_path(data), only_check=check, json=json)


def compact(*, json: Json = False, data: Data = None) -> int:
    """Give the disk back what purged sessions have left in the store.

    Only while no other process works with the data folder.
    """
    from .store_desk import compact_store

    return compact_store(data_path(data), json=json)
