"""Sessions that live, rest and make room."""

from __future__ import annotations

import pytest

from langchain_convmem import ChatTemplate, Engine
from langchain_convmem.testing import ScriptedEngine, SessionFault


def shared(max_live, **options):
    template = ChatTemplate.from_builtin("chatml")
    model = ScriptedEngine("Fine.", template=template, end_text="<|im_end|>", **options)
    return model, Engine(model, max_live_sessions=max_live)


def test_the_session_that_was_idle_longest_makes_room():
    model, engine = shared(2)
    one, two, three = (engine.create_conversation() for _ in range(3))
    for talk in (one, two, one, three):
        talk.send_message("a")
    assert [session.closed for session in model.sessions] == [False, True, False]
    two.send_message("b")
    assert model.prefills[-1].count("<|im_start|>user") == 2
    assert two.render_stats[0].diverged_at is None


def test_a_session_that_cannot_be_made_keeps_no_place():
    _, engine = shared(1, faults=[SessionFault(at="create")])
    talk, other = engine.create_conversation(), engine.create_conversation()
    with pytest.raises(RuntimeError, match="scripted"):
        talk.send_message("a")
    assert other.send_message("a").text == "Fine."
    assert talk.send_message("a").text == "Fine."
    assert engine.wait(0)


def test_without_a_session_to_spare_a_clone_reads_again():
    model, engine = shared(1)
    talk = engine.create_conversation()
    talk.send_message("a")
    twin = talk.clone()
    assert twin.send_message("b").text == talk.send_message("b").text == "Fine."
    assert len(model.open_sessions) == 1
    assert model.misuses == []


async def test_a_conversation_that_is_awaited_has_read_its_preface():
    model, engine = shared(None)
    talk = await engine.acreate_conversation(system_prompt="Be brief.", prefill_preface=True)
    assert "Be brief." in model.prefills[0]
    assert (await talk.asend_message("a")).text == "Fine."
    assert "Be brief." not in model.prefills[1]
