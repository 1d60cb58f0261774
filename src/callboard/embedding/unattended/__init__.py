"""Work that nobody sits in front of: inputs that a schedule makes, or another system.

Such an input has a name outside: "the firing of `morning` at 09:00", "delivery 72d3 of the hook `ci`". The name
is the idempotency key of the input's event, in one commit with it, so the store refuses a second one: after a
kill -9, a clock that was set back, or a delivery that comes twice. `once` makes such an input, in a new session
or an old one.

`scheduler` looks at the clock and fires what is due, `firing` says what the input of a firing is, and `settled` up to
when each schedule needs no look. `schedules` lists and changes them for people, and `hooks` does so with hooks; `hook_rows` says what a row of one is.

Begin with `once`, then `scheduler`.
Comes in: a name, a text, and what its turn may use; the schedules in force, and the clock on the wall.
Goes out: sessions and inputs, through `Runtime` and `Session`; changes of managed.toml.
Owns: `schedules.json` in the data folder, and while it fires the lock of a configuration folder.
Imports: embedding and below.
"""
