"""What a person sees of a call that they are asked about, whatever the tool's own function does."""

from __future__ import annotations

import copy

import trio

from ...runtime.definitions import ToolFailure
from ...runtime.kernel.user_code import raise_stop
from ...runtime.redaction import mask, redacting_logger
from ...runtime.text import without_surrogates
from ...tools.files.preview import bounded
from .call import ReadyCall, binding_of

logger = redacting_logger(__name__)

PREVIEW_SECONDS = 5.0
"""The question is asked after that without one: a person can wait for the disk, not for a bug."""


async def preview_of(ready: ReadyCall) -> str:
    """The tool's preview of this call, within bounds; in the place of one that failed, why.

    It is only shown: the tool's function gets arguments and a context of its own, and whatever it
    raises or makes of them, nothing is allowed, refused or changed by that.
    """
    try:
        with trio.move_on_after(PREVIEW_SECONDS):
            return _fit(await _said(ready))
    except ToolFailure as failure:
        # The call is going to fail by itself: that is worth knowing before it is allowed.
        return _fit(f"(no preview: {failure})")
    except BaseException as crash:  # noqa: ASYNC103  what stops this task is raised
        raise_stop(crash)
        logger.warning("the preview of %s crashed", ready.name, exc_info=True)
        return f"(no preview: the tool's own function for it failed: {type(crash).__name__})"  # noqa: ASYNC104
    return f"(no preview: it took longer than {PREVIEW_SECONDS:g} s)"


def _fit(text: str) -> str:
    """The text as it may be stored and shown."""
    return bounded(without_surrogates(mask(text)))


async def _said(ready: ReadyCall) -> str:
    arguments = ready.tool.decode(ready.arguments.canonical)
    said = await ready.tool.preview(arguments, copy.copy(ready.context)) or ""
    named = binding_of(ready.arguments.canonical, ready.context).shown
    return f"{said}\n\n{named}".strip() if named else said
