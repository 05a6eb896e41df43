"""What a write hook is given, what it may return, and what becomes of it."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

import langchain_convmem
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.records import Control, Cover, Draft, Metadata
from langchain_convmem.testing.log_contract import SAMPLES
from langchain_convmem.views.codec import encode_body, make_draft
from langchain_convmem.views.messages import DraftBuilder, is_remembered

PACKAGE = Path(langchain_convmem.__file__).parent
SECRET = "sk-4242"


def shout(message):
    message.content = str(message.content).upper()
    return message


async def _coroutine(message):
    return message


class _AsyncHook:
    async def __call__(self, message):
        return message


class _Hook:
    def __call__(self, message):
        return shout(message)


# -- hooks --------------------------------------------------------------------------------------
@pytest.mark.parametrize("hook", ["redact", 7, object()], ids=["text", "number", "object"])
def test_a_hook_must_be_a_function(hook):
    with pytest.raises(ConfigError, match="before_write"):
        DraftBuilder(hook)


@pytest.mark.parametrize(
    "hook",
    [_coroutine, _AsyncHook(), functools.partial(_coroutine), _AsyncHook().__call__],
    ids=["function", "object", "partial", "method"],
)
def test_a_coroutine_function_is_no_hook(hook):
    with pytest.raises(ConfigError, match="plain function"):
        DraftBuilder(hook)


def test_any_other_callable_is_a_hook():
    assert DraftBuilder(_Hook()).build(HumanMessage("hi")).contents == ("HI",)
    assert DraftBuilder(functools.partial(shout)).build(HumanMessage("hi")).contents == ("HI",)


@pytest.mark.parametrize("message", SAMPLES)
def test_without_a_hook_every_message_is_stored_as_it_is(message):
    assert DraftBuilder().build(message).message is message
    assert [draft.message is message for draft in DraftBuilder().build_all([message])] == [True]


@pytest.mark.parametrize("message", SAMPLES)
def test_a_hook_gets_a_copy_that_equals_every_kind_of_message(message):
    seen = []

    def look(copy):
        seen.append(copy)
        return copy

    assert encode_body(DraftBuilder(look).build(message)) == encode_body(make_draft(message))
    [copy] = seen
    assert copy is not message
    assert encode_body(make_draft(copy)) == encode_body(make_draft(message))


def test_what_a_hook_does_to_its_copy_leaves_the_callers_message_alone():
    def wipe(copy):
        copy.content[0]["text"] = "[text]"
        copy.additional_kwargs["mood"].clear()
        copy.tool_calls[0]["args"]["key"] = "[key]"
        return copy

    call = {"name": "look", "args": {"key": SECRET}, "id": "c1", "type": "tool_call"}
    said = AIMessage(
        [{"type": "text", "text": SECRET}],
        additional_kwargs={"mood": {"now": "calm"}},
        tool_calls=[call],
    )
    draft = DraftBuilder(wipe).build(said)
    assert SECRET not in str(draft)
    assert said.content == [{"type": "text", "text": SECRET}]
    assert said.additional_kwargs == {"mood": {"now": "calm"}}
    assert said.tool_calls[0]["args"] == {"key": SECRET}


def test_the_dialog_lines_are_those_of_what_is_stored():
    draft = DraftBuilder(lambda _: HumanMessage(["one", "two"])).build(HumanMessage(SECRET))
    assert draft.contents == ("one", "two")


def test_turn_and_metadata_stay_what_they_are():
    metadata = Metadata(attributes=("seen",), aux={"n": 1})
    draft = DraftBuilder(shout).build(HumanMessage("hi"), turn_id="t", metadata=metadata)
    assert (draft.turn_id, draft.metadata, draft.role) == ("t", metadata, "user")


@pytest.mark.parametrize("given", [None, "q1"])
@pytest.mark.parametrize("returned", [None, "other"])
def test_a_message_keeps_its_id_whatever_the_hook_does(given, returned):
    drafting = DraftBuilder(lambda _: HumanMessage("[text]", id=returned))
    assert drafting.build(HumanMessage(SECRET, id=given)).message.id == given


def test_a_message_that_the_hook_returns_is_not_changed_by_that():
    same = HumanMessage("[text]", id="mine")
    assert DraftBuilder(lambda _: same).build(HumanMessage(SECRET, id="q1")).message.id == "q1"
    assert same.id == "mine"


def test_a_message_may_become_another_type_of_the_same_role():
    drafting = DraftBuilder(lambda _: ChatMessage("[text]", role="user"))
    assert drafting.build(HumanMessage(SECRET)).role == "user"


# -- what a hook must not return ----------------------------------------------------------------
@pytest.mark.parametrize(
    ("said", "returned"),
    [
        (HumanMessage(SECRET, id="m1"), AIMessage("[text]")),
        (ToolMessage(SECRET, tool_call_id="c1", id="m1"), HumanMessage("[text]")),
        (SystemMessage(SECRET, id="m1"), HumanMessage("[text]")),
    ],
    ids=["user", "tool", "system"],
)
def test_a_message_must_keep_its_role(said, returned):
    with pytest.raises(InvalidMessageError, match=r"'m1'.*role") as refused:
        DraftBuilder(lambda _: returned).build(said)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("returned", ["[text]", False, {"content": "[text]"}, [HumanMessage("x")]])
def test_a_hook_must_return_a_message_or_nothing(returned):
    with pytest.raises(InvalidMessageError, match=type(returned).__name__) as refused:
        DraftBuilder(lambda _: returned).build(HumanMessage(SECRET))
    assert SECRET not in str(refused.value)


def test_a_hook_that_turns_out_to_be_asynchronous_is_refused():
    with pytest.raises(InvalidMessageError, match="coroutine"):
        DraftBuilder(lambda message: _coroutine(message.model_copy())).build(HumanMessage("hi"))


def test_what_a_hook_returns_is_checked_as_any_message_is():
    wrong = HumanMessage("[text]", additional_kwargs={"timestamp": "tomorrow"})
    with pytest.raises(InvalidMessageError, match="timestamp"):
        DraftBuilder(lambda _: wrong).build(HumanMessage("hi"))


def test_what_a_hook_raises_comes_through_as_it_is():
    def fail(message):
        raise LookupError(message.id)

    with pytest.raises(LookupError, match="q1"):
        DraftBuilder(fail).build(HumanMessage("hi", id="q1"))


@pytest.mark.parametrize(
    "wrong", ["text", AIMessage.model_construct(content=7)], ids=["text", "content"]
)
def test_a_hook_is_not_asked_about_what_cannot_be_stored(wrong):
    asked = []
    with pytest.raises(InvalidMessageError):
        DraftBuilder(asked.append).build(wrong)
    assert asked == []


# -- what is left out ---------------------------------------------------------------------------
def test_nothing_is_stored_of_a_message_for_which_the_hook_returns_nothing():
    drafting = DraftBuilder(lambda message: None if "off" in message.content else message)
    said = [HumanMessage("one"), HumanMessage("off the record"), AIMessage("two")]
    assert drafting.build(said[1]) is None
    assert [draft.contents for draft in drafting.build_all(said)] == [("one",), ("two",)]


@pytest.mark.parametrize("hook", [None, shout])
def test_a_message_can_be_marked_as_not_to_be_remembered(hook):
    marked = HumanMessage("hi", additional_kwargs={"remember": False})
    assert not is_remembered(marked)
    assert DraftBuilder(hook).build(marked) is None


@pytest.mark.parametrize("value", [True, None, 0, "False"])
def test_only_false_itself_is_that_mark(value):
    message = HumanMessage("hi", additional_kwargs={"remember": value})
    assert is_remembered(message)
    assert DraftBuilder().build(message).message is message


def test_a_hook_is_not_asked_about_what_is_not_to_be_remembered():
    asked = []
    drafting = DraftBuilder(lambda message: asked.append(message) or message)
    message = HumanMessage("Not this.", additional_kwargs={"remember": False})
    assert drafting.filter_message(message) is None
    assert drafting.build(message) is None
    assert drafting.ask_hook([message, HumanMessage("This.", id="m")]).keys() == {0, 1}
    assert [one.id for one in asked] == ["m"]


def test_a_hook_is_asked_about_no_message_before_all_are_known_to_be_messages():
    asked = []
    drafting = DraftBuilder(lambda message: asked.append(message) or message)
    for ask in (drafting.ask_hook, drafting.build_all):
        with pytest.raises(InvalidMessageError):
            ask([HumanMessage("This."), "no message"])
    assert asked == []


def test_what_a_hook_has_answered_is_drafted_under_the_id_that_is_free():
    answers = {0: AIMessage("Kept.", id="taken")}
    [draft] = DraftBuilder(shout).build_all([AIMessage("Said.", id="free")], answers=answers)
    assert (draft.message.id, draft.contents) == ("free", ("Kept.",))


def test_a_hook_may_set_the_mark():
    def mark(message):
        message.additional_kwargs["remember"] = False
        return message

    assert DraftBuilder(mark).build(HumanMessage("hi")) is None


def test_a_summary_without_a_message_is_asked_about_as_well():
    draft = Draft(role="summary", contents=("one", SECRET), cover=Cover(((1, 2),)))
    blank = DraftBuilder(lambda message: SystemMessage(message.text.replace(SECRET, "[key]")))
    assert blank.filter_draft(draft).contents == ("one[key]",)
    assert DraftBuilder(lambda _: None).filter_draft(draft) is None
    assert DraftBuilder().filter_draft(draft) == draft


def test_edits_say_nothing_and_pass():
    draft = Draft(role="control", control=Control(("a",), "undo"))
    assert DraftBuilder(lambda _: None).filter_draft(draft) == draft


# -- the one place ------------------------------------------------------------------------------
OTHER_DRAFTS = {
    "turns/turn.py",  # of what the hook left of the user's message
    "turns/state_differ.py",  # of artifacts made plain, and passed through the hook
    "transfer/formats/convmem.py",  # checks what it read
    "transfer/threads.py",  # checks what it read
}
"""Where else in the way of a message to the log drafts are made."""


def test_messages_become_drafts_in_one_place():
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in {"views", "testing", "logs"}
        if "make_draft" in _names(path)
    }
    assert found == OTHER_DRAFTS


def _names(path):
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return {node.id for node in nodes if isinstance(node, ast.Name)}
