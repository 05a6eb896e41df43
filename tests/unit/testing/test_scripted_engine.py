import pytest

from langchain_convmem.errors import ConversationError
from langchain_convmem.testing import (
    ScriptedEngine,
    ScriptedSession,
    SessionFault,
    SessionMisuseError,
)
from langchain_convmem.text.sessions import (
    ClonableSession,
    Media,
    ModelSession,
    RewindableSession,
    TokenCountingSession,
)

PICTURE = Media("image", b"png", "image/png")


def _session(replies="One two three.", **options) -> ScriptedSession:
    return ScriptedEngine(replies, **options).create_session()


async def test_the_asynchronous_form_does_the_same():
    session = _session()
    await session.aprefill(["Count:"])
    assert [chunk async for chunk in session.adecode(max_tokens=2)] == ["One", " two"]
    assert (session.text, session.finish_reason) == ("Count:One two", "length")


ABILITIES = {
    "rewindable": (RewindableSession, {"rewindable": True}),
    "clonable": (ClonableSession, {"clonable": True}),
    "counting": (TokenCountingSession, {"counting": True}),
}
NONE = {"rewindable": False, "clonable": False, "counting": False}


@pytest.mark.parametrize("ability", ABILITIES)
def test_a_session_has_the_abilities_that_are_on_and_no_others(ability):
    session = _session(**{**NONE, **ABILITIES[ability][1]})
    assert isinstance(session, ModelSession)
    assert [name for name, (kind, _) in ABILITIES.items() if isinstance(session, kind)] == [ability]


def test_a_clone_goes_on_by_itself_and_knows_the_marks():
    session = _session()
    mark = session.checkpoint()
    session.prefill(["a"])
    clone = session.clone()
    clone.prefill(["b"])
    assert (session.text, clone.text, clone.number) == ("a", "ab", 2)
    later = clone.checkpoint()
    clone.rewind(mark)
    assert (session.text, clone.text) == ("a", "")
    with pytest.raises(ConversationError, match="no such checkpoint"):
        clone.rewind(later)


def test_the_record_tells_what_every_session_did():
    engine = ScriptedEngine("Yes indeed.", rewindable=True)
    session = engine.create_session()
    mark = session.checkpoint()
    session.prefill(["Really?", PICTURE])
    writing = session.decode(stop=["!"], temperature=0.5)
    assert next(writing) == "Yes"
    writing.close()
    session.rewind(mark)
    engine.create_session().close()
    told = [(event.action, event.session, event.text, event.outcome) for event in engine.events]
    assert told == [
        ("create", 1, "", "done"),
        ("checkpoint", 1, "", "done"),
        ("prefill", 1, "Really?<image>", "done"),
        ("decode", 1, "Yes", "left"),
        ("rewind", 1, "", "done"),
        ("create", 2, "", "done"),
        ("close", 2, "", "done"),
    ]
    assert engine.events[3].options == {"stop": ("!",), "max_tokens": None, "temperature": 0.5}
    assert engine.prefills == ["Really?<image>"]
    assert engine.open_sessions == [session]


@pytest.mark.parametrize(("after", "written"), [(0, ""), (2, "One two"), (99, "One two three.")])
def test_the_nth_decode_fails_after_so_many_chunks(after, written):
    engine = ScriptedEngine(
        "One two three.", faults=[SessionFault(at="decode", nth=2, after=after)]
    )
    session = engine.create_session()
    list(session.decode())
    with pytest.raises(RuntimeError, match="scripted fault"):
        list(session.decode())
    assert (engine.events[-1].text, engine.events[-1].outcome) == (written, "failed")


def test_a_session_cannot_be_used_after_an_error_until_it_is_mended():
    session = _session(faults=[SessionFault(at="decode", after=1)])
    mark = session.checkpoint()
    with pytest.raises(RuntimeError, match="scripted fault"):
        list(session.decode())
    with pytest.raises(SessionMisuseError, match="unknown"):
        session.prefill(["a"])
    session.rewind(mark)
    session.prefill(["a"])
    assert session.text == "a"


def test_a_session_cannot_be_used_while_somebody_reads_its_reply():
    engine = ScriptedEngine("One two three.")
    session = engine.create_session()
    writing = session.decode()
    next(writing)
    with pytest.raises(SessionMisuseError, match="another caller"):
        session.reset()
    writing.close()
    session.reset()
    assert len(engine.misuses) == 1


def test_nothing_can_be_used_once_it_is_closed():
    engine = ScriptedEngine()
    session, other = engine.create_session(), engine.create_session()
    session.close()
    session.close()
    with pytest.raises(SessionMisuseError, match="closed"):
        session.prefill(["a"])
    engine.close()
    with pytest.raises(SessionMisuseError, match="closed"):
        other.prefill(["a"])
    other.close()
    with pytest.raises(ConversationError):
        engine.create_session()
