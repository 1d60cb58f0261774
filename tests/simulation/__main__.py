"""Play worlds from the command line.

python -m tests.simulation SEED              the whole trace of one world
python -m tests.simulation shrink SEED       the smallest world that still breaks the same invariant
python -m tests.simulation range FROM TO     which of these worlds break an invariant
python -m tests.simulation first FROM TO     the first of these worlds that breaks one
python -m tests.simulation planted [MOST] [WORDS]  the first world that finds each planted bug, or those named so
python -m tests.simulation digests FROM TO   a digest of each trace
python -m tests.simulation soak [FROM]       without end; seeds that fail stand in simulation-failures.txt
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from msgspec.structs import replace

from simulation.plan import draw_plan
from simulation.planted import MAX_SEEDS, PLANTED, first_seed
from simulation.shrink import shrink
from simulation.world import digest, play

LAST_LINES = 60
FAILURES = Path("simulation-failures.txt")


def main(words: list[str]) -> int:
    """Do what the words say; return how the process ends."""
    match words:
        case ["shrink", seed]:
            played = shrink(play(draw_plan(int(seed))))
            print("\n".join([*played.trace, "", *map(str, played.plan.actions)]))
            return bool(played.broken)
        case ["range", first, last]:
            return search(range(int(first), int(last)))
        case ["first", first, last]:
            return search_one(range(int(first), int(last)))
        case ["planted", most, *names] if most.isdigit():
            return find_planted(range(int(most)), " ".join(names))
        case ["planted", *names]:
            return find_planted(range(MAX_SEEDS), " ".join(names))
        case ["digests", first, last]:
            for number in range(int(first), int(last)):
                print(number, digest(play(draw_plan(number), is_compared=True)))
            return 0
        case ["soak"]:
            return search(itertools.count())
        case ["soak", first]:
            return search(itertools.count(int(first)))
        case [seed] if seed.isdigit():
            played = play(draw_plan(int(seed)))
            print("\n".join(played.trace))
            return bool(played.broken)
    print(__doc__, file=sys.stderr)
    return 2


def search_one(seeds: range) -> int:
    """Play worlds up to the first that breaks an invariant."""
    for seed in seeds:
        if broken := play(draw_plan(seed)).broken:
            print(f"{seed} {broken[0].partition(':')[0]}")
            return 1
    return 0


def find_planted(seeds: range, words: str) -> int:
    """Print a row of the table for each planted bug."""
    missed = 0
    for planted in PLANTED:
        if words in planted.name:
            found = first_seed(planted, seeds)
            seed, _, invariant = found.partition(" ")
            done = replace(planted, seed=int(seed or -1), found_by=invariant)
            print(done.row(), flush=True)
            missed += not found
    return bool(missed)


def search(seeds: Iterable[int]) -> int:
    """Play worlds, and tell of those that break an invariant."""
    began, failed, count = time.perf_counter(), 0, 0
    try:
        for seed in seeds:
            played = play(draw_plan(seed))
            count += 1
            if played.broken:
                failed += 1
                print("\n".join([f"seed {seed}", *played.broken]), flush=True)
                with FAILURES.open("a") as file:
                    print(seed, played.broken[0], file=file)
    except KeyboardInterrupt:
        pass
    seconds = time.perf_counter() - began
    print(f"{failed} of {count} worlds broke an invariant, in {seconds:.1f} s", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
