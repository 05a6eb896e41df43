from __future__ import annotations

import datetime as dt
import functools
import logging
from contextlib import nullcontext

import pytest

from langchain_convmem.errors import ConfigError
from langchain_convmem.prompts import PromptFile, variable_function
from langchain_convmem.prompts.variables import REGISTRY


@pytest.fixture(autouse=True)
def own_registry():
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def render(function_name, functions=None):
    text = f"__* Var *__\n- v = {function_name}\n__ A __\n<{{{{v}}}}>"
    return PromptFile.parse(text, functions=functions).render()["A"]


def test_a_decorated_function_is_known_by_its_own_name_or_the_one_it_is_given():
    @variable_function
    def mood_of_day():
        return "calm"

    @variable_function(name="getMood")
    def mood():
        return "glad"

    assert (mood_of_day(), mood()) == ("calm", "glad")
    assert (render("mood_of_day"), render("getMood")) == ("<calm>", "<glad>")
    assert "mood" not in REGISTRY


def test_functions_of_a_file_go_before_registered_ones():
    assert render("getDate", functions={"getDate": lambda: "never"}) == "<never>"
    assert render("getDate") != "<never>"


def test_date_and_time_are_those_of_the_moment():
    before = dt.datetime.now().astimezone().replace(microsecond=0)
    text = "__* Var *__\n- d = getDate\n- i = getIsoDate\n- t = getTime\n__ A __\n{{d}} {{i}} {{t}}"
    shown = PromptFile.parse(text).render()["A"]
    after = dt.datetime.now().astimezone()
    seconds = int((after - before).total_seconds()) + 1
    moments = [before + dt.timedelta(seconds=passed) for passed in range(seconds)]
    assert shown in [moment.strftime("%d/%m/%Y %Y-%m-%d %H:%M:%S") for moment in moments]


def needs_one(value):
    return value


async def waits():
    return "late"


class WaitsWhenCalled:
    async def __call__(self):
        return "late"


@pytest.mark.parametrize("function", [needs_one, "text", None], ids=lambda f: type(f).__name__)
def test_what_cannot_be_called_without_arguments_is_refused(function):
    with pytest.raises(ConfigError, match="getX"):
        PromptFile.parse("__ A __\nx", functions={"getX": function})


@pytest.mark.parametrize("name", ["", "two words", "a-b", "1st", "a.b"])
def test_a_name_must_be_an_identifier(name):
    with pytest.raises(ConfigError, match="name"):
        PromptFile.parse("__ A __\nx", functions={name: lambda: ""})


def boom():
    message = "no sensor"
    raise OSError(message)


@pytest.mark.parametrize("function", [boom, lambda: None, lambda: 5], ids=["boom", "none", "int"])
def test_a_failing_function_gives_an_empty_string_and_an_error_in_the_log(function, caplog):
    prompt = PromptFile.parse(
        "__* Var *__\n- v = getX\n- d = getY\n__ A __\n[{{v}}] {{d}}",
        functions={"getX": function, "getY": lambda: "fine"},
    )
    assert prompt.render() == {"A": "[] fine"}
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.name.startswith("langchain_convmem.")
    assert "getX" in record.getMessage()
    assert record.exc_info is not None


V = "__* Var *__\n- v = getX\n- d = getY\n__ A __\n<{{v}}>\n__ B __\nb {{d}}, {{v}}"


class TestAsynchronous:
    @pytest.mark.parametrize(
        "function",
        [waits, WaitsWhenCalled(), functools.partial(waits)],
        ids=["f", "call", "partial"],
    )
    async def test_asynchronous_functions_are_awaited_and_refused_before_anything_is_called(
        self, function
    ):
        called = []
        prompt = PromptFile.parse(
            V.replace("- v = getX\n- d = getY", "- d = getY\n- v = getX"),
            functions={"getX": function, "getY": lambda: called.append("y") or "now"},
        )
        for render in (prompt.render, prompt.format):
            with pytest.raises(ConfigError, match="'getX' is asynchronous; use a"):
                render(["B"])
        assert called == []
        assert await prompt.arender() == {"A": "<late>", "B": "b now, late"}
        assert await prompt.aformat(["B"], include_titles=False) == "b now, late"

    async def test_failures_are_the_same_in_both_worlds(self):
        async def late_boom():
            return boom()

        for function in (boom, late_boom):
            found = []
            prompt = PromptFile.parse(V, functions={"getX": function, "getY": lambda: "y"})
            assert await prompt.arender(on_problem=found.append) == {"A": "<>", "B": "b y, "}
            assert len(found) == 1
            with pytest.raises(OSError, match="no sensor"):
                await prompt.arender(strict=True)

    @pytest.mark.parametrize("strict", [False, True])
    async def test_a_stop_iteration_ends_nothing_but_the_function(self, *, strict):
        prompt = PromptFile.parse(V, functions={"getX": iter(()).__next__, "getY": str})
        expected = pytest.raises(RuntimeError, match="StopIteration") if strict else nullcontext()
        with expected:
            assert await prompt.arender(strict=strict) == {"A": "<>", "B": "b , "}
        with expected:
            assert prompt.render(strict=strict) == {"A": "<>", "B": "b , "}


class TestProblems:
    def test_a_failure_is_shown_where_its_value_is_missing(self):
        found = []
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


def test_functions_of_one_call_go_before_those_of_the_file():
    prompt = PromptFile.parse(V, functions={"getX": lambda: "x", "getY": lambda: "y"})
    assert prompt.render(functions={"getX": lambda: "1"})["B"] == "b y, 1"
    assert prompt.format("B", functions={"getY": lambda: "2"}) == "**B:**\nb 2, x"
    assert prompt.render(["B"]) == {"B": "b y, x"}
