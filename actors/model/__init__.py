"""The model: asking one, choosing one, and what its answers take.

A session has one model stream actor. It makes one call at a time: it builds the request with the
provider's dialect, sends it over HTTP, decodes each network read in one pass, and hands the events up
as one batch, to the turn at once if it takes it, or else on the channel that came with the request. The channel is bounded, so a consumer that is
slow pauses the reading, and does not count as the model's silence. Four deadlines watch each call:
the first byte, idle, progress (pings hold no event) and the whole call. A stream that ends without its
terminal event is an error, never an answer. Models in this process speak the same events.

Begin with `stream`, the actor and its deadlines. `answer` folds events into parts, bounds them, and
estimates tokens that nobody counted; `choice` decides which model is asked, whether and when a failed call
is made again (`turn/model_caller` then does it), and which provider is set aside; `compaction` decides
which rounds a summary replaces, and asks for it.
Comes in: `StartModelCall` with the target, the request, an outlet and a scope to cancel.
Goes out: batches of stream events; the end of the outlet says that the call is gone.
Owns: the running model call; the failures of providers, for all sessions.
Imports: `providers`, `config`, `runtime`, and nothing else of `actors`.
"""
