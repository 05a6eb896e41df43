"""A text engine as a conversation uses it: only what is new is rendered and read.

The session holds the model's own words; the sent text of the render state knows what those were. A
turn works on a copy of the state; the session is put back if the turn is taken back.
"""

from __future__ import annotations

import base64
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage

from langchain_convmem.background import hop
from langchain_convmem.causes import report_problem
from langchain_convmem.conversation.chat_backend import Backend, ModelTurn, ReplyRequest
from langchain_convmem.conversation.inputs import is_media
from langchain_convmem.errors import ChatTemplateError, ConfigError, InvalidMessageError
from langchain_convmem.forks import make_lock
from langchain_convmem.text import ChatTemplate, RenderState
from langchain_convmem.text.control_tokens import MEDIA_MARKS
from langchain_convmem.text.replies import ReplyReader
from langchain_convmem.text.reply_formats import ReplyFormat
from langchain_convmem.text.sessions import (
    ClonableSession,
    Media,
    ModelSession,
    Part,
    PiecewiseSession,
    RewindableSession,
    TextEngine,
    TokenCountingSession,
    read_stops,
)
from langchain_convmem.turns.turn import aclose_quietly
from langchain_convmem.views.media import detect_media_type, read_media
from langchain_convmem.views.tokens import count_text_tokens

_logger = logging.getLogger("langchain_convmem")

_KINDS: Mapping[str, str] = {mark: kind for kind, marks in MEDIA_MARKS.items() for mark in marks}
_PROMPT_END = 400
"""Code points of the prompt that a reader looks at, to see whether it ends inside a channel."""


class LiveSession:
    """A session, and how much of its conversation's text it holds. One turn at a time.

    What it holds is always a beginning of that text; it may be nothing.
    """

    def __init__(self) -> None:
        self.session: ModelSession | None = None
        self.held = 0
        self._marks: list[tuple[int, object]] = []

    def mark(self, held: int) -> None:
        """Note that the session holds so many code points now, to come back to."""
        self.held = held
        if isinstance(self.session, RewindableSession):
            self._marks.append((held, self.session.checkpoint()))

    def rewind(self, held: int, *, is_sound: bool = True) -> None:
        """Make the session hold no more than so many code points, if it holds more.

        A session that fails here is closed; the next use opens another.

        Args:
            held: How many; it may hold fewer then.
            is_sound: Whether its state is known; if not, it is put back in any case.
        """
        session = self.session
        if session is None or (is_sound and self.held <= held):
            return
        self._marks = [mark for mark in self._marks if mark[0] <= held]
        is_back = False
        try:
            if self._marks and isinstance(session, RewindableSession):
                self.held, mark = self._marks[-1]
                session.rewind(mark)
            else:
                session.reset()
                self.held = 0
            is_back = True
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            report_problem(_logger, "a session could not be taken back and is replaced", error)
        finally:
            if not is_back:
                self.drop()

    def branch(self) -> LiveSession:
        """Return one that goes on by itself; it holds nothing if the session cannot be copied."""
        twin = LiveSession()
        if isinstance(self.session, ClonableSession):
            twin.session = self.session.clone()
            twin.held, twin._marks = self.held, list(self._marks)
        return twin

    def drop(self) -> None:
        """Close the session; the next use opens another."""
        session, self.session = self.session, None
        self.held, self._marks = 0, []
        try:
            if session is not None:
                session.close()
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            report_problem(_logger, "a session could not be closed", error)


@dataclass(slots=True, eq=False)
class TextBackend(Backend):
    """One conversation's place in a text engine. One turn at a time.

    Attributes:
        engine: Makes sessions.
        template: Writes the messages down.
        reply_format: How replies are read.
        stop: Texts that end a reply.
        state: What was rendered so far.
        shown: Messages, and as the session has read them, by id: with text that was recalled.
        live: A session that has read what `state` says, or less.
        is_busy: Whether a turn uses the session.
    """

    engine: TextEngine
    template: ChatTemplate
    reply_format: ReplyFormat
    stop: tuple[str, ...]
    state: RenderState
    shown: Mapping[str, tuple[BaseMessage, BaseMessage]] = field(default_factory=dict)
    live: LiveSession = field(default_factory=LiveSession)
    is_busy: bool = False
    # Reentrant: the garbage collector may close a forgotten stream at any moment.
    lock: Any = field(default_factory=make_lock)

    def __repr__(self) -> str:
        return f"{type(self.engine).__name__}, {self.template!r}"

    def begin(self, request: ReplyRequest) -> TextTurn:
        """Begin a turn."""
        is_taken = getattr(self.engine, "takes_response_format", False)
        if "response_format" in request.options.model_kwargs and not is_taken:
            raise ConfigError(
                f"{type(self.engine).__name__} takes no response_format; describe the object as a "
                "tool, or in what is asked"
            )
        return TextTurn(self, request)

    def read_ahead(self, request: ReplyRequest, context: Sequence[BaseMessage]) -> None:
        """Let the session read what is said so far, or the preface; see `Backend`."""
        with self._begin_early(request, context) as turn:
            if turn is not None:
                turn.prefill(context, is_early=True)

    async def aread_ahead(self, request: ReplyRequest, context: Sequence[BaseMessage]) -> None:
        """Let the session read what is said so far, or the preface; see `Backend`."""
        with self._begin_early(request, context) as turn:
            if turn is not None:
                await turn.aprefill(context, is_early=True)

    @contextmanager
    def _begin_early(
        self, request: ReplyRequest, context: Sequence[BaseMessage]
    ) -> Iterator[TextTurn | None]:
        """Let the session read in the block what it can before anything is asked."""
        # Text does not show where a message with media ends; it is read when it is whole.
        # And is there anything that the template writes without a first message?
        config = request.config.preface
        has_preface = bool(config.messages or request.tools.names or request.options.extra_context)
        may_read = not list_media(context[-1:]) if context else has_preface
        turn = TextTurn(self, request)
        try:
            yield turn if may_read else None
        except BaseException as error:
            turn.rollback()
            kind = error.kind if isinstance(error, ChatTemplateError) else None
            if kind is None or (context and kind != "NothingToContinue"):
                raise
            _logger.debug("it is read with what follows it: %s", error)
        else:
            turn.commit()

    def count_tokens(self, context: Sequence[BaseMessage]) -> int:
        """Return the tokens of the session's text; by our own count if it does not report them."""
        del context
        with self.lock:
            is_read = not self.is_busy and self.live.held == self.state.length
            counted = _count_tokens(self.live.session) if is_read else None
        return counted or count_text_tokens(self.state.read_text())

    def branch(self) -> TextBackend:
        """Return one that goes on by itself, from what stands before the present turn."""
        with self.lock:
            live = LiveSession() if self.is_busy else self.live.branch()
            return replace(
                self, state=self.state.copy(), live=live, is_busy=False, lock=make_lock()
            )

    def close(self) -> None:
        """Close the session."""
        self.live.drop()


class TextTurn(ModelTurn):
    """One turn of a text engine; see `ModelTurn`."""

    def __init__(self, backend: TextBackend, request: ReplyRequest) -> None:
        """Begin from where the conversation stands."""
        super().__init__(request)
        self._backend = backend
        self._live = backend.live
        self._floor = backend.live.held
        self._is_sound = True
        self._state = backend.state.copy()
        self._shown = backend.shown
        kwargs = self._kwargs = request.options.model_kwargs
        self._stop = (*backend.stop, *request.config.stop, *read_stops(kwargs.get("stop")))

    # -- what the session reads -------------------------------------------------------------------

    def prefill(self, context: Sequence[BaseMessage], *, is_early: bool = False) -> ModelSession:
        """Let the session read what is new in the conversation; return it.

        Args:
            context: All messages after the preface.
            is_early: Whether the model is not asked yet: the last message is still being said.
        """
        session, parts = self._open(context, is_early)
        if parts:
            session.prefill(parts)
        self._mark()
        return session

    async def aprefill(
        self, context: Sequence[BaseMessage], *, is_early: bool = False
    ) -> ModelSession:
        """Let the session read without blocking the event loop; see `prefill`."""
        session, parts = await hop(partial(self._open, context, is_early))
        if parts:
            await session.aprefill(parts)
        await hop(self._mark)
        return session

    def _open(
        self, context: Sequence[BaseMessage], is_early: bool
    ) -> tuple[ModelSession, list[Part]]:
        """Take the session back to what it keeps; return it and what it is to read."""
        self._asked = perf_counter()
        live, state = self._live, self._state
        wanted = _list_read([*self.request.config.preface.messages, *context], self._shown)
        state.begin_again()
        extra = self.request.options.extra_context
        if is_early and context:
            increment = state.feed(wanted, extra_context=extra, continue_final_message=True)
        else:
            increment = state.feed(wanted, extra_context=extra, add_generation_prompt=not is_early)
        self.stats.append(increment.stats)
        if found := increment.stats.neutralized:
            _logger.warning("%d control tokens in the text of messages were broken up", found)
        media = list_media(wanted)
        if media:  # one without a place is refused before the session is touched
            interleave(state, media)
        with self._backend.lock:
            self._backend.is_busy = True
        live.rewind(increment.kept)
        self._floor = min(self._floor, live.held)
        self._is_sound = False
        session = live.session = live.session or self._backend.engine.create_session()
        return session, self._list_parts(media, live.held, session)

    def _list_parts(self, media: Sequence[Media], start: int, session: ModelSession) -> list[Part]:
        if media:
            return interleave(self._state, media, start)
        if isinstance(session, PiecewiseSession):
            return list[Part](self._state.read_pieces(start))
        return [self._state.read_text(start)] if start < self._state.length else []

    def _mark(self) -> None:
        self._live.mark(self._state.length)
        self._is_sound = True

    def remember(self, said: BaseMessage, shown: BaseMessage) -> None:
        """Show a message so in later turns as well; see `ModelTurn`."""
        self._shown = {**self._shown, said.id or "": (said, shown)}

    # -- what it writes ---------------------------------------------------------------------------

    def stream(self, context: Sequence[BaseMessage]) -> Generator[list[AIMessageChunk]]:
        """Read what is new, and write the reply; see `ModelTurn`."""
        session = self.prefill(context)
        written = _Written(self._make_reader(), _count_tokens(session) or 0)
        for closing, options in self._plan_decodes(session, written):
            if closing:
                session.prefill([closing])
                yield written.read(closing)
            for piece in session.decode(**options):
                yield written.read(piece)
        yield self._end_reply(session, written)

    async def astream(self, context: Sequence[BaseMessage]) -> AsyncGenerator[list[AIMessageChunk]]:
        """Read what is new, and write the reply; see `ModelTurn`."""
        session = await self.aprefill(context)
        written = _Written(self._make_reader(), _count_tokens(session) or 0)
        for closing, options in self._plan_decodes(session, written):
            if closing:
                await session.aprefill([closing])
                yield written.read(closing)
            pieces = session.adecode(**options)
            try:
                async for piece in pieces:
                    yield written.read(piece)
            finally:
                await aclose_quietly(pieces)
        yield await hop(partial(self._end_reply, session, written))

    def _make_reader(self) -> ReplyReader:
        state = self._state
        return ReplyReader(
            self._backend.reply_format,
            channels=self.request.config.channels,
            prompt_end=state.read_text(max(0, state.length - _PROMPT_END)),
            tools=self.request.tools.schemas,
        )

    def _plan_decodes(
        self, session: ModelSession, written: _Written
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what closes the thoughts of what was written so far, and how to write on."""
        self._is_sound = False
        most = self._kwargs.get("max_tokens") or self.request.options.max_output_tokens
        budget, closing = self.request.config.thinking_tokens, ""
        if budget is not None and (most is None or budget < most):
            yield "", {**self._kwargs, "stop": self._stop, "max_tokens": budget}
            if session.finish_reason != "length":
                return  # the reply came to its end
            most = most and most - budget
            closing = written.reader.end_of_thought
        yield closing, {**self._kwargs, "stop": self._stop, "max_tokens": most}

    def _end_reply(self, session: ModelSession, written: _Written) -> list[AIMessageChunk]:
        """Note what the session wrote; return the chunks of the end."""
        stop_text = session.stop_text if session.holds_stop else ""
        self._state.record_reply("".join(written.raw) + stop_text)
        speed = written.measure_speed(self._asked, _count_tokens(session))
        chunks = list(written.reader.finish(finish_reason=session.finish_reason))
        if speed:
            chunks[-1].response_metadata["speed"] = speed
        self._mark()
        return chunks

    # -- the end ----------------------------------------------------------------------------------

    def commit(self) -> None:
        """Go on from here; of a reply that broke off, the session has read nothing."""
        if not self._is_sound:
            self._live.rewind(self._live.held, is_sound=False)
        with self._backend.lock:
            self._backend.state, self._backend.shown = self._state, self._shown
            self._backend.is_busy = False

    def rollback(self) -> None:
        """Put the session back to where the turn began, or to before."""
        self._live.rewind(self._floor, is_sound=self._is_sound)
        with self._backend.lock:
            self._backend.is_busy = False


@dataclass(slots=True)
class _Written:
    """A reply as it is written: its pieces, and when they came.

    Attributes:
        reader: Reads the pieces.
        before: Tokens that the session held before it; 0 if it does not count them.
        raw: The pieces.
        first: When the first one came.
    """

    reader: ReplyReader
    before: int
    raw: list[str] = field(default_factory=list)
    first: float = 0.0

    def read(self, piece: str) -> list[AIMessageChunk]:
        """Take a piece; return what of it can be shown."""
        self.raw.append(piece)
        self.first = self.first or perf_counter()
        return self.reader.feed(piece)

    def measure_speed(self, asked: float, held: int | None) -> dict[str, float]:
        """Return how fast the reply came that was asked for at this time; empty if none did."""
        if not self.first:
            return {}
        speed = {"first_token_s": round(self.first - asked, 6)}
        tokens, took = (held or 0) - self.before or len(self.raw), perf_counter() - self.first
        if tokens > 1 and took > 0:  # the first token's time is the prompt's
            speed["tokens_per_s"] = round((tokens - 1) / took, 3)
        return speed


def _list_read(
    messages: Iterable[BaseMessage], seen: Mapping[str, tuple[BaseMessage, BaseMessage]]
) -> list[BaseMessage]:
    """Return messages as a session has read them; an edited one is another message."""
    pairs = [(seen.get(one.id or "", (one, one)), one) for one in messages]
    return [shown if said.content == one.content else one for (said, shown), one in pairs]


def _count_tokens(session: ModelSession | None) -> int | None:
    return session.token_count if isinstance(session, TokenCountingSession) else None


# -- Pictures and sounds: at their marks in the text ----------------------------------------------


def list_media(messages: Iterable[BaseMessage]) -> list[Media]:
    """Return the pictures and sounds of messages, in order, for a session that reads text.

    Raises:
        InvalidMessageError: If one is neither picture nor sound, or its bytes lie elsewhere.
    """
    return [
        _read_media(part, f"part {place} of message {number}")
        for number, message in enumerate(messages)
        if isinstance(message.content, list)
        for place, part in enumerate(message.content)
        if is_media(part)
    ]


def _read_media(part: Mapping[str, Any], what: str) -> Media:
    found = read_media(part)
    if found is None or found.form != "base64" or not found.data:
        raise InvalidMessageError(
            f"{what} does not hold its bytes, which a text session needs; fetch it and pass it "
            "by 'path' or 'blob'"
        )
    data = base64.b64decode(found.data)
    # A container may be taken for video by how it begins; what came in was checked.
    kind = part["type"] if part.get("type") in ("image", "audio") else found.kind
    if kind not in ("image", "audio"):
        raise InvalidMessageError(
            f"{what} is {found.type or found.kind}; text sessions take pictures and sounds only"
        )
    return Media(kind, data, detect_media_type(data) or found.type)


def interleave(render: RenderState, media: Sequence[Media], start: int = 0) -> list[Part]:
    """Return rendered text cut at its marks, with the media in their places.

    The first mark of a kind is the first medium of that kind, and so on.

    Args:
        render: What a template wrote. Marks in what was said in messages are none: they are sealed,
            as all control tokens are, and what the model itself wrote is passed over.
        media: All that belong in the text, in order.
        start: Where to begin within the text; media before it are left out.

    Returns:
        Texts and media in turns, no text empty; all of the text from `start` on, but for the marks.

    Raises:
        InvalidMessageError: If the text has not exactly one mark for each medium.
    """
    marks = [(at, mark, _KINDS[mark]) for at, mark in render.find_tokens(_KINDS)]
    found = Counter(kind for *_, kind in marks)
    wanted: Counter[str] = Counter(one.kind for one in media)
    if found != wanted:
        raise InvalidMessageError(
            f"the template writes marks for {_describe_counts(found)}, but the messages hold "
            f"{_describe_counts(wanted)}; does the template take media, and are its marks given?"
        )
    waiting = {kind: iter([one for one in media if one.kind == kind]) for kind in wanted}
    parts: list[Part] = []
    text, done = render.read_text(), start
    for at, mark, kind in marks:
        one = next(waiting[kind])
        if at >= start:
            parts += [text[done:at], one]
            done = at + len(mark)
    return [part for part in [*parts, text[done:]] if part != ""]


def _describe_counts(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no media"
