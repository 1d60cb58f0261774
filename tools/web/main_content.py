"""Where on a page its content is: pure, by structure and by where the prose stands.

Nothing is thrown away by a guess: an element counts as the content only when it holds most of what
is said on the page outside of its links, and only what calls itself navigation is left out of it.
"""

from __future__ import annotations

from .page_tree import Element

MOST = 0.7
"""Of a page's prose, how much must be inside an element to leave out what is around it."""
NAMED = 0.4
"""The same where the page itself says that this is its content."""

FURNITURE = frozenset({"nav", "footer", "aside", "header", "search", "menu"})
FURNITURE_ROLES = frozenset(
    {"navigation", "banner", "contentinfo", "complementary", "search", "menu", "menubar", "dialog"}
)
_CONTAINERS = frozenset({"main", "article", "section", "div", "td", "form", "center"})
_OWN_PARTS = frozenset({"header", "footer", "aside"})
"""What inside the content belongs to it: a byline, notes, an infobox."""


def is_furniture(element: Element) -> bool:
    """Whether an element says of itself that it is not what the page is about."""
    return element.tag in FURNITURE or element.attributes.get("role") in FURNITURE_ROLES


def main_content(body: Element) -> Element:
    """The element that holds the content; the whole page when none stands out."""
    body = _without_furniture(body)
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
    """What the page calls its content: `main`, else its only article."""
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


def _without_furniture(element: Element, *, inside: bool = False) -> Element:
    """A copy with prose counted anew; inside of the content, its own parts stay."""
    copy = Element(element.tag, element.attributes)
    copy.has_block = element.has_block
    is_link = element.tag == "a" and "href" in element.attributes
    within = (
        inside or element.tag in {"main", "article"} or element.attributes.get("role") == "main"
    )
    for child in element.children:
        if isinstance(child, str):
            copy.children.append(child)
            letters = sum(map(len, child.split()))
            copy.letters += letters
            copy.prose += 0 if is_link else letters
        elif not is_furniture(child) or (within and child.tag in _OWN_PARTS):
            kept = _without_furniture(child, inside=within)
            copy.children.append(kept)
            copy.letters += kept.letters
            copy.prose += 0 if is_link else kept.prose
    return copy
