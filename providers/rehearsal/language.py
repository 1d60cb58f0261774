"""Plain English cut into tokens, with everything that must be taken literally kept whole.

Quotations, code, addresses and file names become one token each, so that no later step can
mistake a word inside them for a request: in `write 'delete a.txt' to b.txt` nothing is deleted.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from .places import looks_like_zone


class Kind(enum.Enum):
    """What a token is."""

    WORD = "word"
    QUOTE = "quote"
    CODE = "code"
    PATH = "path"
    URL = "url"
    END = "end"
    COMMA = "comma"
    COLON = "colon"
    ARROW = "arrow"


class Token(msgspec.Struct, frozen=True):
    """One token.

    Attributes:
        kind: What it is.
        text: A word as written, a quotation without its marks, code without its fence.
        start, end: Where it stands in the text, its marks included.
        language: The word behind a code fence, in small letters; may be empty.
    """

    kind: Kind
    text: str
    start: int
    end: int
    language: str = ""

    @property
    def word(self) -> str:
        """The word in small letters with plain apostrophes; empty for every other kind."""
        return self.text.casefold().replace("\u2019", "'") if self.kind is Kind.WORD else ""

    @property
    def literal(self) -> bool:
        """Whether the text is to be taken as it stands."""
        return self.kind is Kind.QUOTE or self.kind is Kind.CODE


# No quotation holds its own opening mark: else a text of nothing but marks takes quadratic time.
_SCANNER = re.compile(
    r"""
      ```(?P<language>[\w+-]*)[^\S\n]*\n?(?P<fence>.*?)\n?```
    | `(?P<tick>[^`\n]+)`
    | "(?P<double>[^"]*)" | “(?P<curly>[^”“]*)” | «(?P<guillemet>[^»«]*)»
    | (?<!\w)'(?P<single>(?:[^']|(?<=\w)'(?=\w))*)'(?!\w)
    | (?<!\w)\u2018(?P<typographic>(?:[^\u2019\u2018]|(?<=\w)\u2019(?=\w))*)\u2019(?!\w)
    | (?P<block>:[^\S\n]*\n(?!\s*```)(?:[^\n]*\S[^\n]*(?:\n|\Z))+)
    | (?P<url>(?:https?://|www\.)[^\s<>"'`“”]+)
    | (?P<arrow>->|=>|→|(?<=\s)>>?(?=\s))
    | (?P<marks>(?<=\s)(?=\.{3}|\.{0,2}[!?…;])[.!?…;]++(?=\ +(?:to|into|onto|in|with|by)\s)
        | (?<=\w)[!?…;]++(?=\ +(?:to|into|onto)\ +[\w/-]{1,200}\.\w))
    | (?P<end>[.!?…;\n]+(?=\s|$|["'”\u2019)\]]) | [!?…;\n]+)
    | (?P<comma>,)
    | (?P<colon>:(?:[^\S\n]*\n\s*(?=```))?)
    | (?P<chunk>[^\s,;!?…:"“”«»`]+)
    """,
    re.VERBOSE | re.DOTALL,
)

_NO_PATHS = frozenset(
    {
        "e.g", "i.e", "a.m", "p.m", "u.s", "u.k", "d.c", "u.s.a", "u.a.e", "n.y", "l.a", "p.s",
        "a.k.a", "w/o", "n/a", "and/or", "either/or", "he/she", "s/he", "yes/no",
    }
)  # fmt: skip
_KNOWN_FILES = frozenset({"makefile", "dockerfile", "readme", "license", "changelog"})
_PATH = re.compile(r"\.?[^\s.][^\s]*\.[A-Za-z0-9_~]{1,12}|\.[A-Za-z_][\w.-]*|.*[/\\*].*")
_RULER = re.compile(r"/{2,}|\\{2,}|\*{3,}")
_NUMBER = re.compile(r"[-+]?\d[\d.,/]*[a-zA-Z%]?")
_OPENERS = "([{<"
_CLOSERS = ".)]}>'\u2019"


def tokenize(text: str) -> list[Token]:
    """Cuts a text into tokens, in order; what is neither word nor mark is left out."""
    return list(_tokens(text))


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while match := _SCANNER.search(text, position):
        token = _token(match)
        # Progress is certain: a match is never empty, and a token ends behind where it starts.
        position = match.end() if token is None else token.end
        if token is not None:
            yield token


def _token(match: re.Match[str]) -> Token | None:
    kind = match.lastgroup
    start, end = match.span()
    assert kind is not None
    text = match[kind]
    match kind:
        case "fence":
            return Token(Kind.CODE, text, start, end, match["language"].lower())
        case "tick":
            return Token(Kind.CODE, text, start, end)
        case "block":
            return Token(Kind.QUOTE, text[1:].strip("\n").strip(" \t"), start, end)
        case "url":
            url = text.rstrip(".,;:!?)]}'\u2019")
            return Token(Kind.URL, url, start, start + max(len(url), 1))
        case "arrow" | "end" | "comma" | "colon":
            return Token(Kind[kind.upper()], text, start, end)
        case "marks":
            # "Append !! to a.txt": what goes on in small letters was no end of a sentence.
            return Token(Kind.WORD, text, start, end)
        case "chunk":
            return _chunk(text, start)
        case _:
            return Token(Kind.QUOTE, text, start, end)


def _chunk(text: str, start: int) -> Token | None:
    opened = len(text) - len(text.lstrip(_OPENERS))
    bare = text[opened:].rstrip(_CLOSERS)
    # `./` and `..` are paths, `it.` is a word and the end of a sentence.
    if not bare:
        kind = Kind.PATH if re.fullmatch(r"\.{1,2}", text) else Kind.END
        return Token(kind, text, start, start + len(text)) if "." in text else None
    begin = start + opened
    owner = re.sub(r"['\u2019]s$", "", bare)
    if owner != bare and _is_path(owner):
        return Token(Kind.PATH, owner, begin, begin + len(bare))
    kind = Kind.PATH if _is_path(bare) else Kind.WORD
    return Token(kind, bare, begin, begin + len(bare))


def _is_path(text: str) -> bool:
    lower = text.lower()
    if _RULER.fullmatch(text):
        return False
    if lower in _NO_PATHS or _NUMBER.fullmatch(text) or looks_like_zone(text):
        return False
    if lower in _KNOWN_FILES and text[0].isupper():
        return True
    return len(text) > 1 and _PATH.fullmatch(text) is not None


T = TypeVar("T")


class Action(enum.Enum):
    """What a clause asks for, before its operands are read."""

    ASK = "ask"
    READ = "read"
    LIST = "list"
    WRITE = "write"
    CREATE = "create"
    APPEND = "append"
    REPLACE = "replace"
    SEARCH = "search"
    MOVE = "move"
    RENAME = "rename"
    COPY = "copy"
    DELETE = "delete"
    FETCH = "fetch"
    RUN = "run"
    EDIT = "edit"
    NONE = "none"


CHANGES = frozenset(
    {
        Action.WRITE, Action.CREATE, Action.APPEND, Action.REPLACE, Action.MOVE, Action.RENAME,
        Action.COPY, Action.DELETE, Action.FETCH, Action.RUN,
    }
)  # fmt: skip
"""Actions that must not happen by misunderstanding."""


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


PREPOSITIONS = words(
    "in into inside to as from onto of at within under for on called named through across by"
)
WITH = frozenset({"with", "containing", "contains", "saying", "says", "holding", "reading"})
PRONOUNS = frozenset({"it", "that", "this", "them", "these", "those", "both"})
NOUNS = words(
    "the a an my our your its new empty file files text document folder directory dir path name "
    "same existing local plain txt"
)
"""What may stand between a preposition and the name that it leads to."""

_VERBS = {
    Action.READ: "read,cat,open,view,print,output,display,show,see,inspect,examine,review,look at,"
    "look in,look into,look inside,look what,look what's,look and see what,have a look what,"
    "have a look what's,take a look what,take a look what's,have a look at,take a look at,peek at,peek into,print out,"
    "read out,read back,read me,show me,show us,let me see,let me read,let me look at,let me have a look at,let me take a look at,pull up,"
    "double check,verify,check",
    Action.ASK: "tell me,tell us,give me,give us,let me know,get,get me,find out,look up,what,"
    "what's,whats,what're,what is,which,where,where's,how late,how many,is there,is it,are there,"
    "does,do you know,do you happen to know,do you have,any idea,i need,i want,i'd like,"
    "i would like,i want to know,i'd like to know,i need to know,i would like to know,report,"
    "figure out,do i have,have i got,need,what does,how about,what about,i'm curious,i wonder,"
    "i am curious,i was wondering",
    Action.LIST: "list,ls,dir,enumerate,browse the files,list out,show the files,list me",
    Action.WRITE: "write,save,store,put,record,note,jot,dump,overwrite,place,write down,note down,"
    "leave,echo,jot down,save down,persist,write out,set,fill,export",
    Action.CREATE: "create,make,touch,generate,compose,mkdir,clear,empty,truncate,add a file,add a new file,start a file,new file,"
    "start a new file,i want a file,i need a file,i'd like a file,i want a new file,"
    "i need a new file,produce",
    Action.APPEND: "append,add,insert,log,attach,tack,tack on",
    Action.REPLACE: "replace,substitute,swap,swap out,switch,change,correct,turn",
    Action.SEARCH: "search,find,grep,look for,locate,search for,hunt for,scan",
    Action.MOVE: "move,mv,relocate",
    Action.RENAME: "rename,change the name of,change the file name of,change the filename of",
    Action.COPY: "copy,cp,duplicate,back up,backup,make a copy of,create a copy of,"
    "make a backup of,create a backup of,make a duplicate of,clone",
    Action.DELETE: "delete,remove,rm,erase,trash,unlink,get rid of,throw away,del,discard,"
    "dispose of",
    Action.FETCH: "fetch,download,curl,wget,visit,browse,browse to,go to,navigate to,request,"
    "grab,retrieve,load,scrape,crawl",
    Action.RUN: "run,execute,eval,evaluate,compute,calculate,use python to compute,use python to calculate,"
    "use python to evaluate,use python to run,use python to work out,use bash to run,use python,"
    "use bash,"
    "work out,interpret",
    Action.EDIT: "edit,update,modify,amend,fix",
}  # fmt: skip

_FILLERS = (
    "please,kindly,only,now,then,next,finally,lastly,first,firstly,second,secondly,third,thirdly,also,"
    "afterwards,afterward,later,after that,after this,once done,when done,when you're done,"
    "once you're done,when finished,once that's done,when that's done,once finished,"
    "when you are done,once you are done,when that is done,once that is done,as a last step,"
    "at the end,in the end,just,quickly,simply,"
    "immediately,hey,hi,hello,yo,dear,ok,okay,well,so,right,alright,great,thanks,thank you,and,too,"
    "additionally,besides,furthermore,moreover,in addition,meanwhile,at the same time,maybe,"
    "perhaps,again,callboard,assistant,there,everyone,first of all,to start,to begin,"
    "can you,could you,would you,will you,can't you,couldn't you,won't you,can i,could i,may i,"
    "can we,could we,i want you to,i want to,i'd like you to,i'd like to,i would like you to,"
    "i would like to,i need you to,i need to,we need to,let's,lets,let us,go ahead and,help me,"
    "help me to,try to,try and,make sure to,make sure you,be sure to,don't forget to,"
    "do not forget to,remember to,don't hesitate to,feel free to,why don't you,would you mind,"
    "do you mind,start by,begin by,start with,begin with,be so kind as to,be so kind and,"
    "i'd appreciate it if you could,it would be great if you could,is it possible to,"
    "would it be possible to,are you able to,i'd love you to,i'd love to,your task is to,"
    "your job is to,the task is to,want you to,could i ask you to,by,-,*,•,&,+,but,plus,"
    "good morning,good afternoon,good evening,yes,yeah,sure,cool,nice,instead,proceed to,"
    "continue to,you can,you may,for me,quick question,i have a question,rather"
)

_NEGATIONS = (
    "don't,do not,dont,never,never ever,avoid,no need to,not,you must not,you mustn't,you needn't,don't you,"
    "you don't need to,you do not need to,you don't have to,you do not have to,please don't,"
    "there's no need to,there is no need to,refrain from,don't ever,do not ever,under no "
    "circumstances,stop,you shouldn't,you should not,nor,neither,i don't want you to,"
    "i do not want you to,i don't want to,i do not want to,without"
)

_CONDITIONS = (
    "if,unless,when,whenever,until,while,in case,provided,assuming,otherwise,else,before,once,"
    "as soon as,as long as,only if,only when,suppose,even if,should i,should we,what if,"
    "what happens if,what happens when,what would happen"
)
_HARMLESS = (
    "if it exists,if they exist,if present,if possible,if you can,if you could,if you don't mind,"
    "if you please,if you would,if there is one,if any,if needed,if necessary,if it's there,"
    "if it is there,if you like,when done,when finished,"
    "when you're done,once done"
)

_RETRACTIONS = (
    "actually don't,actually do not,actually no,don't,do not,never mind,nevermind,cancel that,"
    "cancel it,scratch that,forget it,forget that,on second thought,on second thoughts,wait no,"
    "no don't,wait don't,undo that,take that back,stop,please don't,no wait,don't do it,"
    "don't do that,do not do that,do not do it,just kidding"
)

CONNECTORS = frozenset(
    {"and", "then", "also", "but", "or", "plus", "&", "+", "before", "nor", "-", "--", "—"}
)
REPORTED = words("said says told tells asked asks wrote repeat quote shouted suggested wants")
ANNOUNCING = words("following these steps tasks things requests things: todo to-do jobs")
CONTENT_ACTIONS = frozenset({Action.WRITE, Action.CREATE, Action.APPEND})
LITERAL_AFTER_COLON = CONTENT_ACTIONS | {Action.RUN}
ELIDES = frozenset(
    {Action.WRITE, Action.CREATE, Action.APPEND, Action.REPLACE, Action.SEARCH, Action.MOVE,
     Action.RENAME, Action.COPY}
)  # fmt: skip


def _phrases(text: str) -> dict[tuple[str, ...], str]:
    return {tuple(phrase.split()): phrase for phrase in text.split(",") if phrase}


def _gerunds(verb: str) -> Iterable[str]:
    first, *rest = verb.split()
    for form in {first + "ing", first.removesuffix("e") + "ing", first + first[-1] + "ing"}:
        yield " ".join([form, *rest])


HEADS = {tuple(v.split()): a for a, verbs in _VERBS.items() for v in verbs.split(",") if v}
GERUNDS = {tuple(g.split()): a for v, a in HEADS.items() for g in _gerunds(" ".join(v))}
GERUNDS.pop(("saying",), None)
FILLER = _phrases(_FILLERS)
NEGATION = _phrases(_NEGATIONS)
CONDITION = _phrases(_CONDITIONS)
HELP = frozenset(
    tuple(question.split())
    for question in [
        "help",
        "help me",
        "what can you do",
        "who are you",
        "what are you",
        "how do you work",
        "what do you do",
        "what can i ask",
        "what can i do here",
        "what are your abilities",
        "what tools do you have",
        "how does this work",
        "what is this",
        "what can you do for me",
        "are you there",
        "how are you",
    ]
)
RETRACTION = _phrases(_RETRACTIONS)
HARMLESS_CONDITION = _phrases(_HARMLESS)
BEFORE_GERUND = frozenset({"done", "finished"}) | frozenset({"mind", "by", "before", "after", "with", "try", "avoid", "from",
                            "without", "stop", "not", "need"})  # fmt: skip
MAX_PHRASE_WORDS = 7
"""The longest phrase of the tables: `it would be great if you could`."""


def phrase_at(
    tokens: Sequence[Token], start: int, table: Mapping[tuple[str, ...], T]
) -> tuple[int, T] | None:
    """The longest phrase of a table that stands at a position: its length and its value."""
    words: list[str] = []
    for token in tokens[start : start + MAX_PHRASE_WORDS]:
        if not token.word:
            break
        words.append(token.word)
    for length in range(len(words), 0, -1):
        value = table.get(tuple(words[:length]))
        if value is not None:
            return length, value
    return None
