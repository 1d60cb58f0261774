"""Network: the sockets of a sandbox, all of which end in the runtime.

A sandbox has a network of its own in which nobody else is. When its command may reach hosts, or the runtime
is to answer it a question (git's for a credential), the first program inside (`entrance`) makes listening
sockets there and hands them to the runtime over an inherited descriptor; then it becomes the program that was
asked for. `sockets` decides which there are and serves them. `proxy` moves the bytes of the way out: each
connection asks the call's `Connector`, which knows the address guard and the policy, and all of a program's
traffic is counted. `proxy_head` reads what programs and servers say there, strictly, before any of it is
passed on.

Begin with `sockets`.
Comes in: a `Command` that wants network or answers, and the `Connector` of its call.
Goes out: connections to hosts that were let pass; hosts and refusals for the program's result.
Owns: the sockets of one sandbox and their connections, until it ends.
Imports: tools.sandbox.box, config, runtime.
"""
