"""A page as a small tree of what is seen, and the place of its content in it.

The tree is bounded in depth and size, and its text is clean. `main_content` finds the content by
structure and by where the prose stands. It drops nothing by a guess: an element counts as the content
only when it holds most of the text outside of links, and only what calls itself navigation is left
out of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from .text import visible

MAX_DEPTH = 64
"""Elements nested deeper are put beside each other, so that readers of the tree may recurse."""
MAX_ELEMENTS = 200_000
"""A page of some megabytes; the rest is left out, and `is_cut` says so."""

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
        prose: How many letters inside stand outside of links; counted in `main_content`.
    """

    __slots__ = ("attributes", "children", "has_block", "prose", "tag")

    def __init__(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element | str] = []
        self.has_block = False
        self.prose = 0


class PageTree(NamedTuple):
    """The visible part of a page, its title and its `<base href>`, and whether some was left out for its size."""

    body: Element
    title: str
    base: str
    is_cut: bool


def parse_page(html: str) -> PageTree:
    """Return the tree of a page; every text has one."""
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
    """Return the tree below a node. A loop, since pages nest as deep as they like."""
    top = Element("body", {})
    if root is None:
        return top, False
    path = [top]
    # the nodes to do; `None` marks the end of the latest element
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
            path[-1].children.append(visible(node.text_content or ""))
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
    """Return the element of a node; `None` for one that is not seen, with all that is inside."""
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


def _close(element: Element, parent: Element) -> None:
    parent.children.append(element)
    if element.has_block or element.tag in BLOCKS:
        parent.has_block = True


# ── the content ──────────────────────────────────────────────────────────────────────────────────

MOST = 0.7
"""The share of a page's prose that an element must hold to leave out what is around it."""
NAMED = 0.4
"""The same where the page itself calls the element its content."""

_NAVIGATION = frozenset({"nav", "footer", "aside", "header", "search", "menu"})
_NAVIGATION_ROLES = frozenset(
    {"navigation", "banner", "contentinfo", "complementary", "search", "menu", "menubar", "dialog"}
)
_CONTAINERS = frozenset({"main", "article", "section", "div", "td", "form", "center"})
_OWN_PARTS = frozenset({"header", "footer", "aside"})
"""Parts that belong to the content when they are inside it: a byline, notes, an infobox."""


def main_content(body: Element) -> Element:
    """Return the element that holds the content; the whole page when none stands out."""
    body = _without_navigation(body)
    whole = body.prose
    for named in _named(body):
        if named.prose >= NAMED * whole:
            return named
    inner: Element | None = body
    found = body
    while inner is not None:
        if inner.tag in _CONTAINERS:
            found = inner
        inner = next(
            (
                child
                for child in inner.children
                if isinstance(child, Element) and child.prose > MOST * whole
            ),
            None,
        )
    return found


def _named(body: Element) -> list[Element]:
    """Return what the page calls its content: `main`, else its only article."""
    mains: list[Element] = []
    articles: list[Element] = []
    waiting = [body]
    while waiting:
        element = waiting.pop()
        if element.tag == "main" or element.attributes.get("role") == "main":
            mains.append(element)
        elif element.tag == "article":
            articles.append(element)
        waiting += [child for child in element.children if isinstance(child, Element)]
    if mains:
        return [max(mains, key=lambda element: element.prose)]
    return articles if len(articles) == 1 else []


def _without_navigation(element: Element, *, inside: bool = False) -> Element:
    """Return a copy with its prose counted; inside of the content, its own parts stay."""
    copy = Element(element.tag, element.attributes)
    copy.has_block = element.has_block
    is_link = element.tag == "a" and "href" in element.attributes
    role = element.attributes.get("role")
    within = inside or element.tag in {"main", "article"} or role == "main"
    for child in element.children:
        if isinstance(child, str):
            copy.children.append(child)
            copy.prose += 0 if is_link else sum(map(len, child.split()))
            continue
        is_other = child.tag in _NAVIGATION or child.attributes.get("role") in _NAVIGATION_ROLES
        if not is_other or (within and child.tag in _OWN_PARTS):
            kept = _without_navigation(child, inside=within)
            copy.children.append(kept)
            copy.prose += 0 if is_link else kept.prose
    return copy
