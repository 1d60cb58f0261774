"""Web: pages, HTTP requests and searches, as text that a model can read.

Everything here comes from strangers, so three things hold. Connections pass the address guard of
`runtime.http`, redirects included. Pages are parsed in a process of their own that is killed when it
takes too long. And text loses what nobody sees: hidden elements, control and direction characters.

Begin with `fetch`, the tool web_fetch. It asks `page_text` for the text of an answer, which starts
`page_worker` in a process: `page_tree` parses HTML and finds the content, `markdown` writes it, and
the worker itself reads PDF. `text` decodes bytes and removes invisible characters. The other tools are
`http_request` (one exchange, with approval unless it only reads) and `search` (web_search), whose wire
formats are in `search_engines`. `client` is the network handle: it sends requests and follows
redirects.
Comes in: `WebRequest`, from a tool; the operator's search engine (`SearchPlace`).
Goes out: `WebAnswer`, `SearchHit`, results of the three tools.
Owns: the processes that read pages, each for one call.
Imports: `tools.tool`, `tools.schema`, `tools.files`, config's search settings, runtime's http.
"""
