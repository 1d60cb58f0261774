"""Portals: the embedded runtime for programs that do not run on Trio.

A portal is a thread in which `trio.run` runs the runtime. A caller in another thread, or a task of an
asyncio loop, hands over one call at a time (a *crossing*) and waits for its future. Each crossing is a
Trio task with a cancel scope of its own, so that interrupting the waiting caller cancels exactly that
call, and the caller goes on when the call is gone. Events are never pushed: a consumer asks for each
one, so that a slow consumer slows its own turn, as in a Trio program. In the other direction, the
program's own functions (tools, approvers, channels) are called where the program lives: on its event
loop, or in worker threads.

The methods exist once. `aio_handles` has them as coroutines; `scripts/plain-portal` generates
`plain_handles` from it, where they block; `make check` proves that the two agree.

Begin with `portal`: the thread, its crossings, its orderly end, and what becomes of open calls. Then
    `aio` and `plain`: the two functions that open a runtime. `event_loop` and `threads` decide how each
    side waits and where the program's own functions run; `channels` moves a channel's methods there.
Comes in: calls from any thread or asyncio task, and functions of the program.
Goes out: the same results, events and exceptions as in a Trio program.
Owns: the thread, its Trio run, and the runtime in it; the interpreter's exit closes what is left open.
Imports: `embedding` and what stands below it. The only folder that may import asyncio.
"""
