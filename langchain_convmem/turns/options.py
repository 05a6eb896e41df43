"""Options of a turn: what the model gets, whether it is stored, and in whose thread.

They are the same at every host: wrapped chains, conversations, graphs and agents.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NoReturn, TypeAlias, get_args

from langchain_convmem.causes import describe_value, suggest_name
from langchain_convmem.errors import ConfigError
from langchain_convmem.records import ThreadKey

NAMESPACE = "memory"
"""Where a call sets options: `configurable={"memory": {"recall": False}}`."""
_WHERE = f"configurable[{NAMESPACE!r}]"

_COUNTS = ("recall_tokens", "recall_k", "context_tokens")
_COUNTS_FROM_ZERO = ("history_tokens", "reserved_tokens", "profile_tokens")

RecallPlace: TypeAlias = Literal["user", "system"]
"""Where recalled lines stand: in what the user says, or in the system message."""


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """What a model gets in a turn, and whether the turn is stored.

    The memory's counter counts all tokens.

    Attributes:
        recall: Whether to recall lines from earlier conversations.
        recall_tokens: Budget for recalled text. If this and `recall_k` are None, the recall
            settings apply, which are 1,000 tokens by default; at most half of `context_tokens`.
        recall_k: Number of blocks to recall instead.
        history_tokens: Budget for earlier messages of the thread; None means no limit. Whole
            exchanges are left out, oldest first. The current turn, system messages and the summary
            do not count.
        context_tokens: One budget for everything that the model gets: system messages, summary,
            recalled lines, earlier messages and the current turn. Parts that cannot be cut come
            first, then recalled lines, then as many of the latest exchanges as fit.
        reserved_tokens: The part of `context_tokens` to keep free for text outside the messages,
            such as the prompt's own text and tool descriptions; less than `context_tokens`.
        profile_tokens: Budget for the user's profile (`UserProfile`) in the system message; 0 turns
            it off. None uses the memory's setting, 150 by default. Without `recall`, there is no
            profile.
        remember: Whether the turn is stored.
        recall_place: Where recalled lines go. `"user"` puts them before the user's text, so that a
            provider can cache everything before them. `"system"` puts them at the end of the system
            message, for guardrails and routers that check the last message. Because the lines
            change with every turn, the cache then ends before them, and you pay for the thread's
            messages in each turn.

    Raises:
        ConfigError: If a value has the wrong type or is too small.
    """

    recall: bool = True
    recall_tokens: int | None = None
    recall_k: int | None = None
    history_tokens: int | None = None
    context_tokens: int | None = None
    reserved_tokens: int = 0
    profile_tokens: int | None = None
    remember: bool = True
    recall_place: RecallPlace = "user"

    def __post_init__(self) -> None:
        """Validate the values."""
        for name in ("recall", "remember"):
            if not isinstance(getattr(self, name), bool):
                raise _make_error(name, getattr(self, name), "True or False")
        if self.recall_place not in get_args(RecallPlace):
            raise _make_error("recall_place", self.recall_place, "'user' or 'system'")
        for name in (*_COUNTS, *_COUNTS_FROM_ZERO):
            if name == "reserved_tokens" or getattr(self, name) is not None:
                check_count(name, getattr(self, name), 1 if name in _COUNTS else 0)
        if self.context_tokens is not None and self.reserved_tokens >= self.context_tokens:
            wanted = f"less than context_tokens={self.context_tokens}"
            raise _make_error("reserved_tokens", self.reserved_tokens, wanted)

    @classmethod
    def pick(cls, options: TurnOptions | None, given: Mapping[str, Any]) -> TurnOptions:
        """Return options, overridden by arguments of the same names.

        Args:
            options: The options; None takes the defaults.
            given: Arguments by name; None leaves an option as it is, and other names are ignored.

        Raises:
            ConfigError: If a value is invalid, or `options` is no `TurnOptions`.
        """
        if not isinstance(options, TurnOptions | None):
            raise ConfigError(f"options must be TurnOptions, got {describe_value(options)}")
        names = (one.name for one in fields(cls))
        changes = {name: given[name] for name in names if given.get(name) is not None}
        return replace(options or cls(), **changes)

    @property
    def budget(self) -> int | None:
        """How many tokens the messages that a model gets may take; None for no limit."""
        return None if self.context_tokens is None else self.context_tokens - self.reserved_tokens

    @property
    def room(self) -> int | None:
        """How many tokens the thread may take in what the model gets; None for no limit."""
        limits = [one for one in (self.history_tokens, self.budget) if one is not None]
        return min(limits, default=None)

    def merge_call(self, configurable: Mapping[str, Any]) -> TurnOptions:
        """Return the options, overridden by the call's `configurable["memory"]`.

        If the call sets `recall_tokens` alone, it replaces a `recall_k` that was set before.

        Raises:
            ConfigError: If an option is unknown, of the wrong type, or in the wrong place.
        """
        for name in ("recall", "remember", "recall_tokens", "recall_k"):
            if configurable.get(name) not in (None, getattr(self, name)):
                place = f'{{"{NAMESPACE}": {{"{name}": {describe_value(configurable[name])}}}}}'
                raise ConfigError(
                    f"configurable[{name!r}] is not read; set it for a call with "
                    f'config={{"configurable": {place}}}'
                )
        given = configurable.get(NAMESPACE)
        if given is None:
            return self
        if not isinstance(given, Mapping):
            raise _make_error(_WHERE, given, "a map of options such as {'recall': False}")
        known = [field.name for field in fields(TurnOptions)]
        for name in given:
            if name not in known:
                names = ", ".join(known) + suggest_name(name, known)
                raise ConfigError(f"{_WHERE} has no option {describe_value(name)}; it has {names}")
        changes = dict(given)
        if changes.get("recall_tokens") is not None:
            changes.setdefault("recall_k", None)
        return replace(self, **changes)


def check_count(name: str, value: object, least: int) -> None:
    """Check a whole number.

    Raises:
        ConfigError: If it is no whole number, or less than `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _make_error(name, value, f"a whole number of at least {least}")


def _make_error(name: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{name} must be {wanted}, got {describe_value(value)}")


# -- Whose turn it is -----------------------------------------------------------------------------
def read_key(configurable: Mapping[str, Any], context: Any = None, *, host: str) -> ThreadKey:
    """Return the thread of a call.

    Args:
        configurable: What the call carries under `configurable`: `thread_id` or `session_id`, and
            `user_id`, which the context of a graph may name instead.
        context: The context of the graph; None reads that of the current run, if there is one.
        host: What is called, for the error.

    Raises:
        ConfigError: If no thread is named, or if two threads or two users are.
    """
    thread_id, user_id = read_ids(configurable, context)
    if thread_id is None:
        refuse_unnamed_run("thread_id is missing", host)
    return ThreadKey(user_id, thread_id)


_IDS = frozenset({"thread_id", "session_id", "user_id"})
_SLIPS = {name.replace("_", ""): name for name in _IDS}
"""What misspelled keys such as `userId` mean: if they were ignored, users would share a thread."""


def read_ids(configurable: Mapping[str, Any], context: Any = None) -> tuple[Any, Any]:
    """Return the thread and the user that a call names, None for either if not; see `read_key`.

    Raises:
        ConfigError: If it names two threads or two users, or if a key is misspelled.
    """
    for name in configurable.keys() - _IDS:
        meant = _SLIPS.get(name.casefold().replace("-", "").replace("_", ""))
        if meant is not None and meant not in configurable:
            msg = f"configurable names {name!r}, which is not read; did you mean {meant!r}?"
            raise ConfigError(msg)
    thread_id, session_id = configurable.get("thread_id"), configurable.get("session_id")
    what = f"configurable names the thread_id {thread_id!r} and the session_id {session_id!r}"
    context = _get_current_context() if context is None else context
    is_map = isinstance(context, Mapping)
    meant = context.get("user_id") if is_map else getattr(context, "user_id", None)
    said = configurable.get("user_id")
    whose = f"the config names the user {said!r} and the context {meant!r}"
    return agree(thread_id, session_id, what), agree(meant, said, whose)


def agree(first: Any, second: Any, said: str) -> Any:
    """Return what a call names in one of two places, or in both.

    Raises:
        ConfigError: If the two differ; the message begins with `said`.
    """
    if None not in (first, second) and str(first) != str(second):
        raise ConfigError(f"{said}; pass one, or the same in both")
    return second if first is None else first


def refuse_unnamed_run(problem: str, host: str = "the agent") -> NoReturn:
    """Refuse a call that does not say whose it is.

    Args:
        problem: What is not known, as the beginning of a sentence.
        host: What is called.
    """
    named = 'config={"configurable": {"thread_id": "...", "user_id": "..."}}'
    raise ConfigError(f"{problem}; call {host} with {named}")


def _get_current_context() -> object:
    """Return the context of the current graph run; None outside of a run."""
    # Inside a run it is loaded; elsewhere nobody must pay for the import.
    runtime = sys.modules.get("langgraph.runtime")
    if runtime is None:
        return None
    try:
        return getattr(runtime.get_runtime(), "context", None)
    except (RuntimeError, KeyError):
        return None
