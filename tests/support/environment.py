"""Where `support` is, and the environment of processes that import from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
SUPPORT = TESTS / "support"


def finds_support(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment, with the folder of `support` among those where Python looks for modules."""
    paths = [str(TESTS), environ.get("PYTHONPATH", "")]
    return {**environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
