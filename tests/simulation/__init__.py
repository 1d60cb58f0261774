"""The whole runtime, simulated: everything is real but the edges of the process, and a seed decides all of it.

A world has a daemon and its clients in one Trio run: runtime, gateway, JSON-RPC, websockets and client
library as they are. Network, disk, clock, threads, model and people are played. A seed decides who does
what and when, what fails, and in which order Trio runs its tasks. The same seed gives the same trace,
byte for byte, so that a world which breaks an invariant can be looked at again.

Begin with `world`, which plays one seed. `plan` draws what happens in it, `edges` takes the place of time,
chance and threads, `network` and `disk` are played; `models` and `tools` are what turns are made of;
`clients` do what the plan says; `invariants` judge while it runs, `last_invariants` when it is over. `python -m tests.simulation SEED` shows one world.
"""
