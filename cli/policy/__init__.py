"""Policy: explain what the rules decide about a call, and find rules that don't do what they seem to.

Begin with `check`: it judges one call as the runtime would, without running it (`embedding.policy_check`).
`lint` looks at the rules alone.
Comes in: a call and a session as options; the rules of the configuration.
Goes out: the decision and the rule behind it; one line for each odd rule, and exit code 1.
Owns: nothing.
Imports: `config.policy`, `embedding.policy_check`, `tools.registry`.
"""
