"""The tree of a page as Markdown: blocks separated by an empty line, links with absolute URLs.

Own code, not a library: html-to-markdown (22 MB installed) returns nothing for a page nested some ten
thousand deep and keeps `javascript:` links and passwords in URLs; markdownify parses with
BeautifulSoup, in Python. Either would still need the tree, for hidden text and navigation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, urljoin, urlsplit

from .page_tree import BLOCKS, Element
from .text import one_line

MAX_LINK_CHARS = 1000
"""Longer URLs carry data, not a place; such a link keeps its words alone."""

_SCHEMES = frozenset({"http", "https", "mailto"})
_IGNORED = re.compile(r"[\t\n\r]")
_CONTROLS = re.compile(r"[\x00-\x20\x7f-\x9f]")


class LinkBase:
    """The base of a page's links: its own URL, and its `<base href>`, if any."""

    def __init__(self, url: str, base: str = "") -> None:
        joined = _join(url, base) if base else url
        self._base = joined if joined.startswith(("http://", "https://")) else url

    def target(self, href: str) -> str:
        """Return the URL of a link; empty for a place on the page, and for other schemes."""
        reference = _IGNORED.sub("", href).strip()
        if not reference or reference.startswith("#") or len(reference) > MAX_LINK_CHARS:
            return ""
        target = _join(self._base, reference)
        if target.partition(":")[0].lower() not in _SCHEMES or len(target) > MAX_LINK_CHARS:
            return ""
        if _CONTROLS.search(target) or not target.isascii():
            target = quote(target, safe="!#$%&'*+,/:;=?@[]~_.-()")
        # These would end the link in Markdown, or begin HTML.
        for char in "()<>":
            target = target.replace(char, f"%{ord(char):02X}")
        return target


def _join(base: str, reference: str) -> str:
    try:
        joined = urljoin(base, reference)
        # Not shown: a password in a URL, or a user name that looks like another host.
        return "" if "@" in urlsplit(joined).netloc else joined
    except ValueError:
        return ""


MAX_INDENTS = 8
"""Lists and quotes nested deeper are not indented: each level costs characters on every line."""
MAX_COLUMNS = 40
"""The most columns of a table; further ones are left out."""
MAX_ALT_CHARS = 300
"""The longest text in place of an image."""

_SPACES = re.compile(r"[ \t\n\f\u00a0\u3000]+")
_AROUND_BREAK = re.compile(r" *\n[ \n]*")
_TICKS = re.compile(r"`+")
_LIST = re.compile(r"- |\d+\. ")
_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language|lang|highlight-source|brush:)-?\s*([A-Za-z0-9+#_-]{1,20})"
)
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~", "strike": "~~"}
_CODE = frozenset({"code", "kbd", "samp", "tt"})
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}


def to_markdown(content: Element, links: LinkBase) -> str:
    """Return the content as Markdown."""
    return "\n\n".join(_Writer(links).blocks(content.children, 0))


class _Writer:
    def __init__(self, links: LinkBase) -> None:
        self._links = links

    def blocks(self, children: Iterable[Element | str], depth: int) -> list[str]:
        found: list[str] = []
        line: list[str] = []

        def end_line() -> None:
            if text := _tidy("".join(line)):
                found.append(text)
            line.clear()

        for child in children:
            if isinstance(child, str) or not (child.tag in BLOCKS or child.has_block):
                line.append(self._inline(child))
            elif child.tag == "a":
                # A card, that is, a link around blocks: one link, whatever is inside.
                end_line()
                line.append(self._inline(child))
                end_line()
            else:
                end_line()
                found += self._block(child, depth)
        end_line()
        return found

    def _block(self, element: Element, depth: int) -> list[str]:
        match element.tag:
            case "hr":
                return ["---"]
            case "pre":
                return _fenced(element)
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                text = self._line(element)
                return [f"{_HEADINGS[element.tag]} {text}"] if text else []
            case "blockquote" if depth < MAX_INDENTS:
                quoted = "\n\n".join(self.blocks(element.children, depth + 1))
                return [_prefixed(quoted, "> ", "> ")] if quoted else []
            case "ul" | "ol" | "menu" | "dir" if depth < MAX_INDENTS:
                return self._list(element, depth)
            case "table" if _is_data(element):
                return self._table(element)
            case "dt":
                text = self._line(element)
                return [f"**{text}**"] if text else []
            case _:
                return self.blocks(element.children, depth)

    def _list(self, element: Element, depth: int) -> list[str]:
        start = element.attributes.get("start", "1")
        number = int(start) if re.fullmatch(r"\d{1,6}", start) else 1
        items: list[str] = []
        is_long = False
        for child in element.children:
            inside = [child] if isinstance(child, str) or child.tag != "li" else child.children
            blocks = self.blocks(inside, depth + 1)
            if not blocks:
                continue
            mark = f"{number}. " if element.tag == "ol" else "- "
            number += 1
            # Paragraphs are set apart; a list directly below its item's words is not.
            is_long = is_long or sum(_LIST.match(block) is None for block in blocks) > 1
            gap = "\n\n" if is_long else "\n"
            items.append(_prefixed(gap.join(blocks), mark, " " * len(mark)))
        return ["\n".join(items)] if items else []

    def _table(self, table: Element) -> list[str]:
        caption: list[str] = []
        rows: list[list[str]] = []
        for row in _rows(table):
            if row.tag == "caption":
                caption += [text for text in [self._line(row)] if text]
                continue
            cells: list[str] = []
            for cell in row.children:
                if isinstance(cell, Element) and cell.tag in {"td", "th"}:
                    span = cell.attributes.get("colspan", "1")
                    is_wide = re.fullmatch(r"\d{1,6}", span) is not None
                    more = min(int(span), MAX_COLUMNS) - 1 if is_wide else 0
                    cells += [self._line(cell).replace("|", "\\|"), *[""] * more]
            del cells[MAX_COLUMNS:]
            if any(cells):
                rows.append(cells)
        if not rows:
            return caption
        width = max(map(len, rows))
        lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in rows]
        lines.insert(1, f"|{' --- |' * width}")
        return [*caption, "\n".join(lines)]

    def _line(self, element: Element) -> str:
        text = "".join(self._inline(child) for child in element.children)
        return _tidy(text).replace("\n", " ")

    def _inline(self, node: Element | str) -> str:
        if isinstance(node, str):
            return _SPACES.sub(" ", node)
        if node.tag == "br":
            return "\n"
        if node.tag == "img":
            alt = one_line(node.attributes.get("alt", ""), MAX_ALT_CHARS)
            return f"[image: {alt}]" if alt else ""
        if node.tag in _CODE and not node.has_block:
            return _coded(_SPACES.sub(" ", _raw(node)))
        text = "".join(self._inline(child) for child in node.children)
        if node.tag in BLOCKS:
            return f" {text} "
        if node.tag == "a":
            return self._link(node, text)
        return _marked(text, _MARKS.get(node.tag, ""))

    def _link(self, node: Element, text: str) -> str:
        target = self._links.target(node.attributes.get("href", ""))
        words = _tidy(text).replace("\n", " ")
        if not target or not words:
            return text
        if words == target:
            return _around(text, f"<{target}>")
        label = words.replace("[", "\\[").replace("]", "\\]")
        return _around(text, f"[{label}]({target})")


def _tidy(text: str) -> str:
    return _AROUND_BREAK.sub("\n", re.sub(r" {2,}", " ", text)).strip()


def _around(text: str, core: str) -> str:
    before = " " if text[:1].isspace() else ""
    return f"{before}{core}{' ' if text[-1:].isspace() else ''}"


def _marked(text: str, mark: str) -> str:
    core = text.strip()
    if not mark or not core or mark in core or "\n" in core:
        return text
    return _around(text, f"{mark}{core}{mark}")


def _coded(text: str) -> str:
    core = text.strip()
    if not core:
        return text
    ticks = "`" * (_longest_ticks(core) + 1)
    gap = " " if core.startswith("`") or core.endswith("`") else ""
    return _around(text, f"{ticks}{gap}{core}{gap}{ticks}")


def _fenced(element: Element) -> list[str]:
    text = _raw(element).strip("\n").rstrip()
    if not text.strip():
        return []
    fence = "`" * max(3, _longest_ticks(text) + 1)
    classes = [element.attributes.get("class", "")]
    classes += [
        child.attributes.get("class", "")
        for child in element.children
        if isinstance(child, Element)
    ]
    language = _LANGUAGE.search(" ".join(classes))
    return [f"{fence}{language[1].lower() if language else ''}\n{text}\n{fence}"]


def _longest_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)


def _raw(element: Element) -> str:
    pieces: list[str] = []
    for child in element.children:
        if isinstance(child, str):
            pieces.append(child)
        elif child.tag == "br":
            pieces.append("\n")
        else:
            is_line = child.tag in BLOCKS and bool(pieces) and not pieces[-1].endswith("\n")
            pieces += ["\n" if is_line else "", _raw(child)]
    return "".join(pieces)


def _prefixed(text: str, first: str, following: str) -> str:
    head, *tail = text.split("\n")
    lines = [first + head, *(following + line if line else following.rstrip() for line in tail)]
    return "\n".join(line.rstrip() for line in lines)


def _rows(table: Element) -> Iterator[Element]:
    for child in table.children:
        if not isinstance(child, Element):
            continue
        if child.tag in {"tr", "caption"}:
            yield child
        elif child.tag in {"thead", "tbody", "tfoot"}:
            yield from (row for row in child.children if isinstance(row, Element))


def _is_data(table: Element) -> bool:
    """Return whether a table holds data, and is not a way to lay out a page."""
    if table.attributes.get("role") in {"presentation", "none"}:
        return False
    rows = [row for row in _rows(table) if row.tag == "tr"]
    cells = [cell for row in rows for cell in row.children if isinstance(cell, Element)]
    if any(_holds_layout(cell) for cell in cells):
        return False
    return any(sum(isinstance(cell, Element) for cell in row.children) > 1 for row in rows)


def _holds_layout(cell: Element) -> bool:
    return any(
        isinstance(child, Element)
        and (child.tag in {"table", "pre", "blockquote", "ol", *_HEADINGS} or _holds_layout(child))
        for child in (cell.children if cell.has_block else ())
    )
