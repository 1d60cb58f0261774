"""Which tests prove a line of a document that callboard began with, and that these tests are there."""

from __future__ import annotations

import re
from collections.abc import Mapping

from support.environment import TESTS

Proofs = Mapping[str, str]
"""Of each line: the tests that prove it, as `folder/module::test`, separated by white space.

What stands before the first ` = ` is what the line means here, where its own words have no meaning.
"""


def named_tests(proof: str) -> list[str]:
    """The tests that a proof names."""
    return proof.rpartition(" = ")[2].split()


def missing(proofs: Proofs) -> list[str]:
    """Tests that are named and not there, and lines that name none."""
    found = [line for line, proof in proofs.items() if not named_tests(proof)]
    for test in sorted({test for proof in proofs.values() for test in named_tests(proof)}):
        module, _, name = test.partition("::")
        path = TESTS / f"{module}.py"
        source = path.read_text(encoding="utf-8") if path.is_file() else ""
        if not re.search(rf"^(?:async )?def {name}\(", source, flags=re.MULTILINE):
            found.append(test)
    return found
