"""Sentences cut into clauses: one action each, with the words that belong to it.

A clause begins at the start of a sentence, or behind `and`, `then`, a comma and the like when an
action follows. What stands under a negation or a condition is marked, so that it never runs.
"""

from __future__ import annotations

import itertools

import msgspec

from .language import (
    ANNOUNCING,
    BEFORE_GERUND,
    CHANGES,
    CONDITION,
    CONNECTORS,
    CONTENT_ACTIONS,
    ELIDES,
    FILLER,
    GERUNDS,
    HARMLESS_CONDITION,
    HEADS,
    LITERAL_AFTER_COLON,
    NEGATION,
    NOUNS,
    PREPOSITIONS,
    PRONOUNS,
    REPORTED,
    WITH,
    Action,
    Kind,
    Token,
    phrase_at,
    tokenize,
)


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """One action with its words.

    Attributes:
        action: What it asks for; `NONE` when no known verb begins it.
        verb: The words that said so.
        body: The tokens behind the verb.
        text: The whole clause as written.
        literal: What stands unquoted behind a colon, to be taken as it is; else `None`.
        negated: It says what not to do.
        condition: It depends on something that only a reader could judge.
    """

    action: Action
    verb: str
    body: tuple[Token, ...]
    text: str
    literal: str | None = None
    negated: bool = False
    condition: bool = False


class _Head(msgspec.Struct, frozen=True):
    action: Action
    verb: str
    end: int
    negated: bool = False


def split_clauses(text: str) -> list[Clause]:
    """The clauses of a text, in its order; a clause without words is left out."""
    return _Splitter(text).run()


class _Splitter:
    """One pass over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._clauses: list[Clause] = []
        self._condition = False
        self._negated = False

    def run(self) -> list[Clause]:
        position = 0
        begins_sentence = True
        while position < len(self._tokens):
            if self._tokens[position].kind is Kind.END:
                position, begins_sentence = position + 1, True
                continue
            if begins_sentence:
                self._condition = False
                self._negated = False
            # What stands behind a condition depends on it, up to the end of the sentence.
            self._condition |= self._begins_condition(position)
            position = self._clause(position, begins_sentence=begins_sentence)
            begins_sentence = False
        return self._clauses

    def _begins_condition(self, start: int) -> bool:
        start = self._behind_connectors(start)
        while found := phrase_at(self._tokens, start, FILLER):
            if phrase_at(self._tokens, start, HEADS):
                break
            start = self._skip_commas(start + found[0])
        return phrase_at(self._tokens, start, CONDITION) is not None

    def _clause(self, start: int, *, begins_sentence: bool) -> int:
        hint: tuple[Token, ...] = ()
        head = self._head(start)
        if head is None and begins_sentence:
            hint, head = self._place_first(start)
        if head is None:
            head = _Head(Action.NONE, "", self._behind_connectors(start))
        end = self._finish(start, head, hint)
        # "… and 'y' to b.txt" goes on with the verb before it.
        while end < len(self._tokens) and self._elided_at(self._behind_connectors(end), head):
            start = self._behind_connectors(end)
            head = _Head(head.action, head.verb, start, head.negated)
            end = self._finish(start, head)
        return end

    def _finish(self, start: int, head: _Head, hint: tuple[Token, ...] = ()) -> int:
        end, literal = self._body_end(head)
        body = self._tokens[head.end : end]
        stop = end
        if literal is not None:
            stop = self._literal_end(head.action, end)
        while body and body[-1].kind is Kind.COMMA:
            body.pop()
        body, doubtful = _without_condition(body, head.action)
        self._condition |= doubtful
        negated = head.negated or self._carries_negation(start, head)
        if body or head.action is not Action.NONE:
            self._clauses.append(
                Clause(
                    action=head.action,
                    verb=head.verb,
                    body=(*body, *hint),
                    text=self._text[self._tokens[start].start : self._tokens[stop - 1].end],
                    literal=literal,
                    negated=negated,
                    condition=self._condition,
                )
            )
        self._negated = negated
        return stop

    def _carries_negation(self, start: int, head: _Head) -> bool:
        # "Don't read or delete a.txt" forbids both. A comma or "but" ends what "don't" governs;
        # "and" does so only for what changes nothing.
        if not self._negated or start == 0:
            return False
        joints = self._tokens[start : self._behind_connectors(start)]
        spoken = {token.word for token in joints}
        if any(token.kind is Kind.COMMA for token in joints) or spoken & {"but", "then"}:
            return bool(spoken & {"or", "nor"})
        return bool(spoken & {"or", "nor"}) or head.action in CHANGES

    # Where a clause begins

    def _head(self, start: int) -> _Head | None:
        """The verb at a position, behind fillers and negations."""
        tokens = self._tokens
        negated = False
        position = start
        while position < len(tokens):
            position = self._skip_commas(position)
            filler = phrase_at(tokens, position, FILLER)
            negation = phrase_at(tokens, position, NEGATION)
            found = phrase_at(tokens, position, HEADS) or self._gerund_at(position)
            length = max(x[0] if x else 0 for x in (filler, negation, found))
            if length == 0 and position == start and tokens[position].word in CONNECTORS:
                length = 1
            if length == 0:
                return None
            if found is not None and found[0] == length:
                verb = " ".join(t.word for t in tokens[position : position + length])
                return _Head(found[1], verb, position + length, negated)
            negated = negated or (negation is not None and negation[0] == length)
            position += length
        return None

    def _gerund_at(self, position: int) -> tuple[int, Action] | None:
        if position == 0 or self._tokens[position - 1].word not in BEFORE_GERUND:
            return None
        return phrase_at(self._tokens, position, GERUNDS)

    def _place_first(self, start: int) -> tuple[tuple[Token, ...], _Head | None]:
        """`In a.txt, replace …`: the words before the verb belong behind it."""
        position = start
        while found := phrase_at(self._tokens, position, FILLER):
            position = self._skip_commas(position + found[0])
        if position >= len(self._tokens) or self._tokens[position].word not in PREPOSITIONS:
            return (), None
        for end in range(position + 1, min(position + 8, len(self._tokens))):
            token = self._tokens[end]
            if token.kind is Kind.END:
                break
            joined = token.kind is Kind.PATH or token.literal
            if token.kind is Kind.COMMA or joined:
                behind = end + 1 if joined else end
                head = self._head(behind)
                if head is not None:
                    return tuple(self._tokens[position:behind]), head
        return (), None

    def _skip_commas(self, position: int) -> int:
        marks = {Kind.COMMA, Kind.COLON}
        while position < len(self._tokens) and self._tokens[position].kind in marks:
            position += 1
        return position

    def _is_connector(self, position: int) -> bool:
        token = self._tokens[position]
        return token.kind is Kind.COMMA or token.word in CONNECTORS

    def _behind_connectors(self, position: int) -> int:
        while position < len(self._tokens) and (
            self._is_connector(position) or self._tokens[position].kind is Kind.COLON
        ):
            position += 1
        return position

    # Where a clause ends

    def _body_end(self, head: _Head) -> tuple[int, str | None]:
        tokens = self._tokens
        position = head.end
        while position < len(tokens) and tokens[position].kind is not Kind.END:
            if self._literal_begins(position, head):
                end = self._literal_end(head.action, position)
                last = tokens[end].start if end < len(tokens) else len(self._text)
                return position, self._text[tokens[position].end : last].strip()
            if self._is_connector(position) or self._announces(position, head):
                behind = self._behind_connectors(position)
                if self._begins_clause(position, behind, head) or self._elided_at(
                    behind, head, position
                ):
                    return position, None
            position += 1
        return position, None

    def _begins_clause(self, position: int, behind: int, head: _Head) -> bool:
        if behind >= len(self._tokens):
            return False
        if self._begins_condition(position):
            return phrase_at(self._tokens, behind, HARMLESS_CONDITION) is None
        found = self._head(position)
        if found is None:
            return False
        # What other people said is no request: "Tom told me to read a.txt and delete b.txt".
        said = self._tokens[head.end : position]
        if head.action is Action.NONE and found.action in CHANGES:
            comma = any(t.kind is not Kind.WORD for t in self._tokens[position:behind])
            return comma and not any(t.word in REPORTED or t.kind is Kind.COLON for t in said)
        return True

    def _announces(self, position: int, head: _Head) -> bool:
        # "Update a.txt: replace …", "do the following: read …"; but not "repeat after me: …".
        if self._tokens[position].kind is not Kind.COLON:
            return False
        said = self._tokens[head.end : position]
        announced = any(t.word in ANNOUNCING for t in said) or all(not t.word for t in said)
        return head.action is Action.EDIT or (head.action is Action.NONE and announced)

    def _literal_begins(self, position: int, head: _Head) -> bool:
        tokens = self._tokens
        if tokens[position].kind is not Kind.COLON or head.action not in LITERAL_AFTER_COLON:
            return False
        behind = position + 1
        if behind >= len(tokens) or tokens[behind].kind is Kind.END or tokens[behind].literal:
            return False
        named = any(t.kind is Kind.PATH for t in tokens[head.end : position])
        return named or head.action is Action.RUN

    def _literal_end(self, action: Action, position: int) -> int:
        tokens = self._tokens
        while position < len(tokens):
            token = tokens[position]
            if token.kind is Kind.END and self._ends_literal(position, action):
                return position
            position += 1
        return position

    def _ends_literal(self, position: int, action: Action) -> bool:
        # "Write to a.txt: Hello. How nice." goes on until a line or a request begins.
        if "\n" in self._tokens[position].text or position + 1 >= len(self._tokens):
            return True
        return action is not Action.RUN and self._head(position + 1) is not None

    def _elided_at(self, position: int, head: _Head, body_end: int | None = None) -> bool:
        """Whether an operand pair without a verb stands here: `… and 'y' to b.txt`."""
        tokens = self._tokens
        if head.action not in ELIDES or position + 1 >= len(tokens):
            return False
        done = tokens[head.end : position if body_end is None else body_end]
        if not _is_complete(done):
            return False
        if _is_operand(tokens[position]):
            word = tokens[position + 1].word
            return word in PREPOSITIONS or word in WITH or tokens[position + 1].kind is Kind.ARROW
        return head.action in CONTENT_ACTIONS and self._words_to_path(position)

    def _words_to_path(self, position: int) -> bool:
        tokens = self._tokens
        for index in range(position, len(tokens) - 1):
            if tokens[index].kind is Kind.END or self._is_connector(index):
                return False
            if tokens[index].word in {"to", "into"} and tokens[index + 1].kind is Kind.PATH:
                return index > position
        return False


def _is_operand(token: Token) -> bool:
    return token.literal or token.kind is Kind.PATH or token.word in PRONOUNS


def _is_complete(body: list[Token]) -> bool:
    """Whether a body holds a preposition with its operand, so that a second pair may follow."""
    led = False
    for before, token in itertools.pairwise(body):
        if before.word in WITH or (led and _is_operand(token)):
            return True
        if token.word in PREPOSITIONS or token.kind is Kind.ARROW:
            led = True
        elif token.word not in NOUNS:
            led = False
    return False


def _without_condition(body: list[Token], action: Action) -> tuple[list[Token], bool]:
    """Cuts a condition off the end of a body, and says whether it matters."""
    for position in range(len(body)):
        if phrase_at(body, position, HARMLESS_CONDITION):
            return body[:position], False
        if body[position].word in {"if", "unless", "when", "whenever", "until", "after"}:
            doubtful = action in CHANGES
            return (body if not doubtful else body[:position]), doubtful
    return body, False
