"""Hooks: what other systems send here to begin a turn, and what is sent to them.

`hook` is a hook as it is configured, and what can't be one. `signatures` finds out whether a delivery comes from
who has the secret, and signs what is sent: both are pure functions of bytes, a secret and the wall clock.

Begin with `hook`.
Comes in: fields from TOML; headers and bodies.
Goes out: deliveries with their identity; headers; complaints that name the field.
Owns: nothing.
Imports: runtime alone.
"""
