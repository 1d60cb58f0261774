"""Hooks: deliveries of other systems become inputs of sessions, each exactly once.

`POST /hooks/NAME` → body within its bound → signature → rate of the hook → an input on record → 202

Who has not signed learns nothing: an unknown hook, a paused one, one without a secret and a wrong signature get
the same answer after the same work. A delivery is answered when its input is committed under its identity, so a
repetition finds it, also after a kill -9 (`embedding.unattended`). What a stranger wrote taints the session.

In a cluster, a delivery for a session of another node is posted there as it came, and judged there by the same secret.

Begin with `deliveries`; `passed_on` is for those of another node's session.
Comes in: exchanges of the door; `[hooks]` of the configuration in force; secrets of the store of keys.
Goes out: inputs; answers; deliveries to other nodes.
Owns: how many deliveries each hook had within the last minute.
Imports: `door`, `shared`, `embedding.unattended`, and `runtime.http`.
"""
