"""Models of `transformers` in this process, whose sessions keep what they have read."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Literal, Self

from langchain_convmem.chat_templates import ChatTemplate
from langchain_convmem.conversation.sessions.checkpoints import Checkpoint, Checkpoints
from langchain_convmem.conversation.sessions.finishing import finished_in_thread
from langchain_convmem.conversation.sessions.local_cache import LocalCache
from langchain_convmem.conversation.sessions.local_loading import (
    check_installed,
    end_ids,
    loaded_model,
    loaded_tokenizer,
    template_of,
)
from langchain_convmem.conversation.sessions.local_reply import LocalReply
from langchain_convmem.conversation.sessions.local_text import text_of, token_ids
from langchain_convmem.conversation.sessions.sampling import Sampling
from langchain_convmem.errors import (
    ConfigError,
    ContextFullError,
    ConversationClosedError,
    UnsupportedError,
)
from langchain_convmem.protocols.sessions import Part

__all__ = ["LocalEngine", "LocalSession"]


class LocalEngine:
    """A causal language model of `transformers`, as a `TextEngine`. Needs the extra `local`.

    Its sessions keep keys and values of all that they have read (the KV cache): each turn costs
    what is new in it. Thread-safe: sessions take turns at the model, token by token.

    Example:
        ```python
        engine = LocalEngine("path/to/a/model", temperature=0.7)
        session = engine.create_session()
        session.prefill(["Once upon a time"])
        print("".join(session.decode(max_tokens=20)))
        ```
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        template: ChatTemplate | str | None = None,
        reply_format: str | None = None,
        stop: Sequence[str] = (),
        max_tokens: int = 1024,
        max_context: int | None = None,
        **options: Any,
    ) -> None:
        """Take a model, or load it.

        Args:
            model: A model, or the name or path of one, which is loaded with default settings.
            tokenizer: Its tokenizer, or the name or path of one; by default the one of the name or
                path of the model.
            template: How conversations are written for the model, or the name of a built-in; by
                default the tokenizer's own, if it has one.
            reply_format: Name of the format of its replies.
            stop: Texts that end its replies, besides the tokens by which the model itself does.
            max_tokens: The most tokens to write when a decode names no number.
            max_context: The most tokens that a session holds; by default what the model was made
                for.
            **options: How tokens are chosen: `temperature` (0: the likeliest), `top_p`, `top_k`,
                `seed`; the options of a decode go before these.

        Raises:
            MissingExtraError: If the extra `local` is not installed.
            ConfigError: If an option is unknown or cannot be so, or there is no such template.
        """
        check_installed()
        Sampling.of(options)
        if tokenizer is None and not isinstance(model, str):
            raise ConfigError("a model that is passed as an object needs its tokenizer")
        self.options = dict(options)
        self.model = loaded_model(model)
        self.tokenizer = loaded_tokenizer(model if tokenizer is None else tokenizer)
        named = ChatTemplate.builtin(template) if isinstance(template, str) else template
        self.template = named or template_of(self.tokenizer)
        self.reply_format = reply_format
        self.stop = tuple(stop)
        self.max_tokens = max_tokens
        made_for = getattr(self.model.config, "max_position_embeddings", None)
        self.max_context: int | None = made_for if max_context is None else max_context
        self.end_ids = end_ids(self.model, self.tokenizer)
        self.lock = threading.Lock()
        """Held for each step of the model."""
        self.keeps_logits = "logits_to_keep" in inspect.signature(self.model.forward).parameters
        self._is_closed = False

    def create_session(self) -> LocalSession:
        """Return a new, empty session.

        Raises:
            ConversationClosedError: If the engine is closed.
        """
        self.check_open()
        return LocalSession(self)

    def close(self) -> None:
        """Let go of the model."""
        self._is_closed = True
        self.model = None

    def check_open(self) -> None:
        """Raise `ConversationClosedError` if the engine is closed."""
        if self._is_closed:
            raise ConversationClosedError("the engine is closed; create another one")


class LocalSession:
    """The tokens that a model has read and written, and its cache of them.

    Texts become tokens piece by piece, as they come: the cut between two should be where the
    model's own text has one, at a special token or a line end.

    A token by which the model ends its reply, and a stop text, are not part of the state.
    """

    holds_stop = False

    def __init__(self, engine: LocalEngine) -> None:
        """Created by its engine."""
        self.finish_reason: Literal["stop", "length"] | None = None
        self.stop_text = ""
        self.engine = engine
        self._ids: list[int] = []
        self._cache = LocalCache(engine)
        self._checkpoints = Checkpoints()
        self._is_closed = False

    # -- what it holds ------------------------------------------------------------------------

    @property
    def token_count(self) -> int:
        """Tokens of its state."""
        return len(self._ids)

    @property
    def tokens_read(self) -> int:
        """Tokens that the model has worked on for this session, again or for the first time."""
        return self._cache.tokens_read

    @property
    def token_ids(self) -> list[int]:
        """The tokens of its state."""
        return list(self._ids)

    @property
    def text(self) -> str:
        """The text of its state, as the tokenizer writes it."""
        return text_of(self.engine.tokenizer, self._ids)

    # -- reading ------------------------------------------------------------------------------

    def prefill(self, parts: Sequence[Part]) -> None:
        """Read text.

        Raises:
            UnsupportedError: If there are media.
            ContextFullError: If the model has no room for it; nothing was read.
        """
        self.append("".join(self._texts(parts)))
        self._cache.fill(self._ids)

    async def aprefill(self, parts: Sequence[Part]) -> None:
        """Read text, in a thread; see `prefill`. If cancelled, waits for the step that runs."""
        await finished_in_thread(lambda: self.prefill(parts))

    def _texts(self, parts: Sequence[Part]) -> list[str]:
        self._check_open()
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            raise UnsupportedError("a local session reads no images and no sounds")
        return texts

    def append(self, text: str) -> None:
        """Add a text to the state; the model reads it when it must."""
        new = token_ids(self.engine.tokenizer, text, is_first=not self._ids)
        room = self.room
        if room is not None and len(new) > room:
            raise ContextFullError(
                f"{len(new)} tokens do not fit: the session holds {len(self._ids)} of "
                f"{self.engine.max_context}"
            )
        self._ids += new

    @property
    def room(self) -> int | None:
        """How many tokens fit; None if there is no limit."""
        limit = self.engine.max_context
        return None if limit is None else limit - len(self._ids)

    # -- writing ------------------------------------------------------------------------------

    def decode(
        self, *, stop: Sequence[str] = (), max_tokens: int | None = None, **options: Any
    ) -> Iterator[str]:
        """Write on, token by token.

        Args:
            stop: Texts that end the reply.
            max_tokens: The most tokens to write; None is the engine's number.
            **options: See `LocalEngine`.

        Raises:
            ContextFullError: If the model has no room for a single token.
            ConfigError: If an option is unknown or cannot be so.
            UnsupportedError: If there is nothing to go on from, and no token to begin with.
        """
        writing = self._writing(stop, max_tokens, options)
        while not writing.is_over:
            piece = writing.step()
            if piece:
                yield piece

    async def adecode(
        self, *, stop: Sequence[str] = (), max_tokens: int | None = None, **options: Any
    ) -> AsyncIterator[str]:
        """Write on, each token in a thread; see `decode`."""
        writing = self._writing(stop, max_tokens, options)
        while not writing.is_over:
            piece = await finished_in_thread(writing.step)
            if piece:
                yield piece

    def _writing(
        self, stop: Sequence[str], max_tokens: int | None, options: dict[str, Any]
    ) -> LocalReply:
        self._check_open()
        sampling = Sampling.of({**self.engine.options, **options})
        if not self._ids:
            first = self.engine.tokenizer.bos_token_id
            if first is None:
                raise UnsupportedError("the session is empty, and the model has no first token")
            self._ids.append(first)
        if self.room is not None and self.room <= 0:
            raise ContextFullError(f"the session holds {len(self._ids)} tokens and has no room")
        self.finish_reason, self.stop_text = None, ""
        limit = self.engine.max_tokens if max_tokens is None else max_tokens
        return LocalReply(self, stop, limit, sampling)

    def next_scores(self) -> Any:
        """Return the scores of all tokens as the next one, a tensor of one axis."""
        return self._cache.next_scores(self._ids)

    def write(self, token: int) -> None:
        """Add a token; the model reads it when it must."""
        self._ids.append(token)

    # -- going back ---------------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint:
        """Return a mark of the state as it is."""
        self._check_open()
        return self._checkpoints.add(len(self._ids))

    def rewind(self, checkpoint: Any) -> None:
        """Go back to a mark; the cache is cut there.

        Models whose cache cannot be cut, such as those with a sliding window, read all of the
        text again at the next call.

        Raises:
            UnknownCheckpointError: If it is not of this session, or lies behind a rewind.
        """
        self._check_open()
        self.cut(self._checkpoints.check(checkpoint).length)

    def cut(self, length: int) -> None:
        """Forget all tokens behind the first `length`."""
        self._checkpoints.cut(length)
        del self._ids[length:]
        self._cache.cut(length)

    def clone(self) -> Self:
        """Return a session that goes on from here by itself, with a copy of the cache."""
        self._check_open()
        twin = type(self)(self.engine)
        twin.take_over(self._ids, self._cache, self._checkpoints)
        return twin

    def take_over(self, ids: list[int], cache: LocalCache, checkpoints: Checkpoints) -> None:
        """Go on with copies of the state of another session."""
        self._ids = list(ids)
        self._cache = cache.copy()
        self._checkpoints = checkpoints.copy()

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return for each text the logarithm of its probability as the next text.

        Raises:
            ContextFullError: If one does not fit.
            UnsupportedError: If the session is empty: nothing has a probability then.
        """
        self._check_open()
        if not self._ids:
            raise UnsupportedError("an empty session cannot score; prefill something first")
        return [self._score(text) for text in texts]

    def _score(self, text: str) -> float:
        twin = self.clone()
        twin.append(text)
        start = len(self._ids)
        return twin.chance_from(start)

    def chance_from(self, start: int) -> float:
        """Return the logarithm of the probability of the tokens from `start` on."""
        return self._cache.chance(self._ids, start)

    def reset(self) -> None:
        """Forget everything; checkpoints, too."""
        self._check_open()
        self._checkpoints = Checkpoints()
        self.cut(0)

    def close(self) -> None:
        """Forget everything for good."""
        self._is_closed = True
        self.cut(0)

    def _check_open(self) -> None:
        self.engine.check_open()
        if self._is_closed:
            raise ConversationClosedError("the session is closed; create another one")
