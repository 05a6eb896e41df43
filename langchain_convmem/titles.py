"""Titles of threads, and which threads are archived: one small document beside each thread.

A title is no entry: no model reads it and no recall finds it. `forget` erases it with its thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import StateDocument, ThreadInfo, ThreadKey, read_id

MAX_TITLE = 200
"""Characters of a title at most."""
DOCUMENT = "thread"
"""Name of the document that keeps a thread's title: `{"title", "archived"}`."""
_ATTEMPTS = 5
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def check_title(title: str) -> str:
    """Return a title as it is stored: without blanks around it; empty text is none.

    Raises:
        ConfigError: If it is no text, is longer than `MAX_TITLE` characters, or holds what is no
            text of one line.
    """
    if not isinstance(title, str):
        raise ConfigError(f"title must be text, got {describe_value(title)}")
    text = title.strip()
    if _UNPRINTABLE.search(text):
        raise ConfigError("title must be one line of text, without control characters")
    if len(text) > MAX_TITLE:
        raise ConfigError(f"title has {len(text):,} characters; the limit is {MAX_TITLE}")
    return text


def shorten_title(text: str) -> str:
    """Return any text as a title: on one line, cut to `MAX_TITLE` characters with an ellipsis."""
    line = " ".join(_UNPRINTABLE.sub(" ", text).split())
    return line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1].rstrip() + "…"


def update_thread(log: MessageLog, key: ThreadKey, changes: Mapping[str, str | bool]) -> None:
    """Change members of a thread's document; what others change at the same time is kept.

    Raises:
        ConfigError: If the thread has no entries.
        LogError: If others changed the document at every attempt.
    """
    if not log.entries(key, last=1):
        msg = f"thread {key.thread_id!r} has no entries; name one that memory.threads() lists"
        raise ConfigError(msg)
    for _ in range(_ATTEMPTS):
        found = log.get_state(key, DOCUMENT)
        value = {**(found.value if found is not None else {}), **changes}
        version = None if found is None else found.version
        if log.set_state(key, DOCUMENT, value, expected=version) is not None:
            return
    msg = f"thread {key.thread_id!r} is renamed by others all the time; try again"
    raise LogError(msg, thread_id=key.thread_id)


def add_title(log: MessageLog, key: ThreadKey, title: str) -> None:
    """Give a thread a title, unless somebody gave it one already; as durable as an import."""
    if title:
        made = {"title": shorten_title(title)}
        log.set_state(key, DOCUMENT, made, expected=None, durable=False)


def list_threads(log: MessageLog, user_id: str | None) -> list[ThreadInfo]:
    """Return a user's threads, latest first, with their titles and whether they are archived."""
    infos = log.threads(None if user_id is None else read_id("user_id", user_id))
    found = log.get_states([info.key for info in infos], DOCUMENT)
    named = [(info, *_read(found.get(info.key))) for info in infos]
    return [replace(info, title=title, archived=is_old) for info, title, is_old in named]


def list_titles(log: MessageLog, keys: Iterable[ThreadKey]) -> dict[ThreadKey, str]:
    """Return the titles of those threads of a user that have one."""
    found = log.get_states(list(keys), DOCUMENT)
    titles = {key: _read(document)[0] for key, document in found.items()}
    return {key: title for key, title in titles.items() if title}


def _read(document: StateDocument | None) -> tuple[str, bool]:
    """Return a title and whether its thread is archived, whatever another program wrote there."""
    value = document.value if document is not None else None
    title, archived = [
        value.get(name) if isinstance(value, dict) else None for name in ("title", "archived")
    ]
    return title if isinstance(title, str) else "", archived is True
