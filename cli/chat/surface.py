"""Picks the surface of a chat: a terminal that can do everything, one that only prints, or a pipe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...config.prices import PriceTable
from ...config.settings import Settings
from ..show.transcript import Transcript
from ..terminal.markdown_live import MarkdownRows
from ..terminal.output import Output
from ..terminal.style import Style, is_dumb, style_of
from .screen import PipeScreen, PlainScreen
from .view import ChatView

if TYPE_CHECKING:  # prompt_toolkit is for terminals alone
    from .prompt import LiveScreen


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """The screen of a chat and what it can show.

    Attributes:
        screen: Shows and reads lines.
        output: The output of the same terminal, for questions and editors.
        style: What it can show.
        data: The data folder.
        prices: What turns cost.
        is_live: Whether states have rows of their own.
        can_ask: Whether somebody sits there.
        is_verbose: Whether it says more on the way.
    """

    screen: PlainScreen | LiveScreen
    output: Output
    style: Style
    data: Path
    prices: PriceTable
    is_live: bool
    can_ask: bool
    is_verbose: bool


def open_surface(
    output: Output, settings: Settings, data: Path, commands: Mapping[str, str], *, is_verbose: bool
) -> Surface:
    """Return the surface that the process's standard streams make."""
    can_ask = os.isatty(0) and os.isatty(1)
    is_plain = is_dumb()
    style = style_of(sys.stdout)
    screen: PlainScreen | LiveScreen
    if not can_ask:
        screen = PipeScreen(output)
    elif is_plain:
        screen = PlainScreen(output)
    else:
        from .prompt import LiveScreen  # here: prompt_toolkit is for terminals alone

        screen = LiveScreen(output, data, commands, has_signs=style.signs)
    return Surface(
        screen=screen,
        output=output,
        style=style,
        data=data,
        prices=PriceTable(settings.prices),
        is_live=can_ask and not is_plain,
        can_ask=can_ask,
        is_verbose=is_verbose,
    )


def view_of(surface: Surface, rows: MarkdownRows, session_id: str) -> ChatView:
    """Return a view of a session; `rows` lay out its text on a live terminal."""
    details = None
    if surface.is_verbose:
        from ..show.details import VerboseLines  # here: few chats say so much

        details = VerboseLines(surface.prices)
    write = rows.write if surface.is_live else surface.screen.write
    text = rows.feed if surface.is_live else None
    return ChatView(
        session_id,
        Transcript(
            write,
            surface.style,
            prices=surface.prices,
            write_text=text,
            is_live=surface.is_live,
        ),
        write,
        surface.style,
        is_live=surface.is_live,
        now=time.monotonic,
        details=details,
    )
