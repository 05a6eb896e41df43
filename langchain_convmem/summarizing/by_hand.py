"""What people ask of the summaries of a thread: where they come from, what they lost, another one.

Each function takes the `ConversationMemory` that holds the thread.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langchain_convmem.background import to_async
from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing.citations import CitedSentence, explain_summaries
from langchain_convmem.summarizing.compactor import SummaryReport
from langchain_convmem.summarizing.record import SummaryRecord, record
from langchain_convmem.summarizing.summarizers import SummarizerLike, as_summarizer
from langchain_convmem.views.live import find_frontier, find_live_entries


def _get_parts(memory: Any) -> Any:
    """Return what the turns of a memory run over, which stands above this room."""
    return memory._turn_memory  # noqa: SLF001 - no application has a use for it


def resummarize(
    memory: Any,
    thread_id: str,
    *,
    user_id: str | None = None,
    summarizer: SummarizerLike | None = None,
) -> SummaryReport:
    """Rewrite the live summary of a thread from everything it covers.

    Args:
        memory: The memory.
        thread_id: The thread.
        user_id: Whose.
        summarizer: Writes it, such as another model; by default the memory's own.

    Raises:
        ConfigError: If the memory has no summarizer.
    """
    compactor = _get_parts(memory).require_compactor()
    if summarizer is not None:
        compactor = replace(compactor, summarizer=as_summarizer(summarizer))
    report: SummaryReport = compactor.redo(ThreadKey(user_id, thread_id))
    return report


aresummarize = to_async(resummarize)


def summary_record(memory: Any, thread_id: str, *, user_id: str | None = None) -> SummaryRecord:
    """Return the current place of each fact covered by a thread's summaries.

    Read from the whole log, so it is what a full reading finds, however many summaries there were:
    told by a summary, listed by one, or left to the log and to recall. Works without a summarizer,
    too.

    Args:
        memory: The memory.
        thread_id: The thread.
        user_id: Whose.

    Raises:
        LogError: If the log cannot be read.
    """
    key = ThreadKey(user_id, thread_id)
    return record(key, memory.log.entries(key))


asummary_record = to_async(summary_record)


def explain_summary(
    memory: Any, thread_id: str, *, user_id: str | None = None, summary_id: str | None = None
) -> list[CitedSentence]:
    """Return the sentences of a summary, each with the entries that it comes from.

    Those are the entries whose ids it names in square brackets; where no sentence of a summary
    names any, each comes from all that the summary covers. What a summary was made of may be
    forgotten since: its sentences then have fewer sources.

    Args:
        memory: The memory.
        thread_id: The thread.
        user_id: Whose.
        summary_id: Entry id of a summary of the thread, such as `last_summary.id`, whether it is
            shown or not; None is all that the model's view shows, in its order.

    Raises:
        ConfigError: If the thread has no such summary.
    """
    entries = memory.log.entries(ThreadKey(user_id, thread_id))
    known = find_frontier(find_live_entries(entries)) if summary_id is None else entries
    wanted = [one for one in known if one.role == "summary" and summary_id in (None, one.id)]
    if summary_id is not None and not wanted:
        msg = (
            f"thread {thread_id!r} has no summary {describe_value(summary_id)}; "
            "pass the id of one, such as history.last_summary.id, or None for what is shown"
        )
        raise ConfigError(msg)
    return explain_summaries(entries, wanted)


aexplain_summary = to_async(explain_summary)
