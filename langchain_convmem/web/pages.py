"""Templates: the one environment that pages and reports are written with. Everything is escaped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from langchain_convmem.views.lines import get_moment
from langchain_convmem.web.threads import ThreadPlace, ThreadRow

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"


@cache
def make_environment() -> Environment:
    """Return the environment; whatever is put into a page is text, unless it is `Markup`."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "iso": format_iso,
        "minute": format_minute,
        "day": format_day,
        "relative_day": name_day,
        "count": format_count,
        "group_days": group_days,
        "place_url": build_place_url,
        "home_url": lambda user_id: ThreadPlace(user_id).build_url("/chat"),
    }
    environment.globals |= {"asset": locate_asset, "version": metadata.version("langchain-convmem")}
    return environment


def render_page(name: str, **values: Any) -> str:
    """Return a template with these values, as HTML."""
    return make_environment().get_template(name).render(**values)


@cache
def locate_asset(name: str) -> str:
    """Return the address of a file below `static`; another content has another address."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def read_asset(name: str) -> Markup:
    """Return a style sheet to be put into a page of its own; ours hold no end of their element."""
    return Markup((STATIC / name).read_text("utf-8"))  # noqa: S704 - a file of this package


def format_iso(at_ms: int) -> str:
    """Return a time for a `datetime` attribute; empty outside the calendar."""
    moment = get_moment(at_ms)
    return "" if moment is None else moment.isoformat(timespec="seconds")


def format_minute(at_ms: int) -> str:
    """Return a time to the minute, UTC; scripts of the page show it in the reader's zone."""
    moment = get_moment(at_ms)
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def format_day(at_ms: int) -> str:
    """Return the day of a time, UTC."""
    moment = get_moment(at_ms)
    return "" if moment is None else f"{moment.day} {moment:%B %Y}"


def name_day(at_ms: int, now: datetime | None = None) -> str:
    """Return how long ago a day is, as lists of threads are divided."""
    moment, today = get_moment(at_ms), (now or datetime.now(UTC)).date()
    if moment is None:
        return ""
    days = (today - moment.date()).days
    if days < 1:
        return "Today"
    if days == 1:
        return "Yesterday"
    return "Last 7 days" if days <= 7 else f"{moment:%B %Y}"  # noqa: PLR2004


def group_days(rows: Sequence[ThreadRow]) -> list[tuple[str, list[ThreadRow]]]:
    """Return rows under the names of their days, as `name_day` has them, in their order."""
    return [
        (day, list(group)) for day, group in groupby(rows, key=lambda row: name_day(row.last_ms))
    ]


def build_place_url(names: Mapping[str, str], path: str, **more: str | int | None) -> str:
    """Return the address of a page about a place that a template names."""
    return ThreadPlace(names["user_id"], names["thread_id"]).build_url(path, **more)


def format_count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
