"""Self-test: how strong the sandbox of this machine is, measured before it is offered.

What a kernel, a container or a distribution allows can't be known by looking; so it is tried. `self_test`
builds the recipe of this machine's sandboxes, runs the `probe` in one, in the same way as any program, and turns
what the probe could do into a `Strength` with a reason and advice. Below the configured minimum, tools that run
programs are not offered at all. The test runs in a thread before the first program of a process, some seconds after
the start at the latest, and again every few hours: a sandbox that has become weaker is not used any more.
`kept_result` keeps a good result in the data folder, so that a first turn need not wait for a new one.

Begin with `self_test`.
Comes in: the settings, and the environment whose PATH says which tools there are.
Goes out: a `SandboxStatus` with the `Recipe`. Whatever goes wrong with the test means that there is no sandbox.
Owns: the tests of this process, by what their outcome depends on.
Imports: tools.sandbox.running, tiers, box; tools.processes, config.
"""
