"""Play worlds from the command line.

python -m tests.simulation SEED              the whole trace of one world
python -m tests.simulation shrink SEED       the smallest world that still breaks the same invariant
python -m tests.simulation range FROM TO     which of these worlds break an invariant
python -m tests.simulation first FROM TO     the first of these worlds that breaks one
python -m tests.simulation planted [MOST] [WORDS]  the first world that finds each planted bug, or those named so
python -m tests.simulation digests FROM TO   a digest of each trace
python -m tests.simulation soak [FROM]       without end; seeds that fail stand in simulation-failures.txt
python -m tests.simulation check             what fits in half a minute of all processors: for .ci/run

With `small` before these words, they are about small worlds.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from msgspec.structs import replace

from simulation.plan import LARGE, SMALL, Size, draw_mixed, draw_plan
from simulation.planted import MAX_SEEDS, PLANTED, PYTHON, first_seed
from simulation.shrink import shrink
from simulation.world import digest, play

LAST_LINES = 60
FAILURES = Path("simulation-failures.txt")


def main(words: list[str]) -> int:
    """Do what the words say; return how the process ends."""
    match words:
        case ["check"]:
            return check()
        case ["check", number, processes]:
            return check_share(int(number), int(processes))
        case ["large", *rest]:
            return about(LARGE, rest)
        case ["small", *rest]:
            return about(SMALL, rest)
    return about(LARGE, words)


def about(size: Size, words: list[str]) -> int:
    """Do what the words say, with worlds of this size."""
    match words:
        case ["shrink", seed]:
            played = shrink(play(draw_plan(int(seed), size)))
            print("\n".join([*played.trace, "", *map(str, played.plan.actions)]))
            return bool(played.broken)
        case ["range", first, last]:
            return search(range(int(first), int(last)), size)
        case ["first", first, last]:
            return search_one(range(int(first), int(last)), size)
        case ["planted", most, *names] if most.isdigit():
            return find_planted(range(int(most)), " ".join(names), size)
        case ["planted", *names]:
            return find_planted(range(MAX_SEEDS), " ".join(names), size)
        case ["digests", first, last]:
            for number in range(int(first), int(last)):
                print(number, digest(play(draw_plan(number, size), is_compared=True)))
            return 0
        case ["soak"]:
            return search(itertools.count(), size)
        case ["soak", first]:
            return search(itertools.count(int(first)), size)
        case [seed] if seed.isdigit():
            played = play(draw_plan(int(seed), size))
            print("\n".join(played.trace))
            return bool(played.broken)
    print(__doc__, file=sys.stderr)
    return 2


def search_one(seeds: range, size: Size) -> int:
    """Play worlds up to the first that breaks an invariant."""
    for seed in seeds:
        if broken := play(draw_plan(seed, size)).broken:
            print(f"{seed} {broken[0].partition(':')[0]}")
            return 1
    return 0


def find_planted(seeds: range, words: str, size: Size) -> int:
    """Print a row of the table for each planted bug."""
    missed = 0
    for planted in PLANTED:
        if words in planted.name:
            found = first_seed(planted, seeds, size)
            seed, _, invariant = found.partition(" ")
            done = (
                replace(planted, seed=int(seed or -1), found_by=invariant)
                if size is LARGE
                else replace(planted, small=int(seed or -1))
            )
            print(done.row(), "" if size is LARGE else invariant, flush=True)
            missed += not found
    return bool(missed)


def search(seeds: Iterable[int], size: Size) -> int:
    """Play worlds, and tell of those that break an invariant."""
    began, failed, count = time.perf_counter(), 0, 0
    try:
        for seed in seeds:
            played = play(draw_plan(seed, size))
            count += 1
            if played.broken:
                failed += 1
                print("\n".join([f"seed {played.plan.words}", *played.broken]), flush=True)
                with FAILURES.open("a") as file:
                    print(played.plan.words, played.broken[0], file=file)
    except KeyboardInterrupt:
        pass
    seconds = time.perf_counter() - began
    print(f"{failed} of {count} worlds broke an invariant, in {seconds:.1f} s", file=sys.stderr)
    return bool(failed)


CHECK_SECONDS = 25.0
"""Of each process, which also starts."""
MAX_CHECKED = 2_000


def check() -> int:
    """Play as many worlds as fit, in a process for each processor; they are the same every day."""
    processes = len(os.sched_getaffinity(0))
    shares = [
        subprocess.Popen([*PYTHON, "check", str(each), str(processes)]) for each in range(processes)
    ]
    return max(share.wait() for share in shares)


def check_share(number: int, processes: int) -> int:
    """Play every n-th world until time is over; a world that goes round for ever ends the process with an error."""
    until, count, failed = time.perf_counter() + CHECK_SECONDS, 0, 0
    for each in range(number, MAX_CHECKED, processes):
        if time.perf_counter() > until:
            break
        played = play(draw_mixed(each))
        count += 1
        if played.broken:
            failed += 1
            print(f"python -m tests.simulation {played.plan.words}: {played.broken[0]}")
    print(f"{count} worlds in {time.process_time():.1f} s of CPU, {failed} broke an invariant")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
