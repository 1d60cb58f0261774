"""Asking: what a server wants while a call of it runs, from people (elicitation) or from the model (sampling).

It is put to the people of the session whose call runs, and answered as they say. What a server may ask of the model
is decided by its settings first (`sampling`), and by a person each time: they see every message before it is sent.

Begin with `questions`. `askers` finds the call that a request of a connection is about; `model` reads what a server
would ask the model.
Comes in: requests of servers; the channel, the model and the deadline of a call.
Goes out: answers in the form of the protocol; questions to people, and one request to the turn's model at a time.
Owns: the questions of calls that run; they end with them.
Imports: tools.mcp.definition, tool; config, runtime. `askers` imports `mcp`.
"""
