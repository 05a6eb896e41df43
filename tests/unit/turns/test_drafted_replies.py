"""What is appended of a reply: all of it once, in the place of what an attempt stored before."""

from __future__ import annotations

from histories import KEY
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem import InMemoryLog
from langchain_convmem.records import Metadata
from langchain_convmem.turns.turn import draft_reply
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.messages import DraftBuilder

TIMES = Metadata(timing={"llmEnd": 7})


def stored(*replies):
    """Return the entries of a turn with these replies."""
    log = InMemoryLog()
    [asked] = log.append(KEY, [make_draft(HumanMessage("Where?", id="q"))])
    log.append(KEY, [make_draft(reply, turn_id=asked.turn_id) for reply in replies])
    return log.entries(KEY)


def draft(entries, *replies):
    return draft_reply(
        DraftBuilder(),
        replies,
        turn_id=entries[0].turn_id,
        entries=entries,
        found=entries,
        metadata=TIMES,
    )


def test_a_reply_that_is_there_whole_is_not_drafted_again():
    reply = AIMessage("On level three.", id="r")
    assert draft(stored(reply), reply) == []


def test_another_reply_takes_back_what_an_attempt_stored():
    entries = stored(AIMessage("On level two.", id="r1"))
    control, reply = draft(entries, AIMessage("On level three.", id="r2"))
    assert control.control.retracts == (entries[1].id,)
    assert control.control.reason == "replaced"
    assert reply.contents == ("On level three.",)


def test_what_stays_of_an_attempt_is_not_taken_back():
    first = AIMessage("Let me see.", id="r1")
    entries = stored(first, AIMessage("Two.", id="r2"))
    control, *replies = draft(entries, first, AIMessage("Three.", id="r3"))
    assert control.control.retracts == (entries[2].id,)
    assert [one.contents for one in replies] == [("Let me see.",), ("Three.",)]
