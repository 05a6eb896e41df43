from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.load import dumps, load
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from langchain_convmem.errors import ConfigError
from langchain_convmem.prompts import PromptFile
from langchain_convmem.prompts.chat_prompt import CHAT_PROMPT_TYPES

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


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        return str(self.calls)


RULES = "**Rules:**\nkeep {this} and {{that}} and $5 \\n %s {0} {"


def parsed(function: Callable[[], str] | None = None) -> PromptFile:
    return PromptFile.parse(TEXT, functions={"getNumber": function or Counter()})


def system_of(template: ChatPromptTemplate, **values: Any) -> str:
    first = template.invoke({"input": [HI], **values}).to_messages()[0]
    assert isinstance(first, SystemMessage)
    assert isinstance(first.content, str)
    return first.content


class TestMessages:
    def test_input_alone_is_enough(self) -> None:
        messages = parsed().to_chat_prompt().invoke({"input": [HI]}).to_messages()
        assert messages == [
            SystemMessage(f"**Role:**\nbe kind\n\n{RULES}\n\n**Now:**\nnumber 1, 1"),
            HI,
        ]

    def test_history_stands_between_system_message_and_input(self) -> None:
        history = [HumanMessage("{a}"), AIMessage("{{b}}")]
        messages = parsed().to_chat_prompt().invoke({"input": [HI], "history": history})
        assert messages.to_messages()[1:] == [*history, HI]

    def test_the_history_can_be_left_out(self) -> None:
        template = parsed().to_chat_prompt(history=False)
        given = template.invoke({"input": [HI], "history": [AIMessage("x")]})
        assert given.to_messages()[1:] == [HI]
        assert template.optional_variables == ["summary"]

    def test_a_multimodal_input_passes_unchanged(self) -> None:
        picture = HumanMessage([{"type": "text", "text": "{x}"}, {"type": "image", "url": "u"}])
        assert parsed().to_chat_prompt().invoke({"input": [picture]}).to_messages()[-1] == picture

    def test_a_file_without_text_gives_no_system_message(self) -> None:
        template = PromptFile.parse("").to_chat_prompt()
        assert template.invoke({"input": [HI]}).to_messages() == [HI]
        assert system_of(template, summary="they met") == "they met"

    def test_it_composes_with_a_model_in_every_mode(self) -> None:
        def answer(value: Any) -> str:
            messages: list[BaseMessage] = value.to_messages()
            return str(messages[0].content)[-1]

        chain = parsed().to_chat_prompt(sections=["Now"]) | RunnableLambda(answer)
        assert chain.invoke({"input": [HI]}) == "1"
        assert chain.batch([{"input": [HI]}], {"max_concurrency": 1}) == ["2"]
        assert list(chain.stream({"input": [HI]})) == ["3"]

    async def test_it_formats_asynchronously(self) -> None:
        value = await parsed().to_chat_prompt().ainvoke({"input": [HI]})
        assert str(value.to_messages()[0].content).endswith("number 1, 1")

    def test_its_schema_says_what_it_takes(self) -> None:
        template = parsed().to_chat_prompt()
        assert template.input_variables == ["input"]
        assert template.optional_variables == ["history", "summary"]
        schema = template.get_input_schema().model_json_schema()
        assert set(schema["properties"]) == {"input", "history", "summary"}
        assert schema["required"] == ["input"]

    def test_it_can_be_added_to_and_nested(self) -> None:
        template = parsed().to_chat_prompt()
        longer = template + AIMessage("ok")
        assert longer.invoke({"input": [HI]}).to_messages()[1:] == [HI, AIMessage("ok")]
        outer = ChatPromptTemplate.from_messages([template, ("human", "{more}")])
        last = outer.invoke({"input": [HI], "more": "{x}"}).to_messages()
        assert last[1:] == [HI, HumanMessage("{x}")]

    def test_it_can_be_shown(self) -> None:
        shown = parsed().to_chat_prompt().pretty_repr()
        assert "be kind" in shown
        assert "number {variable_getNumber}" in shown
        assert "**Earlier:**\n{summary}" in shown


class TestOrder:
    def test_what_changes_least_comes_first(self) -> None:
        text = system_of(parsed().to_chat_prompt(), summary="they met")
        heads = [line for line in text.splitlines() if line.startswith("**")]
        assert heads == ["**Role:**", "**Rules:**", "**Earlier:**", "**Now:**"]

    def test_the_beginning_is_the_same_in_every_call(self) -> None:
        template = parsed().to_chat_prompt()
        first, second = system_of(template), system_of(template)
        assert first != second
        assert first.partition("**Now:**")[0] == second.partition("**Now:**")[0] != ""

    def test_a_given_order_is_kept_and_ends_with_the_summary(self) -> None:
        template = parsed().to_chat_prompt(sections=["Now", "Role"])
        wanted = parsed().format(["Now", "Role"], summary="they met")
        assert system_of(template, summary="they met") == wanted

    def test_an_unknown_section_is_refused_by_name(self) -> None:
        with pytest.raises(ConfigError, match=r"'Nope'.*'Now', 'Role', 'Rules'"):
            parsed().to_chat_prompt(sections=["Role", "Nope"])

    def test_titles_can_be_left_out(self) -> None:
        template = parsed().to_chat_prompt(sections=["Role"], include_titles=False)
        assert system_of(template, summary="they met") == "be kind\n\nthey met"


class TestSummary:
    @pytest.mark.parametrize("summary", ["", "  ", None])
    def test_an_empty_summary_leaves_no_heading(self, summary: str | None) -> None:
        assert "Earlier" not in system_of(parsed().to_chat_prompt(), summary=summary)

    def test_its_text_is_literal(self) -> None:
        summary = "{input} {{n}} {variable_getNumber} $1"
        text = system_of(parsed().to_chat_prompt(), summary=summary)
        assert f"**Earlier:**\n{summary}\n" in text

    def test_it_can_be_left_out(self) -> None:
        template = parsed().to_chat_prompt(include_summary=False)
        assert "they met" not in system_of(template, summary="they met")
        assert template.optional_variables == ["history"]

    def test_it_must_be_text(self) -> None:
        with pytest.raises(ConfigError, match="list"):
            system_of(parsed().to_chat_prompt(), summary=[HI])

    def test_it_can_be_set_beforehand(self) -> None:
        template = parsed().to_chat_prompt().partial(summary="they met")
        assert "**Earlier:**\nthey met" in system_of(template)


class TestVariables:
    def test_a_function_is_called_once_for_every_format(self) -> None:
        counter = Counter()
        template = parsed(counter).to_chat_prompt()
        assert counter.calls == 0
        assert system_of(template).endswith("number 1, 1")
        assert system_of(template).endswith("number 2, 2")
        assert counter.calls == 2

    def test_a_value_is_literal(self) -> None:
        template = parsed(lambda: "{input} {{n}} {0").to_chat_prompt()
        assert system_of(template).endswith("number {input} {{n}} {0, {input} {{n}} {0")

    def test_a_failing_function_leaves_a_gap_and_an_error_in_the_log(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fails() -> str:
            raise OSError

        assert system_of(parsed(fails).to_chat_prompt()).endswith("number , ")
        assert [record.levelname for record in caplog.records] == ["ERROR"]

    def test_the_names_of_variables_do_not_meet_those_of_slots(self) -> None:
        names = ["input", "history", "summary", "stop", "self"]
        text = "__* Var *__\n" + "".join(f"- {n} = {n}\n" for n in names) + "__ A __\n"
        prompt = PromptFile.parse(
            text + " ".join(f"{{{{{n}}}}}" for n in names),
            functions={n: n.upper for n in names},
        )
        assert system_of(prompt.to_chat_prompt(include_titles=False)) == " ".join(names).upper()


def reloaded(template: ChatPromptTemplate) -> ChatPromptTemplate:
    copy: ChatPromptTemplate = load(
        json.loads(dumps(template)),
        allowed_objects=list(CHAT_PROMPT_TYPES),
        valid_namespaces=["langchain_convmem"],
    )
    return copy


@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
class TestStorage:
    def test_a_prompt_with_registered_functions_survives_dump_and_load(self) -> None:
        prompt = PromptFile.parse(TEXT.replace("getNumber", "getDate"))
        template = prompt.to_chat_prompt()
        copy = reloaded(template)
        assert copy == template
        assert system_of(copy, summary="{s}") == system_of(template, summary="{s}")

    def test_a_function_of_one_file_cannot_be_dumped(self) -> None:
        with pytest.raises(NotImplementedError):
            reloaded(parsed().to_chat_prompt())

    def test_a_prompt_pickles_with_its_functions(self) -> None:
        template = parsed("7".strip).to_chat_prompt()
        copy = pickle.loads(pickle.dumps(template))  # noqa: S301 - our own bytes
        assert system_of(copy) == system_of(template)
        assert system_of(copy).endswith("number 7, 7")
