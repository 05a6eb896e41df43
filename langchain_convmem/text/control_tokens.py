"""Control tokens: what opens and closes turns in a template's text, kept out of what people say.

A template writes structure and text into one string, where a model's tokenizer cannot tell them
apart. So each control token that stands in the text of a message is *sealed* before the template
sees it: one private character is put inside. Where a session makes tokens of every piece by itself,
the text is cut there and stays what it was; elsewhere the seal becomes a blank that can be seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langchain_convmem.views.lines import clean_name

SEAL = "\U000e01ef"
"""Stands inside a sealed token, in text that no model has read yet; in hardly any text otherwise.

It counts as printable: where a template prints a list of texts, others would become escapes.
"""

BREAK = " "
"""What a seal is for a service that takes one string: as long, harmless in JSON, and visible."""

# What becomes of the seal's code point where somebody said it.
_REPLACED = "\ufffd"

# Tokens of most families, such as `<|im_start|>`, `<|turn>` and `<turn|>`.
_FAMILIES = r"<(?:\|[^<>|\s]{1,64}\|?|[^<>|\s]{1,64}\||\uff5c[^<>\uff5c\s]{1,64}\uff5c)>"

_BRACKETED = r"<</?[A-Z]+>>|\[/?\w*[A-Z]{3,}[A-Z_]*\]|<\uff5c[^<>\uff5c\s]{1,64}\uff5c>"
_TURNS = (
    r"</?(?:s|bos|eos|pad|unk|sop|eop|(?:start|end)_of_\w+|"
    r"\w*(?:turn|role|message|header|system|user|assistant|human|bot|model)\w*)>"
)
_MARKS = (
    r"</?(?:think|thinking|thought|reasoning|answer|tools?|tool_(?:calls?|responses?|results?|code)|"
    r"functions?|function_(?:calls?|results?|response)|parameters?|arg_key|arg_value|documents?)>|"
    r"<(?:function|parameter)="
)
_TAGS = r"</?[A-Za-z_][\w.:-]{0,63}>"

_SPELLED = re.compile(f"{_FAMILIES}|{_BRACKETED}|{_TURNS}|{_MARKS}")
_IN_PROMPT = re.compile(f"{_SPELLED.pattern}|{_TAGS}")
_MARK = re.compile(_MARKS)

_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_LABEL = re.compile(r"(?P<label>(?:#{1,6} ?)?[^\W\d_][^\n:<>\[\]{}|#]{0,30}:)\s*\Z")
_HEADING = re.compile(r"^(?P<label>#{1,6} ?[^\W\d_][^\n:<>\[\]{}|#]{0,30})\s*\Z", re.MULTILINE)

_SHORTEST = 3
_PUNCTUATION = re.compile(r"[^\w\s]")

_SPEAKERS = ("system", "user", "assistant", "human", "tool", "function", "bot", "ai", "model")

MEDIA_MARKS: Mapping[str, Sequence[str]] = {
    "image": (
        *("<|image_pad|>", "<|image|>", "<|image_1|>", "<start_of_image>", "<image_soft_token>"),
        *("<image_placeholder>", "<IMG_CONTEXT>", "<|media_pad|>", "<image>", "[IMG]"),
        "<__media__>",
    ),
    "audio": (
        *("<|audio_pad|>", "<|audio|>", "<|AUDIO|>", "<|audio_1|>", "<start_of_audio>"),
        *("<audio_soft_token>", "<audio>", "[AUDIO]"),
    ),
}
"""What templates of known families write for a medium; of several around a place, the innermost."""

# What every model that knows `[INST]` has seen, whether its template writes it or not.
_SYSTEM_MARKS = frozenset({"<<SYS>>", "<</SYS>>"})

_RUN = re.compile(r"\S+")
# Signs that hardly stand in prose, of which some families make tokens, such as `[|user|]`.
_ODD = r"\[\]{}<>|~@$^#%&*=+\\"
_ROLE_RUN = re.compile(
    rf"(?P<before>\S*?[{_ODD}]\S*?)(?P<role>{'|'.join(_SPEAKERS)})(?P<after>[^\w\s:]*):?",
    re.IGNORECASE,
)

# Who may write marks such as `<think>` in the text of a message: the model, and who instructs.
_OPEN_ROLES = frozenset({"assistant", "model", "ai", "system", "developer"})


@dataclass(frozen=True)
class ControlTokens:
    """What a template's text is structured by. Safe to share between threads.

    Attributes:
        tokens: What opens or closes turns, or begins and ends a text; nobody's text may hold it.
        marks: What marks thoughts, calls and results within a turn, such as `<think>`; the model
            and system messages may write it in their text.
        labels: What names a speaker by words alone, such as `### Instruction:`.
        inline: Those labels that need no line of their own.
        shapes: What stands before and after a role in tokens of one form, such as `[|` and `|]`:
            with any other word between, it is a token as well.
    """

    tokens: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    inline: frozenset[str] = field(default=frozenset())
    shapes: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def find(
        cls, literals: Iterable[str], prompt: Iterable[str], named: Iterable[str] = ()
    ) -> ControlTokens:
        """Return what structures the prompts of a template.

        Args:
            literals: Texts that stand in the template.
            prompt: What it writes around the texts of messages, piece by piece.
            named: Tokens that the model's tokenizer names.
        """
        pieces, spelled = list(prompt), list(literals)
        found = {one for text in spelled for one in _SPELLED.findall(text)}
        media = {mark for marks in MEDIA_MARKS.values() for mark in marks}
        found |= {mark for mark in media if any(mark in text for text in spelled)}
        found |= {one for text in pieces for one in _IN_PROMPT.findall(text)}
        found |= {one for one in named if len(one) >= _SHORTEST and _PUNCTUATION.search(one)}
        found |= {match["label"].rstrip() for text in pieces for match in _HEADING.finditer(text)}
        labels = {
            match["label"]: match.start() > 0 and text[match.start() - 1] not in _LINE_ENDS
            for text in pieces
            for match in _LABEL.finditer(text)
        }
        runs = (set(_RUN.findall(_IN_PROMPT.sub(" ", text))) for text in pieces)
        counts = Counter(shape for some in runs for shape in set(map(_find_shape, some)))
        # What a template says once is no structure.
        shapes = {shape for shape, count in counts.items() if shape is not None and count > 1}
        found |= {before for before, _ in shapes if len(before) >= _SHORTEST}
        found |= _SYSTEM_MARKS if "[INST]" in found else frozenset()
        marks = {one for one in found if _MARK.fullmatch(one)}
        inline = {label for label, is_inline in labels.items() if is_inline}
        kinds = (found - marks, marks, set(labels), inline, shapes)
        return cls(*map(frozenset, kinds))

    # -- sealing ----------------------------------------------------------------------------------

    def seal(self, text: str, *, marks: bool = True) -> str:
        """Return the text with a seal inside each control token.

        Args:
            text: What somebody said.
            marks: Whether marks within a turn are sealed as well.
        """
        if SEAL in text:
            text = text.replace(SEAL, _REPLACED)
        # Most texts hold no first character of a token, which is found out far sooner.
        if any(map(text.__contains__, self._firsts)):
            text = _seal_tokens(text, self._every if marks else self._outer)
        if self._named is not None and ":" in text:
            text = self._named.sub(_seal_label, text)
        return text

    def seal_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message as templates get it, all of its texts sealed but for the role."""
        rest = {key: one for key, one in message.items() if key not in {"role", "content"}}
        if isinstance(rest.get("tool_calls"), list):
            rest["tool_calls"] = [_clean_name(call) for call in rest["tool_calls"]]
        sealed: dict[str, Any] = {**message, **self.seal_value(_clean_name(rest))}
        if "content" in message:
            marks = message["role"] not in _OPEN_ROLES
            sealed["content"] = self._seal_content(message["content"], marks=marks)
        return sealed

    def _seal_content(self, content: Any, *, marks: bool) -> Any:
        """Seal content; blocks that a token lies across become one."""
        sealed = self.seal_value(content, marks=marks)
        if not isinstance(content, list):
            return sealed
        whole = self.seal("".join(map(_read_block, content)), marks=marks)
        if whole == "".join(map(_read_block, sealed)):
            return sealed
        texts = [block for block in sealed if _read_block(block)]
        others = [block for block in sealed if not _read_block(block)]
        first = {**texts[0], "text": whole} if isinstance(texts[0], dict) else whole
        return [first, *others]

    def seal_value(self, value: Any, *, marks: bool = True) -> Any:
        """Return a plain value with all texts in it sealed, keys included."""
        if isinstance(value, str):
            return self.seal(value, marks=marks)
        if isinstance(value, list):
            return [self.seal_value(one, marks=marks) for one in value]
        if isinstance(value, Mapping):
            return {
                self.seal(key, marks=marks): self.seal_value(one, marks=marks)
                for key, one in value.items()
            }
        return value

    @cached_property
    def _firsts(self) -> str:
        shaped = {before for before, _ in self.shapes}
        return "".join({"<", *(token[0] for token in self.tokens | self.marks | shaped)})

    @cached_property
    def _outer(self) -> re.Pattern[str]:
        return _compile_tokens(self.tokens, self.shapes)

    @cached_property
    def _every(self) -> re.Pattern[str]:
        return _compile_tokens(self.tokens | self.marks, self.shapes)

    @cached_property
    def _named(self) -> re.Pattern[str] | None:
        if not self.labels:
            return None
        lines = rf"(?:\A|(?<=[{_LINE_ENDS}]))[ \t]*"
        each = [
            (r"(?<!\w)" if label in self.inline else lines)
            + _make_label_pattern(label.removesuffix(":"))
            for label in sorted(self.labels, key=len, reverse=True)
        ]
        return re.compile(f"({'|'.join(each)})( *):")


def show_seals(text: str) -> str:
    """Return sealed text for a service that takes one string."""
    return text.replace(SEAL, BREAK)


def split_at_seals(text: str) -> list[str]:
    """Return sealed text in pieces, of each of which tokens have to be made by itself."""
    return [piece for piece in text.split(SEAL) if piece]


def _find_shape(run: str) -> tuple[str, str] | None:
    """Return what a run of signs writes before and after a role; None where that is no token."""
    found = _ROLE_RUN.fullmatch(run)
    if found is None:
        return None
    before, after = found["before"], found["after"]
    # One sign alone before a word, such as `#user` or `*user`, is prose.
    return (before, after) if len(before) > 1 or after else None


def _compile_tokens(tokens: Iterable[str], shapes: Iterable[tuple[str, str]]) -> re.Pattern[str]:
    spelled = sorted(tokens, key=len, reverse=True)
    each = [re.escape(token) for token in spelled]
    each += [
        rf"{re.escape(before)}\w{{1,64}}{re.escape(after)}" for before, after in sorted(shapes)
    ]
    return re.compile("|".join([*each, _FAMILIES]))


def _make_label_pattern(label: str) -> str:
    """Return a pattern for a label and others of its kind: who can be forged is not only who spoke.

    A template that writes `### Response:` is read by a model that knows `### System:`.
    """
    signs = label[: len(label) - len(label.lstrip("# "))]
    if signs:
        return rf"{re.escape(signs)}[^\W\d_][\w ]{{0,30}}?"
    if not label.isalpha():
        return re.escape(label)
    others = [one.upper() if label.isupper() else one.capitalize() for one in _SPEAKERS]
    return f"(?:{'|'.join(map(re.escape, [label, *others]))})"


def _seal_tokens(text: str, tokens: re.Pattern[str]) -> str:
    """Return the text with a seal after the first character of each token, those within too."""
    pieces: list[str] = []
    end = 0
    while (found := tokens.search(text, end)) is not None:
        pieces.append(text[end : found.start() + 1])
        end = found.start() + 1
    return SEAL.join([*pieces, text[end:]])


def _seal_label(match: re.Match[str]) -> str:
    return f"{match[1]}{SEAL}{match[2]}:"


def _clean_name(named: Any) -> Any:
    """Return a message or a call with its name, or the tool's, as one line."""
    if not isinstance(named, dict):
        return named
    if isinstance(named.get("name"), str):
        named = {**named, "name": clean_name(named["name"])}
    function = named.get("function")
    return named if function is None else {**named, "function": _clean_name(function)}


def _read_block(block: Any) -> str:
    text = block.get("text") if isinstance(block, Mapping) else block
    return text if isinstance(text, str) else ""
