"""How families of models write calls of tools."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from keyword import kwlist
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

_NAMES = ("name", "tool_name")


_ARGUMENTS = ("arguments", "parameters", "args")


_IDS = ("id", "tool_call_id")


_MAX_DEPTH = 100


_DECODER = json.JSONDecoder(strict=False)


_BETWEEN = re.compile(r"[\s,;\[\]]*")


"""What stands around maps. A list is no more than that: one that is not closed has whole maps."""


_VALUE = re.compile(r'\{\s*["}]|\[\s*[\[{"]')


_UNFINISHED_TEXT = "Unterminated string"


_EMPTY_LIST = re.compile(r"\s*\[\s*\]\s*")


_SURROGATES = re.compile("[\ud800-\udfff]")


class Call(NamedTuple):
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


class JsonEnd(Enum):
    """How JSON ends: whole, or right so far and within a text, or otherwise."""

    RIGHT = 0
    IN_TEXT = 1
    WRONG = 2


Syntax: TypeAlias = Callable[[str], list[Call]]


"""Reads what stands in a fence; what cannot be read becomes a broken call."""


def broken(text: str, name: str | None = None) -> Call:
    """Return a call that cannot be read."""
    return Call(name, None, text)


def call_of(name: Any, arguments: Any, text: str, call_id: Any = None) -> Call:
    """Return a call, broken if the name is no name or the arguments are no map.

    Args:
        name: The name that the model gave.
        arguments: A map, the JSON of one, or None for no arguments.
        text: What the model wrote.
        call_id: What the model calls it by, if anything.
    """
    if not isinstance(name, str) or not name.strip():
        return broken(text)
    if isinstance(arguments, str):
        arguments = json_value(arguments) if arguments.strip() else {}
    written = _written({} if arguments is None else arguments)
    # A mere number is no id: the next reply begins to count anew.
    is_id = isinstance(call_id, str) and call_id != "" and not call_id.isdigit()
    return Call(_clean(name.strip()), written, text, _clean(call_id) if is_id else None)


def json_value(text: str) -> Any:
    """Return the value of JSON, also with line ends in its texts; a text itself if it is none."""
    try:
        return json.loads(text, strict=False)
    except (RecursionError, ValueError):
        return text


def json_end(text: str) -> JsonEnd:
    """Return how the JSON in a text ends; right if there is none."""
    place = _VALUE.search(text)
    while place is not None:
        try:
            _, end = _DECODER.raw_decode(text, place.start())
        except json.JSONDecodeError as error:
            is_open = error.msg.startswith(_UNFINISHED_TEXT)
            return JsonEnd.IN_TEXT if is_open else JsonEnd.WRONG
        except RecursionError:
            return JsonEnd.WRONG
        place = _VALUE.search(text, end)
    return JsonEnd.RIGHT


def json_calls(text: str) -> list[Call]:
    """Read maps with a name and arguments, one or several, in a list or not."""
    found: list[Call] = []
    place = stepped(_BETWEEN, text, 0)
    while place < len(text):
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (RecursionError, ValueError):
            return [*found, broken(text[place:])]
        found.append(_of_value(value, text[place:end]))
        place = stepped(_BETWEEN, text, end)
    return found if found or _EMPTY_LIST.fullmatch(text) else [broken(text)]


@dataclass(frozen=True)
class NamedJson:
    """The syntax of calls whose arguments are JSON, and whose name stands before.

    Attributes:
        before: A pattern of what stands before the arguments, with the groups `name` and, if
            models give ids, `id`. What it repeats it should take whole (`++`), or a long text that
            does not fit takes long to refuse.
        behind: A pattern of what may stand behind them.
    """

    before: str
    behind: str = ""

    def __call__(self, text: str) -> list[Call]:
        """Read one call or several."""
        heads, tails = self._patterns
        found: list[Call] = []
        place = 0
        while place < len(text):
            head = heads.match(text, place)
            if head is None:
                return [*found, broken(text[place:])]
            try:
                arguments, end = _DECODER.raw_decode(text, head.end())
            except (RecursionError, ValueError):
                return [*found, broken(text[place:], head["name"])]
            given = head.groupdict()
            found.append(call_of(given["name"], arguments, text[place:end], given.get("id")))
            place = stepped(tails, text, end)
        return found or [broken(text)]

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        behind = rf"\s*+(?:{self.behind})?+\s*+"
        return re.compile(rf"\s*+{self.before}\s*+"), re.compile(behind)


def stepped(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Return the place behind what fits a pattern, if anything stands there that does."""
    found = pattern.match(text, place)
    return place if found is None else found.end()


def with_texts(call: Call, names: Collection[str]) -> Call:
    """Return a call whose arguments of these names are texts, whatever else they look like.

    An argument that was guessed to be nothing stays so.
    """
    texts = {name: text for name, text in call.texts.items() if name in names}
    if call.arguments is None or not texts:
        return call
    guessed = json.loads(call.arguments)
    told = {name: text for name, text in texts.items() if guessed[name] is not None}
    return call._replace(arguments=_written({**guessed, **told}))


def as_json_text(text: str) -> str:
    """Return a text in JSON."""
    return json.dumps(text, ensure_ascii=False)


def _of_value(value: Any, text: str) -> Call:
    if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        inner = {**value, **value["function"]}
        return _of_value({key: one for key, one in inner.items() if key != "function"}, text)
    if not isinstance(value, Mapping):
        return broken(text)
    name = _first(value, (*_NAMES, "function"))
    return call_of(name, _first(value, _ARGUMENTS), text, _first(value, _IDS))


def _first(value: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((value[key] for key in keys if key in value), None)


def _written(arguments: Any) -> str | None:
    """Return arguments as JSON that every reader of JSON takes; None if they are no map."""
    if not isinstance(arguments, dict) or not _is_shallow(arguments, _MAX_DEPTH):
        return None
    try:
        return _clean(json.dumps(arguments, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError):
        return None


def _is_shallow(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return True
    return levels > 0 and all(_is_shallow(one, levels - 1) for one in value)


def _clean(text: str) -> str:
    """Replace halves of characters, which neither files nor wires can hold."""
    return _SURROGATES.sub("\ufffd", text)


# -- Calls between tags: JSON, or a function and its parameters in tags of their own --------------


_CONSTANTS = {"True": True, "False": False, "None": None}


_NAME = re.compile(r"[\w.:/-]+")


_KEY, _KEY_END, _TAGGED_VALUE, _VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"


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
        value = reading.up_to(_VALUE_END) if reading.takes(_TAGGED_VALUE) else None
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


# -- Calls without a fence: what a reply begins with is one, or turns out to be text --------------


_BARE_NAMES = {"function", "name", "tool_name"}


_BARE_ARGUMENTS = {"arguments", "args", "function", "parameters"}


_KEYS = {*_BARE_NAMES, *_BARE_ARGUMENTS, "id", "tool_call_id", "type"}


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


# -- Calls written as Python ----------------------------------------------------------------------


def python_calls(text: str) -> list[Call]:
    """Read one call or a list of calls; arguments are literals, and named."""
    try:
        tree = ast.parse(_TEXT_OR_WORD.sub(_as_python, text.strip()), mode="eval")
        nodes = tree.body.elts if isinstance(tree.body, ast.List | ast.Tuple) else [tree.body]
        found = [_read_python_call(node, text) for node in nodes]
    except (MemoryError, RecursionError, SyntaxError, ValueError):
        return [broken(text)]
    return found or [broken(text)]


# -- Calls without a fence: what a reply begins with is one, or turns out to be text --------------


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
        return self._has_head or bool(self._keys & _BARE_NAMES and self._keys & _BARE_ARGUMENTS)

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


# -- Calls in the syntax of Gemma: `call:find{text:<escape>a<escape>,n:3}` ------------------------


_QUOTES = ("<escape>", '<|"|>')


_GEMMA_HEAD = re.compile(r"\s*call:\s*([^\s{]+)\s*(?=\{)")


_SPACE = re.compile(r"\s*")


_GEMMA_KEY = re.compile(r"\s*([^\s:{}\[\],]+)\s*:")


_WORD = re.compile(r"[^,{}\[\]]*")


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


_GEMMA_CONSTANTS = {"none": None, "null": None, "true": True, "false": False}


def gemma_calls(text: str) -> list[Call]:
    """Read one call or several, one behind the other."""
    found: list[Call] = []
    place = 0
    while place < len(text):
        head = _GEMMA_HEAD.match(text, place)
        if head is None:
            return [*found, broken(text[place:])]
        reading = _GemmaReading(text, head.end())
        try:
            arguments = reading.value(_MAX_DEPTH)
        except ValueError:
            return [*found, broken(text[place:], head[1])]
        found.append(call_of(head[1], arguments, text[place : reading.place]))
        place = stepped(_SPACE, text, reading.place)
    return found or [broken(text)]


class _GemmaReading:
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
        found = _GEMMA_KEY.match(self._text, self.place)
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
        return _GEMMA_CONSTANTS.get(found.lower(), json_value(found))

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


# -- Calls written as Python ----------------------------------------------------------------------


# A text that is not closed goes to the end: nothing is searched twice.
_TEXT_OR_WORD = re.compile(
    rf"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|\b({"|".join(kwlist)})(?=\s*=[^=])""", re.DOTALL
)


_NO_KEYWORD = "_is_an_argument"


_SPECIAL = re.compile(
    r"""(\\(?:[\\'"abfnrtv]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}))|\\|\n|\r"""
)


"""An escape that Python knows, or what it takes in no text as it is."""


_PYTHON_CONSTANTS = {"true": True, "false": False, "null": None}


def _as_python(found: re.Match[str]) -> str:
    """Return what Python takes: texts without line ends and foreign escapes, names but keywords."""
    return _SPECIAL.sub(_escaped, found[0]) if found[1] is None else found[1] + _NO_KEYWORD


def _escaped(special: re.Match[str]) -> str:
    return special[1] or repr(special[0])[1:-1]


def _read_python_call(node: ast.expr, text: str) -> Call:
    if not isinstance(node, ast.Call):
        return broken(text)
    name = ast.unparse(node.func)
    if node.args or not all(part.isidentifier() for part in name.split(".")):
        return broken(text)
    names = [(one.arg or "").removesuffix(_NO_KEYWORD) for one in node.keywords]
    if "" in names or len(set(names)) < len(names):
        return broken(text, name)
    values = [_literal(one.value) for one in node.keywords]
    return call_of(name, dict(zip(names, values, strict=True)), text)


def _literal(node: ast.expr) -> Any:
    for inner in ast.walk(node):
        if isinstance(inner, ast.List | ast.Tuple):
            inner.elts = [_constant(one) for one in inner.elts]
        elif isinstance(inner, ast.Dict):
            inner.values = [_constant(one) for one in inner.values]
    return ast.literal_eval(_constant(node))


def _constant(node: ast.expr) -> ast.expr:
    """Return a constant for the names that JSON has for one."""
    if isinstance(node, ast.Name) and node.id in _PYTHON_CONSTANTS:
        return ast.Constant(_PYTHON_CONSTANTS[node.id])
    return node
