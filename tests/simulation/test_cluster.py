"""The simulation of a cluster, in its short form; `python -m tests.simulation.cluster` plays the long one."""

from __future__ import annotations

from simulation.cluster import Plan, World

SMALL = Plan(nodes=30, sessions=3_000, busy=0.3, dead=0.1, calm_seconds=1.0, seconds=4.0)


def test_the_sessions_of_dead_nodes_run_again_within_two_seconds() -> None:
    outcome = World(SMALL).run()
    assert outcome.dead == 3
    assert len(outcome.took) > 60
    assert outcome.took[-1] < 2.0
    assert outcome.refused == 3
    assert outcome.lost == 0


def test_a_database_that_is_too_slow_loses_leases_of_nodes_that_live() -> None:
    world = World(SMALL._replace(cores=1, renew_ms=50.0))
    world.start()
    world.play(world.now + 3_000)
    assert world.lost > 0
