"""Policy: which calls run, which ask a person first, and which never run. All of it is pure.

A layer is a preset and the rules of one agent. Within a layer the strictest rule that matches wins, and
a rule that allows speaks only where none asks or denies: it answers what the preset would have asked. A
session's policy is its own layer and those of the sessions above it; the strictest verdict wins, so a
layer can only narrow the others. Doubt counts against the call: what can't be judged (an absolute path, a
shell line where words are meant) matches every rule that asks or denies and none that allows.

A policy has a version, a digest of all that its verdicts follow from. Approvals bind to it.

Begin with `policy`: layers, policies, and the book that makes them for sessions. `preset` says what holds
without rules; `rules` what a rule may say; `match` whether it matches a call; `path_pattern` what a
pattern of paths matches; `new_hosts` whether a call reaches a host that is new to its session, and which
nobody is asked about; `tables` reads rules from TOML; `grant_binding` decides which calls a remembered answer covers,
and which answers can't be remembered for good.
Comes in: rules from the configuration; one call at a time as a `PolicyQuestion`.
Goes out: a `Ruling`: verdict, reason, and what decided.
Owns: nothing.
Imports: `runtime`, `toml_reader`.
"""
