"""What every host of a turn promises, and where a host differs, with the reason.

The contract in `tests/contract/hosts` runs each promise at each host that keeps it, and each
difference where it stands. `python tests/support/host_promises.py docs/reference/hosts.md`
writes the tables of that page (`make hosts`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["HOST_NAMES", "PROMISES", "Promise", "differs", "kept_by_all", "write_tables"]

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
    def hosts(self) -> tuple[str, ...]:
        """The hosts that keep it."""
        return tuple(
            name for name in HOST_NAMES if name not in {**self.differs, **self.meaningless}
        )


def _for(hosts: tuple[str, ...], reason: str) -> dict[str, str]:
    return dict.fromkeys(hosts, reason)


_OWN_THREAD = {
    "conversation": "it is made for its thread and its user; a call that names another user is "
    "refused, and the thread that a graph around it names is not its own",
}
_GOES_ON = {
    "conversation": "it goes on from its end; `rewind` goes back to an earlier question, to ask it "
    "again or otherwise",
}
_STATE_ORDER = (
    "turns of a thread are not queued: the runtime around the checkpointer says when a run begins, "
    "and every run reads what the others have stored"
)

_ON_CANCEL = (
    'as `on_cancel` says: `"keep"` does the same, `"discard"` takes the turn back and leaves the '
    "words in the log alone"
)
_TAKEN_BACK = (
    "the turn is taken back, as after any error: the log holds the words, marked `interrupted`, "
    "and no view shows them"
)
_WHOLE_REPLY = "LangGraph lets the node that runs come to its end: the whole reply is stored"
_NODES_END = {
    **_for(
        _GRAPHS,
        "LangGraph lets the node that runs come to its end, and begins no other: the reply is in "
        "the checkpoint, and `invoke(None, ...)` stores it; without a checkpointer it is lost",
    ),
    **_for(_AGENTS, _WHOLE_REPLY),
}
_NO_TIMES = _for(
    _GRAPHS,
    "`record` stores the reply as the state has it, and a message holds no times; of a reply that "
    "was cut they are known, and kept",
)

SECTIONS: dict[str, dict[str, Promise]] = {
    "Options, for a host and for a call": {
        "defaults": Promise("Without options: the thread, and lines of other threads"),
        "recall": Promise("`recall=False` recalls nothing"),
        "recall_tokens": Promise("`recall_tokens` is the budget of the recalled text"),
        "recall_k": Promise("`recall_k` is how many blocks; `recall_tokens` of a call goes first"),
        "recall_place": Promise("`recall_place` is where recalled lines stand"),
        "history_tokens": Promise("`history_tokens` leaves out the oldest exchanges"),
        "context_tokens": Promise("`context_tokens` holds for all that the model gets"),
        "reserved_tokens": Promise("`reserved_tokens` of these stay free"),
        "profile": Promise("`profile` says whose rules the messages keep"),
        "profile_tokens": Promise(
            "`profile_tokens` of what is known of the user stand in the system messages, fenced; "
            "what is retracted leaves with the next call"
        ),
        "remember": Promise("`remember=False` stores nothing of the turn"),
        "refused options": Promise(
            "An option that there is not, or of the wrong type or place: `ConfigError`, nothing "
            "stored, no model called"
        ),
        "other names": Promise("Every other name under `configurable` is left to the model"),
        "too small for summaries": Promise(
            "A budget smaller than the marks of summaries: threads are summarised earlier, and a "
            "note is logged"
        ),
        "too large a question": Promise(
            "A question larger than `context_tokens` is shown cut, and kept whole in the log"
        ),
        "no room at all": Promise("Room for less than 96 tokens of it: `BudgetError`"),
        "unanswered before": Promise("An old question without an answer does not block the thread"),
    },
    "Whose turn it is": {
        "no thread": Promise("No `thread_id`: `ConfigError`", meaningless=_OWN_THREAD),
        "session_id": Promise("`session_id` is another name", meaningless=_OWN_THREAD),
        "two threads": Promise(
            "`thread_id` and another `session_id`: `ConfigError`", meaningless=_OWN_THREAD
        ),
        "user in the context": Promise(
            "The context of a graph around it may name the user", meaningless=_OWN_THREAD
        ),
        "ids": Promise("A UUID or a whole number is an id too; a blank one is refused"),
        "one user twice": Promise("The same user in config and context is one user"),
        "two users": Promise("Two users that differ: `ConfigError`, nothing stored"),
        "users apart": Promise("Two users never see each other, whatever their threads are called"),
    },
    "What is stored": {
        "one turn": Promise("Question and reply are one turn, with one `turn_id`"),
        "durable": Promise("The question is in the log before the model is called"),
        "blank": Promise("A blank question: an error of ours, nothing stored, no model called"),
        "marked": Promise(
            'A question marked `{"remember": False}` is answered, and nothing of its turn stored'
        ),
        "write hook": Promise(
            "The write hook stands before the log and before what is searched for; the model gets "
            "the question in full",
        ),
        "refused by the hook": Promise(
            "A question of which the write hook leaves nothing is answered, and nothing of its "
            "turn stored"
        ),
        "recalled text": Promise(
            "Recalled lines stand in the question, fenced; the log holds none of them"
        ),
        "in view": Promise("What the model sees anyway is not recalled"),
        "summaries": Promise(
            "A summary stands for what it covers, and a summary that is due is made after the turn"
        ),
        "opened": Promise("A question opens the summaries that others stand for"),
        "buffer": Promise(
            "With a relevance buffer, what was found stays in sight of later turns, latest first"
        ),
        "follow-up": Promise("A follow-up recalls what its topic recalls"),
        "structured output": Promise("An answer that is an object is kept, as JSON"),
        "parsed text": Promise(
            "A text that a parser took out of a message is kept as that message, tokens included",
            differs={
                "conversation": "it replies with a message of its own, of the text alone; give it "
                "the chat model without the parser"
            },
            meaningless=_for(_AGENTS, "its model is a chat model, and nothing stands behind it"),
        ),
        "whole chat": Promise(
            "A caller that sends the whole chat: each thing is stored once",
        ),
    },
    "What is said again": {
        "asked again": Promise(
            "The last question asked again under its id is answered anew; the newer answer counts"
        ),
        "asked later": Promise(
            "An earlier one is answered in its place, as if nothing had come after it",
            meaningless=_GOES_ON,
        ),
        "edited": Promise(
            "A question edited under its id is replaced, with its answer", meaningless=_GOES_ON
        ),
        "said twice": Promise("The same text said twice is two turns"),
        "lists": Promise(
            "Of a list without ids, what follows the last message that the thread knows is new, "
            "and stored in order"
        ),
        "for the call alone": Promise(
            'System messages and those marked `{"remember": False}` before a question are shown to '
            "the model for this call, and not stored",
            meaningless={"conversation": "what stands before all its turns is its `preface`"},
        ),
    },
    "What goes wrong": {
        "failing model": Promise(
            "A model that fails: its error is raised, the question stays for the next turn",
            differs={
                "conversation": "the question is taken back: after an error a conversation is as "
                "before. The log shows how far the turn came"
            },
        ),
        "sent again": Promise("The message sent again after a failure, by its id, is one turn"),
        "text sent again": Promise("The same text sent again after a failure, too"),
        "another id": Promise("Under another id of the caller's it is another message"),
        "retried": Promise("`with_retry()` around it stores one turn"),
        "failed question": Promise(
            "A question that cannot be stored: `LogError`, and no model is called"
        ),
        "failed reply": Promise("A reply that cannot be stored: `LogError`"),
        "broken stream": Promise(
            "A stream that breaks: its error is raised; its words stay, marked `interrupted`",
            differs={"conversation": _TAKEN_BACK},
        ),
        "after a broken stream": Promise(
            "The next turn sees these words; a new attempt does not, and a whole reply takes their "
            "place",
            meaningless={"conversation": _TAKEN_BACK},
        ),
        "broken again": Promise(
            "A new attempt that breaks leaves the whole reply of the one before",
            differs={
                "wrap": "the words of the newer attempt are shown, marked `interrupted`; the "
                "whole reply is in the log"
            },
            meaningless={"conversation": _TAKEN_BACK},
        ),
        "interrupted message": Promise(
            "What was cut says so in its message: `response_metadata` holds `interrupted`",
            meaningless={"conversation": _TAKEN_BACK},
        ),
        "half a call": Promise("Half a tool call is no call: only the words before it stay"),
        "failing embedder": Promise(
            "An embedder that fails costs neither the message nor the turn; words find lines"
        ),
        "left stream": Promise(
            "A stream that is cancelled, or closed where it is awaited: its words stay, marked "
            "`interrupted`",
            differs={"conversation": _ON_CANCEL},
        ),
        "closed in a thread": Promise(
            "The same for `stream().close()`",
            differs={"conversation": _ON_CANCEL, **_NODES_END},
        ),
        "exit": Promise(
            "A process that exits within an awaited stream, by `sys.exit` in a signal handler: its "
            "words stay, marked `interrupted`",
            differs={"conversation": _TAKEN_BACK},
        ),
        "exit in a thread": Promise(
            "The same for `stream()`", differs={"conversation": _TAKEN_BACK, **_NODES_END}
        ),
        "busy thread": Promise(
            "A turn within a turn of the same thread: an error instead of waiting for itself",
            differs=_for(_STATES, _STATE_ORDER),
        ),
    },
    "Tools": {
        "tool loop": Promise("Call, result and answer are stored in order, in one turn"),
        "durable calls": Promise(
            "A call is in the log before its tool runs",
            differs={
                "conversation": "the question is; what the model and its tools said is written "
                "with the answer, or with the error that ends the turn",
                "graph": "the question is; its model is an agent or a chain that runs the tools, "
                "and what that said is written when it has ended",
            },
        ),
        "parallel calls": Promise(
            "Calls of one reply have one result each, however ids are counted"
        ),
        "artifacts": Promise(
            "An artifact of a tool is kept, as JSON or as a note of its type, and costs no message"
        ),
        "open calls": Promise("Calls that nobody answered are closed when the user goes on"),
    },
    "Runs, events and numbers": {
        "recall run": Promise("Recall is a retriever run named `recall`"),
        "log lines": Promise("A turn and its recall are lines of figures at DEBUG, without text"),
        "events": Promise("`convmem.context` and `convmem.stored` tell of a turn in counts"),
        "interrupted event": Promise(
            "`convmem.stored` counts a reply that was cut",
            differs={
                "conversation": 'with `on_cancel="keep"`; what is taken back is no reply that stays'
            },
        ),
        "own models": Promise(
            "Models of the memory's own: tagged as internal, `convmem.own_models` counts them"
        ),
        "models of the hook": Promise("Those of a write hook as well, for question and reply"),
        "own tokens": Promise(
            "Their tokens are in `memory.stats`, with the reply",
            meaningless=_for(
                _GRAPHS,
                "lines are recalled in one node, and the reply is stored by another; each node "
                "tells its numbers by `convmem.own_models`",
            ),
        ),
        "times": Promise(
            "The reply tells when the model was called and when it ended", meaningless=_NO_TIMES
        ),
        "first word": Promise(
            "The reply of a stream tells when its first word came", meaningless=_NO_TIMES
        ),
        "thread of runs": Promise("Runs bear `thread_id` as metadata"),
        "version of runs": Promise(
            "Runs bear the version of the package",
            meaningless=_for(
                _STATES, "the run is one of LangGraph, which has begun before the memory is called"
            ),
        ),
    },
}
"""All promises, by section and name."""

PROMISES: dict[str, Promise] = {
    name: promise for section in SECTIONS.values() for name, promise in section.items()
}


# -- for tests ------------------------------------------------------------------------------------


def kept_by_all(name: str) -> Callable[[Any], Any]:
    """Run a test at every host that keeps the promise of this name."""
    return _at(PROMISES[name].hosts)


def differs(name: str, *hosts: str) -> Callable[[Any], Any]:
    """Run a test at hosts that differ from the promise of this name; all of them by default."""
    return _at(hosts or tuple(PROMISES[name].differs))


def _at(hosts: tuple[str, ...]) -> Callable[[Any], Any]:
    import pytest
    from turn_hosts import HOSTS

    return pytest.mark.parametrize("host", [HOSTS[name] for name in hosts], ids=hosts)


# -- for the page ---------------------------------------------------------------------------------

_BEGIN, _END = "<!-- tables: make hosts -->\n", "<!-- end of tables -->\n"


def _tables() -> Iterator[str]:
    for section, promises in SECTIONS.items():
        yield f"\n## {section}\n\n| | {' | '.join(HOST_NAMES)} |\n"
        yield f"| --- |{' :---: |' * len(HOST_NAMES)}\n"
        notes: dict[str, int] = {}
        for promise in promises.values():
            yield f"| {promise.text} | {' | '.join(_cells(promise, notes))} |\n"
        if notes:
            yield "\n"
        for note, number in notes.items():
            yield f"{number}. {note[0].upper()}{note[1:]}.\n"


def _cells(promise: Promise, notes: dict[str, int]) -> Iterator[str]:
    for name in HOST_NAMES:
        note = {**promise.differs, **promise.meaningless}.get(name)
        if note is None:
            yield "yes"
        else:
            number = notes.setdefault(note, len(notes) + 1)
            yield f"differs ({number})" if name in promise.differs else f"no ({number})"


def write_tables(page: str) -> str:
    """Return the text of the page with the tables as they are now."""
    head, _, rest = page.partition(_BEGIN)
    return f"{head}{_BEGIN}{''.join(_tables())}\n{_END}{rest.partition(_END)[2]}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(write_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
