"""Whose thread a run is in: said by the caller's config, never by a model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from langchain_convmem.errors import ConfigError
from langchain_convmem.records import ThreadKey

__all__ = ["current_context", "thread_of", "user_of"]


def thread_of(configurable: Mapping[str, Any], context: Any, *, what: str) -> ThreadKey:
    """Return the thread of a run.

    Args:
        configurable: What the caller's config carries under `configurable`.
        context: The run's context; may name the user as well.
        what: Who asks, for the error.

    Raises:
        ConfigError: If no thread is named, or config and context name two users.
    """
    thread_id = configurable.get("thread_id")
    if thread_id is None:
        msg = (
            f"thread_id is missing; {what} needs "
            'config={"configurable": {"thread_id": "...", "user_id": "..."}}'
        )
        raise ConfigError(msg)
    return ThreadKey(user_of(configurable, context), thread_id)


def user_of(configurable: Mapping[str, Any], context: Any) -> str | None:
    """Return the user of a run, if config or context names one.

    Raises:
        ConfigError: If they name two.
    """
    said = configurable.get("user_id")
    is_map = isinstance(context, Mapping)
    meant = context.get("user_id") if is_map else getattr(context, "user_id", None)
    if said is not None and meant is not None and said != meant:
        msg = (
            f"the config names the user {said!r} and the context {meant!r}; "
            "name one, or the same in both"
        )
        raise ConfigError(msg)
    return said if meant is None else meant


def current_context() -> Any:
    """Return the context of the graph run that is going on here; None outside of one."""
    # Inside a run it is loaded; elsewhere a tool must not cost the import.
    runtime = sys.modules.get("langgraph.runtime")
    if runtime is None:
        return None
    try:
        return getattr(runtime.get_runtime(), "context", None)
    except (RuntimeError, KeyError):
        return None
