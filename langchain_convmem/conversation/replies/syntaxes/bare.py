"""Calls without a fence: what a reply begins with is one, or turns out to be text."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from langchain_convmem.conversation.replies.syntaxes.calls import Syntax, json_calls
from langchain_convmem.conversation.replies.syntaxes.python_calls import python_calls

__all__ = ["BARE_JSON", "BARE_PYTHON", "BareSyntax", "BareText", "Seen"]

_NAMES = {"function", "name", "tool_name"}
_ARGUMENTS = {"arguments", "args", "function", "parameters"}
_KEYS = {*_NAMES, *_ARGUMENTS, "id", "tool_call_id", "type"}
_LONGEST_KEY = max(map(len, _KEYS))
_LONGEST_HEAD = 200
_HEAD = re.compile(r"\[\s*[A-Za-z_][\w.]*\s*\(\s*(?:\)|[A-Za-z_]\w*\s*=)")
_HEAD_BEGUN = re.compile(r"\[\s*(?:[A-Za-z_][\w.]*\s*(?:\(\s*(?:[A-Za-z_]\w*\s*)?)?)?")
_OPENERS, _CLOSERS = frozenset("([{"), frozenset(")]}")


class BareSyntax(NamedTuple):
    """How bare calls look: what opens them, what quotes text in them, and how they are read."""

    opener: str
    quotes: str
    read: Syntax


BARE_JSON = BareSyntax("{", '"', json_calls)
BARE_PYTHON = BareSyntax("[", "\"'", python_calls)


class Seen(Enum):
    """What is known of a text so far."""

    OPEN = "it may become a call"
    CLOSED = "it is a call, and closed"
    TEXT = "it is none"


class BareText:
    """A text that may be a call, looked at character by character; nothing is looked at twice."""

    def __init__(self, syntax: BareSyntax, *, is_first: bool) -> None:
        """Begin; between calls, unlike before the first, there may be commas and semicolons."""
        self._syntax = syntax
        self._between = frozenset(" \t\r\n" if is_first else " \t\r\n,;")
        self._looks = self._at_key if syntax is BARE_JSON else self._at_head
        self._held: list[str] = []
        self._depth = 0
        self._quote = ""
        self._is_escaped = False
        self._wants_key = False
        self._word: list[str] = []
        self._keys: set[str] = set()
        self._head = ""
        self._has_head = False

    @property
    def text(self) -> str:
        """All that was looked at."""
        return "".join(self._held)

    @property
    def is_call(self) -> bool:
        """Whether a call was meant, be it whole or broken."""
        return self._has_head or bool(self._keys & _NAMES and self._keys & _ARGUMENTS)

    def feed(self, data: str, start: int) -> tuple[int, Seen]:
        """Look at what comes; return up to where it was looked at, and what is known then."""
        for place in range(start, len(data)):
            seen = self._take(data[place])
            if seen is not Seen.OPEN:
                self._held.append(data[start : place + 1])
                is_text = seen is Seen.CLOSED and not self.is_call
                return place + 1, Seen.TEXT if is_text else seen
        self._held.append(data[start:])
        return len(data), Seen.OPEN

    def _take(self, character: str) -> Seen:
        if self._depth == 0:
            return self._before(character)
        if not self._looks(character):
            return Seen.TEXT
        if self._quote:
            self._within_quotes(character)
        elif character in self._syntax.quotes:
            self._quote, self._word = character, []
        elif character in _OPENERS:
            self._depth += 1
        elif character in _CLOSERS:
            self._depth -= 1
        return Seen.OPEN if self._depth else Seen.CLOSED

    def _before(self, character: str) -> Seen:
        if character == self._syntax.opener:
            self._depth, self._head, self._wants_key = 1, character, True
            return Seen.OPEN
        return Seen.OPEN if character in self._between else Seen.TEXT

    def _within_quotes(self, character: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif character == "\\":
            self._is_escaped = True
        elif character == self._quote:
            self._quote = ""
        if self._quote and self._wants_key:
            self._word.append(character)

    def _at_key(self, character: str) -> bool:
        """Whether the outermost map of JSON can still be a call."""
        if self._depth > 1:
            return True
        if self._quote:
            return not self._wants_key or len(self._word) <= _LONGEST_KEY
        if character == ":" and self._wants_key:
            key = "".join(self._word)
            self._keys.add(key)
            self._wants_key = False
            return key in _KEYS
        if character == ",":
            self._wants_key = True
            return True
        return not self._wants_key or character in ' \t\r\n"}'

    def _at_head(self, character: str) -> bool:
        """Whether a list in Python begins as a list of calls with named arguments."""
        if self._has_head:
            return True
        self._head += character
        self._has_head = _HEAD.fullmatch(self._head) is not None
        begun = len(self._head) <= _LONGEST_HEAD and _HEAD_BEGUN.fullmatch(self._head)
        return self._has_head or bool(begun)
