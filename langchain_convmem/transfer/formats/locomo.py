"""The LoCoMo release: a list of samples, each a dialogue of numbered sessions.

    [{sample_id, conversation: {speaker_a, speaker_b, session_1_date_time,
                                session_1: [{speaker, dia_id, text, blip_caption?}], ...}}]

Each sample is a thread. The caption of a shared picture is appended to its line's text. Sessions
without lines and all further keys are left aside.

Source: Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM Agents", ACL 2024,
file locomo10.json.
"""

from __future__ import annotations

import re
from datetime import datetime

from langchain_convmem.transfer.messages import (
    ImportedLine,
    ImportedRole,
    cast_roles,
    name_speaker,
    space_times,
)
from langchain_convmem.transfer.source import Node, Source, refuse
from langchain_convmem.transfer.threads import ImportedThread, build_line_thread

FORM = 'LoCoMo JSON [{"sample_id", "conversation": {"speaker_a", "session_1": [...], ...}}]'
_SESSION = re.compile(r"session_\d{1,9}", re.ASCII)


def fits_locomo(source: Source) -> bool:
    """Return whether the file is a sample, or a list that starts with one."""
    document = source.document
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and "conversation" in first


def read_locomo(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return one thread per sample, named by its sample_id.

    Raises:
        ImportFormatError: If a part is not as the form says, two samples share a name, or
            `thread_id` should name several.
    """
    root = Node(source.document, source.path, "$")
    samples = list(root.items()) if isinstance(source.document, list) else [root]
    if thread_id is not None and len(samples) > 1:
        refuse(source.path, "$", f"holds {len(samples)} dialogues; one thread id cannot name them")
    places: dict[str, str] = {}
    threads = []
    for sample in samples:
        named = sample.member("sample_id")
        name = named.label()
        if name in places:
            named.fail(f"another name than that of {places[name]}")
        places[name] = sample.location
        threads.append(_read_thread(sample.member("conversation"), thread_id or name))
    return threads


def _read_thread(conversation: Node, thread_id: str) -> ImportedThread:
    pair = [conversation.optional(key) for key in ("speaker_a", "speaker_b")]
    sessions = _list_sessions(conversation)
    turns = [turn for name in sessions for turn in conversation.member(name).items()]
    if not turns:
        conversation.fail("at least one session_N with lines")
    order = [node.text() for node in pair if node is not None]
    cast = cast_roles([*order, *(turn.member("speaker").text() for turn in turns)])
    lines: list[ImportedLine] = []
    for name in sessions:
        dated = conversation.optional(f"{name}_date_time")
        time = None if dated is None else dated.time()
        label = name.removeprefix("session_")
        lines += [_read_line(turn, cast, label, time) for turn in conversation.member(name).items()]
    return build_line_thread(thread_id, space_times(lines), conversation.path)


def _list_sessions(conversation: Node) -> list[str]:
    """Return the names of the lists of lines, by number: the tenth follows the ninth."""
    names = [name for name in conversation.names() if _SESSION.fullmatch(name)]
    return sorted(names, key=lambda name: (int(name.removeprefix("session_")), name))


def _read_line(
    turn: Node, cast: dict[str, ImportedRole], session: str, time: datetime | None
) -> ImportedLine:
    speaker = turn.member("speaker").text()
    own_id = turn.optional("dia_id")
    return ImportedLine(
        role=cast[speaker],
        text=_read_text(turn),
        location=turn.location,
        own_id=None if own_id is None else own_id.label(),
        name=name_speaker(speaker),
        time=time,
        session=session,
    )


def _read_text(turn: Node) -> str:
    caption = turn.optional("blip_caption")
    said = turn.member("text")
    if caption is None:
        return said.text()
    shared = f"[shares {caption.text()}]"
    # A picture may be sent without a word.
    return shared if said.is_blank() else f"{said.text()} {shared}"
