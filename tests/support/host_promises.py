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
_STATE_ORDER = "turns of a thread are not queued; each run reads what the others have stored"

_ON_CANCEL = 'only with `on_cancel="keep"`; otherwise the turn is taken back'
_TAKEN_BACK = "the turn is taken back; the log still shows the words, marked `interrupted`"
_WHOLE_REPLY = "LangGraph finishes the running node, so the whole reply is stored"
_NODES_END = _for(_STATES, _WHOLE_REPLY)

SECTIONS = {
    "Options, of an integration and of a call": {
        "defaults": Promise("Without options, the model gets the thread and recalled lines"),
        "recall": Promise("`recall=False` recalls nothing"),
        "recall_tokens": Promise("`recall_tokens` limits recalled text"),
        "recall_k": Promise("`recall_k` is a number of blocks; a call's `recall_tokens` wins"),
        "recall_place": Promise("`recall_place` says where recalled lines stand"),
        "history_tokens": Promise("`history_tokens` leaves out the oldest exchanges"),
        "context_tokens": Promise("`context_tokens` limits the whole request"),
        "reserved_tokens": Promise("`reserved_tokens` of it stay free"),
        "profile": Promise("`provider` says whose rules the messages keep"),
        "profile_tokens": Promise(
            "`profile_tokens` of the user's profile are in the system message, fenced"
        ),
        "remember": Promise("`remember=False` stores nothing of the turn"),
        "refused options": Promise(
            "An unknown option, or one of a wrong type: `ConfigError` before anything happens"
        ),
        "other names": Promise("Other names under `configurable` are left to the model"),
        "too small for summaries": Promise(
            "A budget below the marks of summaries: threads are summarised earlier"
        ),
        "too large a question": Promise(
            "A question above `context_tokens` is shown cut and stored whole"
        ),
        "no room at all": Promise(
            "A question of which fewer than 96 tokens would fit: `BudgetError`"
        ),
        "unanswered before": Promise("An old question without an answer does not block the thread"),
    },
    "Threads and users": {
        "no thread": Promise("No `thread_id`: `ConfigError`", meaningless=_OWN_THREAD),
        "session_id": Promise("`session_id` is another name for it", meaningless=_OWN_THREAD),
        "two threads": Promise(
            "`thread_id` and a different `session_id`: `ConfigError`", meaningless=_OWN_THREAD
        ),
        "user in the context": Promise(
            "The context of a graph may name the user", meaningless=_OWN_THREAD
        ),
        "ids": Promise("Ids may be UUIDs and whole numbers; blank ones are refused"),
        "one user twice": Promise("Config and context may name the same user"),
        "two users": Promise("Two different users: `ConfigError`"),
        "users apart": Promise("Users never see each other, whatever their threads are called"),
    },
    "What is stored": {
        "one turn": Promise("Question and reply are one turn, with one `turn_id`"),
        "durable": Promise("The question is stored before the model is called"),
        "blank": Promise("A blank question is refused before anything happens"),
        "marked": Promise(
            'A question marked `{"remember": False}` is answered, and nothing is stored'
        ),
        "write hook": Promise(
            "The write hook precedes log and search; the model gets the original"
        ),
        "refused by the hook": Promise(
            "If the hook refuses a question, it is answered, and nothing is stored"
        ),
        "recalled text": Promise("Recalled lines are fenced in the question, and not stored"),
        "in view": Promise("What the model sees anyway is not recalled"),
        "summaries": Promise("A due summary is made after the turn and replaces what it covers"),
        "opened": Promise(
            "Where one summary stands for several older ones, a question recalls those that fit it"
        ),
        "buffer": Promise("With a relevance buffer, recalled blocks stay for later turns"),
        "follow-up": Promise("A follow-up recalls what its topic recalls"),
        "structured output": Promise("An answer that is an object is kept as JSON"),
        "parsed text": Promise(
            "Text that a parser took from a message is kept as that message, with its usage",
            differs={"conversation": "it stores the text alone; give it the model without parser"},
            meaningless=_for(_AGENTS, "its model is a chat model, without a parser behind it"),
        ),
        "whole chat": Promise("A caller may send the whole chat: each message is stored once"),
    },
    "Messages that come again": {
        "asked again": Promise(
            "The last question sent again under its id gets a new answer, even if summarised"
        ),
        "asked later": Promise(
            "An earlier question sent again under its id gets a new answer; the later turns stay "
            "in the thread, but the model does not see them for it",
        ),
        "edited": Promise(
            "A question sent edited under its id replaces the old one; the old answer and all that "
            "followed leave the views",
        ),
        "said twice": Promise("The same text said twice is two turns"),
        "lists": Promise("Of a list without ids, what follows the last known message is new"),
        "for the call alone": Promise(
            'System messages, and those marked `{"remember": False}`, hold for this call alone; '
            "with a checkpointer, system messages stay in the state and the log",
            meaningless={"conversation": "what precedes all its turns is its `preface`"},
        ),
    },
    "Failures": {
        "failing model": Promise(
            "A model that fails: its error is raised, the question stays",
            differs={
                "conversation": "the question is taken back; the log shows how far the turn came"
            },
        ),
        "sent again": Promise("The message sent again under its id is one turn"),
        "text sent again": Promise(
            "The same text sent again without an id is one turn after a failed call or a broken "
            "stream; with a checkpointer, it is another turn"
        ),
        "another id": Promise("Under another id it is another message"),
        "retried": Promise("`with_retry()` stores one turn"),
        "failed question": Promise(
            "A question that cannot be stored: `LogError`, no model is called"
        ),
        "failed reply": Promise("A reply that cannot be stored: `LogError`"),
        "broken stream": Promise(
            "A stream that breaks: its words stay, marked `interrupted`",
            differs={"conversation": _TAKEN_BACK},
        ),
        "after a broken stream": Promise(
            "The next turn sees these words; a retry under the question's id does not, and its "
            "reply replaces them",
            meaningless={"conversation": _TAKEN_BACK},
        ),
        "broken again": Promise(
            "A retry whose stream breaks leaves an earlier whole reply in place",
            differs={"wrap": "the newer words are shown, marked `interrupted`"},
            meaningless={"conversation": _TAKEN_BACK},
        ),
        "interrupted message": Promise(
            "`response_metadata` of a cut reply has `interrupted`",
            meaningless={"conversation": _TAKEN_BACK},
        ),
        "half a call": Promise("Half a tool call is not stored; the words before it are"),
        "failing embedder": Promise("If the embedder fails, the turn goes on; words find lines"),
        "left stream": Promise(
            "An awaited stream that is cancelled or closed: its words stay, marked `interrupted`",
            differs={"conversation": _ON_CANCEL},
        ),
        "closed in a thread": Promise(
            "The same for `stream().close()`",
            differs={"conversation": _ON_CANCEL, **_NODES_END},
        ),
        "exit": Promise(
            "A process that exits within an awaited stream: its words stay",
            differs={"conversation": _TAKEN_BACK},
        ),
        "exit in a thread": Promise(
            "The same for `stream()`", differs={"conversation": _TAKEN_BACK, **_NODES_END}
        ),
        "busy thread": Promise(
            "A turn inside a turn of the same thread: an error, no deadlock",
            differs=_for(_STATES, _STATE_ORDER),
        ),
    },
    "Tools": {
        "tool loop": Promise("Calls, results and answer are stored in order, in one turn"),
        "durable calls": Promise(
            "A call is stored before its tool runs",
            differs={
                "conversation": "calls and results are stored when the turn ends",
                "graph": "what the inner agent or chain did is stored when it ends",
            },
        ),
        "parallel calls": Promise("Each call of a reply has one result, whatever the ids"),
        "artifacts": Promise("Artifacts are kept, as JSON or as a note of their type"),
        "open calls": Promise("Unanswered calls are closed when the user goes on"),
    },
    "Runs, events and figures": {
        "recall run": Promise("Recall is a retriever run named `recall`"),
        "log lines": Promise("Turn and recall are lines of figures at DEBUG, without text"),
        "events": Promise("`convmem.context` and `convmem.stored` report counts"),
        "interrupted event": Promise(
            "`convmem.stored` counts cut replies",
            differs={"conversation": 'only with `on_cancel="keep"`, which keeps them'},
        ),
        "own models": Promise("The memory's own models are tagged, and counted by an event"),
        "models of the hook": Promise("Those of a write hook, too"),
        "own tokens": Promise("Their tokens are in `memory.stats`"),
        "times": Promise("The reply has the times of the model's call and end"),
        "first word": Promise("A streamed reply has the time of its first word"),
        "thread of runs": Promise("Runs have `thread_id` as metadata"),
        "version of runs": Promise(
            "Runs have the package's version",
            meaningless=_for(_STATES, "the run is LangGraph's, and begins before the memory"),
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
