"""Values for people: what a message holds as text; tables, recalls, prompt files as HTML. Pure.

In HTML, whatever was said is escaped. Nothing names a colour but the page's own, so that it can be
read on a dark page as well, and nothing is fetched. Turns and recalls show themselves by these
functions, so this file imports neither.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.records import Entry
from langchain_convmem.views.codec import describe_as_json
from langchain_convmem.views.lines import get_moment
from langchain_convmem.views.media import describe_media, read_media
from langchain_convmem.views.messages import get_block_type
from langchain_convmem.views.tool_calls import CALL_BLOCKS, find_calls

_LEFT = ' style="text-align:left;vertical-align:top"'
_FRAME = "border-left:3px solid currentColor;padding-left:.6em;margin:.4em 0"
_FAINT = "opacity:.7;font-size:.9em"
_SHOWN_REPR = 60


def escape_html(text: str) -> str:
    """Return the text for HTML; lone surrogates, which no page can hold, as escapes."""
    plain = text.encode("utf-8", "backslashreplace").decode()
    return html.escape(plain).replace("\n", "<br>")


def render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already."""
    body = "".join(_render_row("td", row) for row in rows)
    return f"<table><thead>{_render_row('th', head)}</thead><tbody>{body}</tbody></table>"


def _render_row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}{_LEFT}>{cell}</{tag}>" for cell in cells) + "</tr>"


def shorten_text(text: str, limit: int = _SHOWN_REPR) -> str:
    """Return a text on one line, cut to `limit` characters with an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


# -- messages -------------------------------------------------------------------------------------


def describe_entry(entry: Entry) -> list[str]:
    """Return what an entry holds, for a person: its content, then `[calls weather(city="Porto")]`.

    What is not text has a note in its place, so that nothing vanishes without a trace.
    """
    calls = [f"[calls {name}({arguments})]" for name, arguments in list_calls(entry.message)]
    return [*describe_content(entry), *calls]


def describe_content(entry: Entry) -> list[str]:
    """Return the pieces of an entry's content in order, without the calls that it makes."""
    if entry.message is None or isinstance(entry.message.content, str):
        return list(entry.contents)
    described = map(describe_block, entry.message.content)
    return [piece for piece in described if piece.strip()]


def describe_block(block: Any) -> str:
    """Return a content block as text: its own, or a note such as `[image, png, 86 kB]`.

    Empty for a block that repeats a call of its message.
    """
    if not isinstance(block, Mapping):
        return str(block)
    kind = get_block_type(block)
    if kind in CALL_BLOCKS:
        return ""
    if kind == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    media = read_media(block)
    return describe_media(media) if media else f"[{kind or next(iter(block), 'empty')}]"


def list_calls(message: BaseMessage | None) -> list[tuple[str, str]]:
    """Return the name and the arguments, such as `city="Porto"`, of each call of a message.

    Arguments that cannot be read come as the model wrote them.
    """
    calls = [
        (call["name"], ", ".join(f"{k}={describe_as_json(v)}" for k, v in call["args"].items()))
        for call in find_calls(message)
    ]
    broken = message.invalid_tool_calls if isinstance(message, AIMessage) else []
    return [*calls, *((call["name"] or "?", call["args"] or "") for call in broken)]


def describe_turn(turn: Any) -> Sequence[str]:
    """Return the pieces of a turn for a person; a placeholder has a text but no entries."""
    return [piece for entry in turn.entries for piece in describe_entry(entry)] or turn.contents


# -- turns ----------------------------------------------------------------------------------------


def format_turn(turn: Any, name: str) -> str:
    """Return a turn as `repr` shows it: who, how it begins, and how many parts it has."""
    text = shorten_text(" ".join(describe_turn(turn)))
    parts = f", {len(turn.entries)} parts" if len(turn.entries) > 1 else ""
    return f"{name}({turn.role}: {text!r}{parts}, id={turn.id!r})"


def render_turn(turn: Any) -> str:
    """Return a turn, or a summary with how much it covers, as HTML."""
    known = turn.metadata
    times = [_format_minute(known.timing["creation"])] if "creation" in known.timing else []
    covers = [f"covers {len(known.summary_ids)} turns"] if known.summary_ids else []
    facts = escape_html(" · ".join([turn.role, *known.attributes, *times, *covers, turn.id]))
    said = "<br>".join(map(escape_html, describe_turn(turn))) or "<i>no text</i>"
    head = f'<div style="{_FAINT}">{facts}</div>'
    return f'<div style="{_FRAME}">{head}{said}</div>'


# -- recalls --------------------------------------------------------------------------------------


def render_recall(found: Any) -> str:
    """Return the lines that were recalled, best block first, and how relevant the hits are."""
    counts = f"{found.verdict} · {len(found.blocks)} blocks, {len(found.matches)} lines ranked"
    problems = "".join(f"<div>{escape_html(problem)}</div>" for problem in found.problems)
    rows = [cells for block in found.blocks for cells in _list_cells(block)]
    table = render_table(["when", "thread", "line", "relevance", "why"], rows) if rows else ""
    return f"<div><div>{escape_html(counts)}</div>{problems}{table}</div>"


def _list_cells(block: Any) -> Iterator[list[str]]:
    hits = {match.line.line_id: match for match in block.matches}
    for line in block.lines:
        hit = hits.get(line.line_id)
        facts = ["", ""] if hit is None else [f"{hit.relevance:.2f}", "; ".join(hit.why)]
        said = f"{line.speaker}: {line.text}"
        shown = [_format_minute(line.time_ms), line.key.thread_id, said, *facts]
        yield [escape_html(cell) for cell in shown]


def _format_minute(at_ms: int) -> str:
    moment = get_moment(at_ms)
    return f"{at_ms} ms" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


# -- other values ---------------------------------------------------------------------------------


def render_facts(title: str, facts: Mapping[str, object]) -> str:
    """Return named values as a small table under a title; what is empty is left out."""
    shown = {name: value for name, value in facts.items() if value not in (None, "", 0, (), False)}
    rows = [(escape_html(name), escape_html(str(value))) for name, value in shown.items()]
    return f"<div><b>{escape_html(title)}</b>{render_table(['', ''], rows)}</div>"
