"""How families of models write calls of tools."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from keyword import kwlist
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from langchain_convmem.text.messages import make_plain

_NAMES = ("name", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args")
_IDS = ("id", "tool_call_id")
_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"\s*")
_SURROGATES = re.compile("[\ud800-\udfff]")

# What stands around maps. A list is no more than that: one that is not closed has whole maps.
_BETWEEN = re.compile(r"[\s,;\[\]]*")

_VALUE = re.compile(r'\{\s*["}]|\[\s*[\[{"]')
_UNFINISHED_TEXT = "Unterminated string"


class ParsedCall(NamedTuple):
    """A call.

    Attributes:
        name: The tool; None if the model did not say.
        arguments: A map as JSON; None if they cannot be read.
        text: What the model wrote.
        id: What the model calls it by, if anything.
        texts: Arguments as they were written, where their types had to be guessed from that.
    """

    name: str | None
    arguments: str | None
    text: str
    id: str | None = None
    texts: Mapping[str, str] = MappingProxyType({})


Syntax: TypeAlias = Callable[[str], list[ParsedCall]]
"""Reads what stands in a block of calls; what cannot be read becomes a broken call."""


def _make_call(name: Any, arguments: Any, text: str, call_id: Any = None) -> ParsedCall:
    """Return a call, broken if the name or the arguments are not what they should be.

    Args:
        name: The name that the model gave.
        arguments: A map, the JSON of one, or None for no arguments.
        text: What the model wrote.
        call_id: What the model calls it by, if anything.
    """
    if not isinstance(name, str) or not name.strip():
        return ParsedCall(None, None, text)
    if isinstance(arguments, str):
        arguments = _read_json(arguments) if arguments.strip() else {}
    written = _write_arguments({} if arguments is None else arguments)
    # A mere number is not an id: the next reply begins to count anew.
    is_id = isinstance(call_id, str) and call_id != "" and not call_id.isdigit()
    return ParsedCall(
        clean_text(name.strip()), written, text, clean_text(call_id) if is_id else None
    )


def set_texts(call: ParsedCall, names: Collection[str]) -> ParsedCall:
    """Return a call whose arguments of these names are texts, whatever else they look like.

    An argument that was guessed to be nothing stays so.
    """
    texts = {name: text for name, text in call.texts.items() if name in names}
    if call.arguments is None or not texts:
        return call
    guessed = json.loads(call.arguments)
    told = {name: text for name, text in texts.items() if guessed[name] is not None}
    return call._replace(arguments=_write_arguments({**guessed, **told}))


def _write_arguments(arguments: Any) -> str | None:
    """Return arguments as JSON that every reader of JSON takes; None if they are not a map."""
    if not isinstance(arguments, dict):
        return None
    try:
        plain = make_plain(arguments, "the call")  # a template refuses what is not
        return clean_text(json.dumps(plain, ensure_ascii=False, allow_nan=False))
    except ValueError:
        return None


def clean_text(text: str) -> str:
    """Replace halves of characters, which neither files nor wires can hold."""
    return _SURROGATES.sub("\ufffd", text)


# -- The cursor that all syntaxes but Python's read with ------------------------------------------


class _Cursor:
    """A place in a text that is read piece by piece; what does not fit raises `ValueError`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.name: str | None = None  # of the call that is being read

    def skip(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Step over what a pattern matches here, if it matches anything."""
        found = pattern.match(self.text, self.place)
        self.place = self.place if found is None else found.end()
        return found

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Step over what a pattern has to match here."""
        found = self.skip(pattern)
        if found is None:
            raise ValueError("something else stands here")
        return found

    def take(self, mark: str) -> bool:
        """Step over white space, and over a mark if that is what comes."""
        self.skip(_SPACE)
        is_here = self.text.startswith(mark, self.place)
        self.place += len(mark) if is_here else 0
        return is_here

    def expect(self, mark: str) -> None:
        """Step over white space and a mark."""
        if not self.take(mark):
            raise ValueError("a mark is missing")

    def take_up_to(self, mark: str) -> str:
        """Step over a mark, and return what stands before it."""
        end = self.text.index(mark, self.place)
        found = self.text[self.place : end]
        self.place = end + len(mark)
        return found

    def read_json(self) -> Any:
        """Step over JSON, also with line ends in its texts, and return its value."""
        value, self.place = _DECODER.raw_decode(self.text, self.place)
        return value


def _read_each(
    text: str, read: Callable[[_Cursor], ParsedCall], between: re.Pattern[str] = _SPACE
) -> list[ParsedCall]:
    """Read one call or several; what cannot be read, and all that follows it, is a broken one."""
    cursor = _Cursor(text)
    found: list[ParsedCall] = []
    cursor.skip(between)
    while cursor.place < len(text):
        start, cursor.name = cursor.place, None
        try:
            call = read(cursor)
        except (RecursionError, ValueError):
            return [*found, ParsedCall(cursor.name, None, text[start:])]
        found.append(call._replace(text=text[start : cursor.place]))
        cursor.skip(between)
    return found or [ParsedCall(None, None, text)]


# -- Calls in JSON --------------------------------------------------------------------------------


def read_json_calls(text: str) -> list[ParsedCall]:
    """Read maps with a name and arguments, one or several, in a list or not."""
    is_empty = "".join(text.split()) == "[]"
    return [] if is_empty else _read_each(text, _read_json_call, _BETWEEN)


def _read_json_call(cursor: _Cursor) -> ParsedCall:
    value = cursor.read_json()
    while isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        outer = {key: one for key, one in value.items() if key != "function"}
        value = {**outer, **value["function"]}
    if not isinstance(value, Mapping):
        return ParsedCall(None, None, "")
    name = _get_first(value, (*_NAMES, "function"))
    return _make_call(name, _get_first(value, _ARGUMENTS), "", _get_first(value, _IDS))


def _get_first(value: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((value[key] for key in keys if key in value), None)


@dataclass(frozen=True)
class NamedJson:
    """The syntax of calls whose arguments are JSON, and whose name stands before.

    Attributes:
        before: A pattern of what stands before the arguments, with the groups `name` and, if
            models give ids, `id`. What it repeats it should take whole (`++`), or a long text that
            does not fit takes long to refuse.
        after: A pattern of what may stand after them.
    """

    before: str
    after: str = ""

    def __call__(self, text: str) -> list[ParsedCall]:
        """Read one call or several."""
        between = re.compile(rf"\s*+(?:{self.after})?+\s*+")
        return _read_each(text, self._read, between)

    def _read(self, cursor: _Cursor) -> ParsedCall:
        given = cursor.match(re.compile(rf"{self.before}\s*+")).groupdict()
        cursor.name = given["name"]
        return _make_call(cursor.name, cursor.read_json(), "", given.get("id"))


def ends_in_text(text: str) -> bool:
    """Return whether the JSON in a text is right so far and ends within one of its texts."""
    place = _VALUE.search(text)
    while place is not None:
        try:
            _, end = _DECODER.raw_decode(text, place.start())
        except json.JSONDecodeError as error:
            return error.msg.startswith(_UNFINISHED_TEXT)
        except RecursionError:
            return False
        place = _VALUE.search(text, end)
    return False


def _read_json(text: str) -> Any:
    """Return the value of JSON, also with line ends in its texts; a text itself if it is none."""
    try:
        return json.loads(text, strict=False)
    except (RecursionError, ValueError):
        return text


# -- Calls between tags: JSON, or a function and its parameters in tags of their own --------------


_CONSTANTS = {"True": True, "False": False, "None": None}
_NAME = re.compile(r"[\w.:/-]+")


def read_tagged_calls(text: str) -> list[ParsedCall]:
    """Read JSON, `<function=f><parameter=a>..` or `f<arg_key>a</arg_key><arg_value>..`."""
    body = text.strip()
    if not body or body[0] in "[{":
        return read_json_calls(text)
    return _read_each(body, _read_equals if body.startswith("<function=") else _read_keyed)


def read_open_tagged_calls(text: str) -> list[ParsedCall]:
    """Read the same where nothing closes it: keys in tags may have been meant to go on."""
    is_keyed = text.lstrip()[:1] not in "{[<"
    return [ParsedCall(None, None, text)] if is_keyed else read_tagged_calls(text)


def _read_equals(cursor: _Cursor) -> ParsedCall:
    cursor.expect("<function=")
    cursor.name = cursor.take_up_to(">")
    texts: dict[str, str] = {}
    while cursor.take("<parameter="):
        key = cursor.take_up_to(">").strip()
        value = cursor.take_up_to("</parameter>")
        texts[key] = value.removeprefix("\n").removesuffix("\n")
    cursor.expect("</function>")
    return _make_typed_call(cursor.name, texts)


def _read_keyed(cursor: _Cursor) -> ParsedCall:
    cursor.name = cursor.match(_NAME)[0]
    texts: dict[str, str] = {}
    while cursor.take("<arg_key>"):
        key = cursor.take_up_to("</arg_key>").strip()
        cursor.expect("<arg_value>")
        texts[key] = cursor.take_up_to("</arg_value>")
    if cursor.place < len(cursor.text):
        raise ValueError("something follows the last value")
    return _make_typed_call(cursor.name, texts)


def _make_typed_call(name: str, texts: dict[str, str]) -> ParsedCall:
    arguments = {key: _guess_type(value) for key, value in texts.items()}
    return _make_call(name, arguments, "")._replace(texts=texts)


def _guess_type(text: str) -> Any:
    """Return the value that a text shows; nothing says its type."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    value = _read_json(text)
    return text if isinstance(value, str) else value


# -- Calls in the syntax of Gemma: `call:find{text:<escape>a<escape>,n:3}` ------------------------


_GEMMA_CONSTANTS = {"none": None, "null": None, "true": True, "false": False}
_GEMMA_PART = re.compile(
    r'call:\s*[^\s{]+\s*(?=\{)|(?P<quote><escape>|<\|"\|>)(?P<text>.*?)(?P=quote)'
    r'|"(?:[^"\\]|\\.)*"|(?P<word>[^\s,:{}\[\]"<][^,:{}\[\]"<]*)(?P<is_key>(?=:))?',
    re.DOTALL,
)
_GEMMA_CALL = NamedJson(r"call:\s*+(?P<name>[^\s{]++)")


def read_gemma_calls(text: str) -> list[ParsedCall]:
    """Read one call or several, one after the other."""
    found = _GEMMA_CALL(_GEMMA_PART.sub(_gemma_to_json, text))
    return [call._replace(text=text) if call.arguments is None else call for call in found]


def _gemma_to_json(found: re.Match[str]) -> str:
    """Return a text, a key or a value as JSON writes it; names of calls and the rest as it is."""
    if found["text"] is not None:
        return json.dumps(found["text"])
    if found["word"] is None:
        return found[0]
    word = found["word"].strip()
    if found["is_key"] is not None:
        return json.dumps(word)
    return json.dumps(_GEMMA_CONSTANTS.get(word.lower(), _read_json(word)))


# -- Calls written as Python ----------------------------------------------------------------------


# A text that is not closed goes to the end: nothing is searched twice.
_TEXT_OR_WORD = re.compile(
    rf"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?"""
    rf"""|\b(?P<keyword>{"|".join(kwlist)})(?=\s*=[^=])|\b(?P<constant>true|false|null)\b""",
    re.DOTALL,
)

_NO_KEYWORD = "_is_an_argument"

# An escape that Python knows, or what it takes in no text as it is.
_SPECIAL = re.compile(
    r"""(\\(?:[\\'"abfnrtv]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}))|\\|\n|\r"""
)
_PYTHON_CONSTANTS = {"true": "True", "false": "False", "null": "None"}


def read_python_calls(text: str) -> list[ParsedCall]:
    """Read one call or a list of calls; arguments are literals, and named."""
    try:
        tree = ast.parse(_TEXT_OR_WORD.sub(_to_python, text.strip()), mode="eval")
        nodes = tree.body.elts if isinstance(tree.body, ast.List | ast.Tuple) else [tree.body]
        found = [_read_python_call(node, text) for node in nodes]
    except (MemoryError, RecursionError, SyntaxError, ValueError):
        found = []
    return found or [ParsedCall(None, None, text)]


def _to_python(found: re.Match[str]) -> str:
    """Return what Python takes: texts without line ends and foreign escapes, names but keywords."""
    if found["constant"]:
        return _PYTHON_CONSTANTS[found["constant"]]
    return found["keyword"] + _NO_KEYWORD if found["keyword"] else _SPECIAL.sub(_escape, found[0])


def _escape(special: re.Match[str]) -> str:
    return special[1] or repr(special[0])[1:-1]


def _read_python_call(node: ast.expr, text: str) -> ParsedCall:
    name = ast.unparse(node.func) if isinstance(node, ast.Call) and not node.args else ""
    if not isinstance(node, ast.Call) or not all(map(str.isidentifier, name.split("."))):
        return ParsedCall(None, None, text)
    names = [(one.arg or "").removesuffix(_NO_KEYWORD) for one in node.keywords]
    if "" in names or len(set(names)) < len(names):
        return ParsedCall(name, None, text)
    values = [ast.literal_eval(one.value) for one in node.keywords]
    return _make_call(name, dict(zip(names, values, strict=True)), text)


# -- Calls without a block: what a reply begins with is one, or turns out to be text --------------


_BARE_NAMES = {"function", "name", "tool_name"}
_BARE_ARGUMENTS = {"arguments", "args", "function", "parameters"}
_KEYS = {*_BARE_NAMES, *_BARE_ARGUMENTS, "id", "tool_call_id", "type"}
_LONGEST_HEAD = 200
_BETWEEN_BARE = re.compile(r"[\s,;]*")
_BARE_HEAD = re.compile(rf'\s*\{{\s*"(?:{"|".join(sorted(_KEYS))})"\s*:')


def may_open_calls(text: str) -> bool:
    """Return whether a reply that begins with a text begins with a call, or still may.

    A bracket is waited with for no more than `_LONGEST_HEAD` characters.
    """
    if len(text) < _LONGEST_HEAD:
        return text.lstrip()[:1] in ("", "{")
    return _BARE_HEAD.match(text[:_LONGEST_HEAD]) is not None


def split_bare_calls(text: str) -> tuple[list[ParsedCall], str]:
    """Return the calls that a text begins with, and what follows them."""
    cursor = _Cursor(text)
    found: list[ParsedCall] = []
    end = 0
    while cursor.skip(_BETWEEN_BARE) and _BARE_HEAD.match(text, cursor.place):
        start = cursor.place
        try:
            keys = set(cursor.read_json())
        except (RecursionError, ValueError):
            keys = set(re.findall(r'"(\w+)"\s*:', text[start:])) & _KEYS
            cursor.place = len(text)
        if not (keys <= _KEYS and keys & _BARE_NAMES and keys & _BARE_ARGUMENTS):
            break
        end = cursor.place
        found += read_json_calls(text[start:end])
    return found, text[end:]
