"""Methods: the protocol, one function for each method.

To add a method: put structs for its parameters and its result into `runtime.wire`, write an `async def`
(or a `def`, if it never waits) of a `Caller` and the parameters in the module of its noun, and decorate
it with `@methods.add("noun/verb", Role.…)`. The first line of its docstring becomes its summary in the
documentation. Say `is_slow` if it may take long, `is_whole` if tokens limited to some agents or sessions
may not call it, and `recall` if its effect is an event with the request's key. Give `Client` a short
form, and run `scripts/protocol-reference`; tests fail if either is missing.

Every method must ask `Caller` which sessions it may know of: for a limited token, what it may not see
does not exist.

Begin with `all`: the table of all methods, and their JSON Schema. By noun: `sessions` (begin, read,
    prompt, retry, lists, search, deletion, the options of one turn), `session_files` (export, import),
    `subscriptions` (sessions, topics and lists), `approvals` (also grants, questions and the policy check),
    `memories`, `providers` (also models), `agents`, `access` (keys and tokens), `runtime` (status, tools,
    calls, turns, the log), `mcp`, `daemon` (backup, configuration, settings, prices, usage, undo, roots).
Comes in: checked parameters, and the caller.
Goes out: a result struct, or a `CallboardError`.
Owns: nothing.
Imports: `connection`, `shared`, `feeds`, `embedding` and what stands below.
"""
