"""The roots of a daemon: which folders can be one, and how a session gets to work in another."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ...config.files import config_folder, data_folder
from ...config.sections import MAX_ROOT_CHARS, ROOT_NAME
from ...runtime.errors import ConflictError, ValidationError

if TYPE_CHECKING:
    from ...client.client import Client
    from ...runtime.budget import Budget
    from ...runtime.store.rows import SessionRow


def root_advice(folder: Path) -> str:
    """Return what to do so that sessions of a daemon may work in a folder: the rest of a sentence."""
    # Imported here, as the few commands that need it do.
    from ...runtime.text import shell_word
    from ...tools.workspace.roots import why_no_root

    if why := why_no_root(str(folder), own_folders()):
        return f"work in another folder: this one can't be a root, since {why}."
    return (
        f"start the daemon with `callboard serve --root {shell_word(str(folder))}`, or name the folder in roots of "
        "[server] in callboard.toml."
    )


def own_folders(data: Path | None = None, files: Sequence[str] = ()) -> tuple[Path, ...]:
    """Return callboard's folders of data and of configuration, and its files, where no session works."""
    return (data_folder() if data is None else data), config_folder(), *map(Path, files)


def read_roots(given: Sequence[Path]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the folders of `--root FOLDER` and of `--root NAME=FOLDER`, as absolute paths.

    Raises:
        ValidationError: A name is none that a root may have, or stands twice.
    """
    folders: list[str] = []
    named: dict[str, str] = {}
    for each in given:
        name, sign, folder = str(each).partition("=")
        if not sign or "/" in name:
            folders.append(str(each.expanduser().absolute()))
            continue
        if not re.fullmatch(ROOT_NAME, name) or len(name) > MAX_ROOT_CHARS or not folder:
            raise ValidationError(
                f"--root {each}: in NAME=FOLDER a name has small letters, digits, '.', '_' and '-', at most "
                f"{MAX_ROOT_CHARS}. If the folder is called that, say its whole path.",
                field="roots",
            )
        if name in named:
            raise ValidationError(f"--root {each}: there are two roots named {name}", field="roots")
        named[name] = str(Path(folder).expanduser().absolute())
    return tuple(folders), named


async def create_session(
    client: Client,
    folder: Path,
    confirm: Callable[[str], Awaitable[bool]],
    *,
    agent: str,
    model: str | None,
    budget: Budget | None = None,
    is_shared: bool = False,
) -> SessionRow:
    """Begin a session of the daemon in a folder; ask before that becomes one more root.

    A daemon that is a command of the same user (`is_shared`) is not asked about: what may be a root is the same.

    Raises:
        ConflictError: The folder is below no root of the daemon, and the person did not agree.
        CallboardError: There is no such agent, or model.
    """

    async def create() -> SessionRow:
        return await client.create_session(
            agent=agent, workspace=str(folder), model=model, budget=budget
        )

    is_there = await trio.Path(folder).is_dir()
    try:
        return await create()
    except ValidationError as error:
        if error.field != "workspace" or not is_there:
            raise
    if is_shared:  # as it would be without a daemon: whoever begins it there wants it there
        await client.upkeep.add_root(str(folder))
        return await create()
    outside = f"{folder} is below no root of the daemon."
    if not await confirm(f"{outside} Let its sessions work there? [y/N] "):
        raise ConflictError(
            f"{outside} Agree at a terminal, or name another folder with --workspace; or "
            f"{root_advice(folder)}"
        )
    await client.upkeep.add_root(str(folder))
    return await create()
