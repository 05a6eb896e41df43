"""Calls in the syntax of Gemma: `call:find{text:<escape>a<escape>,n:3}`."""

from __future__ import annotations

import re
from typing import Any

from langchain_convmem.conversation.replies.syntaxes.calls import (
    Call,
    broken,
    call_of,
    json_value,
    stepped,
)

__all__ = ["gemma_calls"]

_QUOTES = ("<escape>", '<|"|>')
_HEAD = re.compile(r"\s*call:\s*([^\s{]+)\s*(?=\{)")
_SPACE = re.compile(r"\s*")
_KEY = re.compile(r"\s*([^\s:{}\[\],]+)\s*:")
_WORD = re.compile(r"[^,{}\[\]]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONSTANTS = {"none": None, "null": None, "true": True, "false": False}
_MAX_DEPTH = 100


def gemma_calls(text: str) -> list[Call]:
    """Read one call or several, one behind the other."""
    found: list[Call] = []
    place = 0
    while place < len(text):
        head = _HEAD.match(text, place)
        if head is None:
            return [*found, broken(text[place:])]
        reading = _Reading(text, head.end())
        try:
            arguments = reading.value(_MAX_DEPTH)
        except ValueError:
            return [*found, broken(text[place:], head[1])]
        found.append(call_of(head[1], arguments, text[place : reading.place]))
        place = stepped(_SPACE, text, reading.place)
    return found or [broken(text)]


class _Reading:
    """A place in a text whose values are read one after the other; raises `ValueError`."""

    def __init__(self, text: str, place: int) -> None:
        self._text = text
        self.place = place

    def value(self, levels: int) -> Any:
        """Return the value that stands here, nested at most so deep."""
        self._space()
        if levels == 0:
            raise ValueError("nested too deep")
        for quote in _QUOTES:
            if self._takes(quote):
                return self._quoted(quote)
        if self._takes("{"):
            return self._map(levels)
        if self._takes("["):
            return self._list(levels)
        return self._word()

    def _map(self, levels: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self._closes("}"):
            key = self._key()
            found[key] = self.value(levels - 1)
            self._separates("}")
        return found

    def _list(self, levels: int) -> list[Any]:
        found = []
        while not self._closes("]"):
            found.append(self.value(levels - 1))
            self._separates("]")
        return found

    def _key(self) -> str:
        self._space()
        for quote in _QUOTES:
            if self._takes(quote):
                key = self._quoted(quote)
                self._space()
                self._expects(":")
                return key
        found = _KEY.match(self._text, self.place)
        if found is None:
            raise ValueError("no key")
        self.place = found.end()
        return found[1].strip('"')

    def _quoted(self, quote: str) -> str:
        end = self._text.find(quote, self.place)
        if end < 0:
            raise ValueError("a quote is not closed")
        found = self._text[self.place : end]
        self.place = end + len(quote)
        return found

    def _word(self) -> Any:
        string = _STRING.match(self._text, self.place)
        if string is not None:
            self.place = string.end()
            return json_value(string[0])
        word = _WORD.match(self._text, self.place)
        found = "" if word is None else word[0].strip()
        if word is None or not found:
            raise ValueError("no value")
        self.place = word.end()
        return _CONSTANTS.get(found.lower(), json_value(found))

    def _space(self) -> None:
        self.place = stepped(_SPACE, self._text, self.place)

    def _takes(self, mark: str) -> bool:
        if not self._text.startswith(mark, self.place):
            return False
        self.place += len(mark)
        return True

    def _expects(self, mark: str) -> None:
        if not self._takes(mark):
            raise ValueError(f"{mark} is missing")

    def _closes(self, mark: str) -> bool:
        self._space()
        return self._takes(mark)

    def _separates(self, mark: str) -> None:
        """Step over a comma, unless the end comes."""
        self._space()
        if not self._text.startswith(mark, self.place):
            self._expects(",")
