"""Titles of threads, and which threads are archived: one small document for each thread.

A title is not an entry: no model sees it, and recall does not find it. `forget` erases it with its
thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import ThreadInfo, ThreadKey, read_id

MAX_TITLE = 200
"""How many characters a title may have."""
DOCUMENT = "thread"
"""Name of the document that keeps a thread's title: `{"title", "archived"}`."""
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def check_title(title: str) -> str:
    """Return a title as it is stored: without white space around it. Empty text removes a title.

    Raises:
        ConfigError: If it is not one line of text, or longer than `MAX_TITLE` characters.
    """
    text = title.strip() if isinstance(title, str) else None
    if text is None or _UNPRINTABLE.search(text) or len(text) > MAX_TITLE:
        msg = f"title must be one line of text, at most {MAX_TITLE} characters, got "
        raise ConfigError(msg + describe_value(title))
    return text


def shorten_title(text: str) -> str:
    """Return any text as a title: on one line, cut to `MAX_TITLE` characters with an ellipsis."""
    line = " ".join(_UNPRINTABLE.sub(" ", text).split())
    return line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1].rstrip() + "…"


def update_thread(log: MessageLog, key: ThreadKey, changes: Mapping[str, str | bool]) -> None:
    """Change members of a thread's document; of two who change one member, the later decides.

    Raises:
        ConfigError: If the thread has no entries.
    """
    if not log.entries(key, last=1):
        msg = f"thread {key.thread_id!r} has no entries; name one that memory.threads() lists"
        raise ConfigError(msg)
    while True:
        # Who changes another member at the same time changes the document, too: both are kept.
        found = log.get_state(key, DOCUMENT)
        value, version = ({}, None) if found is None else (found.value, found.version)
        if log.set_state(key, DOCUMENT, {**value, **changes}, expected=version) is not None:
            return


def add_title(log: MessageLog, key: ThreadKey, title: str) -> None:
    """Give a thread a title, unless somebody gave it one already; as durable as an import."""
    if title:
        made = {"title": shorten_title(title)}
        log.set_state(key, DOCUMENT, made, expected=None, durable=False)


def list_threads(log: MessageLog, user_id: str | None) -> list[ThreadInfo]:
    """Return a user's threads, latest first, with their titles and whether they are archived."""
    infos = log.threads(None if user_id is None else read_id("user_id", user_id))
    found = log.get_states([info.key for info in infos], DOCUMENT)
    values = [found[info.key].value if info.key in found else {} for info in infos]
    return [
        replace(info, title=value.get("title", ""), archived=value.get("archived", False))
        for info, value in zip(infos, values, strict=True)
    ]


def list_titles(log: MessageLog, keys: Iterable[ThreadKey]) -> dict[ThreadKey, str]:
    """Return the titles of those threads of a user that have one."""
    found = log.get_states(list(keys), DOCUMENT)
    return {key: title for key, one in found.items() if (title := one.value.get("title"))}
