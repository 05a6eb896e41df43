"""A text engine as a conversation uses it: only what is new is rendered and read.

The session holds the model's own words; the sent text of the render state knows what those were. A
transaction works on a copy of the state; the session is put back if it is rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import (
    AsyncGenerator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any, Literal, TypeVar
from weakref import WeakSet

from langchain_core.messages import AIMessageChunk, BaseMessage

from langchain_convmem.background import hop
from langchain_convmem.causes import report_problem
from langchain_convmem.conversation.chat_backend import (
    Backend,
    ReplyBuilder,
    ReplyRequest,
    TurnTransaction,
)
from langchain_convmem.conversation.media import interleave, list_media
from langchain_convmem.errors import ChatTemplateError, ConfigError
from langchain_convmem.forks import make_lock
from langchain_convmem.text import ChatTemplate, Increment, RenderState
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
)
from langchain_convmem.turns.replies import aclose_quietly
from langchain_convmem.views.tokens import count_text_tokens

T = TypeVar("T")

_logger = logging.getLogger("langchain_convmem")

_PROMPT_END = 400
"""Code points of the prompt that a reader looks at, to see whether it ends inside a channel."""


# -- Sessions of a text engine --------------------------------------------------------------------


class LiveSession:
    """A session, and how much of its conversation's text it holds. One caller at a time.

    What it holds is always a beginning of that text; it may be nothing.
    """

    def __init__(self) -> None:
        self.session: ModelSession | None = None
        self.held = 0
        self.last_use = -1
        self.is_busy = False
        self.is_unwanted = False
        self._marks: list[tuple[int, object]] = []

    def open(self, engine: TextEngine) -> ModelSession:
        """Return the session; a new one if there is none."""
        if self.session is None:
            self.session = engine.create_session()
        return self.session

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
        if self.session is None or (is_sound and self.held <= held):
            return
        while self._marks and self._marks[-1][0] > held:
            self._marks.pop()
        is_back = False
        try:
            is_back = self._put_back(self.session)
        finally:
            if not is_back:
                self.drop()

    def _put_back(self, session: ModelSession) -> bool:
        """Take the session to the last mark, or to its beginning; return whether it went."""
        try:
            if self._marks and isinstance(session, RewindableSession):
                self.held, mark = self._marks[-1]
                session.rewind(mark)
            else:
                session.reset()
                self.held, self._marks = 0, []
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            report_problem(_logger, "a session could not be taken back and is replaced", error)
            return False
        return True

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


class SessionPool:
    """The sessions of an engine; where only so many are kept, those that are idle longest rest.

    Thread-safe.
    """

    def __init__(self, engine: TextEngine, max_live: int | None) -> None:
        """Create an empty pool.

        Args:
            engine: Makes the sessions; it is closed with the pool.
            max_live: How many are kept, those of running turns included; None is any number.
        """
        self.engine = engine
        self._max_live = max_live
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = make_lock()
        self._known: WeakSet[LiveSession] = WeakSet()
        self._returns = count()
        self._is_closed = False

    def borrow(self, live: LiveSession) -> None:
        """Take a session for one turn; idle ones make room for it."""
        with self._lock:
            self._known.add(live)
            live.is_busy = True
            self._make_room()

    def give_back(self, live: LiveSession) -> None:
        """End the turn of a session; it stays alive until another one needs its place."""
        with self._lock:
            if live.is_busy:
                live.is_busy, live.last_use = False, next(self._returns)
                self._make_room()

    def _make_room(self) -> None:
        """Close what is not wanted any more, or is too much."""
        idle = [one for one in self._known if not one.is_busy and one.session is not None]
        kept = [one for one in idle if not (one.is_unwanted or self._is_closed)]
        busy = sum(one.is_busy for one in self._known)
        if self._max_live is not None:
            latest = sorted(kept, key=lambda one: one.last_use, reverse=True)
            kept = latest[: max(0, self._max_live - busy)]
        for one in idle:
            if one not in kept:
                one.drop()
        if self._is_closed and not busy:
            self.engine.close()

    def use_while_idle(self, live: LiveSession, use: Callable[[LiveSession], T]) -> T | None:
        """Return what is made of a session while no turn uses it; None if one does.

        Turns wait meanwhile.
        """
        with self._lock:
            return None if live.is_busy else use(live)

    def branch(self, live: LiveSession) -> LiveSession:
        """Return a copy of a session that no turn uses; it holds nothing if there is no room."""
        twin = live.branch() if self._max_live is None else LiveSession()
        with self._lock:
            self._known.add(twin)
        return twin

    def forget(self, live: LiveSession) -> None:
        """Close a session for good; if a turn still uses it, as soon as that ends."""
        with self._lock:
            self._known.add(live)
            live.is_unwanted = True
            self._make_room()

    def close(self) -> None:
        """Close all sessions and the engine, as soon as no turn uses them. Idempotent."""
        with self._lock:
            self._is_closed = True
            self._make_room()


# -- The place of a conversation in an engine, and its turns ---------------------------------------


@dataclass(slots=True)
class TextState:
    """What was rendered. One caller.

    Attributes:
        render: What the template has rendered.
        shown: Messages, and as the session has read them, by id: with text that was recalled.
    """

    render: RenderState
    shown: dict[str, tuple[BaseMessage, BaseMessage]] = field(default_factory=dict)

    def copy(self) -> TextState:
        """Return one that goes on by itself."""
        return TextState(self.render.copy(), self.shown.copy())

    def list_read(self, messages: Iterable[BaseMessage]) -> list[BaseMessage]:
        """Return messages as the session has read them; an edited one is another message."""
        pairs = [(self.shown.get(one.id or "", (one, one)), one) for one in messages]
        return [shown if said.content == one.content else one for (said, shown), one in pairs]

    def render_all(
        self, messages: list[BaseMessage], context: Mapping[str, Any], *, asks: bool, ends: bool
    ) -> Increment:
        """Render all messages, and return what the session needs for them.

        Args:
            messages: All of them, the preface included.
            context: The extra context of the turn.
            asks: Whether the model is to write next.
            ends: Whether the last message is whole.
        """
        self.render.begin_again()
        if not ends:
            return self.render.feed_unended(messages, extra_context=context)
        return self.render.feed(messages, extra_context=context, add_generation_prompt=asks)


@dataclass(slots=True, eq=False)
class TextBackend(Backend):
    """One conversation's place in a text engine. One turn at a time.

    Attributes:
        pool: Hands out sessions.
        template: Writes the messages down.
        reply_format: How replies are read.
        stop: Texts that end a reply.
        state: What was rendered so far.
        live: A session that has read what `state` says, or nothing.
    """

    pool: SessionPool
    template: ChatTemplate
    reply_format: ReplyFormat
    stop: tuple[str, ...]
    state: TextState
    live: LiveSession = field(default_factory=LiveSession)

    def __repr__(self) -> str:
        return f"{type(self.pool.engine).__name__}, {self.template!r}"

    def begin(self, request: ReplyRequest) -> TextTransaction:
        """Begin a turn."""
        engine = self.pool.engine
        is_taken = getattr(engine, "takes_response_format", False)
        if "response_format" in request.model_kwargs and not is_taken:
            raise ConfigError(
                f"{type(engine).__name__} takes no response_format; describe the object as a tool, "
                "or in what is asked"
            )
        return TextTransaction(self, request)

    def read_ahead(self, request: ReplyRequest, context: Sequence[BaseMessage]) -> None:
        """Let the session read what is said so far, or the preface; see `Backend`."""
        if self._may_read(request, context):
            with self._begin_early(request, context) as transaction:
                transaction.prefill(context, is_early=True)

    async def aread_ahead(self, request: ReplyRequest, context: Sequence[BaseMessage]) -> None:
        """Let the session read what is said so far, or the preface; see `Backend`."""
        if self._may_read(request, context):
            with self._begin_early(request, context) as transaction:
                await transaction.aprefill(context, is_early=True)

    def _may_read(self, request: ReplyRequest, context: Sequence[BaseMessage]) -> bool:
        if context:
            # Text does not show where a message with media ends; it is read when it is whole.
            return not list_media(context[-1:])
        # Is there anything that the template writes without a first message?
        config = request.config.preface
        return bool(config.messages or request.tools.names or request.extra_context)

    @contextmanager
    def _begin_early(
        self, request: ReplyRequest, context: Sequence[BaseMessage]
    ) -> Iterator[TextTransaction]:
        """Let the session read in the block what it can before anything is asked."""
        transaction = TextTransaction(self, request)
        try:
            yield transaction
        except BaseException as error:
            transaction.rollback()
            kind = error.kind if isinstance(error, ChatTemplateError) else None
            if kind is None or (context and kind != "NothingToContinue"):
                raise
            _logger.debug("it is read with what follows it: %s", error)
        else:
            transaction.commit()

    def render(self, request: ReplyRequest, context: Sequence[BaseMessage] | None) -> str:
        """Return the text after what the session would keep, or the preface; see `Backend`."""
        preface, extra = request.config.preface.messages, request.extra_context
        if context is None:
            tools = request.tools.schemas or None
            return self.template.render(preface, tools=tools, add_generation_prompt=False, **extra)
        state = self.state.copy()
        wanted = state.list_read([*preface, *context])
        increment = state.render_all(wanted, extra, asks=True, ends=True)
        return state.render.read_text(increment.kept)

    def count_tokens(self, context: Sequence[BaseMessage]) -> int:
        """Return the tokens of the session's text; by our own count if it does not report them."""
        del context
        length, text = self.state.render.length, self.state.render.read_text
        counted = self.pool.use_while_idle(
            self.live, lambda live: _count_tokens(live.session) if live.held == length else None
        )
        return counted or count_text_tokens(text())

    def branch(self) -> TextBackend:
        """Return one that goes on by itself, from what stands before the present turn."""
        both = self.pool.use_while_idle(
            self.live, lambda live: (self.pool.branch(live), self.state.copy())
        )
        live, state = both or (LiveSession(), self.state.copy())
        return replace(self, live=live, state=state)

    def close(self) -> None:
        """Close the session."""
        self.pool.forget(self.live)


class TextTransaction(TurnTransaction):
    """One turn of a text engine; see `TurnTransaction`."""

    def __init__(self, backend: TextBackend, request: ReplyRequest) -> None:
        """Begin from where the conversation stands."""
        super().__init__(request)
        self._backend = backend
        self._live = backend.live
        self._floor = self._kept = backend.live.held
        self._is_sound = True
        self._before_reply = backend.state
        self._raw: list[str] = []
        self._asked, self._first = perf_counter(), 0.0
        self._tokens = 0
        self._speed: dict[str, float] = {}
        self._media: list[Media] = []
        self._finish_reason: Literal["stop", "length"] | None = None
        self._state = backend.state.copy()

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
        self.builder, self._raw, self._asked = ReplyBuilder(), [], perf_counter()
        self._before_reply, live, state = self._state.copy(), self._live, self._state
        wanted = state.list_read([*self.request.config.preface.messages, *context])
        is_unended = is_early and bool(context)
        increment = state.render_all(
            wanted, self.request.extra_context, asks=not is_early, ends=not is_unended
        )
        self.stats.append(increment.stats)
        if increment.stats.neutralized:
            found = increment.stats.neutralized
            _logger.warning("%d control tokens in the text of messages were broken up", found)
        self._media = list_media(wanted)
        if self._media:  # one without a place is refused before the session is touched
            self._list_parts(0, None)
        self._backend.pool.borrow(live)
        self._kept = min(increment.kept, live.held)
        self._floor = min(self._floor, self._kept)
        live.rewind(self._kept)
        self._is_sound = False
        session = live.open(self._backend.pool.engine)
        return session, self._list_parts(live.held, session)

    def _mark(self) -> None:
        self._live.mark(self._state.render.length)
        self._is_sound = True

    def remember(self, said: BaseMessage, shown: BaseMessage) -> None:
        """Show a message so in later turns as well; see `TurnTransaction`."""
        self._state.shown[said.id or ""] = (said, shown)

    def _list_parts(self, start: int, session: ModelSession | None) -> list[Part]:
        render = self._state.render
        if self._media:
            return interleave(render, self._media, start)
        if isinstance(session, PiecewiseSession):
            return list[Part](render.read_pieces(start))
        return [render.read_text(start)] if start < render.length else []

    # -- what it writes ---------------------------------------------------------------------------

    def pieces(self, context: Sequence[BaseMessage]) -> Generator[str]:
        """Read what is new, and write the reply; see `TurnTransaction`."""
        session = self.prefill(context)
        yield from session.decode(**self._begin_reply(session))
        self._end_reply(session)

    async def apieces(self, context: Sequence[BaseMessage]) -> AsyncGenerator[str]:
        """Read what is new, and write the reply; see `TurnTransaction`."""
        session = await self.aprefill(context)
        stream = session.adecode(**self._begin_reply(session))
        try:
            async for piece in stream:
                yield piece
        finally:
            await aclose_quietly(stream)
        await hop(partial(self._end_reply, session))

    def _begin_reply(self, session: ModelSession) -> dict[str, Any]:
        """Return the arguments of a call that writes."""
        render, request, backend = self._state.render, self.request, self._backend
        self._tokens, self._first = _count_tokens(session) or 0, 0.0
        self._reader = ReplyReader(
            backend.reply_format,
            channels=request.config.channels,
            prompt_end=render.read_text(max(0, render.length - _PROMPT_END)),
            tools=request.tools.schemas,
        )
        self._is_sound = False
        kwargs = request.model_kwargs
        stop = (*backend.stop, *request.config.stop, *kwargs.get("stop", ()))
        return {**kwargs, "stop": stop, "max_tokens": request.max_output_tokens}

    def take(self, piece: str) -> Iterator[AIMessageChunk]:
        """Read a piece of the reply; see `TurnTransaction`."""
        self._raw.append(piece)
        self._first = self._first or perf_counter()
        for chunk in self._reader.feed(piece):
            yield from self.builder.add(chunk)

    def _end_reply(self, session: ModelSession) -> None:
        stop_text = session.stop_text if session.holds_stop else ""
        self._state.render.record_reply("".join(self._raw) + stop_text)
        self._finish_reason = session.finish_reason
        tokens = (_count_tokens(session) or 0) - self._tokens or len(self._raw)
        took = perf_counter() - self._first
        self._speed = {"first_token_s": round(self._first - self._asked, 6)} if self._first else {}
        if self._speed and tokens > 1 and took > 0:  # the first token's time is the prompt's
            self._speed["tokens_per_s"] = round((tokens - 1) / took, 3)
        self._mark()

    def end(self) -> Iterator[AIMessageChunk]:
        """Read the end of the reply; see `TurnTransaction`."""
        *before, last = self._reader.finish(finish_reason=self._finish_reason)
        if self._speed:
            last.response_metadata["speed"] = self._speed
        for chunk in (*before, last):
            yield from self.builder.add(chunk)

    # -- the end ----------------------------------------------------------------------------------

    def drop_reply(self) -> None:
        """Go on as if the last reply had not been asked for; see `TurnTransaction`."""
        self._state = self._before_reply
        self._live.rewind(min(self._live.held, self._kept), is_sound=self._is_sound)
        self._is_sound = True

    def commit(self) -> None:
        """Go on from here."""
        self._backend.state = self._state
        self._backend.pool.give_back(self._live)

    def rollback(self) -> None:
        """Put the session back to where the turn began, or to before."""
        self._live.rewind(self._floor, is_sound=self._is_sound)
        self._backend.pool.give_back(self._live)


def _count_tokens(session: ModelSession | None) -> int | None:
    return session.token_count if isinstance(session, TokenCountingSession) else None
