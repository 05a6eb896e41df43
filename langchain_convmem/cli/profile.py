"""`convmem profile`: what is known of a user, and what people decide of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from langchain_convmem.cli.options import command, db_option, open_memory, refuse_usage, user_option
from langchain_convmem.cli.output import Terminal
from langchain_convmem.views.lines import format_day, format_iso_time

if TYPE_CHECKING:
    from langchain_convmem.profile import TimelineEvent, UserProfile

as_of_option = click.option(
    "--as-of",
    "as_of",
    metavar="WHEN",
    help="As it was then: an ISO 8601 time, a day (its beginning), or the id of an entry.",
)
"""The option of commands that can look at an earlier time."""


@command(
    "profile",
    "convmem profile --user ana",
    "convmem profile --user ana --timeline",
    "convmem profile --user ana --as-of 2026-05-01 --json",
    "convmem profile --user ana --retract 01JX2A",
)
@db_option
@user_option
@as_of_option
@click.option("--timeline", is_flag=True, help="In the order of the days that are named.")
@click.option("--day", metavar="WORDS", help="What was said of a day: 'the 14th', 'next week'.")
@click.option("--explain", metavar="ITEM", help="Where an item comes from.")
@click.option("--pin", metavar="ITEM", help="Let an item lead.")
@click.option("--retract", metavar="ITEM", help="Say that an item is not true (any more).")
@click.option("--restore", metavar="ITEM", help="Take back what was decided of an item.")
def show_profile(
    terminal: Terminal,
    *,
    db: str,
    user: str,
    as_of: str | None,
    timeline: bool,
    day: str | None,
    explain: str | None,
    pin: str | None,
    retract: str | None,
    restore: str | None,
) -> int:
    """Show what is known of a user, in their own words.

    An ITEM is the beginning of an item's id, which --json prints. Decisions are stored in the log.
    """
    chosen = [name for name in (day, explain, pin, retract, restore) if name is not None]
    if len(chosen) + timeline > 1:
        refuse_usage(
            "--timeline, --day, --explain, --pin, --retract and --restore exclude each other"
        )
    with open_memory(db) as memory:
        profile = (memory if as_of is None else memory.as_of(as_of)).profile(user)
        if explain is not None:
            return _print_explanation(terminal, profile, explain)
        if pin is not None:
            profile = profile.pin(pin)
        elif retract is not None:
            profile = profile.retract(retract)
        elif restore is not None:
            profile = profile.restore(restore)
    if timeline:
        return _print_events(terminal, profile.timeline())
    if day is not None:
        return _print_events(terminal, profile.list_events(day))
    if terminal.as_json:
        terminal.print_json({"user": user, "items": profile.to_json()})
    else:
        terminal.print_text(profile.to_markdown().rstrip())
    return 0


def _print_explanation(terminal: Terminal, profile: UserProfile, name: str) -> int:
    item = profile.find(name)
    if terminal.as_json:
        terminal.print_json({"item": item.id, "explanation": profile.explain(item)})
    else:
        terminal.print_text(profile.explain(item))
    return 0


def _print_events(terminal: Terminal, events: Sequence[TimelineEvent]) -> int:
    if terminal.as_json:
        rows = [
            {
                "first": format_iso_time(event.first_ms),
                "end": format_iso_time(event.end_ms),
                "named": event.is_named,
                "item": event.item.id,
                "text": event.item.text,
                "state": event.item.state,
            }
            for event in events
        ]
        terminal.print_json({"events": rows})
    else:
        for one in events:
            terminal.print_line(f"{format_day(one.first_ms)}  {one.item.text}")
    return 0
