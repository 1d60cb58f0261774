"""Names of tools as every wire format accepts them, and the way back.

The rule is the strictest of the four formats: at most 64 characters, letters, digits, `_` and `-`
(OpenAI, Anthropic), the first a letter or `_` (Gemini). A name that breaks it is sent with the
offending characters replaced and ten digits of its hash appended, the same in every request, so
that encoded rounds stay valid. A name that looks as if it had been made so is itself renamed: two
names never meet.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_ACCEPTED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_MADE = re.compile(r".*_[0-9a-f]{10}", re.DOTALL)
_REFUSED_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")
_KEPT_CHARS = 64 - 11 - 1
"""Characters kept of a name beside `_`, ten digits of its hash, and a leading `_` if needed."""


def sent_name(name: str) -> str:
    """Return the name under which a tool is sent; most are unchanged."""
    if _ACCEPTED.fullmatch(name) and not _MADE.fullmatch(name):
        return name
    kept = _REFUSED_CHARACTER.sub("_", name)[:_KEPT_CHARS]
    if not kept[:1].isalpha():
        kept = f"_{kept}"
    return f"{kept}_{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:10]}"


def renamed(names: Iterable[str]) -> dict[str, str]:
    """Return our names by the sent ones, for the tools that are renamed."""
    return {sent: name for name in names if (sent := sent_name(name)) != name}
