"""Whose the state of a graph is: a checkpointer knows a thread by its id, and not its user.

Two users may name one thread. A run for the wrong one is refused, but what it was sent stays in the
state; so a document beside the thread notes its ids.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from langchain_convmem.errors import ConfigError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import ThreadKey

_REFUSED: Final = "refused"
"""Document beside a thread: ids of messages that were sent to its state for other users."""
_NOTED: Final = 100
"""So many of these are kept."""


def check_user(log: MessageLog, key: ThreadKey, user: str | None, sent: Sequence[str] = ()) -> None:
    """Refuse to continue one user's state for another user.

    Args:
        log: Where the threads are.
        key: The thread that a run is for.
        user: Whose the state is.
        sent: Ids of the messages in it; what its user's thread lacks was sent by this run.

    Raises:
        ConfigError: If the state is of a user, and the run for another one.
    """
    if user in (None, key.user_id):
        return
    if sent:
        owner = ThreadKey(user, key.thread_id)
        known = {entry.message_id for entry in log.find(owner, sent)}
        news = [name for name in sent if name not in known]
        document = log.get_state(owner, _REFUSED)
        noted = [] if document is None else [one for one in document.value if one not in news]
        version = None if document is None else document.version
        log.set_state(owner, _REFUSED, [*noted, *news][-_NOTED:], expected=version)
    msg = (
        f"the state of thread {key.thread_id!r} is of the user {user!r}, and this run is for "
        f"{key.user_id!r}; name that user, or another thread. The config of a snapshot names no "
        'user: add user_id to its "configurable"'
    )
    raise ConfigError(msg)


def find_user(log: MessageLog, key: ThreadKey, ids: Collection[str]) -> str | None:
    """Return another user in whose thread of this name some messages are, if any.

    It asks for each user of the log.
    """
    users = {owner.user_id for owner in log.owners()} - {None, key.user_id}
    keys = [ThreadKey(user, key.thread_id) for user in users]
    return next((one.user_id for one in keys if log.find(one, ids)), None)


def list_refused(log: MessageLog, key: ThreadKey) -> Collection[str]:
    """Return the ids of messages that were sent for another user, and stayed in the state."""
    document = log.get_state(key, _REFUSED)
    return [] if document is None else document.value
