"""Text to tokens and back, in pieces, with the tokenizer of a local model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["TokenReader", "text_of", "token_ids"]

_WINDOW = 24
_CONTEXT = 6
_UNFINISHED = "\ufffd"
"""What a decoder writes for bytes that are no character, or not yet."""
_ANCHOR = "\n"
_BLANK = "\u2581"


def token_ids(tokenizer: Any, text: str, *, is_first: bool) -> list[int]:
    """Return the tokens of a text; special tokens that are written out in it count as themselves.

    Args:
        tokenizer: A tokenizer of `transformers`.
        text: The text.
        is_first: Whether it is the beginning of all. Some tokenizers put a blank before any text,
            which must not happen before one that goes on from another.
    """
    if not text:
        return []
    if is_first:
        return _encoded(tokenizer, text)
    first = tokenizer.convert_ids_to_tokens(_encoded(tokenizer, "a")[:1])
    if not first or not str(first[0]).startswith(_BLANK):
        return _encoded(tokenizer, text)
    anchor = _encoded(tokenizer, _ANCHOR)
    anchored = _encoded(tokenizer, _ANCHOR + text)
    if anchored[: len(anchor)] != anchor:  # the text begins as the anchor ends, and became one
        return _encoded(tokenizer, text)
    return anchored[len(anchor) :]


def _encoded(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def text_of(tokenizer: Any, ids: Sequence[int]) -> str:
    """Return the text of tokens, special ones included, as it is."""
    return str(
        tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    )


class TokenReader:
    """The text of tokens that come one by one, every character of it, and none before it is whole.

    A character may lie across tokens. Only the latest tokens are decoded, with some before them, as
    what a token says depends on what it follows.
    """

    def __init__(self, tokenizer: Any, before: Sequence[int]) -> None:
        """Begin behind the tokens `before`."""
        self._tokenizer = tokenizer
        self._ids = list(before[-_CONTEXT:])
        self._told = len(self._decoded(self._ids))
        self.is_whole = True
        """Whether all tokens so far are told."""

    def feed(self, token: int) -> str:
        """Return what is certain by now, and was not told before."""
        self._ids.append(token)
        text = self._decoded(self._ids)
        certain = len(text.rstrip(_UNFINISHED))
        new = text[self._told : certain]
        self._told = max(self._told, certain)
        self.is_whole = certain == len(text)
        if self.is_whole and len(self._ids) > _WINDOW:
            self._forget()
        return new

    def rest(self) -> str:
        """Return what was held back; no more tokens come."""
        text = self._decoded(self._ids)
        new = text[self._told :]
        self._told = len(text)
        self.is_whole = True
        return new

    def _forget(self) -> None:
        """Keep no more tokens than the next ones depend on."""
        for start in range(len(self._ids) - _CONTEXT, 0, -1):
            text = self._decoded(self._ids[start:])
            if text and not text.startswith(_UNFINISHED):
                del self._ids[:start]
                self._told = len(text)
                return

    def _decoded(self, ids: Sequence[int]) -> str:
        return text_of(self._tokenizer, ids)
