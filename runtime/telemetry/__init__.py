"""Telemetry: traces, metrics and logs of turns for OpenTelemetry, made from the events of the journal.

A tap of the journal's inboxes puts what is committed into a queue. A worker thread folds it: each turn, model call, tool
call and question to a person becomes a span with the events' own times, and a value in a histogram. Another thread sends
the spans to a collector, or hands them to a processor of the program's own. Nothing of a turn ever waits for it, and
without `[telemetry]` nothing of it is imported. No text of a person, a model or a tool is in it unless `content = "full"`.

Ids follow from callboard's own ids (`context`), so a program that a call starts can be told where it stands before the
span of that call exists, and a turn that goes on after a restart is the same span.

`telemetry` has the queues, the threads and their bounds. `spans` is the fold, `span` its vocabulary, `templates` what spans
of one sort have in common. `metrics` are the histograms, `content` is what was said, `names` are all names that the outside
sees. `protobuf` writes what is sent, and `export` alone imports the packages of OpenTelemetry.

Begin with `telemetry`, then `spans`.
Comes in: committed events; facts about agents, tools and providers.
Goes out: spans, metrics and events of model calls over OTLP, or to a processor; a text for `/metrics`; places for `TRACEPARENT`.
Owns: two queues, and what is open in sessions.
Imports: runtime alone, and in `export` the packages of OpenTelemetry.
"""
