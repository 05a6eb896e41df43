"""Calls between tags: JSON, or a function and its parameters in tags of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_convmem.conversation.replies.syntaxes.calls import (
    Call,
    broken,
    call_of,
    json_calls,
    json_value,
)

__all__ = ["InvokedCalls", "open_tagged_calls", "tagged_calls"]

_CONSTANTS = {"True": True, "False": False, "None": None}
_NAME = re.compile(r"[\w.:/-]+")
_KEY, _KEY_END, _VALUE, _VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"


class _Tags(NamedTuple):
    """What opens a function and a parameter, ends the name of either, and closes them."""

    function: str
    parameter: str
    name_end: str
    parameter_end: str
    function_end: str


_EQUALS = _Tags("<function=", "<parameter=", ">", "</parameter>", "</function>")


@dataclass(frozen=True)
class InvokedCalls:
    """The syntax of `<invoke name="f"><parameter name="a">..</parameter></invoke>`.

    Attributes:
        prefix: What stands before the names of the tags.
        behind: Behind which text the calls begin, if not at once.
    """

    prefix: str = ""
    behind: str = ""

    def __call__(self, text: str) -> list[Call]:
        """Read one call or several."""
        tags = _Tags(
            f'<{self.prefix}invoke name="',
            f'<{self.prefix}parameter name="',
            '">',
            f"</{self.prefix}parameter>",
            f"</{self.prefix}invoke>",
        )
        body = text.partition(self.behind)[2] if self.behind else text
        return _functions(body.strip(), tags) or [broken(text)]


def tagged_calls(text: str) -> list[Call]:
    """Read JSON, `<function=f><parameter=a>..` or `f<arg_key>a</arg_key><arg_value>..`."""
    body = text.strip()
    if body.startswith(_EQUALS.function):
        return _functions(body, _EQUALS)
    if not body or body[0] in "[{":
        return json_calls(text)
    return [_keyed(body)]


def open_tagged_calls(text: str) -> list[Call]:
    """Read the same where nothing closes it: keys in tags may have been meant to go on."""
    return [broken(text)] if text.lstrip()[:1] not in "{[<" else tagged_calls(text)


class _Reading:
    """A place in a text that is read tag by tag."""

    def __init__(self, text: str, place: int = 0) -> None:
        self.text = text
        self.place = place

    def takes(self, tag: str) -> bool:
        """Step over white space and a tag, if that is what comes."""
        while self.place < len(self.text) and self.text[self.place].isspace():
            self.place += 1
        if not self.text.startswith(tag, self.place):
            return False
        self.place += len(tag)
        return True

    def up_to(self, tag: str) -> str | None:
        """Step over a tag, and return what stands before it; None if there is none."""
        end = self.text.find(tag, self.place)
        if end < 0:
            return None
        found = self.text[self.place : end]
        self.place = end + len(tag)
        return found


def _functions(text: str, tags: _Tags) -> list[Call]:
    reading = _Reading(text)
    found: list[Call] = []
    while reading.takes(tags.function):
        start = reading.place - len(tags.function)
        name = reading.up_to(tags.name_end)
        texts = None if name is None else _parameters(reading, tags)
        if texts is None:
            return [*found, broken(text[start:], name)]
        found.append(_call(name, texts, text[start : reading.place]))
    return found if reading.place == len(text) else [*found, broken(text[reading.place :])]


def _parameters(reading: _Reading, tags: _Tags) -> dict[str, str] | None:
    """Return the arguments of a function; None if they are not closed as they should."""
    texts: dict[str, str] = {}
    while reading.takes(tags.parameter):
        key, value = reading.up_to(tags.name_end), reading.up_to(tags.parameter_end)
        if key is None or value is None:
            return None
        texts[key.strip()] = value.removeprefix("\n").removesuffix("\n")
    return texts if reading.takes(tags.function_end) else None


def _keyed(text: str) -> Call:
    name = text.partition(_KEY)[0].strip()
    reading = _Reading(text, len(name))
    texts: dict[str, str] = {}
    while reading.takes(_KEY):
        key = reading.up_to(_KEY_END)
        value = reading.up_to(_VALUE_END) if reading.takes(_VALUE) else None
        if key is None or value is None:
            return broken(text, name)
        texts[key.strip()] = value
    is_whole = reading.place == len(text) and _NAME.fullmatch(name)
    return _call(name, texts, text) if is_whole else broken(text)


def _call(name: str | None, texts: dict[str, str], text: str) -> Call:
    arguments = {key: _typed(value) for key, value in texts.items()}
    return call_of(name, arguments, text)._replace(texts=texts)


def _typed(text: str) -> Any:
    """Return the value that a text shows; its type is not told."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    value = json_value(text)
    return text if isinstance(value, str) else value
