"""The names that the outside sees are those of the conventions' own packages."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import callboard.runtime.telemetry.names as names
from callboard.runtime.telemetry.metrics import INSTRUMENTS

PACKAGES = (
    *("opentelemetry.semconv._incubating.attributes.gen_ai_attributes",),
    *("opentelemetry.semconv._incubating.attributes.mcp_attributes",),
    *("opentelemetry.semconv._incubating.attributes.network_attributes",),
    *("opentelemetry.semconv._incubating.attributes.rpc_attributes",),
    *("opentelemetry.semconv._incubating.attributes.session_attributes",),
    *("opentelemetry.semconv.attributes.server_attributes",),
    *("opentelemetry.semconv.attributes.error_attributes",),
    *("opentelemetry.semconv._incubating.metrics.gen_ai_metrics",),
    *("opentelemetry.util.genai._inference_invocation", "opentelemetry.util.genai._instruments"),
)
NEWER = {"mcp.client.operation.duration"}
"""Of the conventions for MCP, which no package has yet: open-telemetry/semantic-conventions-genai, docs/mcp."""


def _texts(module: str) -> set[str]:
    """Every text that a module of theirs has as a constant."""
    path = Path(inspect.getfile(import_module(module)))
    return set(re.findall(r'"([a-z_.]+)"', path.read_text()))


@pytest.fixture(scope="module")
def theirs() -> set[str]:
    return set().union(*map(_texts, PACKAGES))


OURS = {
    name: value
    for name, value in vars(names).items()
    if name.isupper() and isinstance(value, str) and "." in value
}


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_name_is_one_of_theirs_or_says_that_it_is_ours(name: str, theirs: set[str]) -> None:
    value = OURS[name]
    assert value.startswith("callboard.") or value in theirs | NEWER


def test_operations_and_values_are_theirs(theirs: set[str]) -> None:
    operations = {names.INVOKE_AGENT, names.CHAT, names.EXECUTE_TOOL}
    assert operations | {names.CALL_TOOL, *names.METHODS.values()} | set(
        names.PROVIDERS.values()
    ) <= {
        *theirs,
        *re.findall(r'= "([a-z_/.]+)"', _source("gen_ai_attributes") + _source("mcp_attributes")),
    }
    types = import_module("opentelemetry.util.genai.types")
    assert set(names.FINISHED.values()) <= set(types.FinishReason.__args__)


def test_buckets_are_theirs() -> None:
    instruments = import_module("opentelemetry.util.genai._instruments")
    theirs: dict[str, tuple[float, ...]] = {
        # No package has this one yet; of the page that NEWER names.
        "mcp.client.operation.duration": (
            *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300),
        )
    }

    class Meter:
        def create_histogram(
            self, name: str, explicit_bucket_boundaries_advisory: list[float], **_: object
        ) -> None:
            theirs[name] = tuple(explicit_bucket_boundaries_advisory)

    instruments._Instruments(Meter())
    ours = {each.name: each.bounds for each in INSTRUMENTS if "callboard" not in each.name}
    assert ours == {name: theirs[name] for name in ours}


def _source(module: str) -> str:
    return inspect.getsource(
        import_module(f"opentelemetry.semconv._incubating.attributes.{module}")
    )
