"""What all tests share: how long property tests search."""

from __future__ import annotations

import os

from hypothesis import settings

# No deadlines: wall-clock time is nobody's promise. Derandomized: a failure is the same everywhere.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("soak", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile("soak" if os.environ.get("CALLBOARD_SOAK") else "default")
