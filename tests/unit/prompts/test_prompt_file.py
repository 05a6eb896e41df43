import copy
import datetime as dt
import functools
import logging
import pickle
from contextlib import nullcontext
from pathlib import Path

import pytest

from langchain_convmem.errors import ConfigError, PromptSyntaxError
from langchain_convmem.prompts import PromptFile, variable_function
from langchain_convmem.prompts.variables import REGISTRY

EXAMPLE = Path(__file__).parents[3] / "examples" / "assistant.prompt"

DESK = """\
__* Meta *__
- *MessageSummaryTitle* = Earlier
__* Var *__
- n = getNumber
- m = getOther
__ Ask __
number {{n}}, again {{n}}
__ Tone __
be kind
__ Other __
{{m}}
"""


def fixed():
    return "7"


@pytest.fixture
def desk():
    return PromptFile.parse(DESK, functions={"getNumber": fixed, "getOther": lambda: "other"})


class TestFormat:
    def test_sections_come_in_the_order_asked_for_and_the_summary_last(self, desk):
        assert desk.format(["Tone", "Ask"], summary="they met") == (
            "**Tone:**\nbe kind\n\n**Ask:**\nnumber 7, again 7\n\n**Earlier:**\nthey met"
        )

    @pytest.mark.parametrize("summary", ["", " \n"])
    def test_a_blank_summary_leaves_no_trace(self, desk, summary):
        assert desk.format(["Tone"], summary=summary) == "**Tone:**\nbe kind"

    def test_an_unknown_title_is_refused_by_name(self, desk):
        with pytest.raises(ConfigError, match=r"no section 'tone'; .*did you mean 'Tone'"):
            desk.format(["Tone", "tone"])

    def test_a_lenient_file_skips_it_with_a_warning(self, caplog):
        desk = PromptFile.parse(DESK, strict=False)
        assert desk.format(["No", "Tone"]) == "**Tone:**\nbe kind"
        assert [record.levelname for record in caplog.records] == ["WARNING"]

    def test_a_section_whose_value_is_empty_goes_with_its_heading(self):
        prompt = PromptFile.parse("__*Var*__\n- a = f\n__ A __\n{{a}}", functions={"f": str})
        assert prompt.format(["A"]) == ""


class TestLoading:
    def test_a_file_is_read_with_or_without_a_byte_order_mark(self, tmp_path):
        path = tmp_path / "a.prompt"
        for mark in (b"", b"\xef\xbb\xbf"):
            path.write_bytes(mark + "__ Älter __\r\nja\r\n".encode())
            for given in (path, str(path)):
                prompt = PromptFile.load(given)
                assert prompt.sections == {"Älter": "ja"}
                assert prompt.name == str(path)
                assert prompt.diagnostics == ()

    def test_a_file_that_is_not_utf8_is_named_with_line_and_column(self, tmp_path):
        path = tmp_path / "latin.prompt"
        path.write_bytes(b"\xef\xbb\xbf__ A __\r\nd\xc3\xa9j\xe0 vu\nx")
        with pytest.raises(PromptSyntaxError) as caught:
            PromptFile.load(path)
        error = caught.value
        assert (error.path, error.line, error.column) == (str(path), 2, 4)
        assert error.source_line == "déj\ufffd vu"
        assert str(error).startswith(f"{path}:2:4: error: ")

    def test_a_file_over_the_limit_is_named_and_one_at_the_limit_is_read(self, tmp_path):
        path = tmp_path / "large.prompt"
        path.write_bytes(b"__ A __\n12345")
        assert PromptFile.load(path, max_bytes=13).sections == {"A": "12345"}
        with pytest.raises(PromptSyntaxError, match=r"large\.prompt.* 12 bytes") as caught:
            PromptFile.load(path, max_bytes=12)
        assert caught.value.path == str(path)

    @pytest.mark.parametrize("language", ["it", "zh", "ar"])
    def test_prompts_in_other_languages_are_without_fault(self, language):
        prompt = PromptFile.load(EXAMPLE.parent / "prompts" / f"voicemail_{language}.prompt")
        assert prompt.diagnostics == ()
        assert len(prompt.sections) == 4
        assert len(prompt.occurrences) == 1
        assert prompt.summary_title
        assert not any(mark in text for text in prompt.render().values() for mark in ("{{", "/*"))


class TestValue:
    def test_it_pickles_and_copies_with_functions_that_do(self):
        prompt = PromptFile.parse(DESK, functions={"getNumber": fixed}, strict=False)
        assert pickle.loads(pickle.dumps(prompt)) == prompt  # noqa: S301 - our own bytes
        assert copy.deepcopy(prompt) == prompt

    def test_what_it_says_cannot_be_changed(self, desk):
        for said in (desk.metadata, desk.constants, desk.sections, desk.occurrences):
            with pytest.raises(TypeError):
                said["x"] = "y"


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
    assert render("getMood", functions={"getMood": lambda: "sad"}) == "<sad>"
    assert "mood" not in REGISTRY


def test_date_and_time_are_those_of_the_moment():
    before = dt.datetime.now().astimezone().replace(microsecond=0)
    text = "__* Var *__\n- d = getDate\n- i = getIsoDate\n- t = getTime\n__ A __\n{{d}} {{i}} {{t}}"
    shown = PromptFile.parse(text).render()["A"]
    after = dt.datetime.now().astimezone()
    seconds = int((after - before).total_seconds()) + 1
    moments = [before + dt.timedelta(seconds=passed) for passed in range(seconds)]
    assert shown in [moment.strftime("%d/%m/%Y %Y-%m-%d %H:%M:%S") for moment in moments]


async def waits():
    return "late"


class WaitsWhenCalled:
    async def __call__(self):
        return "late"


@pytest.mark.parametrize(
    "function", [lambda value: value, "text", None], ids=lambda f: type(f).__name__
)
def test_what_cannot_be_called_without_arguments_is_refused(function):
    with pytest.raises(ConfigError, match="getX"):
        PromptFile.parse("__ A __\nx", functions={"getX": function})


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


@pytest.mark.parametrize("given", [[str], str])
def test_bytes_and_functions_without_names_are_refused(given):
    with pytest.raises(ConfigError, match="load reads files"):
        PromptFile.parse(DESK.encode())
    with pytest.raises(ConfigError, match="functions must be a map of names to functions"):
        PromptFile.parse("__ A __\nB", functions=given)


def test_functions_of_one_call_go_before_those_of_the_file():
    prompt = PromptFile.parse(V, functions={"getX": lambda: "x", "getY": lambda: "y"})
    assert prompt.render(functions={"getX": lambda: "1"})["B"] == "b y, 1"
    assert prompt.format("B", functions={"getY": lambda: "2"}) == "**B:**\nb 2, x"
    assert prompt.render(["B"]) == {"B": "b y, x"}
