"""People: whom a session can reach, and what models ask and tell them.

A runtime has one channel at most, an object of the application. Main sessions have it themselves;
a session below another one reaches it through the nearest session above, which then shows where the
question comes from. Workers reach nobody. A question of `ask_user` is on record in its session, and in
the one whose people are asked; the channel, somebody who answers by id and the clock compete, and the
first of them counts. When the process ends, the turn is suspended, as one that waits for an approval is:
the question is on record, can be answered by id, and is asked again when the turn goes on. Permission for calls is another matter, with stricter
rules: see `permissions`.

Begin with `lineage`: who stands above a session, which tools that leaves it, and whom it reaches.
`user_questions` asks, checks answers and decides when time is over; `speech` is the handle of a call.
Comes in: questions and messages of the tools `ask_user` and `message`; answers by id.
Goes out: `QuestionAsked`, `QuestionAnswered`, `ChildAsks` and `MessageSent` to the journal.
Owns: the questions of `ask_user` that are open in this process.
Imports: what is below `actors`, and nothing else of `actors`.
"""
