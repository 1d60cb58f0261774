"""OpenAI: what its two wire formats share.

Chat Completions and Responses have the same families of models, the same list of models and the
same strict form of JSON Schema.

Begin with `families`, which decides the options that OpenAI's own models take. `dialect` has the
methods that both dialects share; `models` reads `GET /models` of OpenAI and all compatible servers;
`strict_schema` writes a schema in strict form, if it has one; `usage` reads the counts of tokens.

Comes in: ids of models, schemas, bodies of lists.
Goes out: what a model takes; strict schemas; `ListedModel`s.
Owns: nothing.
Imports: the shared modules of `providers`; `runtime`.
"""
