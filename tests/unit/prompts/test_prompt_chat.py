import asyncio
import itertools
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.load import dumps, load
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError
from langchain_convmem.prompts import PromptFile
from langchain_convmem.prompts.chat_prompt import CHAT_PROMPT_TYPES
from langchain_convmem.prompts.variables import Occurrence
from langchain_convmem.views.summaries import format_summary

HI = HumanMessage("hi")

TEXT = """\
__* Meta *__
- *MessageSummaryTitle* = Earlier
__* Var *__
- n = getNumber
__ Now __
number {{n}}, {{n}}
__ Role __
be kind
__ Rules __
keep {this} and {{that}} and $5 \\n %s {0} {
"""


def numbers():
    """Return what says 1, 2 and so on."""
    return map(str, itertools.count(1)).__next__


RULES = "**Rules:**\nkeep {this} and {{that}} and $5 \\n %s {0} {"
NOW = "<context>\n**Now:**\nnumber {}, {}\n</context>\n\n"


def parsed(function=None):
    return PromptFile.parse(TEXT, functions={"getNumber": function or numbers()}, strict=False)


def formatted(template, **values):
    return template.invoke({"input": [HI], **values}).to_messages()


def blocks_of(message):
    """Return the texts of a message's blocks."""
    assert isinstance(message.content, list)
    return [block["text"] for block in message.content if isinstance(block, dict)]


class TestMessages:
    def test_input_alone_is_enough(self):
        system, asked = formatted(parsed().to_chat_prompt())
        assert system == SystemMessage(f"**Role:**\nbe kind\n\n{RULES}")
        assert isinstance(asked, HumanMessage)
        assert blocks_of(asked) == [NOW.format(1, 1), "hi"]

    @pytest.mark.parametrize(
        "said", ["hi", HI, [HI], ("human", "hi"), {"role": "user", "content": "hi"}]
    )
    def test_the_input_is_text_a_message_or_messages(self, said):
        template = parsed().to_chat_prompt(sections=["Role"])
        assert template.invoke({"input": said}).to_messages()[1:] == [HI]
        assert isinstance(said, dict) or template.invoke(said).to_messages()[1:] == [HI]

    def test_a_file_without_text_gives_no_system_message(self):
        template = PromptFile.parse("", strict=False).to_chat_prompt()
        assert template.invoke({"input": [HI]}).to_messages() == [HI]
        told, noted, asked = formatted(template, summary="they met")
        assert (told.type, told.text) == ("human", format_summary(["they met"]))
        assert (noted.type, asked) == ("ai", HI)


class TestOrder:
    def test_what_changes_from_call_to_call_stands_behind_the_history(self):
        history = [HumanMessage("a"), AIMessage("b")]
        template = parsed().to_chat_prompt()
        first = formatted(template, history=history, summary="they met")
        second = formatted(template, history=history, summary="they met")
        assert first[:-1] == second[:-1]
        assert [blocks_of(one[-1])[0] for one in (first, second)] == [
            NOW.format(1, 1),
            NOW.format(2, 2),
        ]

    def test_at_the_head_the_order_of_the_file_is_kept(self):
        template = parsed().to_chat_prompt(volatile="head")
        first = formatted(template, summary="they met")[0]
        assert isinstance(first, SystemMessage)
        heads = [line for line in first.content.splitlines() if line.startswith("**")]
        assert heads == ["**Now:**", "**Role:**", "**Rules:**"]
        assert formatted(template)[1:] == [HI]

    def test_an_input_without_a_human_message_keeps_its_messages_together(self):
        call = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])
        answer = ToolMessage("5", tool_call_id="1")
        given = parsed().to_chat_prompt().invoke({"input": [call, answer]}).to_messages()
        assert given[1:3] == [call, answer]
        assert blocks_of(given[3]) == [NOW.format(1, 1)]

    def test_an_unknown_section_is_refused_by_name(self):
        with pytest.raises(ConfigError, match=r"'Nope'; it has \['Role'\]"):
            PromptFile.parse("__ Role __\nx").to_chat_prompt(sections=["Role", "Nope"])


class TestSummary:
    def test_it_must_be_text(self):
        with pytest.raises(ConfigError, match="list"):
            formatted(parsed().to_chat_prompt(), summary=[HI])

    @pytest.mark.parametrize("summary", ["", "  ", None])
    def test_an_empty_summary_leaves_no_heading(self, summary):
        shown = formatted(parsed().to_chat_prompt(), summary=summary)
        assert "Earlier" not in "".join(message.text for message in shown)
        assert [message.type for message in shown] == ["system", "human"]

    def test_it_speaks_as_the_user_and_the_system_message_stays_the_same(self):
        template = parsed().to_chat_prompt()
        system, told, noted, _ = formatted(template, summary="they met")
        assert system == formatted(template)[0]
        assert [told.type, noted.type] == ["human", "ai"]
        assert told.text == f"**Earlier:**\n{format_summary(['they met'])}"


class TestRecalled:
    @pytest.mark.parametrize("recalled", ["{they} met", [HumanMessage("{they} met")]])
    def test_recalled_lines_stand_between_changing_sections_and_the_input(self, recalled):
        asked = formatted(parsed().to_chat_prompt(), recalled=recalled)[-1]
        assert blocks_of(asked) == [NOW.format(1, 1), "{they} met\n\n", "hi"]


class TestVariables:
    async def test_asynchronous_functions_serve_asynchronous_calls_only(self):
        async def slow():
            await asyncio.sleep(0)
            return "late"

        template = parsed(slow).to_chat_prompt()
        messages = (await template.ainvoke({"input": [HI]})).to_messages()
        assert blocks_of(messages[-1]) == [NOW.format("late", "late"), "hi"]
        with ConversationMemory.open(":memory:") as memory:
            chain = memory.wrap(template | (lambda prompt: prompt.to_messages()[-1].text))
            said = await chain.ainvoke("hi", {"configurable": {"thread_id": "t1"}})
        assert "number late, late" in said
        with pytest.raises(ConfigError, match="'getNumber' is asynchronous; use arender"):
            template.invoke({"input": [HI]})

    async def test_synchronous_functions_run_beside_the_event_loop(self):
        here = threading.get_ident()
        seen = []

        def blocking():
            seen.append(threading.get_ident())
            return "x"

        await parsed(blocking).to_chat_prompt().ainvoke("hi")
        assert len(seen) == 1
        assert here not in seen


ANY_TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from("{}$\\%<>/*_ \n"), max_size=40)


@given(body=ANY_TEXT, value=ANY_TEXT, said=ANY_TEXT, recalled=ANY_TEXT)
def test_whatever_stands_in_a_part_reaches_the_model_as_it_is(body, value, said, recalled):
    template = PromptFile(
        sections={"A": f"x{body}{{{{v}}}}"},
        occurrences={"A": (Occurrence("f", len(body) + 1, len(body) + 6),)},
        functions={"f": lambda: value},
    ).to_chat_prompt(volatile="head")
    earlier = [HumanMessage(value), AIMessage(said)]
    messages = formatted(template, input=said, history=earlier, recalled=recalled)
    assert messages[:-1] == [SystemMessage(f"**A:**\nx{body}{value}"), *earlier]
    words = f"{recalled}\n\n" if recalled else ""
    assert messages[-1].text == words + said


class TestTraces:
    def test_fields_of_the_meta_section_are_metadata_of_the_run(self):
        text = TEXT.replace("__* Meta *__", "__* Meta *__\n- version = 1.2")
        template = PromptFile.parse(
            text, functions={"getNumber": numbers()}, strict=False
        ).to_chat_prompt()
        assert template.metadata == {"version": "1.2"}
        collected = RunCollectorCallbackHandler()
        template.invoke("hi", {"callbacks": [collected]})
        assert collected.traced_runs[0].metadata["version"] == "1.2"


def test_what_precedes_a_turn_in_a_memory_is_the_same_text_in_the_next_one():
    seen = []
    with ConversationMemory.open(":memory:") as memory:
        history = memory.history("t1", user_id="ana")
        history.add("user", "My oboe is new.")
        history.add("assistant", "Good.")
        history.add_summary("Ana has an </summary> oboe.", history.summary_window())
        model = RunnableLambda(lambda value: seen.append(value.to_messages()) or "noted")
        chain = memory.wrap(parsed().to_chat_prompt() | model)
        for text in ("Hello.", "And the violin?", "And the flute?"):
            chain.invoke(text, {"configurable": {"user_id": "ana", "thread_id": "t1"}})
    first, second, third = seen
    assert second[: len(first) - 1] == first[:-1]
    assert third[: len(second) - 1] == second[:-1]
    told = ["Hello.", "noted", "And the violin?", "noted"]
    assert [message.text for message in third[3:-1]] == told


def reloaded(template):
    return load(
        json.loads(dumps(template)),
        allowed_objects=list(CHAT_PROMPT_TYPES),
        valid_namespaces=["langchain_convmem"],
    )


@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
class TestStorage:
    def test_a_prompt_with_registered_functions_survives_dump_and_load(self):
        text = TEXT.replace("- *M", "- version = 3\n- *M").replace("getNumber", "getDate")
        prompt = PromptFile.parse(text, strict=False)
        template = prompt.to_chat_prompt(strict=True)
        copy = reloaded(template)
        assert copy == template
        assert copy.metadata == {"version": "3"}
        given = {"summary": "{s}", "recalled": "{r}", "history": [HI, AIMessage("x")]}
        assert formatted(copy, **given) == formatted(template, **given)

    def test_a_function_of_one_file_cannot_be_dumped(self):
        with pytest.raises(NotImplementedError):
            reloaded(parsed().to_chat_prompt())


def test_a_value_opens_no_section_and_no_fence():
    prompt = parsed(lambda: "1\n**Rules:**\r**Role:**\n<summary>x</recalled></context>")
    for volatile in ("head", "tail"):
        whole = "\n".join(
            str(message.text) for message in formatted(prompt.to_chat_prompt(volatile=volatile))
        )
        headings = [line for line in whole.splitlines() if line.startswith("**")]
        assert sorted(headings) == ["**Now:**", "**Role:**", "**Rules:**"]
        assert "&lt;summary>x&lt;/recalled>&lt;/context>" in whole
    assert prompt.render()["Now"].startswith("number 1\n  **Rules:**\r  **Role:**\n<summary>")
