"""The acceptance tests of Open Responses, and those of chat completions: `python suite.py URL KEY MODEL`.

They are those of the package llm-comply, which follow the ones of the standard and check each body and event by its schema. That
package has no test of a streamed call: it is added here, with the same checks.
"""

from __future__ import annotations

import dataclasses
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import llm_comply
from llm_comply.cli import _SPEC_FILES, _build_parser
from llm_comply.config import ComplianceConfig
from llm_comply.runner import TestRunner
from llm_comply.schema import SpecLoader
from llm_comply.tests import get_tests

CALLS = ("response.function_call_arguments.delta", "response.function_call_arguments.done")
SPECS = Path(llm_comply.__file__).parent / "specs"


def has_streamed_call(response: Any, context: Any) -> list[str]:
    """Return what is missing of a call in a stream."""
    events = context.sse_events or []
    kinds = {each["type"] for each in events}
    missing = [each for each in CALLS if each not in kinds]
    for kind in ("response.output_item.added", "response.output_item.done"):
        items = [each["data"]["item"]["type"] for each in events if each["type"] == kind]
        missing += [] if "function_call" in items else [f"{kind} of a function_call"]
    return [f"the stream has no {each}" for each in missing]


def tests_of(kind: str) -> list[Any]:
    """Return the tests of one API."""
    tests = list(get_tests(kind))
    if kind == "open-responses":
        whole = next(each for each in tests if each.id == "tool-calling")
        streamed = next(each for each in tests if each.id == "streaming-response")
        checks = [*streamed.validators, *whole.validators, has_streamed_call]
        added = {"id": "tool-calling-streaming", "name": "Tool Calling (Streaming)"}
        tests.append(dataclasses.replace(whole, **added, streaming=True, validators=checks))
    return tests


def main(url: str, key: str, model: str) -> int:
    """Run all of them; return the exit code."""
    failed = 0
    for kind in ("open-responses", "openai-chat"):
        given: Namespace = _build_parser().parse_args(["-u", url, "-k", key, "-m", model])
        spec = SpecLoader(str(SPECS / str(_SPEC_FILES[kind])))
        runner = TestRunner(ComplianceConfig.from_args(given), tests_of(kind), spec)
        for result in runner.run_all().results:
            said = (*result.errors, *result.warnings)
            line = f"{kind} {spec.spec_version} {result.id}: {result.status.value}"
            sys.stdout.write("\n    ".join((line, *said)) + "\n")
            failed += result.status.value != "passed"
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
