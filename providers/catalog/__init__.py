"""Catalog: which providers there are, which model a session gets, and with which key.

Choosing a model is pure: `catalog` takes the caller's options, the agent, the settings and the
environment, and returns an endpoint. If the choice depends on what a server offers, it names the
servers to ask first and is called again with their lists. A key goes only to the origin that it
belongs to, and in clear text only to this machine: `keys` decides this for the environment's and
for stored keys.

Begin with `catalog`, then `table`, which finds a provider by name or URL. `known` is the built-in
table of providers and models. `services` is what a runtime offers: lists of models (`lists` fetches
them, `cache` keeps them), connection tests (`connection_test`) and short completions (`completion`).
`book` changes providers and the default model for commands and clients, and lists them; `key_book`
does so for keys.

Comes in: settings, environment, stored keys; bodies of lists of models.
Goes out: `ResolvedModel`, `Endpoint`, lists, reports; errors that say what to do.
Owns: `models/` in the data folder, the cached lists.
Imports: `dialects` and `provider`; `config` for settings and keys; `runtime` for HTTP and errors.
"""
