"""Work that nobody sits in front of: inputs that a schedule makes, or another system.

Such an input has a name outside: "the firing of `morning` at 09:00", "delivery 72d3 of the hook `ci`". The name
is the idempotency key of the input's event, in one commit with it, so the store refuses a second one: after a
kill -9, a clock that was set back, or a delivery that comes twice. `once` makes such an input, in a new session
or an old one.

`hook_rows` lists hooks and webhooks for people.

Begin with `once`.
Comes in: a name, a text, and what its turn may use.
Goes out: sessions and inputs, through `Runtime` and `Session`; nothing of its own.
Owns: nothing.
Imports: embedding and below.
"""
