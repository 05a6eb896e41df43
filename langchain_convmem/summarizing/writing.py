"""From a window to the text of its summary: in parts where it is long, and asked for twice.

Everything that the window says reaches the summariser, in one call or in several whose summaries
are summarised in turn; nothing is trimmed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from langchain_convmem.errors import SummaryError
from langchain_convmem.protocols import Summarizer
from langchain_convmem.records import SummaryRequest
from langchain_convmem.steps import Steps
from langchain_convmem.summarizing.checking import facts_of, is_empty_talk, most_wanted
from langchain_convmem.summarizing.settings import SummarySettings
from langchain_convmem.summarizing.summarizers import summary_steps
from langchain_convmem.summarizing.transcript import Line, in_pieces, transcript_lines
from langchain_convmem.views.facts import Fact, untold
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.views.window import SummaryWindow

__all__ = ["Written", "written_steps"]

_PROMPT_TOKENS = 400
"""What a request holds besides transcript and previous summary."""
_TOO_LONG = 2
"""A summary may be so many times as long as asked for before it is shortened."""


@dataclass(frozen=True, slots=True)
class Written:
    """A summary that was not committed yet.

    Attributes:
        text: Its text.
        facts: What it had to tell.
        missing: What it does not tell.
        calls: How often the summariser was asked.
    """

    text: str
    facts: tuple[Fact, ...]
    missing: tuple[Fact, ...]
    calls: int


def written_steps(
    summarizer: Summarizer, window: SummaryWindow, settings: SummarySettings
) -> Steps[Written]:
    """Return the summary of a window, by as many calls as it takes.

    Raises:
        SummaryError: If the summariser fails, or tells nothing of what was said.
    """
    writer = _Writer(summarizer, settings)
    facts = tuple(facts_of(window))
    request = yield from writer.request_of(window)
    text = yield from writer.ask(request)
    missing = untold(facts, text)
    for _ in range(settings.retries):
        if not missing:
            break
        again = yield from writer.ask(replace(request, missing=most_wanted(missing)))
        left = untold(facts, again)
        if len(left) < len(missing):
            text, missing = again, left
    if is_empty_talk(facts, missing):
        msg = f"{summarizer.name} told nothing of {len(facts)} facts: {text!r:.80}"
        raise SummaryError(msg)
    return Written(text, facts, tuple(missing), writer.calls)


class _Writer:
    """Asks a summariser, and counts. Not thread-safe."""

    def __init__(self, summarizer: Summarizer, settings: SummarySettings) -> None:
        self.calls = 0
        self._summarizer = summarizer
        self._settings = settings

    def request_of(self, window: SummaryWindow) -> Steps[SummaryRequest]:
        """Return the request for a window, after those for its parts if it is too long for one."""
        previous = "" if window.previous is None else "\n".join(window.previous.contents)
        whole = self._settings.input_tokens
        room = max(whole - count_text_tokens(previous) - _PROMPT_TOKENS, whole // 2)
        lines = transcript_lines(window)
        while True:
            pieces = in_pieces(lines, room)
            if len(pieces) == 1:
                return self._request(pieces[0], previous)
            parts: list[Line] = []
            for piece in pieces:
                part = yield from self.ask(self._request(piece))
                parts.append(Line(f"{part}\n"))
            self._check_shrinking(parts, lines)
            lines = parts

    def _request(self, transcript: str, previous: str = "") -> SummaryRequest:
        tokens = self._settings.max_summary_tokens
        return SummaryRequest(transcript=transcript, previous=previous, max_tokens=tokens)

    def _check_shrinking(self, after: list[Line], before: list[Line]) -> None:
        # Not compared with the pieces: days and speakers are told again in each round.
        if sum(len(line.text) for line in after) >= sum(len(line.text) for line in before):
            msg = f"{self._summarizer.name} wrote summaries no shorter than what they summarise"
            raise SummaryError(msg)

    def ask(self, request: SummaryRequest) -> Steps[str]:
        """Return the summariser's answer; one that is much too long is summarised itself."""
        text = yield from self._asked(request)
        most = _TOO_LONG * request.max_tokens
        if count_text_tokens(text) <= most:
            return text
        text = yield from self._asked(replace(request, transcript=text, previous=""))
        if count_text_tokens(text) > most:
            msg = f"{self._summarizer.name} wrote {len(text)} characters, twice; {most} tokens fit"
            raise SummaryError(msg)
        return text

    def _asked(self, request: SummaryRequest) -> Steps[str]:
        self.calls += 1
        return (yield from summary_steps(self._summarizer, request))
