from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path

import pytest

from langchain_convmem.errors import ConfigError, PromptSyntaxError
from langchain_convmem.prompts import PromptFile

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


class TestRendering:
    def test_values_are_not_parsed_again(self):
        value = "{{m}} {{c}} $1 \\1 %s"
        prompt = PromptFile.parse(
            "__* Const *__\n- c = no\n" + DESK,
            functions={"getNumber": lambda: value, "getOther": lambda: "O"},
        )
        assert prompt.render()["Ask"] == f"number {value}, again {value}"


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
        prompt = PromptFile.parse(
            DESK, functions={"getNumber": lambda: "1", "getOther": lambda: ""}
        )
        assert prompt.format(["Other", "Tone"]) == "**Tone:**\nbe kind"


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

    def test_equality_is_by_content(self):
        texts = [DESK, DESK.replace("kind", "brief"), DESK.replace("Earlier", "Before")]
        prompts = [PromptFile.parse(text, strict=False) for text in texts]
        for one, other in itertools.combinations(prompts, 2):
            assert one != other
        assert PromptFile.parse(DESK, strict=False) == prompts[0]

    def test_what_it_says_cannot_be_changed(self, desk):
        for said in (desk.metadata, desk.constants, desk.sections, desk.occurrences):
            with pytest.raises(TypeError):
                said["x"] = "y"
