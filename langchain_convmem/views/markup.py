"""Values for people: what a message holds as text; tables, recalls, prompt files as HTML. Pure.

In HTML, whatever was said is escaped. Nothing names a colour but the page's own, so that it can be
read on a dark page as well, and nothing is fetched. Turns and recalls show themselves by these
functions, so this file imports neither.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.records import Entry
from langchain_convmem.views.codec import describe_as_json
from langchain_convmem.views.media import describe_media, read_media
from langchain_convmem.views.messages import get_block_type
from langchain_convmem.views.tool_calls import CALL_BLOCKS, find_calls

_LEFT = ' style="text-align:left;vertical-align:top"'
_FRAME = "border-left:3px solid currentColor;padding-left:.6em;margin:.4em 0"
_FAINT = "opacity:.7;font-size:.9em"
_BAR, _GAP, _HEIGHT, _LOW = 10, 14, 60, 6
"""Widths and heights of the picture, in pixels."""
_WRAP = ' style="white-space:pre-wrap"'
_SHOWN_BLOCKS = 8
_SHOWN_REPR = 60


def escape_html(text: str) -> str:
    """Return the text for HTML; lone surrogates, which no page can hold, as escapes."""
    return html.escape(_drop_surrogates(text)).replace("\n", "<br>")


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
    facts = [escape_html(turn.role), *map(escape_html, turn.metadata.attributes)]
    created = turn.metadata.timing.get("creation")
    if created is not None:
        facts.append(_format_minute(created))
    if turn.metadata.summary_ids:
        facts.append(f"covers {len(turn.metadata.summary_ids)} turns")
    said = "<br>".join(map(escape_html, describe_turn(turn))) or "<i>no text</i>"
    head = f'<div style="{_FAINT}">{" · ".join(facts)} · {escape_html(turn.id)}</div>'
    return f'<div style="{_FRAME}">{head}{said}</div>'


# -- recalls --------------------------------------------------------------------------------------


def render_recall(found: Any) -> str:
    """Return what was recalled: a picture of scores and windows, then the blocks, best first."""
    counts = f"{len(found.blocks)} blocks, {len(found.matches)} lines ranked"
    head = f'<div style="{_FAINT}">{escape_html(found.verdict)} · {counts}</div>'
    problems = "".join(f"<div>{escape_html(problem)}</div>" for problem in found.problems)
    blocks = "".join(map(_render_block, found.blocks[:_SHOWN_BLOCKS]))
    more = len(found.blocks) - _SHOWN_BLOCKS
    rest = f'<div style="{_FAINT}">and {more} more blocks</div>' if more > 0 else ""
    return f"<div>{head}{_draw_recall(found)}{problems}{blocks}{rest}</div>"


def _draw_recall(found: Any) -> str:
    """Draw each block as its window of lines: hits as tall as they are relevant, others low."""
    blocks = found.blocks[:_SHOWN_BLOCKS]
    best = max((match.relevance for block in blocks for match in block.matches), default=0)
    if best <= 0:
        return ""
    bars, x = [], 0
    for block in blocks:
        hits = {match.line.line_id: match for match in block.matches}
        for line in block.lines:
            bars.append(_draw_bar(x, hits.get(line.line_id), line.speaker, best))
            x += _BAR
        x += _GAP
    rejected = found.best_rejected
    if rejected is not None and rejected > 0:
        y = _HEIGHT - round(_HEIGHT * min(rejected / best, 1), 1)
        bars.append(
            f'<line x1="0" x2="{x}" y1="{y}" y2="{y}" stroke="currentColor" stroke-dasharray="3 3" '
            f'stroke-opacity=".6"><title>best line left out: {rejected:.2f}</title></line>'
        )
    label = f"relevance of the lines of {len(blocks)} blocks"
    return (
        f'<svg role="img" aria-label="{label}" width="{x}" height="{_HEIGHT}" '
        f'viewBox="0 0 {x} {_HEIGHT}" style="max-width:100%">{"".join(bars)}</svg>'
    )


def _draw_bar(x: int, hit: Any, speaker: str, best: float) -> str:
    share = 0.0 if hit is None else max(hit.relevance, 0) / best
    height = _LOW + round((_HEIGHT - _LOW) * share, 1)
    shade = ".25" if hit is None else ".9"
    about = speaker if hit is None else f"{speaker}: {hit.relevance:.2f}, {'; '.join(hit.why)}"
    said = html.escape(_drop_surrogates(shorten_text(about)))
    return (
        f'<rect x="{x}" y="{_HEIGHT - height:.1f}" width="{_BAR - 2}" height="{height:.1f}" '
        f'fill="currentColor" fill-opacity="{shade}"><title>{said}</title></rect>'
    )


def _render_block(block: Any) -> str:
    first = block.lines[0]
    hits = {match.line.line_id: match for match in block.matches}
    head = (
        f"{_format_minute(first.time_ms)} · thread {escape_html(first.key.thread_id)} · "
        f"relevance {block.relevance:.2f}, similarity {block.similarity:.2f}"
    )
    lines = []
    for line in block.lines:
        said = f"{escape_html(line.speaker)}: {escape_html(line.text)}"
        hit = hits.get(line.line_id)
        why = (
            ""
            if hit is None
            else f' <span style="{_FAINT}">{escape_html("; ".join(hit.why))}</span>'
        )
        lines.append(f"<div>{said if hit is None else f'<b>{said}</b>'}{why}</div>")
    return f'<div style="{_FRAME}"><div style="{_FAINT}">{head}</div>{"".join(lines)}</div>'


def _format_minute(at_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


# -- other values ---------------------------------------------------------------------------------


def render_prompt(
    name: str, sections: Mapping[str, str], findings: Sequence[tuple[str, str]]
) -> str:
    """Return a prompt file: its findings, then its sections.

    Args:
        name: What the file is called.
        sections: Title -> text.
        findings: Pairs of a level (`error`, ...) and the finding as text.
    """
    marks = {"error": "✖", "warning": "▲"}
    shown = "".join(
        f"<pre{_WRAP}>{marks.get(level, '·')} {html.escape(_drop_surrogates(text))}</pre>"
        for level, text in findings
    )
    rows = [(f"<b>{escape_html(title)}</b>", escape_html(text)) for title, text in sections.items()]
    counts = f"{len(sections)} sections, {len(findings)} findings"
    head = f'<div style="{_FAINT}">{escape_html(name)} · {counts}</div>'
    return f"<div>{head}{shown}{render_table(['section', 'text'], rows)}</div>"


def _drop_surrogates(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def render_facts(title: str, facts: Mapping[str, object]) -> str:
    """Return named values as a small table under a title; what is empty is left out."""
    rows = [
        (escape_html(name), escape_html(str(value)))
        for name, value in facts.items()
        if value not in (None, "", 0, (), False)
    ]
    return f"<div><b>{escape_html(title)}</b>{render_table(['', ''], rows)}</div>"
