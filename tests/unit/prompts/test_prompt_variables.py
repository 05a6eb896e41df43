from __future__ import annotations

import datetime as dt
import functools
import logging
from collections.abc import Mapping
from contextlib import nullcontext

import pytest

from langchain_convmem.errors import ConfigError
from langchain_convmem.prompts import Diagnostic, PromptFile, variable_function
from langchain_convmem.prompts import variables as variables_module
from langchain_convmem.prompts.variables import VariableFunction, list_variable_functions


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables_module, "REGISTRY", list_variable_functions())


def render(function_name: str, functions: Mapping[str, VariableFunction] | None = None) -> str:
    text = f"__* Var *__\n- v = {function_name}\n__ A __\n<{{{{v}}}}>"
    return PromptFile.parse(text, functions=functions).render()["A"]


def test_a_decorated_function_is_known_by_its_own_name() -> None:
    @variable_function
    def mood_of_day() -> str:
        return "calm"

    assert mood_of_day() == "calm"
    assert render("mood_of_day") == "<calm>"


def test_a_function_can_be_registered_under_another_name() -> None:
    @variable_function(name="getMood")
    def mood() -> str:
        return "glad"

    assert mood() == "glad"
    assert render("getMood") == "<glad>"
    assert "mood" not in list_variable_functions()


def test_a_later_function_takes_the_name_over() -> None:
    variable_function(name="getMood")(lambda: "old")
    prompt = PromptFile.parse("__* Var *__\n- v = getMood\n__ A __\n{{v}}")
    variable_function(name="getMood")(lambda: "new")
    assert prompt.render() == {"A": "new"}


def test_functions_of_a_file_go_before_registered_ones() -> None:
    assert render("getDate", functions={"getDate": lambda: "never"}) == "<never>"
    assert render("getDate") != "<never>"


def test_the_registry_is_handed_out_as_a_copy() -> None:
    list_variable_functions().clear()
    assert {"getDate", "getTime"} <= set(list_variable_functions())


def test_date_and_time_are_those_of_the_moment() -> None:
    before = dt.datetime.now().astimezone().replace(microsecond=0)
    text = "__* Var *__\n- d = getDate\n- t = getTime\n__ A __\n{{d}} {{t}}"
    shown = PromptFile.parse(text).rendered["A"]
    after = dt.datetime.now().astimezone()
    seconds = int((after - before).total_seconds()) + 1
    moments = [before + dt.timedelta(seconds=passed) for passed in range(seconds)]
    assert shown in [moment.strftime("%d/%m/%Y %H:%M:%S") for moment in moments]


def needs_none(value: str = "default") -> str:
    return value


def needs_one(value: str) -> str:
    return value


async def waits() -> str:
    return "late"


class WaitsWhenCalled:
    async def __call__(self) -> str:
        return "late"


@pytest.mark.parametrize("function", [needs_one, "text", None], ids=lambda f: type(f).__name__)
def test_what_cannot_be_called_without_arguments_is_refused(function: object) -> None:
    with pytest.raises(ConfigError, match="getX"):
        PromptFile.parse("__ A __\nx", functions={"getX": function})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["", "two words", "a-b", "1st", "a.b"])
def test_a_name_must_be_an_identifier(name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        PromptFile.parse("__ A __\nx", functions={name: lambda: ""})


def test_a_lambda_needs_a_name_to_be_registered() -> None:
    with pytest.raises(ConfigError, match="lambda"):
        variable_function(lambda: "")


def test_partials_and_optional_arguments_are_fine() -> None:
    assert render("f", functions={"f": functools.partial(needs_one, "set")}) == "<set>"
    assert render("f", functions={"f": needs_none}) == "<default>"


def boom() -> str:
    message = "no sensor"
    raise OSError(message)


@pytest.mark.parametrize("function", [boom, lambda: None, lambda: 5], ids=["boom", "none", "int"])
def test_a_failing_function_gives_an_empty_string_and_an_error_in_the_log(
    function: object, caplog: pytest.LogCaptureFixture
) -> None:
    prompt = PromptFile.parse(
        "__* Var *__\n- v = getX\n- d = getY\n__ A __\n[{{v}}] {{d}}",
        functions={"getX": function, "getY": lambda: "fine"},  # type: ignore[dict-item]
    )
    assert prompt.render() == {"A": "[] fine"}
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.name.startswith("langchain_convmem.")
    assert "getX" in record.getMessage()
    assert record.exc_info is not None


def test_strict_rendering_lets_the_functions_error_through() -> None:
    text = "__* Var *__\n- v = getX\n__ A __\n{{v}}"
    prompt = PromptFile.parse(text, functions={"getX": boom})
    with pytest.raises(OSError, match="no sensor"):
        prompt.render(strict=True)
    with pytest.raises(OSError, match="no sensor"):
        prompt.format(["A"], strict=True)


def test_strict_rendering_refuses_a_value_that_is_no_string() -> None:
    text = "__* Var *__\n- v = getX\n__ A __\n{{v}}"
    prompt = PromptFile.parse(text, functions={"getX": lambda: 5})  # type: ignore[dict-item,return-value]
    with pytest.raises(TypeError, match="int"):
        prompt.render(strict=True)


def test_an_interrupt_inside_a_function_is_not_caught() -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render("getX", functions={"getX": interrupted})


V = "__* Var *__\n- v = getX\n- d = getY\n__ A __\n<{{v}}>\n__ B __\nb {{d}}, {{v}}"


class TestAsynchronous:
    @pytest.mark.parametrize(
        "function",
        [waits, WaitsWhenCalled(), functools.partial(waits)],
        ids=["f", "call", "partial"],
    )
    async def test_asynchronous_functions_are_awaited(self, function: VariableFunction) -> None:
        prompt = PromptFile.parse(V, functions={"getX": function, "getY": lambda: "now"})
        assert await prompt.arender() == {"A": "<late>", "B": "b now, late"}
        assert await prompt.aformat(["B"], include_titles=False) == "b now, late"

    @pytest.mark.parametrize(
        "function",
        [waits, WaitsWhenCalled(), functools.partial(waits)],
        ids=["f", "call", "partial"],
    )
    def test_synchronous_calls_refuse_them_before_anything_is_called(
        self, function: VariableFunction
    ) -> None:
        called: list[str] = []
        prompt = PromptFile.parse(
            V.replace("- v = getX\n- d = getY", "- d = getY\n- v = getX"),
            functions={"getX": function, "getY": lambda: called.append("y") or ""},
        )
        with pytest.raises(ConfigError, match="'getX' is asynchronous; use arender"):
            prompt.render()
        with pytest.raises(ConfigError, match="'getX' is asynchronous"):
            prompt.format(["B"])
        assert called == []

    def test_sections_without_them_can_be_formatted_in_any_way(self) -> None:
        prompt = PromptFile.parse(V + "\n__ C __\nplain", functions={"getX": waits, "getY": waits})
        assert prompt.format(["C"]) == "**C:**\nplain"

    async def test_failures_are_the_same_in_both_worlds(self) -> None:
        async def late_boom() -> str:
            return boom()

        for function in (boom, late_boom):
            found: list[Diagnostic] = []
            prompt = PromptFile.parse(V, functions={"getX": function, "getY": lambda: "y"})
            assert await prompt.arender(on_problem=found.append) == {"A": "<>", "B": "b y, "}
            assert len(found) == 1
            with pytest.raises(OSError, match="no sensor"):
                await prompt.arender(strict=True)

    @pytest.mark.parametrize("strict", [False, True])
    async def test_a_stop_iteration_ends_nothing_but_the_function(self, *, strict: bool) -> None:
        prompt = PromptFile.parse(V, functions={"getX": iter(()).__next__, "getY": str})
        expected = pytest.raises(RuntimeError, match="StopIteration") if strict else nullcontext()
        with expected:
            assert await prompt.arender(strict=strict) == {"A": "<>", "B": "b , "}
        with expected:
            assert prompt.render(strict=strict) == {"A": "<>", "B": "b , "}


class TestProblems:
    def test_a_failure_is_shown_where_its_value_is_missing(self) -> None:
        found: list[Diagnostic] = []
        prompt = PromptFile.parse(
            "__* Var *__\n- v = getX\n__ A __\none\ntwo {{v}} {{v}}",
            name="a.prompt",
            functions={"getX": boom},
        )
        prompt.format(["A"], on_problem=found.append)
        [problem] = found
        assert str(problem).splitlines() == [
            (
                "a.prompt#A:2:5: error: the function 'getX' failed, so its value is empty: "
                "OSError: no sensor"
            ),
            "    two {{v}} {{v}}",
            "        ^",
        ]

    def test_each_function_is_reported_once_and_good_ones_not_at_all(self) -> None:
        found: list[Diagnostic] = []
        prompt = PromptFile.parse(V, functions={"getX": boom, "getY": lambda: "y"})
        prompt.render(on_problem=found.append)
        assert ["getX" in one.message for one in found] == [True]

    def test_what_the_caller_raises_about_a_problem_passes(self) -> None:
        def refuse(problem: Diagnostic) -> None:
            raise RuntimeError(problem.message)

        prompt = PromptFile.parse(V, functions={"getX": boom, "getY": str})
        with pytest.raises(RuntimeError, match="no sensor"):
            prompt.render(on_problem=refuse)


class TestFunctionsOfOneCall:
    def test_they_go_before_those_of_the_file(self) -> None:
        prompt = PromptFile.parse(V, functions={"getX": lambda: "x", "getY": lambda: "y"})
        assert prompt.render(functions={"getX": lambda: "1"})["B"] == "b y, 1"
        assert prompt.format("B", functions={"getY": lambda: "2"}) == "**B:**\nb 2, x"
        assert prompt.render()["B"] == "b y, x"

    def test_they_are_checked_like_all_others(self) -> None:
        with pytest.raises(ConfigError, match="getX"):
            PromptFile.parse(V, strict=False).render(functions={"getX": needs_one})  # type: ignore[dict-item]

    async def test_they_serve_asynchronous_calls_too(self) -> None:
        prompt = PromptFile.parse(V, functions={"getX": waits, "getY": waits})
        assert (await prompt.arender(functions={"getX": lambda: "1"}))["B"] == "b late, 1"
