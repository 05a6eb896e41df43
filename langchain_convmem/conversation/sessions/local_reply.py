"""One reply of a local model, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from langchain_convmem.conversation.sessions.local_text import TokenReader, token_ids
from langchain_convmem.conversation.sessions.sampling import Sampling
from langchain_convmem.conversation.stop_texts import StopTexts

if TYPE_CHECKING:
    from langchain_convmem.conversation.sessions.local import LocalSession

__all__ = ["LocalReply"]


class LocalReply:
    """A reply that a session writes; `step` until it `is_over`."""

    def __init__(
        self, session: LocalSession, stop: Sequence[str], max_tokens: int, sampling: Sampling
    ) -> None:
        self._session = session
        self._stops = StopTexts(stop)
        self._left = max_tokens
        self._choose = sampling.chooser()
        self._reader = TokenReader(session.engine.tokenizer, session.token_ids)
        self._text = ""
        self._told = ""
        self._whole_at = [(0, session.token_count)]
        self.is_over = False

    def step(self) -> str:
        """Write one token, and return what can be told of the text by now."""
        if self._left <= 0 or self._session.room == 0:
            return self._ended("length", "")
        token = self._choose(self._session.next_scores())
        if token in self._session.engine.end_ids:
            return self._ended("stop", self._session.engine.end_ids[token])
        self._session.write(token)
        self._left -= 1
        piece = self._taken(self._reader.feed(token))
        if self._reader.is_whole and not self._stops.found:
            self._whole_at.append((len(self._text), self._session.token_count))
        return piece + self._ended("stop", "") if self._stops.found else piece

    def _taken(self, text: str) -> str:
        self._text += text
        piece = self._stops.feed(text)
        self._told += piece
        return piece

    def _ended(self, reason: Literal["stop", "length"], end_text: str) -> str:
        """Return what was held back, and leave the session with what was told and no more."""
        self.is_over = True
        piece = self._taken(self._reader.rest()) + self._stops.rest()
        session = self._session
        session.stop_text = self._stops.found or end_text
        session.finish_reason = "stop" if self._stops.found else reason
        if self._stops.found:
            # The stop text may begin within a token: that token goes, and its beginning comes back.
            told = len(self._told)
            place, length = next(one for one in reversed(self._whole_at) if one[0] <= told)
            session.cut(length)
            for token in token_ids(session.engine.tokenizer, self._told[place:], is_first=False):
                session.write(token)
        return piece
