"""Whose the state of a graph is: a checkpointer knows a thread by its id, and not its user."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from langchain_convmem.errors import ConfigError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import ThreadKey

_REFUSED: Final = "refused"
"""Document beside a thread: ids of messages that were sent to its state for other users."""
_NOTED: Final = 100
"""So many of these are kept."""


@dataclass(frozen=True, slots=True)
class StateOwner:
    """Keeps what a state holds from other users. As thread-safe as the log.

    A checkpointer knows a thread by its id alone, and two users may name one.

    Attributes:
        log: Where the threads are.
        key: The thread that a run is for.
    """

    log: MessageLog
    key: ThreadKey

    def check(self, user: str | None) -> None:
        """Refuse to continue one user's state for another user.

        Raises:
            ConfigError: If the state is of a user, and the run for another one.
        """
        if user not in (None, self.key.user_id):
            msg = (
                f"the state of thread {self.key.thread_id!r} is of the user {user!r}, and this "
                f"run is for {self.key.user_id!r}; name that user, or another thread. The config "
                'of a snapshot names no user: add user_id to its "configurable"'
            )
            raise ConfigError(msg)

    def check_sent(self, user: str | None, ids: Sequence[str]) -> None:
        """Do the same before a turn begins, and note what was sent: the state has it already.

        Args:
            user: Whose the state is.
            ids: Those of the messages in it.

        Raises:
            ConfigError: As `check`.
        """
        if user not in (None, self.key.user_id):
            owner = ThreadKey(user, self.key.thread_id)
            known = {entry.message_id for entry in self.log.find(owner, ids)}
            news = [name for name in ids if name not in known]
            document = self.log.get_state(owner, _REFUSED)
            noted = [] if document is None else [one for one in document.value if one not in news]
            version = None if document is None else document.version
            self.log.set_state(owner, _REFUSED, [*noted, *news][-_NOTED:], expected=version)
        self.check(user)

    def find_user(self, ids: Collection[str]) -> str | None:
        """Return another user in whose thread of this name some messages are, if any.

        It asks for each user of the log.
        """
        users = {owner.user_id for owner in self.log.owners()} - {None, self.key.user_id}
        keys = [ThreadKey(user, self.key.thread_id) for user in users]
        return next((key.user_id for key in keys if self.log.find(key, ids)), None)

    def find_refused(self, ids: Collection[str]) -> Collection[str]:
        """Return which messages were sent for another user, and stayed in the state."""
        document = self.log.get_state(self.key, _REFUSED)
        return [] if document is None else [name for name in ids if name in document.value]
