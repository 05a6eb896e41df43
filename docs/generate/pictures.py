"""Draws the pictures of the documentation as SVG; scores and sizes come from runs of the package.

`python docs/generate/pictures.py` writes them below `docs/pictures`; with `--check` it writes
nothing, names those that are stale, and exits with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drawing import Drawing
from langchain_core.messages import AIMessage, HumanMessage
from stale import save

TARGET = Path(__file__).parents[1] / "pictures"
_ASKED = "2026-11-06T18:00:00+00:00"
_DIALOGUE = [
    ("user", "I moved to a flat in Kiel last week, third floor.", "2026-10-05T18:00:00+00:00"),
    ("assistant", "Congratulations! How do you like it there?", "2026-10-05T18:00:20+00:00"),
    (
        "user",
        "Fine. The spare key is with Teresa on the second floor.",
        "2026-10-05T18:01:00+00:00",
    ),
    ("assistant", "Noted.", "2026-10-05T18:01:20+00:00"),
    ("user", "Which screws fit a key board of oak?", "2026-10-12T08:00:00+00:00"),
    ("assistant", "Brass screws, 3.5 by 30 mm.", "2026-10-12T08:00:30+00:00"),
    ("user", "My dentist is Dr. Okafor, next to the station.", "2026-10-19T08:00:00+00:00"),
]
_QUESTION = "Who has the spare key to my flat?"


# --- concepts ---


def draw_log_and_views() -> Drawing:
    """The log, and what is computed from it."""
    picture = Drawing(
        900, 420, "The log and its views",
        "Entries are appended to one log and never changed. Turns, the messages a model sees, the window "
        "of the next summary, the lines that are searched and exports are each computed from the entries.",
    )  # fmt: skip
    picture.text(30, 40, "The log is append-only; everything else is a view of it", kind="title")
    entries = [
        ("1", "user", "user"), ("2", "assistant", "assistant"), ("3", "user", "user"),
        ("4", "tool call", "assistant"), ("5", "tool result", "log"), ("6", "assistant", "assistant"),
        ("7", "undo: retracts 6", "gone"), ("8", "summary of 1-2", "view"),
    ]  # fmt: skip
    for place, (number, role, kind) in enumerate(entries):
        picture.box(30 + place * 105, 70, 98, 54, number, role, kind=kind, text="small")
    picture.arrow(30, 146, 866, 146)
    picture.text(
        450, 166, "positions: strictly increasing, per thread", kind="small quiet", anchor="middle"
    )
    views = [
        ("Turns", "runs of one role,", "tool loops whole"),
        ("Context", "what a model gets,", "valid for its provider"),
        ("Window", "what the next", "summary must cover"),
        ("Lines", "what is searched:", "segments and words"),
        ("Export", "maps, tables,", "incremental logs"),
    ]
    for place, lines in enumerate(views):
        x = 30 + place * 168
        picture.arrow(x + 78, 182, x + 78, 226)
        picture.box(x, 230, 156, 78, *lines, kind="view", text="small")
    picture.text(
        30,
        345,
        "Undo, failure, replacement and clearing are entries, too: views skip what they retract.",
        kind="small",
    )
    picture.text(
        30,
        368,
        "A summary covers turns and deletes none of them; undoing it shows them again.",
        kind="small",
    )
    picture.text(
        30,
        391,
        "Only forget erases. Every index is a cache and can be rebuilt from the log.",
        kind="small",
    )
    return picture


def draw_turn() -> Drawing:
    """A turn of a wrapped chain as a sequence."""
    picture = Drawing(
        900, 560, "A turn, step by step",
        "The question is stored before the model is called; lines are recalled; the model answers; the "
        "reply is stored as one message. If the model fails, the question stays and a retry adds nothing.",
    )  # fmt: skip
    lanes = {"caller": 90, "memory.wrap": 285, "log": 480, "recall": 650, "model": 815}
    for name, x in lanes.items():
        picture.box(x - 62, 24, 124, 36, name, kind="log" if name == "log" else "", text="bold")
        picture.rule(x, 60, x, 484, kind="line dash")
    steps = [
        ("caller", "memory.wrap", "invoke(question)"),
        ("memory.wrap", "log", "append the question, durably"),
        ("memory.wrap", "log", "read the visible part"),
        ("log", "memory.wrap", "turns since the last summary"),
        ("memory.wrap", "recall", "which lines are relevant?"),
        ("recall", "log", "anything new?"),
        ("recall", "memory.wrap", "blocks of lines, or nothing"),
        ("memory.wrap", "model", "context + fenced lines + question"),
        ("model", "memory.wrap", "reply or stream"),
        ("memory.wrap", "log", "append the reply, one message"),
        ("memory.wrap", "caller", "the chain's reply"),
    ]
    y = 92.0
    for start, end, words in steps:
        picture.arrow(lanes[start], y, lanes[end], y, words)
        y += 37
    picture.text(
        30,
        y + 10,
        "If the stream breaks, the partial reply is stored.",
        kind="small quiet",
    )
    picture.text(
        450,
        y + 10,
        "If the model fails, the question stays; a retry adds nothing.",
        kind="small quiet",
    )
    picture.text(
        30,
        y + 30,
        "Afterwards, in the background: new lines are embedded, long threads compacted.",
        kind="small quiet",
    )
    return picture


def score_lines() -> list[tuple[str, dict[str, float]]]:
    """Return the lines of a dialogue, each with its relevance as the parts of recall are added."""
    from langchain_convmem import InMemoryLog, RecallSettings, UniversalSentenceEmbeddings
    from langchain_convmem.recall import LineRecall
    from langchain_convmem.records import Owner, ThreadKey
    from langchain_convmem.views.codec import make_draft

    most = len(_DIALOGUE)
    stages = {
        "meaning alone": RecallSettings(max_tokens=None, k=most, cosine_only=True),
        "default": RecallSettings(max_tokens=None, k=most),
    }
    log = InMemoryLog()
    kinds: dict[str, type[HumanMessage | AIMessage]] = {
        "user": HumanMessage,
        "assistant": AIMessage,
    }
    drafts = [
        make_draft(kinds[role](text, additional_kwargs={"timestamp": time}))
        for role, text, time in _DIALOGUE
    ]
    log.append(ThreadKey("ana", "october"), drafts)
    recall = LineRecall(log, UniversalSentenceEmbeddings())
    found: dict[str, dict[str, float]] = {text: {} for _, text, _ in _DIALOGUE}
    for name, settings in stages.items():
        for match in recall.recall(
            Owner(user_id="ana"), _QUESTION, settings=settings, ranking=20
        ).matches:
            found[match.line.text][name] = match.relevance
    recall.close()
    return list(found.items())


def draw_recall() -> Drawing:
    """Recall as a pipeline, with the scores of a run."""
    scored = score_lines()
    picture = Drawing(
        960, 560, "Recall as a pipeline",
        "Each line is scored by meaning and by words; both are added; a line gets a share of its "
        "neighbours' scores; bonuses decide the order. The scores come from a run.",
    )  # fmt: skip
    stages = [
        ("Question", "rewritten,", "redacted"), ("Meaning", "cosine, in std.", "deviations"),
        ("Words", "BM25, stemmed,", "in std. deviations"), ("Neighbours", "a share of the", "lines around"),
        ("Order", "who is meant, dates,", "latest first"), ("Blocks", "within a budget,", "or nothing"),
    ]  # fmt: skip
    for place, lines in enumerate(stages):
        x = 24 + place * 154
        picture.box(x, 28, 140, 76, *lines, kind="view" if place else "user", text="small")
        if place:
            picture.arrow(x - 13, 66, x - 1, 66)
    picture.text(24, 140, f"“{_QUESTION}”: relevance of each line", kind="bold")
    names = ["meaning alone", "default"]
    left, step, top = 560, 180, 176
    for place, name in enumerate(names):
        picture.text(left + place * step + 44, top - 12, name, kind="small bold", anchor="middle")
    largest = max(abs(score) for _, scores in scored for score in scores.values())
    best = max(scored, key=lambda one: one[1].get("default", float("-inf")))[0]
    for row, (words, scores) in enumerate(scored):
        y = top + row * 50
        if words == best:
            picture.parts.append(
                f'<rect x="16" y="{y - 2}" width="928" height="42" rx="7" class="box hit"/>'
            )
        picture.text(24, y + 24, words, kind="small")
        for place, name in enumerate(names):
            if name not in scores:
                continue
            middle, score = left + place * step + 44, scores[name]
            size = abs(score) / largest * 40
            start = middle if score >= 0 else middle - size
            picture.bar(start, y + 22, size, 9, kind="bar" if score >= 0 else "bar2")
            picture.text(middle, y + 16, f"{score:.2f}", kind="small", anchor="middle")
    return picture


def draw_compaction() -> Drawing:
    """What a compaction covers and what it keeps, from a run."""
    from langchain_convmem import ConversationMemory, SummarySettings
    from langchain_convmem.offline import ExtractiveSummarizer

    settings = SummarySettings(trigger=("messages", 12), keep=("messages", 4))
    with ConversationMemory.open(
        ":memory:", embeddings=None, summarizer=ExtractiveSummarizer(), summary_settings=settings
    ) as memory:
        said = [
            one
            for number in range(1, 7)
            for one in (
                HumanMessage(f"On day {number} I walked {number + 10} km to hut {number}."),
                AIMessage(f"Day {number}: {number + 10} km, noted."),
            )
        ]
        memory.add_messages(said, user_id="ana", thread_id="hike")
        memory.summarize("hike", user_id="ana")
        history = memory.history("hike", user_id="ana")
        turns, kept = history.turns, len(history.model_turns)
    picture = Drawing(
        960, 400, "Compaction",
        "Twelve messages reach the trigger. The summary covers the older ones; the latest stay "
        "unchanged. The log keeps all of them, and the summary can be undone.",
    )  # fmt: skip
    told = [turn for turn in turns if turn.role in ("user", "assistant")]
    picture.text(
        24,
        40,
        f"A thread of {len(told)} messages reaches the trigger (12); {kept} stay (keep)",
        kind="title",
    )
    picture.text(24, 74, "log", kind="bold")
    covered = len(told) - kept
    for place, turn in enumerate(told):
        kind = "gone" if place < covered else turn.role
        picture.box(
            70 + place * 72, 58, 66, 44, str(place + 1), turn.role[:9], kind=kind, text="small"
        )
    picture.rule(70, 116, 70 + covered * 72 - 6, 116)
    picture.text(
        70 + covered * 36, 134, f"covered by the summary: {covered}", kind="small", anchor="middle"
    )
    picture.rule(70 + covered * 72, 116, 70 + len(told) * 72 - 6, 116)
    picture.text(
        70 + (covered + len(told)) * 36,
        134,
        f"kept unchanged: {kept}",
        kind="small",
        anchor="middle",
    )
    picture.arrow(70 + covered * 36, 142, 200, 196)
    picture.arrow(70 + (covered + len(told)) * 36, 142, 700, 196)
    picture.text(24, 222, "model", kind="bold")
    picture.box(
        90,
        200,
        250,
        62,
        "the summary, with a",
        "list of details",
        kind="view",
        text="small",
    )
    for place, turn in enumerate(told[covered:]):
        picture.box(
            360 + place * 96,
            208,
            88,
            46,
            str(covered + place + 1),
            turn.role,
            kind=turn.role,
            text="small",
        )
    picture.box(360 + kept * 96, 208, 110, 46, "the question", kind="user", text="small")
    notes = (
        "The pending question and an open tool loop are never covered. Tool calls stay with their results.",
        "A summary that fails or is cut off changes nothing; the memory tries again later.",
        "Recall still finds everything that is covered, word for word; undo_summary() shows it again.",
    )
    for row, note in enumerate(notes):
        picture.text(24, 308 + row * 26, note, kind="small")
    return picture


def draw_sent_text() -> Drawing:
    """What a session is sent in each turn beside what it holds, from a run."""
    from langchain_convmem import Conversation
    from langchain_convmem.testing import ScriptedEngine

    replies = ["On level C.", "Next to the blue pillar.", "At ten."]
    engine = ScriptedEngine([f"{reply}<|im_end|>" for reply in replies])
    talk = Conversation(engine, template="qwen")
    asked = [
        "I parked on level C, next to the blue pillar. Where is my car?",
        "Where exactly?",
        "When does the garage close?",
    ]
    rows, sent_so_far = [], 0
    for question in asked:
        talk.send_message(question)
        held = len(engine.open_sessions[0].text)
        sent = sum(len(text) for text in engine.prefills)
        rows.append((question, held, sent - sent_so_far))
        sent_so_far = sent
    talk.close()
    picture = Drawing(
        960, 360, "What a session was sent",
        "A session keeps the text it has read. Each turn sends only what the template adds, and rereads "
        "only what the template now writes differently.",
    )  # fmt: skip
    picture.text(
        24,
        40,
        "A session gets only new text (in characters, template “qwen”)",
        kind="title",
    )
    scale = 560 / rows[-1][1]
    for row, (question, held, new) in enumerate(rows):
        y = 76 + row * 70
        picture.text(24, y + 4, f"{row + 1}. {question}", kind="small")
        picture.bar(24, y + 14, held * scale, 14, kind="bar2")
        picture.bar(24, y + 32, new * scale, 14)
        picture.text(32 + held * scale, y + 26, f"held afterwards: {held}", kind="small")
        picture.text(32 + new * scale, y + 44, f"sent in this turn: {new}", kind="small")
    picture.text(
        24,
        300,
        "If a template writes an earlier turn differently, such as without its thoughts, the session goes back to",
        kind="small",
    )
    picture.text(
        24,
        322,
        "the last place that still matches and reads from there.",
        kind="small",
    )
    return picture


PICTURES: dict[str, Callable[[], Any]] = {
    "log_and_views": draw_log_and_views,
    "turn": draw_turn,
    "recall": draw_recall,
    "compaction": draw_compaction,
    "sent_text": draw_sent_text,
}
"""Each picture by the name of its file."""


def draw_pictures() -> dict[Path, str]:
    """Return the SVG text of every picture, by path."""
    return {TARGET / f"{name}.svg": draw().render() for name, draw in PICTURES.items()}


if __name__ == "__main__":
    raise SystemExit(save(draw_pictures(), sys.argv, "pictures"))
