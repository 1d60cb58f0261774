"""What the policy costs a call: rulings without rules, and among many.

    python benchmarks/policy.py [--rules 1000] [--repeats 7]

Figures are microseconds of processor time a ruling, the best of the repeats; each ruling reads its
arguments again, as the broker does. "spread" gives each of 100 tools its share of the rules; in
"one tool" all are about the tool that is called, by path; "wildcards" are patterns that begin
with `**`, which no index can sort out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

from callboard.config.policy.policy import Policy, PolicyBook, PolicyQuestion
from callboard.config.policy.rules import Condition, PlacedRule, Rule
from callboard.runtime.definitions import Agent, Tier, ToolDefinition, Verdict

DEFINITION = ToolDefinition(
    name="write_file",
    description="Writes.",
    parameters={"type": "object", "properties": {"path": {}, "content": {}}},
    tier=Tier.WORKSPACE,
)
QUESTION = PolicyQuestion(
    tool="write_file",
    definition=DEFINITION,
    tier=Tier.WORKSPACE,
    arguments='{"content":"' + "x" * 200 + '","path":"src/callboard/actors/turn.py"}',
    approval_reason="overwrites src/callboard/actors/turn.py (12 bytes)",
)
VERDICTS = tuple(Verdict)


def spread(count: int) -> Iterator[Rule]:
    """Rules about 100 tools, one of them the tool that is called."""
    for number in range(count):
        tool = "write_file" if number % 100 == 0 else f"tool_{number % 100}"
        yield _rule(number, tool, f"folder_{number}/**")


def one_tool(count: int) -> Iterator[Rule]:
    """Rules about the tool that is called, each for another folder."""
    for number in range(count):
        yield _rule(number, "write_file", f"folder_{number}/**")


def wildcards(count: int) -> Iterator[Rule]:
    """Rules whose patterns may match anywhere."""
    for number in range(count):
        yield _rule(number, "write_file", f"**/part_{number}/*.md")


def _rule(number: int, tool: str, pattern: str) -> Rule:
    return Rule(
        verdict=VERDICTS[number % 3], tool=tool, arguments={"path": Condition(path=pattern)}
    )


def policy_of(rules: Iterator[Rule]) -> Policy:
    """The policy of the general agent under these rules."""
    placed = (PlacedRule(rule, f"rules[{number}]") for number, rule in enumerate(rules, 1))
    return PolicyBook(placed).policy(Agent())


def measure(run: Callable[[], object], repeats: int) -> float:
    """Microseconds of one run."""
    run()
    best, times = float("inf"), 1
    while (taken := _taken(run, times)) < 0.02:
        times *= 2
    for _ in range(repeats):
        best = min(best, taken)
        taken = _taken(run, times)
    return best / times * 1e6


def _taken(run: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        run()
    return time.process_time() - start


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rules", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    print(f"{'microseconds a ruling':<24}{'µs':>8}")
    rows = {"no rules": policy_of(iter(()))}
    for make in (spread, one_tool, wildcards):
        rows[f"{options.rules} {make.__name__}"] = policy_of(make(options.rules))
    rows["the last two, met"] = Policy(
        layer for policy in list(rows.values())[-2:] for layer in policy.layers
    )
    for name, policy in rows.items():
        found = policy.ruling(QUESTION)
        if found.verdict is not Verdict.ASK or "preset" not in found.rule:
            raise SystemExit(f"{name}: {found} is not what the preset says")
        figure = measure(lambda policy=policy: policy.ruling(QUESTION), options.repeats)
        print(f"{name:<24}{figure:>8.1f}")
    made = list(spread(options.rules))
    print(f"{'(to build a policy)':<24}{measure(lambda: policy_of(iter(made)), 3):>8.1f}")


if __name__ == "__main__":
    main()
