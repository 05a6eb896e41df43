"""How families of models write calls of tools."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from keyword import kwlist
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

_NAMES = ("name", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args")
_IDS = ("id", "tool_call_id")
_MAX_DEPTH = 100
_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"\s*")
_EMPTY_LIST = re.compile(r"\s*\[\s*\]\s*")
_SURROGATES = re.compile("[\ud800-\udfff]")

_BETWEEN = re.compile(r"[\s,;\[\]]*")
"""What stands around maps. A list is no more than that: one that is not closed has whole maps."""

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


def make_broken_call(text: str, name: str | None = None) -> ParsedCall:
    """Return a call that cannot be read."""
    return ParsedCall(name, None, text)


def _make_call(name: Any, arguments: Any, text: str, call_id: Any = None) -> ParsedCall:
    """Return a call, broken if the name or the arguments are not what they should be.

    Args:
        name: The name that the model gave.
        arguments: A map, the JSON of one, or None for no arguments.
        text: What the model wrote.
        call_id: What the model calls it by, if anything.
    """
    if not isinstance(name, str) or not name.strip():
        return make_broken_call(text)
    if isinstance(arguments, str):
        arguments = _read_json(arguments) if arguments.strip() else {}
    written = _write_arguments({} if arguments is None else arguments)
    # A mere number is not an id: the next reply begins to count anew.
    is_id = isinstance(call_id, str) and call_id != "" and not call_id.isdigit()
    return ParsedCall(_clean(name.strip()), written, text, _clean(call_id) if is_id else None)


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


def write_json_text(text: str) -> str:
    """Return a text in JSON."""
    return json.dumps(text, ensure_ascii=False)


def _write_arguments(arguments: Any) -> str | None:
    """Return arguments as JSON that every reader of JSON takes; None if they are not a map."""
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


# -- Calls in JSON --------------------------------------------------------------------------------


def read_json_calls(text: str) -> list[ParsedCall]:
    """Read maps with a name and arguments, one or several, in a list or not."""
    found: list[ParsedCall] = []
    place = _skip(_BETWEEN, text, 0)
    while place < len(text):
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (RecursionError, ValueError):
            return [*found, make_broken_call(text[place:])]
        found.append(_read_map(value, text[place:end]))
        place = _skip(_BETWEEN, text, end)
    return found if found or _EMPTY_LIST.fullmatch(text) else [make_broken_call(text)]


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
        heads, tails = self._patterns
        found: list[ParsedCall] = []
        place = 0
        while place < len(text):
            head = heads.match(text, place)
            if head is None:
                return [*found, make_broken_call(text[place:])]
            try:
                arguments, end = _DECODER.raw_decode(text, head.end())
            except (RecursionError, ValueError):
                return [*found, make_broken_call(text[place:], head["name"])]
            given = head.groupdict()
            found.append(_make_call(given["name"], arguments, text[place:end], given.get("id")))
            place = _skip(tails, text, end)
        return found or [make_broken_call(text)]

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        after = rf"\s*+(?:{self.after})?+\s*+"
        return re.compile(rf"\s*+{self.before}\s*+"), re.compile(after)


def _read_map(value: Any, text: str) -> ParsedCall:
    if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        inner = {**value, **value["function"]}
        return _read_map({key: one for key, one in inner.items() if key != "function"}, text)
    if not isinstance(value, Mapping):
        return make_broken_call(text)
    name = _get_first(value, (*_NAMES, "function"))
    return _make_call(name, _get_first(value, _ARGUMENTS), text, _get_first(value, _IDS))


def _get_first(value: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((value[key] for key in keys if key in value), None)


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


def _skip(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Return the place after what a pattern matches here, if it matches anything."""
    found = pattern.match(text, place)
    return place if found is None else found.end()


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
        after: The text after which the calls begin, if not at once.
    """

    prefix: str = ""
    after: str = ""

    def __call__(self, text: str) -> list[ParsedCall]:
        """Read one call or several."""
        tags = _Tags(
            f'<{self.prefix}invoke name="',
            f'<{self.prefix}parameter name="',
            '">',
            f"</{self.prefix}parameter>",
            f"</{self.prefix}invoke>",
        )
        body = text.partition(self.after)[2] if self.after else text
        return _read_functions(body.strip(), tags) or [make_broken_call(text)]


def read_tagged_calls(text: str) -> list[ParsedCall]:
    """Read JSON, `<function=f><parameter=a>..` or `f<arg_key>a</arg_key><arg_value>..`."""
    body = text.strip()
    if body.startswith(_EQUALS.function):
        return _read_functions(body, _EQUALS)
    if not body or body[0] in "[{":
        return read_json_calls(text)
    return [_read_keyed(body)]


def read_open_tagged_calls(text: str) -> list[ParsedCall]:
    """Read the same where nothing closes it: keys in tags may have been meant to go on."""
    return [make_broken_call(text)] if text.lstrip()[:1] not in "{[<" else read_tagged_calls(text)


def _read_functions(text: str, tags: _Tags) -> list[ParsedCall]:
    cursor = _Cursor(text)
    found: list[ParsedCall] = []
    while cursor.take(tags.function):
        start = cursor.place - len(tags.function)
        name = cursor.take_up_to(tags.name_end)
        texts = None if name is None else _read_parameters(cursor, tags)
        if texts is None:
            return [*found, make_broken_call(text[start:], name)]
        found.append(_make_typed_call(name, texts, text[start : cursor.place]))
    return found if cursor.place == len(text) else [*found, make_broken_call(text[cursor.place :])]


def _read_parameters(cursor: _Cursor, tags: _Tags) -> dict[str, str] | None:
    """Return the arguments of a function; None if they are not closed as they should."""
    texts: dict[str, str] = {}
    while cursor.take(tags.parameter):
        key, value = cursor.take_up_to(tags.name_end), cursor.take_up_to(tags.parameter_end)
        if key is None or value is None:
            return None
        texts[key.strip()] = value.removeprefix("\n").removesuffix("\n")
    return texts if cursor.take(tags.function_end) else None


def _read_keyed(text: str) -> ParsedCall:
    name = text.partition(_KEY)[0].strip()
    cursor = _Cursor(text, len(name))
    texts: dict[str, str] = {}
    while cursor.take(_KEY):
        key = cursor.take_up_to(_KEY_END)
        value = cursor.take_up_to(_VALUE_END) if cursor.take(_TAGGED_VALUE) else None
        if key is None or value is None:
            return make_broken_call(text, name)
        texts[key.strip()] = value
    is_whole = cursor.place == len(text) and _NAME.fullmatch(name)
    return _make_typed_call(name, texts, text) if is_whole else make_broken_call(text)


def _make_typed_call(name: str | None, texts: dict[str, str], text: str) -> ParsedCall:
    arguments = {key: _guess_type(value) for key, value in texts.items()}
    return _make_call(name, arguments, text)._replace(texts=texts)


def _guess_type(text: str) -> Any:
    """Return the value that a text shows; nothing says its type."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    value = _read_json(text)
    return text if isinstance(value, str) else value


class _Cursor:
    """A place in a text that is read piece by piece."""

    def __init__(self, text: str, place: int = 0) -> None:
        self.text = text
        self.place = place

    def take(self, mark: str) -> bool:
        """Step over white space, and over a mark if that is what comes."""
        self.place = _skip(_SPACE, self.text, self.place)
        if not self.text.startswith(mark, self.place):
            return False
        self.place += len(mark)
        return True

    def take_up_to(self, mark: str) -> str | None:
        """Step over a mark, and return what stands before it; None if there is none."""
        end = self.text.find(mark, self.place)
        if end < 0:
            return None
        found = self.text[self.place : end]
        self.place = end + len(mark)
        return found


# -- Calls in the syntax of Gemma: `call:find{text:<escape>a<escape>,n:3}` ------------------------


_QUOTES = ("<escape>", '<|"|>')
_GEMMA_HEAD = re.compile(r"\s*call:\s*([^\s{]+)\s*(?=\{)")
_GEMMA_CONSTANTS = {"none": None, "null": None, "true": True, "false": False}
_GEMMA_TOKEN = re.compile(
    r"""\s*(?:(?P<quote><escape>|<\|"\|>)(?P<text>.*?)(?P=quote)|(?P<string>"(?:[^"\\]|\\.)*")"""
    r"|(?P<sign>[{}\[\],:])|(?P<word>[^\s,{}\[\]:][^,{}\[\]]*))",
    re.DOTALL,
)


def read_gemma_calls(text: str) -> list[ParsedCall]:
    """Read one call or several, one after the other."""
    found: list[ParsedCall] = []
    place = 0
    while place < len(text):
        head = _GEMMA_HEAD.match(text, place)
        if head is None:
            return [*found, make_broken_call(text[place:])]
        try:
            written, place = _write_gemma_json(text, head.end())
            arguments = json.loads(written, strict=False)
        except (RecursionError, ValueError):
            return [*found, make_broken_call(text[head.start() :], head[1])]
        found.append(_make_call(head[1], arguments, text[head.end() : place]))
        place = _skip(_SPACE, text, place)
    return found or [make_broken_call(text)]


def _write_gemma_json(text: str, place: int) -> tuple[str, int]:
    """Return the JSON of the map that stands at a place, and where it ends.

    Raises:
        ValueError: If it does not end, or a quote in it does not.
    """
    written: list[str] = []
    opened: list[str] = []
    while opened or not written:
        token = _GEMMA_TOKEN.match(text, place)
        if token is None or (token["word"] or "").startswith(_QUOTES):
            raise ValueError("no value, or a quote that is not closed")
        place = token.end()
        last = written[-1] if written else ""
        if token["text"] is not None:
            written.append(write_json_text(token["text"]))
        elif token["word"] and last in ("{", ",") and opened[-1] == "{":
            key, colon, _ = token["word"].partition(":")
            written += [write_json_text(key.strip()), colon]
            place = token.start("word") + len(key) + len(colon)
        elif token["word"]:
            written.append(_write_gemma_word(token["word"].strip()))
        elif token["sign"] in ("}", "]"):
            opened.pop()
            written[-1:] = [token["sign"]] if last == "," else [last, token["sign"]]
        else:
            opened += [token["sign"]] if token["sign"] in ("{", "[") else []
            written.append(token["string"] or token["sign"])
    return "".join(written), place


def _write_gemma_word(word: str) -> str:
    return json.dumps(_GEMMA_CONSTANTS.get(word.lower(), _read_json(word)))


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


def read_python_calls(text: str) -> list[ParsedCall]:
    """Read one call or a list of calls; arguments are literals, and named."""
    try:
        tree = ast.parse(_TEXT_OR_WORD.sub(_to_python, text.strip()), mode="eval")
        nodes = tree.body.elts if isinstance(tree.body, ast.List | ast.Tuple) else [tree.body]
        found = [_read_python_call(node, text) for node in nodes]
    except (MemoryError, RecursionError, SyntaxError, ValueError):
        return [make_broken_call(text)]
    return found or [make_broken_call(text)]


def _to_python(found: re.Match[str]) -> str:
    """Return what Python takes: texts without line ends and foreign escapes, names but keywords."""
    return _SPECIAL.sub(_escape, found[0]) if found[1] is None else found[1] + _NO_KEYWORD


def _escape(special: re.Match[str]) -> str:
    return special[1] or repr(special[0])[1:-1]


def _read_python_call(node: ast.expr, text: str) -> ParsedCall:
    if not isinstance(node, ast.Call):
        return make_broken_call(text)
    name = ast.unparse(node.func)
    if node.args or not all(part.isidentifier() for part in name.split(".")):
        return make_broken_call(text)
    names = [(one.arg or "").removesuffix(_NO_KEYWORD) for one in node.keywords]
    if "" in names or len(set(names)) < len(names):
        return make_broken_call(text, name)
    values = [_read_literal(one.value) for one in node.keywords]
    return _make_call(name, dict(zip(names, values, strict=True)), text)


def _read_literal(node: ast.expr) -> Any:
    for inner in ast.walk(node):
        if isinstance(inner, ast.List | ast.Tuple):
            inner.elts = [_replace_constant(one) for one in inner.elts]
        elif isinstance(inner, ast.Dict):
            inner.values = [_replace_constant(one) for one in inner.values]
    return ast.literal_eval(_replace_constant(node))


def _replace_constant(node: ast.expr) -> ast.expr:
    """Return a constant for the names that JSON has for one."""
    if isinstance(node, ast.Name) and node.id in _PYTHON_CONSTANTS:
        return ast.Constant(_PYTHON_CONSTANTS[node.id])
    return node


# -- Calls without a block: what a reply begins with is one, or turns out to be text --------------


_BARE_NAMES = {"function", "name", "tool_name"}
_BARE_ARGUMENTS = {"arguments", "args", "function", "parameters"}
_KEYS = {*_BARE_NAMES, *_BARE_ARGUMENTS, "id", "tool_call_id", "type"}
LONGEST_HEAD = 200
_BETWEEN_BARE = re.compile(r"[\s,;]*")
# A text that is not closed goes to the end: nothing is searched twice.
_JSON_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|([(\[{])|([)\]}])', re.DOTALL)
_BRACKETS = re.compile(rf"'(?:[^'\\]|\\.)*+'?|{_JSON_BRACKETS.pattern}", re.DOTALL)


@dataclass(frozen=True)
class BareSyntax:
    """How calls look that open a reply without any mark.

    Attributes:
        head: A pattern of what a call begins with.
        begun: A pattern of all beginnings of that.
        brackets: A pattern of texts, opening and closing brackets.
        read: Reads a call that is closed.
    """

    head: re.Pattern[str]
    begun: re.Pattern[str]
    brackets: re.Pattern[str]
    read: Syntax

    def may_open(self, text: str) -> bool:
        """Return whether a reply that begins with a text begins with a call, or still may.

        No more than the first `LONGEST_HEAD` characters count.
        """
        is_begun = len(text) < LONGEST_HEAD and self.begun.fullmatch(text) is not None
        return is_begun or self.head.match(text[:LONGEST_HEAD]) is not None

    def split(self, text: str) -> tuple[list[ParsedCall], str]:
        """Return the calls that a text begins with, and what follows them."""
        found: list[ParsedCall] = []
        place = 0
        while self.head.match(text, start := _skip(_BETWEEN_BARE, text, place)):
            end = self._find_end(text, start)
            written = text[start:end]
            if not self._is_call(written):
                break
            found += [make_broken_call(written)] if end is None else self.read(written)
            place = len(text) if end is None else end
        return found, text[place:]

    def _find_end(self, text: str, start: int) -> int | None:
        depth = 0
        for token in self.brackets.finditer(text, start):
            depth += bool(token[1]) - bool(token[2])
            if depth == 0 and token[2]:
                return token.end()
        return None

    def _is_call(self, text: str) -> bool:
        """Return whether a call was meant, be it whole or broken."""
        if self.read is not read_json_calls:
            return True
        try:
            keys = set(json.loads(text, strict=False))
        except (RecursionError, ValueError):
            keys = set(re.findall(r'"(\w+)"\s*:', text)) & _KEYS
        return keys <= _KEYS and bool(keys & _BARE_NAMES) and bool(keys & _BARE_ARGUMENTS)


BARE_JSON = BareSyntax(
    re.compile(rf'\s*\{{\s*"(?:{"|".join(sorted(_KEYS))})"\s*:'),
    re.compile(r'\s*(?:\{\s*(?:"\w*(?:"\s*)?)?)?'),
    _JSON_BRACKETS,
    read_json_calls,
)
BARE_PYTHON = BareSyntax(
    re.compile(r"\s*\[\s*[A-Za-z_][\w.]*\s*\(\s*(?:\)|[A-Za-z_]\w*\s*=)"),
    re.compile(r"\s*(?:\[\s*(?:[A-Za-z_][\w.]*\s*(?:\(\s*(?:[A-Za-z_]\w*\s*)?)?)?)?"),
    _BRACKETS,
    read_python_calls,
)
