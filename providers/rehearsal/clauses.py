"""Plain English cut into clauses: one request each, with everything literal kept whole.

Each quotation, piece of code, path and address becomes one character of a private plane first, so
that no rule mistakes a word inside of it for a request: `Write 'delete a.txt' to b.txt` deletes
nothing. What stands under a negation or a condition is marked, and does not run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from .places import looks_like_zone

MAX_TEXT_CHARS = 16_384
"""Five pages; longer texts belong in a file. Operands of at least two characters fit the ranges."""

MAX_WORDS = 2_000
"""A long list of requests has some hundreds of words; this many take a tenth of a second."""

# A range of a private plane for each kind of operand, as regular expressions name it.
QUOTE, PATH, FOLDER, URL = (
    f"[{chr(start)}-{chr(start + 0x3FFF)}]" for start in (0xF0000, 0xF4000, 0xF8000, 0xFC000)
)
NAME = f"(?:{QUOTE}|{PATH})"
_OPERAND = "[\U000f0000-\U000fffff]"

_LITERAL = re.compile(
    r"""
      ```[\w+-]*[^\S\n]*\n?(?P<fence>.*?)\n?``` | `(?P<tick>[^`\n]+)`
    | "(?P<double>[^"]*)" | “(?P<curly>[^”“]*)” | (?<!\w)\u2018(?P<typographic>[^\u2019\u2018]*)\u2019
    | (?<!\w)'(?P<single>(?:[^']|(?<=\w)'(?=\w))*)'(?!\w)
    | :[^\S\n]*\n(?!\s*```)(?P<block>(?:[^\n]*\S[^\n]*(?:\n|\Z))+)
    | (?P<url>https?://[^\s<>"'`“”]+)
    | (?P<chunk>[^\s,;!?…:"“”`]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_PATH = re.compile(r"\.?[^\s.]\S*\.[A-Za-z0-9_~]{1,12}|\.[A-Za-z_][\w.-]*|\.{1,2}|\S*[/\\*]\S*")
_NO_PATH = re.compile(r"(?:\w\.)+\w|w/o|\w+/or|[-+]?\d[\d.,/]*\w?|[/\\]{2,}|\*+|.", re.IGNORECASE)
_KNOWN_FILE = re.compile(r"Makefile|Dockerfile|LICENSE|README|CHANGELOG")
_FOLDER = re.compile(
    r"\b(?!(?:the|this|that|my|same|current|whole|empty|new|a|an|which|what|in|of)\b)(?P<name>[\w.-]+)"
    r"\s+(?:folder|directory)\b",
    re.IGNORECASE,
)


class MaskedText:
    """A text whose operands are single characters, and the operands themselves."""

    def __init__(self, text: str) -> None:
        self._operands: dict[str, tuple[str, str]] = {}
        text = _LITERAL.sub(self._mask, re.sub(_OPERAND, "\ufffd", text)).replace("\u2019", "'")
        text = re.sub(r"(?m)^\s*(?:\d+[.)]|[-*•])\s+", "", text)
        text = re.sub(r"([,:])[,: ]*[,:]", r"\1", text)
        text = _FOLDER.sub(lambda m: self._add(FOLDER, self.raw(m["name"]), self.raw(m[0])), text)
        self.text = _COLON.sub(self._mask_behind_colon, text)

    def of(self, char: str) -> str:
        """Return an operand without its marks."""
        return self._operands[char][0]

    def raw(self, text: str) -> str:
        """Return a masked text as it was written."""
        return re.sub(_OPERAND, lambda m: self._operands[m[0]][1], text).strip()

    def _add(self, kind: str, value: str, written: str) -> str:
        char = chr(ord(kind[1]) + len(self._operands) % 0x4000)
        self._operands[char] = (value, written)
        return char

    def _mask(self, match: re.Match[str]) -> str:
        kind = match.lastgroup or ""
        text = match[kind]
        if kind == "block":
            return f": {self._add(QUOTE, text.strip(), match[0])}\n"
        if kind == "url":
            url = text.rstrip(".,;:!?)]}'\u2019")
            return self._add(URL, url, url) + text[len(url) :]
        if kind != "chunk":
            return self._add(QUOTE, text, match[0])
        start = len(text) - len(text.lstrip("([{<"))
        # `..` is a path; `it.` is a word and the end of a sentence.
        bare = text if text in {".", ".."} else text[start:].rstrip(".)]}>'\u2019")
        path = re.sub(r"['\u2019]s$", "", bare)
        if not _KNOWN_FILE.fullmatch(path) and (
            _NO_PATH.fullmatch(path) or looks_like_zone(path) or not _PATH.fullmatch(path)
        ):
            return text
        kind = FOLDER if path.endswith("/") or path in {".", ".."} else PATH
        return text[:start] + self._add(kind, path, bare) + text[start + len(bare) :]

    def _mask_behind_colon(self, match: re.Match[str]) -> str:
        # "Write to a.txt: Hello. How nice." goes on until a line ends or a request begins.
        end = _REQUEST_BEHIND.search(match["text"])
        text = match["text"][: end.start()] if end else match["text"]
        said = self.raw(text).rstrip(".!? ")
        return match["lead"] + self._add(QUOTE, said, said) + match["text"][len(text) :]


Action = Literal[
    "ask", "list", "write", "create", "append", "replace", "search", "move", "copy", "delete", "fetch",
    "unknown",
]  # fmt: skip
"""What a clause asks for."""

CHANGES = frozenset({"write", "create", "append", "replace", "move", "copy", "delete"})
"""Actions that must not happen by misunderstanding."""

_VERBS: dict[Action, str] = {
    "move": "move,mv,relocate,rename,change the name of",
    "copy": "copy,cp,duplicate,back up,make a copy of,create a copy of",
    "create": "create,make,touch,mkdir,generate,compose,clear",
    "append": "append,add,insert",
    "replace": "replace,substitute,swap,change,correct,turn,edit,update,modify,fix",
    "write": "write down,write,save,store,put,record,note,jot down,overwrite,leave,echo,set",
    "delete": "delete,remove,rm,erase,get rid of,throw away",
    "search": "search,find,grep,look for,locate,look up",
    "fetch": "fetch,download,curl,visit,go to",
    "list": "list,ls",
    "ask": "read,cat,open,view,print,output,display,show,see,check,look,have a look,take a look,"
    "tell me,give me,let me know,let me see,get,find out,what,what's,which,where,how late,how many,"
    "is there,is it,are there,does,do you know,need,wonder,compare,figure out,pull up",
}
_FILLERS = (
    "please,kindly,now,then,next,finally,lastly,first,second,third,also,afterwards,after that,just,"
    "only,quickly,hey,hi,hello,ok,well,so,thanks,and,but,or,too,again,can you,could you,would you,"
    "will you,can i,i want you to,i want to,i'd like you to,i'd like to,i need you to,i need to,i,"
    "let's,go ahead and,try to,make sure to,don't forget to,remember to,would you mind,mind,me,"
    "do these things,do the following,instead,let me,actually"
)
_NEGATIONS = "don't,do not,dont,never,avoid,no need to,not,without,stop,i don't want you to"
_CONDITIONS = (
    "if,unless,when,whenever,until,while,in case,provided,assuming,otherwise,else,before,once,"
    "as soon as,as long as,should i,should we,what if,what would happen"
)
_HARMLESS = re.compile(
    r"[\s,]*\b(?:(?:once|when) (?:you're|you are|that's|that is)? ?(?:done|finished)|please|thanks|thank you|for me"
    r"|if (?:it exists|they exist|present|possible|you can|you don't mind|needed|you like))\b(?=[\s,.;!?]|$)",
    re.IGNORECASE,
)
_RETRACTION = re.compile(
    r"(?:(?:actually|no|wait|please)[\s,]*)*(?:(?:don't|do not)(?: do (?:it|that))?|never ?mind"
    r"|(?:cancel|scratch|forget|undo) (?:that|it)|stop|just kidding)",
    re.IGNORECASE,
)


def _any_of(*phrases: str) -> str:
    listed = sorted(",".join(phrases).split(","), key=len, reverse=True)
    return f"(?:{'|'.join(map(re.escape, listed))})(?![\\w'-])"


def _gerund(verb: str) -> str:
    first, *rest = verb.split()
    return " ".join([first.removesuffix("e") + "ing", *rest])


_ACTIONS: dict[str, Action] = {
    form: action
    for action, verbs in _VERBS.items()
    for verb in verbs.split(",")
    for form in (verb, _gerund(verb))
}
_FILL = rf"(?:(?:{_any_of(_FILLERS)}|[-&+,:])\s*){{0,20}}"
_VERB = rf"{_any_of(*_ACTIONS)}"
_AHEAD = rf"(?=\s*{_FILL}(?:{_any_of(_NEGATIONS)}\s*{_FILL})?{_VERB})"
_HEAD = re.compile(
    rf"\s*{_FILL}(?P<no>{_any_of(_NEGATIONS)}\s*{_FILL})?(?P<verb>{_VERB})", re.IGNORECASE
)
_JOINT = re.compile(
    rf"(?:\s*[,:]|\s+(?:and|then|but|or|plus|also|nor)\b|\s+[-&]\s){_AHEAD}", re.IGNORECASE
)
_PLACE_FIRST = re.compile(rf"{_FILL}(?P<place>(?:in|to|into|at|for)\s.*)", re.IGNORECASE)
_CONDITION = re.compile(
    rf"(?P<joint>(?:^|[,:]|\band\b|\bthen\b|\bbut\b)\s*)?\b{_any_of(_CONDITIONS)}", re.IGNORECASE
)
_REQUEST_BEHIND = re.compile(rf"[.!?]\s+{_AHEAD}", re.IGNORECASE)
_WRITES = _any_of(_VERBS["write"], _VERBS["create"], _VERBS["append"])
_COLON = re.compile(
    rf"(?P<lead>\b{_WRITES}[^.;!?:\n]{{0,99}}{PATH}[^.;!?:\n]{{0,99}}:\s*)"
    rf"(?P<text>(?!\s|{QUOTE})[^\n]+)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?…;]+(?=[\s)\"']|$)|[!?…;\n]+")
_NEGATION_ENDS = re.compile(r"\s*,(?!.*\b(?:or|nor)\b)|[\s,]*(?:and )?(?:but|then|just|only)\b")


class Clause(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        action: What it asks for.
        verb: The words that said so, in small letters.
        body: The masked words behind the verb.
        text: The masked clause.
        left_out: Why it must not run, if it must not.
    """

    action: Action
    verb: str
    body: str
    text: str
    left_out: Literal["", "negated", "conditional", "unclear"] = ""


def takes_back(masked: str) -> bool:
    """Return whether a sentence says that nothing is to be done: `Actually, don't.`"""
    return any(_RETRACTION.fullmatch(each.strip(" ,")) for each in _SENTENCE_END.split(masked))


def split_clauses(masked: str) -> Iterator[Clause]:
    """Yield the clauses of a masked text, in its order."""
    for part in _SENTENCE_END.split(masked):
        sentence, doubt = _HARMLESS.sub("", part).strip(" ,:"), ""
        start = _HEAD.match(sentence)
        if condition := _CONDITION.search(sentence, start.end() if start else 0):
            # Without a joint before it, the condition belongs to the requests before it.
            end = 0 if condition["joint"] is None else condition.start()
            sentence, doubt = sentence[:end].strip(), sentence[end:].strip(" ,")
        yield from _clauses(sentence)
        if doubt:
            yield Clause("unknown", "", "", doubt, "conditional")


def _clauses(sentence: str) -> Iterator[Clause]:
    negated = unclear = False
    for number, piece in enumerate(_pieces(sentence)):
        text = piece.strip(" ,:-")
        if (head := _HEAD.match(piece)) is None:
            unclear = unclear or number == 0
            yield Clause("unknown", "", re.sub(f"^{_FILL}", "", text, flags=re.IGNORECASE), text)
            continue
        verb = head["verb"].casefold()
        # "Don't read or delete a.txt" forbids both; "but", "then", "just" and a comma end that.
        negated = head["no"] is not None or (negated and not _NEGATION_ENDS.match(piece))
        # What other people said is not a request: "Tom told me to read a.txt and delete b.txt".
        doubtful = unclear and _ACTIONS[verb] in CHANGES
        body = piece[head.end() :].strip(" ,:")
        yield Clause(
            _ACTIONS[verb],
            verb,
            body,
            text,
            "negated" if negated else "unclear" if doubtful else "",
        )


def _pieces(sentence: str) -> list[str]:
    """Cut a sentence before each verb that a comma, a colon or `and` leads to."""
    joints = [joint.start() for joint in _JOINT.finditer(sentence)]
    pieces = [sentence[start:end] for start, end in itertools.pairwise([0, *joints, None])]
    first = _PLACE_FIRST.fullmatch(pieces[0])
    if len(pieces) > 1 and first and _HEAD.match(pieces[0]) is None:
        # "In a.txt, replace …": the words before the verb belong behind it.
        pieces[:2] = [f"{pieces[1]} {first['place']}"]
    return [piece for piece in pieces if piece.strip(" ,:")]
