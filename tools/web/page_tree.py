"""A page as a small tree of what is seen: bounded in depth and size, with clean text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from .visible_text import visible

MAX_DEPTH = 64
"""Elements nested deeper are put beside each other: what reads the tree may then recurse."""
MAX_ELEMENTS = 200_000
"""A page of some megabytes; what comes after is left out, and said so."""

NEVER_SEEN = frozenset(
    {"script", "style", "template", "noscript", "head", "title", "meta", "link", "base"}
    | {"iframe", "frame", "frameset", "object", "embed", "applet", "param", "source", "track"}
    | {"svg", "math", "canvas", "audio", "video", "map", "area", "datalist"}
    | {"input", "button", "select", "option", "textarea", "progress", "meter"}
)
BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details"}
    | {"dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form"}
    | {"h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "html", "legend", "li"}
    | {"main", "menu", "nav", "ol", "p", "pre", "search", "section", "summary", "table", "tbody"}
    | {"td", "tfoot", "th", "thead", "tr", "ul"}
)
KEPT_ATTRIBUTES = ("href", "alt", "class", "start", "colspan", "role")

_HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)"
    r"|(?:^|;)\s*(?:opacity|font-size|max-height|max-width)\s*:\s*0+(?:\.0+)?[a-z%]*\s*(?:;|!|$)"
    r"|text-indent\s*:\s*-\d{3,}|(?:^|;)\s*(?:left|top)\s*:\s*-\d{4,}",
    re.IGNORECASE,
)


class Element:
    """An element that is seen.

    Attributes:
        tag: In lower case.
        attributes: Those of `KEPT_ATTRIBUTES` that it has.
        children: Elements and texts.
        has_block: Whether a block is inside.
        letters: How much text is inside.
        prose: How much of it is in no link.
    """

    __slots__ = ("attributes", "children", "has_block", "letters", "prose", "tag")

    def __init__(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element | str] = []
        self.has_block = False
        self.letters = 0
        self.prose = 0


class PageTree(NamedTuple):
    """What is seen of a page.

    Attributes:
        body: All of it.
        title: What the page calls itself; it may be empty.
        base: What its links are relative to; empty when it does not say.
        is_cut: Whether something was left out for its size.
    """

    body: Element
    title: str
    base: str
    is_cut: bool


def parse_page(html: str) -> PageTree:
    """The tree of a page; any text is one."""
    document = LexborHTMLParser(html)
    title = document.css_first("title")
    base = document.css_first("base[href]")
    body, is_cut = _seen(document.body)
    return PageTree(
        body=body,
        title=title.text() if title is not None else "",
        base=(base.attributes.get("href") or "") if base is not None else "",
        is_cut=is_cut,
    )


def _seen(root: LexborNode | None) -> tuple[Element, bool]:
    """The tree below a node. A loop, since pages nest as deep as they like."""
    top = Element("body", {})
    if root is None:
        return top, False
    path = [top]
    # Each node still to be done, or the mark that the latest element is at its end.
    waiting: list[LexborNode | None] = [root.child]
    seen = 0
    while waiting:
        node = waiting.pop()
        if node is None:
            if len(path) > 1:
                _close(path.pop(), path[-1])
            continue
        following = node.next
        if following is not None:
            waiting.append(following)
        if node.is_text_node:
            _add_text(path[-1], visible(node.text_content or ""))
        elif (element := _element(node)) is not None and seen < MAX_ELEMENTS:
            seen += 1
            if len(path) < MAX_DEPTH:
                path.append(element)
                waiting.append(None)
            else:
                _close(element, path[-1])
            if (child := node.child) is not None:
                waiting.append(child)
    return top, seen >= MAX_ELEMENTS


def _element(node: LexborNode) -> Element | None:
    """The element of a node; `None` for what is not seen, with all that is inside."""
    tag = node.tag
    if not node.is_element_node or tag is None or tag in NEVER_SEEN:
        return None
    attributes = node.attributes
    if (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or (tag == "dialog" and "open" not in attributes)
        or _HIDING.search(attributes.get("style") or "")
    ):
        return None
    kept = {name: value for name in KEPT_ATTRIBUTES if (value := attributes.get(name))}
    return Element(tag, kept)


def _add_text(parent: Element, text: str) -> None:
    parent.children.append(text)
    letters = len(text) - text.count(" ") - text.count("\n") - text.count("\t")
    parent.letters += letters
    parent.prose += letters


def _close(element: Element, parent: Element) -> None:
    if element.tag == "a" and "href" in element.attributes:
        element.prose = 0
    parent.children.append(element)
    parent.letters += element.letters
    parent.prose += element.prose
    if element.has_block or element.tag in BLOCKS:
        parent.has_block = True
