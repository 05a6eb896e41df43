"""Models of `transformers` in this process, whose sessions keep what they have read."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError

from langchain_convmem.errors import BudgetError, ConfigError, ConversationError, MissingExtraError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.replies import StopTexts
from langchain_convmem.text.sessions import KeptEngine, KeptSession, Part, SessionCheckpoint

# Most tokens that the model reads at once; other sessions get their turn in between.
_STEP = 512


class LocalEngine(KeptEngine):
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
        if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")):
            raise MissingExtraError.build("LocalEngine", "local")
        Sampling.parse(options)
        if tokenizer is None and not isinstance(model, str):
            raise ConfigError("a model that is passed as an object needs its tokenizer")
        self.model = _load("AutoModelForCausalLM", model).eval()
        self.tokenizer = _load("AutoTokenizer", model if tokenizer is None else tokenizer)
        super().__init__(
            template or read_template(self.tokenizer), reply_format, stop, max_tokens, options
        )
        # The tokenizer's tokens that are parts of no word; no text of a message becomes one.
        self.control_tokens = find_control_tokens(self.tokenizer)
        if self.template is not None:
            self.template = self.template.extend_control_tokens(self.control_tokens)
        made_for = getattr(self.model.config, "max_position_embeddings", None)
        self.max_context: int | None = made_for if max_context is None else max_context
        self.end_ids = find_end_ids(self.model, self.tokenizer)
        self.lock = threading.Lock()  # held for each step of the model
        self.keeps_logits = "logits_to_keep" in inspect.signature(self.model.forward).parameters

    def create_session(self) -> LocalSession:
        """Return a new, empty session.

        Raises:
            ConversationError: If the engine is closed.
        """
        self.check_open()
        return LocalSession(self)

    def close(self) -> None:
        """Let go of the model."""
        super().close()
        self.model = None


class LocalSession(KeptSession):
    """The tokens that a model has read and written, and its cache of them.

    Texts become tokens piece by piece, as they come: the cut between two should be where the
    model's own text has one, at a special token or a line end.

    A token by which the model ends its reply, and a stop text, are not part of the state.
    """

    reads_pieces: Literal[True] = True

    def __init__(
        self, engine: LocalEngine, ids: Sequence[int] = (), known: Sequence[SessionCheckpoint] = ()
    ) -> None:
        """Created by its engine, or as a clone."""
        super().__init__(engine, ids, known)
        self.tokens_read = 0
        """Tokens that the model has worked on for this session, again or for the first time."""
        self._cache: Any = None  # keys and values of the first tokens,
        self._cached = 0  # so many of them

    def cut(self, length: int) -> None:
        """Forget all tokens after the first `length`; the cache is cut there.

        Models whose cache cannot be cut, such as those with a sliding window, read all of the
        text again at the next call.
        """
        super().cut(length)
        kept = max(0, min(self._cached, length - 1))  # the model goes on from a token it reads anew
        if kept < self._cached:
            is_cut = kept > 0 and _crop(self._cache, self._cached - kept)
            self._cache, self._cached = (self._cache, kept) if is_cut else (None, 0)

    # -- what it holds ------------------------------------------------------------------------

    @property
    def token_count(self) -> int:
        """Tokens of its state."""
        return len(self._items)

    @property
    def token_ids(self) -> list[int]:
        """The tokens of its state."""
        return list(self._items)

    @property
    def text(self) -> str:
        """The text of its state, as the tokenizer writes it."""
        return decode_ids(self.engine.tokenizer, self._items)

    # -- reading ------------------------------------------------------------------------------

    def prefill(self, parts: Sequence[Part]) -> None:
        """Read text; no token lies across two parts.

        Raises:
            ConfigError: If there are media.
            BudgetError: If the model has no room for it; nothing was read.
        """
        self.append(*self.list_texts(parts))
        while len(self._items) - self._cached > 1:  # the last token is read when the model writes
            self._read(self._items[self._cached : -1][:_STEP])

    def append(self, *texts: str) -> None:
        """Add texts to the state, of each its own tokens; the model reads them when it must."""
        new: list[int] = []
        for text in texts:
            new += encode(self.engine.tokenizer, text, is_first=not (self._items or new))
        room = self.room
        if room is not None and len(new) > room:
            held = f"the session holds {len(self._items)} of {self.engine.max_context}"
            raise BudgetError(f"{len(new)} tokens do not fit: {held}")
        self._items += new

    @property
    def room(self) -> int | None:
        """How many tokens fit; None if there is no limit."""
        limit = self.engine.max_context
        return None if limit is None else limit - len(self._items)

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
            BudgetError: If the model has no room for a single token.
            ConfigError: If an option is unknown or cannot be so.
            ConfigError: If there is nothing to go on from, and no token to begin with.
        """
        yield from filter(None, self._write(stop, max_tokens, options))

    def _write(
        self, stop: Sequence[str], max_tokens: int | None, options: dict[str, Any]
    ) -> Iterator[str]:
        """Yield what is certain of the reply after each token; at last what was held back."""
        self.check_open()
        choose = Sampling.parse({**self.engine.options, **options}).create_chooser()
        self._check_start()
        self.finish_reason, self.stop_text = None, ""
        left = self.engine.max_tokens if max_tokens is None else max_tokens
        reader, stops = TokenReader(self.engine.tokenizer, self._items), StopTexts(stop)
        ended, text, told, whole_at = False, "", "", [(0, len(self._items))]
        while left > 0 and self.room != 0 and not ended and not stops.found:
            token = choose(self.compute_scores())
            ended = token in self.engine.end_ids
            if ended:
                self.stop_text = self.engine.end_ids[token]
                continue
            self._items.append(token)
            left -= 1
            new = reader.feed(token)
            piece = stops.feed(new)
            text, told = text + new, told + piece
            if new and not stops.found:
                whole_at.append((len(text), len(self._items)))
            yield piece
        piece = stops.feed(reader.finish()) + stops.finish()
        told += piece
        if stops.found:
            # The stop text may begin within a token: that token goes, and its beginning comes back.
            place, length = next(one for one in reversed(whole_at) if one[0] <= len(told))
            self.cut(length)
            self._items += encode(self.engine.tokenizer, told[place:], is_first=False)
            self.stop_text = stops.found
        self.finish_reason = "stop" if ended or stops.found else "length"
        yield piece

    def _check_start(self) -> None:
        """Begin with the model's first token if there is none, and raise if there is no room."""
        if not self._items:
            first = self.engine.tokenizer.bos_token_id
            if first is None:
                raise ConfigError("the session is empty, and the model has no first token")
            self._items.append(first)
        if self.room is not None and self.room <= 0:
            raise BudgetError(f"the session holds {len(self._items)} tokens and has no room")

    # -- the model --------------------------------------------------------------------------------

    def compute_scores(self) -> Any:
        """Return the scores of all tokens as the next one, a tensor of one axis."""
        scores = None
        while self._cached < len(self._items):
            scores = self._read(self._items[self._cached :][:_STEP])
        return scores

    def _read(self, ids: Sequence[int]) -> Any:
        """Let the model read tokens; return the scores of what follows them."""
        import torch
        from transformers import DynamicCache

        model = self.engine.model
        if model is None:
            raise ConversationError("the engine was closed")
        last_only = {"logits_to_keep": 1} if self.engine.keeps_logits else {}
        with self.engine.lock, torch.no_grad():
            if self._cache is None:
                self._cache = DynamicCache(config=model.config)
            told = model(
                input_ids=torch.tensor([list(ids)], device=model.device),
                past_key_values=self._cache,
                use_cache=True,
                **last_only,
            )
        self._cached += len(ids)
        self.tokens_read += len(ids)
        return told.logits[0][-1]

    def clone(self) -> Self:
        """Return a session that goes on from here by itself, with a copy of the cache."""
        twin = super().clone()
        vars(twin).update(_cache=copy.deepcopy(self._cache), _cached=self._cached)
        return twin


def _crop(cache: Any, number: int) -> bool:
    """Take the last tokens out of a cache, and return whether that is possible."""
    try:
        cache.crop(-number)  # a negative number is how many to remove, in all versions
    except (AttributeError, NotImplementedError, RuntimeError, ValueError):
        return False
    return True


# -- Models and tokenizers of `transformers`, and what they say of themselves --------------------


def _load(kind: str, given: Any) -> Any:
    """Return a model or a tokenizer; what is a name or a path is loaded by a class of that kind."""
    if not isinstance(given, str):
        return given
    import transformers

    return getattr(transformers, kind).from_pretrained(given)


def read_template(tokenizer: Any) -> ChatTemplate | None:
    """Return the template that comes with a tokenizer, if one does."""
    source = getattr(tokenizer, "chat_template", None)
    if not source:
        return None
    return ChatTemplate.from_tokenizer_config(
        {**tokenizer.special_tokens_map, "chat_template": source}
    )


def find_control_tokens(tokenizer: Any) -> frozenset[str]:
    """Return the tokens that a tokenizer finds in a text before it looks for words."""
    return frozenset({*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()})


def find_end_ids(model: Any, tokenizer: Any) -> dict[int, str]:
    """Return the tokens by which the model ends a reply, and their texts."""
    settings = getattr(model, "generation_config", None)
    told = getattr(settings, "eos_token_id", None)
    found = told if isinstance(told, list) else [told]
    ids = {number for number in [*found, tokenizer.eos_token_id] if number is not None}
    return {number: tokenizer.decode([number], skip_special_tokens=False) for number in ids}


# -- Text to tokens and back, in pieces, with the tokenizer of a local model ----------------------


# Tokens before a text that what it says depends on.
_CONTEXT = 6

# What a decoder writes for bytes that are no character, or not yet.
_UNFINISHED = "\ufffd"

_ANCHOR = "\n"


def encode(tokenizer: Any, text: str, *, is_first: bool) -> list[int]:
    """Return the tokens of a text; special tokens that are written out in it count as themselves.

    Args:
        tokenizer: A tokenizer of `transformers`.
        text: The text.
        is_first: Whether it is the beginning of all. Some tokenizers put a blank before any text,
            which must not happen before one that goes on from another.
    """
    anchor = [] if is_first else _encode_plain(tokenizer, _ANCHOR)
    anchored = _encode_plain(tokenizer, _ANCHOR + text)
    if anchor and anchored[: len(anchor)] == anchor:
        return anchored[len(anchor) :]
    # It is the first, or it begins as the anchor ends, and became one with it.
    return _encode_plain(tokenizer, text) if text else []


def _encode_plain(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def decode_ids(tokenizer: Any, ids: Sequence[int]) -> str:
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
        """Begin after the tokens `before`."""
        self._tokenizer = tokenizer
        self._ids = list(before[-_CONTEXT:])
        self._told = len(self._ids)  # tokens whose text was returned

    def feed(self, token: int) -> str:
        """Return what is certain by now, and was not returned before; nothing until it is whole."""
        self._ids.append(token)
        new = self._decode_new()
        if not new or new.endswith(_UNFINISHED):
            return ""
        self._ids = self._ids[-max(_CONTEXT, len(self._ids) - self._told) :]
        self._told = len(self._ids)
        return new

    def finish(self) -> str:
        """Return what was held back; no more tokens come."""
        return self._decode_new()

    def _decode_new(self) -> str:
        told = decode_ids(self._tokenizer, self._ids[: self._told])
        return decode_ids(self._tokenizer, self._ids)[len(told) :]


# -- How the next token is chosen among all -------------------------------------------------------


class Sampling(BaseModel, extra="forbid", frozen=True):
    """How the next token is chosen.

    Attributes:
        temperature: 0 takes the likeliest token; the higher, the more even the chances.
        top_p: Of the likeliest tokens only as many as have this probability together, 0 to 1.
        top_k: Of the likeliest tokens only so many; 0: all.
        seed: The same seed, text and settings give the same reply; None: another one each time.
    """

    temperature: float = Field(0.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)
    seed: int | None = None

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Self:
        """Return the settings that the options of a call name.

        Raises:
            ConfigError: If there is no such setting, or it cannot be so.
        """
        try:
            return cls(**options)
        except ValidationError as error:
            wrong = [f"{one['loc'][0]}={one['input']!r}: {one['msg']}" for one in error.errors()]
            known = ", ".join(cls.model_fields)
            raise ConfigError(f"a local model takes {known}, not {'; '.join(wrong)}") from error

    def create_chooser(self) -> Callable[[Any], int]:
        """Return the function that chooses a token by the scores of all, a tensor of one axis."""
        import torch
        from transformers import TopKLogitsWarper, TopPLogitsWarper

        seed = secrets.randbits(63) if self.seed is None else self.seed
        generator = torch.Generator().manual_seed(seed)

        def choose(scores: Any) -> int:
            if not self.temperature:
                return int(scores.argmax())
            found: Any = scores.float().cpu()[None] / self.temperature
            if self.top_k:
                found = TopKLogitsWarper(self.top_k)(None, found)
            if self.top_p < 1:
                found = TopPLogitsWarper(self.top_p)(None, found)
            return int(torch.multinomial(found.softmax(-1)[0], 1, generator=generator))

        return choose
