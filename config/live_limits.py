"""The bounds of a runtime that goes on while its configuration changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .settings import Limits

if TYPE_CHECKING:
    from .settings import Limits as _Limits
else:
    _Limits = object


class LiveLimits(_Limits):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    """Stands wherever `Limits` stand, and says what holds by now: one reading is one moment.

    Args:
        limits: Those that hold until others are set.

    Attributes:
        now: Those that hold; a new object takes the place of the old one.
    """

    now: Limits

    def __init__(self, limits: Limits) -> None:
        self.now = limits

    def __getattr__(self, name: str) -> Any:
        return getattr(self.now, name)
