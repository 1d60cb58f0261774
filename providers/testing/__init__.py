"""Testing: models that follow a script, in the process or behind a socket.

A script is a list of steps, one for each model call: an answer, a fault, or a function that makes
one from the request. `ScriptedModel` plays it in the process; a scripted server plays the same
script over HTTP in whichever of the four wire formats it is asked, so that a test covers the real
request, decoder and connection. Programs that embed callboard use both in their own tests.

Begin with `script`, the steps (`reply`, `fail` and faults that only a wire can have). `scripted` is
the model, `scripted_server` the server; `wires` decides the format from the path; `chat_wire`,
`responses_wire`, `anthropic_wire` and `gemini_wire` write an answer in its bytes.

Comes in: a script; requests.
Goes out: stream events, or the bytes of answers; which requests came.
Owns: the listening socket of a scripted server.
Imports: `provider`; `runtime` for history, events and errors.
"""
