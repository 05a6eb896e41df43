"""What every host of a turn promises, and where a host differs, with the reason.

The contract in `tests/contract/hosts` runs each promise at each host that keeps it, and each
difference where it stands. `python tests/support/host_promises.py docs/reference/hosts.md`
writes the tables of that page (`make hosts`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOST_NAMES = ("wrap", "conversation", "graph", "nodes", "agent", "deep agent")

_GRAPHS = ("graph", "nodes")
_AGENTS = ("agent", "deep agent")
_STATES = (*_GRAPHS, *_AGENTS)


@dataclass(frozen=True, slots=True)
class Promise:
    """One row of the contract.

    Attributes:
        text: What is promised, for the page.
        differs: What a host does instead, and why; tested as well.
        meaningless: Why there is nothing of the kind at a host.
    """

    text: str
    differs: Mapping[str, str] = field(default_factory=dict)
    meaningless: Mapping[str, str] = field(default_factory=dict)

    @property
    def hosts(self):
        """The hosts that keep it."""
        return tuple(
            name for name in HOST_NAMES if name not in {**self.differs, **self.meaningless}
        )


def _for(hosts, reason):
    return dict.fromkeys(hosts, reason)


_OWN_THREAD = {"conversation": "it is made for one thread and one user"}
_STATE_ORDER = "turns of a thread are not queued; each run reads what other runs have stored"

_ON_CANCEL = 'only with `on_cancel="keep"`; otherwise the turn is undone'
_TAKEN_BACK = "the turn is undone; the log still has the partial reply, marked `interrupted`"
_WHOLE_REPLY = "LangGraph finishes the running node, so the whole reply is stored"
_NODES_END = _for(_STATES, _WHOLE_REPLY)

SECTIONS = {
    "Options": {
        "defaults": Promise("Without options, the model gets the thread and recalled lines"),
        "recall": Promise("`recall=False` recalls nothing"),
        "recall_tokens": Promise("`recall_tokens` limits recalled text"),
        "recall_k": Promise("`recall_k` sets the number of blocks; a call's `recall_tokens` wins"),
        "recall_place": Promise("`recall_place` sets where recalled lines go"),
        "history_tokens": Promise("`history_tokens` leaves out the oldest exchanges"),
        "context_tokens": Promise("`context_tokens` limits the whole request"),
        "reserved_tokens": Promise(
            "`reserved_tokens` sets how much of `context_tokens` stays free"
        ),
        "profile": Promise("`provider` sets whose rules the messages follow"),
        "profile_tokens": Promise(
            "`profile_tokens` limits the profile, which is fenced in the system message"
        ),
        "remember": Promise("`remember=False` stores nothing"),
        "refused options": Promise(
            "An unknown option or a wrong type raises `ConfigError` before anything happens"
        ),
        "other names": Promise("Other keys under `configurable` are left to the model"),
        "too small for summaries": Promise(
            "If a budget is below the summary trigger, threads are summarised earlier"
        ),
        "too large a question": Promise(
            "The model sees a question above `context_tokens` truncated; the log stores all of it"
        ),
        "no room at all": Promise(
            "If fewer than 96 tokens of a question would fit, the turn raises `BudgetError`"
        ),
        "unanswered before": Promise("An old question without an answer does not block the thread"),
    },
    "Threads and users": {
        "no thread": Promise("A missing `thread_id` raises `ConfigError`", meaningless=_OWN_THREAD),
        "session_id": Promise("`session_id` works, too", meaningless=_OWN_THREAD),
        "two threads": Promise(
            "A `thread_id` and a different `session_id` raise `ConfigError`",
            meaningless=_OWN_THREAD,
        ),
        "user in the context": Promise(
            "A graph's context can name the user", meaningless=_OWN_THREAD
        ),
        "ids": Promise("Ids can be UUIDs or integers; blank ones are refused"),
        "one user twice": Promise("Config and context can name the same user"),
        "two users": Promise("Two different users raise `ConfigError`"),
        "users apart": Promise("Users never see each other's threads, whatever the ids"),
    },
    "What is stored": {
        "one turn": Promise("The question and its reply are one turn, with one `turn_id`"),
        "durable": Promise("The question is stored before the model is called"),
        "blank": Promise("A blank question is refused before anything happens"),
        "marked": Promise('A question marked `{"remember": False}` is answered but not stored'),
        "write hook": Promise(
            "The write hook runs before storing and searching; the model gets the original"
        ),
        "refused by the hook": Promise(
            "If the hook refuses a question, it is answered but not stored"
        ),
        "recalled text": Promise("Recalled lines are fenced in the question and not stored"),
        "in view": Promise("Lines that the model sees anyway are not recalled"),
        "summaries": Promise(
            "A due summary is written after the turn and replaces the messages it covers"
        ),
        "opened": Promise(
            "If a summary replaces older ones, recall still finds relevant sentences in those"
        ),
        "buffer": Promise("With a relevance buffer, later turns see recalled blocks again"),
        "follow-up": Promise("A follow-up question recalls lines about its topic"),
        "structured output": Promise("An answer that is an object is stored as JSON"),
        "parsed text": Promise(
            "If a parser returns only text, the model's message is stored, with its usage",
            differs={"conversation": "it stores only the text; pass the model without a parser"},
            meaningless=_for(_AGENTS, "its model is a chat model without a parser"),
        ),
        "whole chat": Promise("A caller can send the whole chat; each message is stored once"),
    },
    "Repeated messages": {
        "asked again": Promise(
            "The last question, sent again with its id, gets a new answer, even if summarised"
        ),
        "asked later": Promise(
            "An earlier question, sent again with its id, gets a new answer; the model does not "
            "see later turns, which stay. If a checkpointer keeps all messages, the last question "
            "is answered instead",
        ),
        "edited": Promise(
            "An edited question with its old id replaces the old one; the old answer and "
            "everything after it disappear from the views",
        ),
        "said twice": Promise("The same text, sent twice, is two turns"),
        "lists": Promise("In a list without ids, everything after the last known message is new"),
        "for the call alone": Promise(
            'System messages, and those marked `{"remember": False}`, apply only to this call; '
            "with a checkpointer, system messages stay in the state and the log",
            meaningless={"conversation": "its `preface` comes before all turns"},
        ),
    },
    "Failures": {
        "failing model": Promise(
            "If the model fails, its error is raised and the question stays stored",
            differs={"conversation": "the question is undone; the log shows how far the turn got"},
        ),
        "sent again": Promise("A message that is sent again with its id is one turn"),
        "text sent again": Promise(
            "After a failed call or a broken stream, the same text without an id is one turn"
        ),
        "another id": Promise("The same text with another id is another message"),
        "retried": Promise("`with_retry()` stores one turn"),
        "failed question": Promise(
            "If the question cannot be stored, `LogError` is raised and no model is called"
        ),
        "failed reply": Promise("If the reply cannot be stored, `LogError` is raised"),
        "broken stream": Promise(
            "If a stream breaks, the partial reply is stored, marked `interrupted`",
            differs={"conversation": _TAKEN_BACK},
        ),
        "after a broken stream": Promise(
            "The next turn sees the partial reply; a retry by id does not and replaces it",
            meaningless={"conversation": _TAKEN_BACK},
        ),
        "broken again": Promise(
            "If the stream of a retry breaks, an earlier complete reply stays",
            differs={"wrap": "the partial reply replaces it, marked `interrupted`"},
            meaningless={"conversation": _TAKEN_BACK},
        ),
        "interrupted message": Promise(
            "The `response_metadata` of a partial reply contains `interrupted`",
            meaningless={"conversation": _TAKEN_BACK},
        ),
        "half a call": Promise("An incomplete tool call is not stored, but the text before it is"),
        "failing embedder": Promise("If the embedder fails, turns continue; recall matches words"),
        "left stream": Promise(
            "If an `async` stream is cancelled or closed, its text is stored, marked `interrupted`",
            differs={"conversation": _ON_CANCEL},
        ),
        "closed in a thread": Promise(
            "The same applies to `stream().close()`",
            differs={"conversation": _ON_CANCEL, **_NODES_END},
        ),
        "exit": Promise(
            "If the process exits during an `async` stream, the partial reply is stored",
            differs={"conversation": _TAKEN_BACK},
        ),
        "exit in a thread": Promise(
            "The same applies to `stream()`", differs={"conversation": _TAKEN_BACK, **_NODES_END}
        ),
        "busy thread": Promise(
            "A turn inside a turn of the same thread raises an error instead of deadlocking",
            differs=_for(_STATES, _STATE_ORDER),
        ),
    },
    "Tools": {
        "tool loop": Promise("Calls, results and the answer are stored in order, in one turn"),
        "durable calls": Promise(
            "A call is stored before its tool runs",
            differs={
                "conversation": "calls and results are stored when the turn ends",
                "graph": "the calls of the inner agent or chain are stored when it ends",
            },
        ),
        "parallel calls": Promise("Each call in a reply has one result, whatever the ids"),
        "artifacts": Promise("Artifacts are stored as JSON, or as a note naming their type"),
        "open calls": Promise("Unanswered calls are closed when the user continues"),
    },
    "Tracing and statistics": {
        "recall run": Promise("Recall is a retriever run named `recall`"),
        "log lines": Promise("At DEBUG, each turn and recall logs figures, without text"),
        "events": Promise("`convmem.context` and `convmem.stored` report counts"),
        "interrupted event": Promise(
            "`convmem.stored` counts partial replies",
            differs={"conversation": 'only with `on_cancel="keep"`, which keeps them'},
        ),
        "own models": Promise("The memory's own models are tagged, and an event counts them"),
        "models of the hook": Promise("Models that a write hook calls are tagged and counted, too"),
        "own tokens": Promise("`memory.stats` includes the tokens of all these models"),
        "times": Promise("The reply records when the model was called and when it finished"),
        "first word": Promise("A streamed reply records the time of its first word"),
        "thread of runs": Promise("Runs have `thread_id` in their metadata"),
        "version of runs": Promise(
            "Runs have the package's version in their metadata",
            meaningless=_for(_STATES, "the run is LangGraph's and starts before the memory does"),
        ),
    },
}
"""All promises, by section and name."""

PROMISES = {name: promise for section in SECTIONS.values() for name, promise in section.items()}


def kept_by_all(name):
    """Run a test at every host that keeps the promise of this name."""
    return _at(PROMISES[name].hosts)


def differs(name, *hosts):
    """Run a test at hosts that differ from the promise of this name; all of them by default."""
    return _at(hosts or tuple(PROMISES[name].differs))


def _at(hosts):
    import pytest
    from turn_hosts import HOSTS

    return pytest.mark.parametrize("host", [HOSTS[name] for name in hosts], ids=hosts)


_BEGIN, _END = "<!-- tables: make hosts -->\n", "<!-- end of tables -->\n"


def _tables():
    for section, promises in SECTIONS.items():
        yield f"\n## {section}\n\n"
        told = set()
        for promise in promises.values():
            yield f"- {promise.text}\n"
            by_reason = {}
            for name, reason in {**promise.differs, **promise.meaningless}.items():
                by_reason.setdefault(reason, []).append(name)
            for reason, names in by_reason.items():
                yield f"    - *{', '.join(names)}*: {'as above' if reason in told else reason}\n"
                told.add(reason)


def write_tables(page):
    """Return the text of the page with the tables as they are now."""
    head, _, rest = page.partition(_BEGIN)
    return f"{head}{_BEGIN}{''.join(_tables())}\n{_END}{rest.partition(_END)[2]}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(write_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
