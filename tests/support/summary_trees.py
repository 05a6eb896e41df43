"""Threads with summaries of summaries, built by hand: leaves, and parents that fold them."""

import hashlib

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_convmem.records import Cover, Draft, Metadata


def add_chat(log, key, said):
    """Append what the user said, each answered; return all entries."""
    drafts = [
        draft
        for text in said
        for draft in (
            Draft(role="user", message=HumanMessage(text), contents=(text,)),
            Draft(role="assistant", message=AIMessage("All right."), contents=("All right.",)),
        )
    ]
    return log.append(key, drafts)


def add_leaf(log, key, text, entries, *, cites=None, days=("2026-05-01", "2026-05-03")):
    """Append the summary of some entries that stand together."""
    span = (entries[0].position, entries[-1].position)
    record = {"level": 0, "days": list(days)}
    if cites is not None:
        record["cites"] = [list(one) for one in cites]
    draft = _draft(text, (span,), [entry.id for entry in entries], record)
    return log.append(key, [draft])[0]


def add_parent(log, key, text, children, *, cites=None):
    """Append a summary that folds others."""
    ranges = tuple(span for one in children for span in (one.cover.ranges if one.cover else ()))
    rows = [[one.id, one.position] for one in children]
    levels = [one.metadata.aux["summary"]["level"] for one in children]
    record = {"level": max(levels) + 1, "children": rows}
    if cites is not None:
        record["cites"] = [list(one) for one in cites]
    draft = _draft(text, ranges, [one.id for one in children], record)
    return log.append(key, [draft])[0]


def _draft(text, ranges, names, record):
    digest = hashlib.blake2b(f"{ranges}{text}{names}".encode(), digest_size=16).hexdigest()
    return Draft(
        role="summary",
        message=SystemMessage(text, id=f"summary-{digest}"),
        contents=(text,),
        metadata=Metadata(summary_ids=tuple(names), aux={"summary": record}),
        cover=Cover(ranges, digest),
    )
