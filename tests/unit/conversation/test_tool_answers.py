import asyncio
import contextvars
import threading
from concurrent.futures import Future
from functools import partial
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import InjectedToolCallId, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphInterrupt
from pydantic import BaseModel, Field
from scripted_chat import ScriptedChatModel
from talks import QWEN, chat, text_engine, texts

from langchain_convmem import ChatTemplate, Conversation
from langchain_convmem.conversation.tools import ToolRun, ToolSet
from langchain_convmem.errors import (
    ConfigError,
    ConversationError,
    InvalidMessageError,
    TurnCancelledError,
)
from langchain_convmem.testing import ScriptedEngine

SPEAKER = contextvars.ContextVar("speaker", default="nobody")


def call(name, number=1, **args):
    return {"type": "tool_call", "name": name, "args": args, "id": f"call_{number}"}


def sync_answers(tools, calls, **options):
    return ToolSet(tools).answer(calls, ToolRun(**options))


def async_answers(tools, calls, **options):
    return asyncio.run(ToolSet(tools).aanswer(calls, ToolRun(**options)))


@pytest.fixture(params=[sync_answers, async_answers], ids=["sync", "async"])
def answers(request):
    """Both worlds: what holds in one must hold in the other."""
    return request.param


def double(x: int) -> int:
    """Double a number."""
    return 2 * x


async def treble(x: int) -> int:
    """Treble a number, with async code only."""
    await asyncio.sleep(0)
    return 3 * x


def broken(text: str) -> str:
    """Fail."""
    raise KeyError(text)


def test_each_call_gets_one_answer_in_order(answers):
    calls = [call("treble", 1, x=1), call("double", 2, x=2), call("treble", 3, x=3)]
    assert answers([double, treble], calls) == [
        ToolMessage("3", name="treble", tool_call_id="call_1"),
        ToolMessage("4", name="double", tool_call_id="call_2"),
        ToolMessage("9", name="treble", tool_call_id="call_3"),
    ]


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("text", "text"),
        ({"city": "Köln"}, '{"city": "Köln"}'),
        ([1, 2], "[1, 2]"),
        (None, "null"),
        ([{"type": "text", "text": "x"}], [{"type": "text", "text": "x"}]),
        ([{"city": "Köln"}], '[{"city": "Köln"}]'),
    ],
)
def test_what_a_tool_returns_is_told_as_text_json_or_blocks(returned, told):
    @tool
    def give():
        """Give."""
        return returned

    [answer] = sync_answers([give], [call("give")])
    assert answer.content == told


def test_a_message_that_a_tool_returns_is_kept_and_answers_its_call(answers):
    @tool
    def give():
        """Give."""
        return ToolMessage("3", tool_call_id="other", artifact=[1], status="error")

    assert answers([give], [call("give")]) == [
        ToolMessage("3", name="give", tool_call_id="call_1", artifact=[1], status="error")
    ]


def test_artifacts_injected_ids_and_configs_work_as_in_langchain(answers):
    @tool(response_format="content_and_artifact")
    def look(call_id: Annotated[str, InjectedToolCallId], config: RunnableConfig):
        """Look."""
        return call_id, config["configurable"]

    [answer] = answers([look], [call("look")], config={"configurable": {"thread_id": "t"}})
    assert (answer.content, answer.artifact) == ("call_1", {"thread_id": "t"})


def test_a_tool_that_changes_its_arguments_does_not_change_the_call(answers):
    @tool
    def sort(items: Any):
        """Sort."""
        items.sort()
        return items

    given = call("sort", items=[2, 1])
    assert answers([sort], [given])[0].content == "[1, 2]"
    assert given["args"] == {"items": [2, 1]}


def test_an_unknown_tool_and_one_that_raises_are_errors_and_the_others_run(answers):
    calls = [call("tripple"), call("broken", 2, text="a"), call("double", 3, x=1)]
    found = answers([broken, double, {"name": "camera"}], calls)
    assert [(one.tool_call_id, one.content, one.status) for one in found] == [
        ("call_1", "Error: there is no tool 'tripple' to run; there are: broken, double", "error"),
        ("call_2", "Error: KeyError: 'a'", "error"),
        ("call_3", "2", "success"),
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt, GraphInterrupt])
def test_what_stops_a_turn_passes_through_a_tool(answers, error):
    @tool
    def stop():
        """Stop."""
        raise error

    calls = [call("double", 1, x=1), call("stop", 2)]
    with pytest.raises(error):
        answers([stop, double], calls)


def in_async(function):
    async def asked(*args):
        await asyncio.sleep(0)
        return function(*args)

    return asked


@pytest.mark.parametrize("world", [lambda function: function, in_async], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("verdict", "told", "status"),
    [
        (True, "2", "success"),
        (False, "Error: the call was denied", "error"),
        ("too late", "Error: the call was denied: too late", "error"),
        (call("double", "other", x=5), "10", "success"),
        (call("treble", x=5), "15", "success"),
        (call("gone", x=5), "Error: there is no tool 'gone' to run; there are:", "error"),
    ],
)
def test_the_handler_decides_whether_and_what_runs(answers, world, verdict, told, status):
    handler = world(lambda _call: verdict)
    [answer] = answers([double, treble], [call("double", x=1)], handler=handler)
    assert (answer.status, answer.tool_call_id) == (status, "call_1")
    assert answer.content.startswith(told)


def test_the_handler_is_asked_in_order_before_anything_runs_and_only_about_what_can_run(answers):
    seen = []

    @tool
    def act(x: int):
        """Act."""
        seen.append("ran")
        return x

    def handler(asked):
        seen.append(asked["args"])
        asked["args"].clear()  # a copy
        return True

    calls = [call("act", 1, x=1), call("gone", 2), call("act", 3, x=3)]
    found = answers([act], calls, handler=handler)
    assert seen == [{}, {}, "ran", "ran"]
    assert [answer.status for answer in found] == ["success", "error", "success"]


def refuse(*_args):
    raise ZeroDivisionError


@pytest.mark.parametrize("world", [lambda function: function, in_async], ids=["plain", "async"])
def test_what_the_handler_raises_ends_the_turn(answers, world):
    with pytest.raises(ZeroDivisionError):
        answers([double], [call("double", x=1)], handler=world(refuse))


@pytest.mark.parametrize("verdict", [None, 5, {"name": "double"}])
def test_a_handler_that_does_not_decide_is_a_mistake(answers, verdict):
    with pytest.raises(ConfigError, match="return True, False, a reason"):
        answers([double], [call("double", x=1)], handler=lambda _call: verdict)


def test_parallel_calls_run_at_once(answers):
    meeting = threading.Barrier(3, timeout=20)

    @tool
    def meet():
        """Meet the others."""
        meeting.wait()
        return SPEAKER.get()

    SPEAKER.set("ana")
    found = answers([meet], [call("meet", number) for number in range(3)])
    assert [answer.content for answer in found] == ["ana"] * 3


async def test_tools_that_wait_leave_the_event_loop_free():
    freed = threading.Event()

    @tool
    def wait():
        """Wait for the loop."""
        return freed.wait(20)

    async def free():
        freed.set()

    answering = ToolSet([wait]).aanswer(
        [call("wait")], ToolRun(handler=lambda _call: freed.wait(20))
    )
    [answer], _ = await asyncio.gather(answering, free())
    assert answer.content == "true"


def test_a_cancelled_turn_does_not_wait_for_its_tools():
    released, cancelled, started = threading.Event(), Future(), threading.Event()

    @tool
    def wait():
        """Wait for ever."""
        started.set()
        released.wait(20)

    def cancel():
        started.wait(20)
        cancelled.set_exception(TurnCancelledError("now"))

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(TurnCancelledError):
        sync_answers([wait], [call("wait")], stopped=cancelled)
    assert not released.is_set()
    released.set()
    canceller.join()


def waits_for_ever(entered, left):
    @tool
    async def wait(x: int):
        """Wait for ever."""
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.append(x)

    return wait


async def test_cancelling_an_async_turn_cancels_its_tools():
    entered, left = asyncio.Event(), []
    calls = [call("wait", 1, x=1), call("wait", 2, x=2)]
    answering = ToolSet([waits_for_ever(entered, left)]).aanswer(calls, ToolRun())
    turn = asyncio.ensure_future(answering)
    await entered.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert sorted(left) == [1, 2]


async def test_a_turn_that_ends_leaves_no_tool_running():
    entered, left = asyncio.Event(), []

    @tool
    async def pause():
        """Let the graph pause."""
        await entered.wait()
        raise GraphInterrupt

    tools = ToolSet([waits_for_ever(entered, left), pause])
    with pytest.raises(GraphInterrupt):
        await tools.aanswer([call("wait", 1, x=1), call("pause", 2)], ToolRun())
    assert left == [1]


def test_calls_run_one_after_the_other_on_request(answers):
    running = []

    @tool
    async def work():
        """Work alone."""
        running.append(1)
        await asyncio.sleep(0)
        together = len(running)
        running.pop()
        return together

    found = answers(
        [work], [call("work", number) for number in range(5)], config={"max_concurrency": 1}
    )
    assert [answer.content for answer in found] == ["1"] * 5


def park(level: int, lot: Annotated[str, "Its letter."] = "A") -> str:  # noqa: D417
    """Park the car.

    Args:
        level: How deep.
    """
    return f"{level}{lot}"


async def leave(call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Drive away."""
    return call_id


@tool
def pay(euros: float) -> str:
    """Pay for the parking."""
    return f"paid {euros}"


class Ticket(BaseModel):
    """A parking ticket."""

    number: int = Field(description="As printed.")


class Receipt(TypedDict):
    """A receipt."""

    euros: float


CAMERA = {"name": "camera", "description": "Look.", "parameters": {"type": "object"}}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
GOOGLE = {"google_search": {}}


def test_tools_of_every_form_are_described_as_openai_does():
    tools = ToolSet([park, leave, pay, Ticket, CAMERA])
    assert tools.names == ("park", "leave", "pay", "Ticket", "camera")
    assert tools.schemas[0] == {
        "type": "function",
        "function": {
            "name": "park",
            "description": "Park the car.",
            "parameters": {
                "type": "object",
                "properties": {
                    "level": {"type": "integer", "description": "How deep."},
                    "lot": {"type": "string", "description": "Its letter.", "default": "A"},
                },
                "required": ["level"],
            },
        },
    }
    assert tools.schemas[1]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert tools.schemas[2:] == [convert_to_openai_tool(one) for one in (pay, Ticket, CAMERA)]
    assert ToolSet([Receipt]).schemas == [convert_to_openai_tool(Receipt)]


def test_what_is_only_described_cannot_be_run():
    tools = ToolSet([park, leave, pay, Ticket, Receipt, CAMERA, SEARCH])
    assert [name for name in tools.names if tools.can_run(name)] == ["park", "leave", "pay"]
    assert tools.can_run("unknown"), "the model is told that there is no such tool"


def test_tools_that_run_at_the_provider_keep_their_own_form():
    tools = ToolSet([SEARCH, GOOGLE])
    assert tools.names == ("web_search", "google_search")
    assert tools.bindable == [SEARCH, GOOGLE]


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="more than one tool is called 'park'"):
        ToolSet([park, {"name": "park"}])


def undescribed(x: int) -> int:
    return x


def misdescribed(x: int) -> int:  # noqa: D417
    """Double.

    Args:
        y: What to double.
    """
    return 2 * x


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (5, "5 is not a tool"),
        ("park", "'park' is not a tool"),
        (partial(park, 1), "a function with a name"),
        (undescribed, "'undescribed'.*docstring"),
        (misdescribed, "'misdescribed'"),
        ({}, "does not describe a tool"),
    ],
)
def test_what_is_no_tool_is_refused_with_a_way_out(given, named):
    with pytest.raises(ConfigError, match=named):
        ToolSet([given])


@pytest.mark.parametrize("given", [park, CAMERA, "park"])
def test_a_single_tool_is_no_list(given):
    with pytest.raises(ConfigError, match="pass a list of tools"):
        ToolSet(given)


def look(place: str = "there") -> str:
    """Look at a place."""
    return f"seen {place}"


class Timetable(BaseModel):
    """Look up trains; answered by the caller."""

    city: str


LOOKS = {"tools": [look]}


def calling(*names, text="", first=1):
    """Return a message that calls tools, under the ids `c1` and so on."""
    calls = [{"name": name, "args": {}, "id": f"c{n}"} for n, name in enumerate(names, first)]
    return AIMessage(text, tool_calls=calls)


def types(talk):
    return [one.type for one in talk.history]


def test_a_loop_without_end_is_ended():
    model = ScriptedChatModel(replies=[calling("look")])
    talk = Conversation(model, preface=LOOKS, max_tool_rounds=3)
    with pytest.raises(ConversationError, match="3 times") as raised:
        talk.send_message("Go")
    assert raised.value.rounds == 3
    assert len(model.seen) == 4
    assert talk.history == []


def test_a_turn_cancelled_in_a_tool_may_keep_what_was_said():
    def stop() -> str:
        """Cancel."""
        talk.cancel()
        return "stopped"

    replies = [calling("look", text="First."), calling("stop", text="Then.", first=2), "Done."]
    talk = chat(*replies, preface={"tools": [look, stop]}, on_cancel="keep")
    with pytest.raises(TurnCancelledError):
        talk.send_message("Go")
    told = ["Go", "First.", "seen there", "Then.", "Error: the call was cancelled"]
    assert texts(talk) == told
    assert talk.send_message("And?").text == "Done."


def test_a_tool_that_is_only_described_ends_the_loop():
    talk = chat(calling("Timetable", "look"), "At noon.", preface={"tools": [Timetable, look]})
    reply = talk.send_message("When?")
    assert [made["name"] for made in reply.tool_calls] == ["Timetable", "look"]
    results = [ToolMessage("12:00", tool_call_id="c1"), ToolMessage("sunny", tool_call_id="c2")]
    assert talk.send_message(results).text == "At noon."
    assert types(talk) == ["human", "ai", "tool", "tool", "ai"]


def test_some_results_are_not_all():
    talk = chat(calling("look", "look"), "Done.", preface=LOOKS, auto_tools=False)
    talk.send_message("Go")
    assert talk.send_message(ToolMessage("found", tool_call_id="c1")).text == "Done."
    status = {one.tool_call_id: one.status for one in talk.history[2:4]}
    assert status == {"c1": "success", "c2": "error"}


def test_calls_are_cancelled_when_the_user_speaks_and_no_result_answers_them_later():
    talk = chat(calling("look"), "Never mind.", preface=LOOKS, auto_tools=False)
    talk.send_message("Go")
    assert talk.send_message("Forget it").text == "Never mind."
    assert types(talk) == ["human", "ai", "tool", "human", "ai"]
    assert talk.history[2].status == "error"
    before, late = talk.history, ToolMessage("sunny", tool_call_id="c1")
    for message in (late, ["Hello?", late]):
        with pytest.raises(InvalidMessageError, match="'c1' answers no call"):
            talk.send_message(message)
    assert talk.history == before


def test_a_call_that_cannot_be_read_is_told_to_the_model():
    broken = '<tool_call>\n{"name": "look", "arguments": {"city": \n</tool_call>'
    engine = text_engine([broken, "Sorry."], QWEN)
    talk = Conversation(engine, preface=LOOKS)
    assert talk.send_message("Go").text == "Sorry."
    _, called, result, _ = talk.history
    assert result.tool_call_id == called.invalid_tool_calls[0]["id"]
    assert "cannot be read" in result.text
    assert "cannot be read" in engine.sessions[0].text


UNTEMPLATED = ChatTemplate("{% for one in messages %}{{ one.content }}{% endfor %}")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (RunnableLambda(lambda _: AIMessage("x")), "takes no tools"),
        (FakeListChatModel(responses=["x"]), "takes no tools"),
        (ScriptedEngine("x", template=UNTEMPLATED), "shows no tools"),
    ],
    ids=["has none", "implements none", "a template that shows none"],
)
def test_tools_that_a_model_cannot_take_are_refused_at_once(model, words):
    with pytest.raises(ConfigError, match=words):
        Conversation(model, preface=LOOKS)
