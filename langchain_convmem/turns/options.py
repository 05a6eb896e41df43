"""Options of a turn: its thread and user, and what the model gets.

The same at every host: wrapped chains, conversations, graphs and agents.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args

from langchain_convmem.causes import describe_value, suggest_name
from langchain_convmem.errors import ConfigError
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.context import ContextBudget

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable


_logger = logging.getLogger("langchain_convmem")

NAMESPACE = "memory"
"""Where a call sets options: `configurable={"memory": {"recall": False}}`."""


_RENAMED = {"max_tokens": "recall_tokens", "k": "recall_k"}


_PLAIN_NAMES = ("recall", "remember")
"""Options that a call may also set beside the namespace."""


_OWN_NAMES = ("recall_tokens", "recall_k")
"""Options that nothing else goes by: outside of the namespace they are a mistake."""


_NAMES = frozenset({NAMESPACE, *_PLAIN_NAMES, *_OWN_NAMES})
"""What of `configurable` may set an option."""


RecallPlace: TypeAlias = Literal["user", "system"]
"""Where recalled lines stand: in what the user says, or in the system message."""


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """What a model gets in a turn, and whether the turn is stored.

    Tokens are counted by the memory's counter, as everywhere.

    Attributes:
        recall: Whether to recall lines of earlier conversations.
        recall_tokens: Budget of the recalled text. None, and no `recall_k`: what the settings of
            recall say, which is a budget of 1,000 by default.
        recall_k: Number of blocks to recall instead.
        history_tokens: Budget for earlier messages of the thread; None is unlimited. The oldest
            exchanges are left out whole; the turn itself does not count.
        context_tokens: One budget for all that the model gets: system messages, summary, recalled
            lines, what was said before and the turn itself. First comes what cannot be cut, then
            recalled lines, then as many of the latest exchanges as fit.
        reserved_tokens: Of these, so many are left for what stands outside the messages, such as
            the prompt's own words and the descriptions of tools. What leaves no room for messages
            is lowered to half of them, and logged.
        profile_tokens: Budget of what is known of the user (`UserProfile`), which the model gets as
            part of the system messages; 0 is none. None: what the memory says, which is 0 by
            default.
        remember: Whether the turn is stored.
        recall_place: Where recalled lines stand. `"user"`: before what the user says in the turn,
            where a provider's prompt cache keeps all that stands before. `"system"`: at the end of
            the system message, for guardrails and routers that judge the last message; as the lines
            change with every turn, the cache then ends before them, and what was said in the thread
            is paid for anew in each turn.

    Raises:
        ConfigError: If a value is of the wrong type, or too small to be one.
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
                raise ConfigError(
                    f"{name} must be True or False, got {describe_value(getattr(self, name))}"
                )
        if self.recall_place not in get_args(RecallPlace):
            raise ConfigError(
                f"recall_place must be 'user' or 'system', got {describe_value(self.recall_place)}"
            )
        _check_count("recall_tokens", self.recall_tokens, least=1)
        _check_count("recall_k", self.recall_k, least=1)
        _check_count("history_tokens", self.history_tokens, least=0)
        _check_count("context_tokens", self.context_tokens, least=1)
        _check_count("reserved_tokens", self.reserved_tokens, least=0, is_optional=False)
        check_profile_tokens(self.profile_tokens)
        if self.context_tokens is not None and self.reserved_tokens >= self.context_tokens:
            self._lower_reserved(self.context_tokens // 2)

    def _lower_reserved(self, tokens: int) -> None:
        """Leave room for messages in a budget that is reserved whole, and say so."""
        _logger.warning(
            "reserved_tokens=%d leaves no room in context_tokens=%d and is lowered to %d",
            self.reserved_tokens,
            self.context_tokens,
            tokens,
        )
        object.__setattr__(self, "reserved_tokens", tokens)

    @classmethod
    def pick(cls, options: TurnOptions | None, given: Mapping[str, Any]) -> TurnOptions:
        """Return options with those that a call names on top of them.

        Args:
            options: Options as one value; None takes the defaults.
            given: Arguments by name; None leaves an option as it is, and other names are ignored.

        Raises:
            ConfigError: If a value is invalid, or `options` is no such value.
        """
        if not isinstance(options, TurnOptions | None):
            raise ConfigError(f"options must be TurnOptions, got {describe_value(options)}")
        names = (one.name for one in fields(cls))
        changes = {name: given[name] for name in names if given.get(name) is not None}
        return replace(options or cls(), **changes)

    @property
    def budget(self) -> ContextBudget | None:
        """The budget of all that the model gets, if there is one."""
        if self.context_tokens is None:
            return None
        return ContextBudget(self.context_tokens, self.reserved_tokens)

    def merge_call(
        self, configurable: Mapping[str, Any], inner: Runnable[Any, Any] | None = None
    ) -> TurnOptions:
        """Return the options, overridden by the call's `configurable["memory"]`.

        `recall` and `remember` may also stand beside that key. A budget of recalled text that the
        call asks for replaces a number of blocks.

        Args:
            configurable: What the call carries under `configurable`.
            inner: What the memory is wrapped around, whose own fields are not touched.

        Raises:
            ConfigError: If an option is unknown, of the wrong type, in the wrong place, or set
                twice to different values.
        """
        if _NAMES.isdisjoint(configurable):
            return self
        fields_of_inner = _list_fields(configurable, inner)
        self._check_places(configurable, fields_of_inner)
        plain = {
            name: configurable[name]
            for name in _PLAIN_NAMES
            if configurable.get(name) is not None and name not in fields_of_inner
        }
        named = _read_namespace(configurable)
        for name in plain.keys() & named.keys():
            if plain[name] != named[name]:
                msg = (
                    f"configurable sets {name!r} to {describe_value(plain[name])}, and "
                    f"configurable[{NAMESPACE!r}] to {describe_value(named[name])}; "
                    "set it once, or to the same in both"
                )
                raise ConfigError(msg)
        changes = {**plain, **named}
        if changes.get("recall_tokens") is not None:
            changes.setdefault("recall_k", None)
        return replace(self, **changes) if changes else self

    def _check_places(
        self, configurable: Mapping[str, Any], fields_of_inner: Collection[str]
    ) -> None:
        """Refuse options of a call that stand beside the namespace and would change something."""
        for name in _OWN_NAMES:
            value = configurable.get(name)
            if value not in (None, getattr(self, name)) and name not in fields_of_inner:
                msg = (
                    f"configurable[{name!r}] is not read; set it for a call with "
                    f'config={{"configurable": {{"{NAMESPACE}": {{"{name}": '
                    f"{describe_value(value)}}}}}}}"
                )
                raise ConfigError(msg)


def _list_fields(
    configurable: Mapping[str, Any], inner: Runnable[Any, Any] | None
) -> Collection[str]:
    """Return the names of fields that a chain declares, if a call sets one that is ours as well."""
    is_set = any(configurable.get(name) is not None for name in (*_PLAIN_NAMES, *_OWN_NAMES))
    return {spec.id for spec in inner.config_specs} if is_set and inner is not None else ()


def _read_namespace(configurable: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a call sets under the namespace.

    Raises:
        ConfigError: If it holds anything but options.
    """
    given = configurable.get(NAMESPACE)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        msg = (
            f"configurable[{NAMESPACE!r}] must be a map of options such as "
            f"{{'recall': False}}, got a {type(given).__name__}"
        )
        raise ConfigError(msg)
    return _check_names(given, f"configurable[{NAMESPACE!r}]")


def _check_names(settings: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Return settings by name, all of them options.

    Raises:
        ConfigError: If one is not; the message names it.
    """
    known = [field.name for field in fields(TurnOptions)]
    for name in settings:
        if name not in known:
            instead = f"; use {_RENAMED[name]!r}" if name in _RENAMED else suggest_name(name, known)
            msg = (
                f"{where} has no option {describe_value(name)}; it has {', '.join(known)}{instead}"
            )
            raise ConfigError(msg)
    return dict(settings)


def check_profile_tokens(tokens: Any, *, is_optional: bool = True) -> None:
    """Refuse a budget of the profile that is none.

    Raises:
        ConfigError: If it is no whole number of at least 0, nor None where that is allowed.
    """
    _check_count("profile_tokens", tokens, least=0, is_optional=is_optional)


def _check_count(name: str, value: Any, *, least: int, is_optional: bool = True) -> None:
    if value is None and is_optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        none = " or None" if is_optional else ""
        msg = (
            f"{name} must be a whole number of at least {least}{none}, got {describe_value(value)}"
        )
        raise ConfigError(msg)


# -- Whose turn it is -----------------------------------------------------------------------------
def read_key(configurable: Mapping[str, Any], context: Any = None, *, host: str) -> ThreadKey:
    """Return the thread of a call.

    Args:
        configurable: What the call carries under `configurable`: `thread_id` or `session_id`, and
            `user_id`, which the context of a graph may name instead.
        context: The context; None is that of the graph that runs here, if one does.
        host: What is called, for the error.

    Raises:
        ConfigError: If no thread is named, or if two threads or two users are.
    """
    thread_id = read_thread_id(configurable)
    if thread_id is None:
        msg = (
            f"thread_id is missing; call {host} with "
            'config={"configurable": {"thread_id": "...", "user_id": "..."}}'
        )
        raise ConfigError(msg)
    found = get_current_context() if context is None else context
    return ThreadKey(read_user_id(configurable, found), thread_id)


def read_thread_id(configurable: Mapping[str, Any]) -> Any:
    """Return the thread that a call names as `thread_id` or as `session_id`; None if it does not.

    Raises:
        ConfigError: If it names two different threads.
    """
    thread_id, session_id = configurable.get("thread_id"), configurable.get("session_id")
    if thread_id is not None and session_id is not None and str(thread_id) != str(session_id):
        msg = (
            f"configurable names the thread_id {thread_id!r} and the session_id {session_id!r}, "
            "which are two names for the same thing; pass one, or the same in both"
        )
        raise ConfigError(msg)
    return session_id if thread_id is None else thread_id


def read_user_id(configurable: Mapping[str, Any], context: Any) -> Any:
    """Return the user of a call, if config or context names one.

    Raises:
        ConfigError: If they name different users.
    """
    said = configurable.get("user_id")
    is_map = isinstance(context, Mapping)
    meant = context.get("user_id") if is_map else getattr(context, "user_id", None)
    if said is not None and meant is not None and str(said) != str(meant):
        msg = (
            f"the config names the user {said!r} and the context {meant!r}; "
            "name one, or the same in both"
        )
        raise ConfigError(msg)
    return said if meant is None else meant


def read_tool_user(configurable: Mapping[str, Any], fixed: str | None) -> Any:
    """Return the user of a tool's call: the one it was made for, else whom the run names.

    Raises:
        ConfigError: If config and context name different users.
    """
    return read_user_id(configurable, get_current_context()) if fixed is None else fixed


def refuse_unnamed_run(problem: str) -> NoReturn:
    """Refuse a tool's call whose run does not say whose it is.

    Args:
        problem: What the tool does not know, as the beginning of a sentence.
    """
    msg = (
        f"{problem}; call the agent with "
        'config={"configurable": {"thread_id": "...", "user_id": "..."}}'
    )
    raise ConfigError(msg)


def get_current_context() -> Any:
    """Return the context of the current graph run; None outside of a run."""
    # Inside a run it is loaded; elsewhere nobody must pay for the import.
    runtime = sys.modules.get("langgraph.runtime")
    if runtime is None:
        return None
    try:
        return getattr(runtime.get_runtime(), "context", None)
    except (RuntimeError, KeyError):
        return None
