"""OpenAI: the HTTP API that most programs speak, below `/v1/` of the daemon's port.

A model is an agent, a key is a token, and a request is an input of a session: broker, budgets, taint and record
hold as for any other. What a request can't have here is refused with the name of its parameter; what changes no
answer is passed over.

Two kinds of tools meet in a turn. Those of the agent run here. Those of the request are the client's: their
calls wait like a question for a person, the answer ends with them, and the client's next request brings the
results.

A request without a session of its own brings its conversation along. It gets a session for itself alone, whose
history begins with that (`HistoryGiven`), and which is tainted by it.

Begin with `routes`, which imports the rest when the first request comes (that of AG-UI is of the same shape), and `api`, which finds what a path
    means and turns every failure into an error of OpenAI's shape (`problems`). `chat_request` reads
    chat completions, `chat` and `chat_answer` answer them; the folder `responses` does that for responses. `asked` is
    what both ask for; `turn_view` follows a turn; `content` reads texts and files; `usage` counts tokens.
Comes in: requests with a body of JSON.
Goes out: sessions, inputs and cancels; answers, and streams of events.
Owns: nothing.
Imports: `door.exchange`, `connection.caller`, `http_turns`, `recorded_turn`; nothing of it is imported at start.
"""
