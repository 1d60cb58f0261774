"""Terminal: lines, keys, escapes and colours.

A terminal obeys some characters instead of showing them, and wraps a long line to the first column,
where only callboard's own words may stand. So foreign text goes through `escaping`, and lines are
`folding`ed with a mark ahead of each further row. `markdown_live` lays out a model's Markdown while it
comes: a row that was printed never changes. It finds blocks, `markdown_inline` the marks inside a line, `tables`
draws tables, `highlight` colours code by Pygments, and `styled_rows` breaks what comes out into rows. rich does none of it: it passes escape and
bidirectional characters through, and can only render a whole text again for each piece that comes, which
took sixty times the CPU; its import alone costs a tenth of a second.

Begin with `escaping` and `output`: a thread writes, so that a paused pager can't stop Ctrl-C. `keyboard`
reads lines behind a prompt, `style` knows colours and figures, `json_lines` is output for programs, `complaint` the one line on stderr, and
`clipboard` the desktop's own. `rows_below` keeps what is not whole yet below what is printed, where no input line stands.
Comes in: text, trusted or not; what is typed.
Goes out: bytes to a file descriptor.
Owns: the writing thread of a descriptor.
Imports: runtime's redaction, errors and history; nothing else of ours.
"""
