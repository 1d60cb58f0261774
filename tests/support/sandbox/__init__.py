"""Real sandboxes: who plays in them, and what is played there.

`*_scenes` are programs that print what they found as JSON, so that root and an ordinary user can
play them alike (`sandbox_users`). Whether there can be a sandbox at all, `needs_sandbox` says.
"""
