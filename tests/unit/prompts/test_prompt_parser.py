from __future__ import annotations

import pytest

from langchain_convmem.prompts import PromptFile
from langchain_convmem.prompts.variables import Occurrence

FUNCTIONS = {"dayName": lambda: "Friday", "room_number": lambda: "204"}


def parse(text: str) -> PromptFile:
    return PromptFile.parse(text, functions=FUNCTIONS, strict=False)


def problems(text: str) -> list[tuple[str, int, int]]:
    return [(found.level, found.line, found.column) for found in parse(text).diagnostics]


WHOLE = """\
/* The night desk of a small hotel. */

__* Meta *__ // for the records
// only logged
- version = 3.1
- house = Hotel Aurora
- *MessageSummaryTitle* = Earlier Tonight


__* Const *__
- hotel = Hotel Aurora
- night clerk = Sol Ibarra


__* Var *__
- day = dayName
- room = room_number


/* what the model reads */

__ Scene __
It is the night of {{day}},\tand  the bar is closed.


Room {{ room }} may call.   // or come down

__ Duty __
You are {{night clerk}} of {{hotel}}; see https://aurora.example/rules for /* all */ the rules.
  1. Greet the guest.
  2. Write down the wish
     and repeat it.

__ scene __
Small letters make another section.

__ Scene __
Breakfast starts on {{day}} at 7.
"""


class TestWholeFile:
    def test_it_has_no_problem_but_the_continued_section(self) -> None:
        assert problems(WHOLE) == [("warning", 37, 1)]

    def test_fields_of_the_special_sections(self) -> None:
        prompt = parse(WHOLE)
        assert prompt.metadata == {
            "version": "3.1",
            "house": "Hotel Aurora",
            "*MessageSummaryTitle*": "Earlier Tonight",
        }
        assert prompt.constants == {"hotel": "Hotel Aurora", "night clerk": "Sol Ibarra"}
        assert prompt.variable_definitions == {"day": "dayName", "room": "room_number"}
        assert prompt.summary_title == "Earlier Tonight"

    def test_sections_are_cleaned_merged_and_in_order(self) -> None:
        assert list(parse(WHOLE).sections.items()) == [
            (
                "Scene",
                (
                    "It is the night of {{day}}, and the bar is closed.\n\n"
                    "Room {{ room }} may call.\n\n"
                    "Breakfast starts on {{day}} at 7."
                ),
            ),
            (
                "Duty",
                (
                    "You are Sol Ibarra of Hotel Aurora; see https://aurora.example/rules for the "
                    "rules.\n  1. Greet the guest.\n  2. Write down the wish\n     and repeat it."
                ),
            ),
            ("scene", "Small letters make another section."),
        ]

    def test_occurrences_point_at_the_braces_of_the_raw_text(self) -> None:
        prompt = parse(WHOLE)
        assert list(prompt.occurrences) == ["Scene"]
        body = prompt.sections["Scene"]
        found = [(o.function_name, body[o.start : o.end]) for o in prompt.occurrences["Scene"]]
        assert found == [
            ("dayName", "{{day}}"),
            ("room_number", "{{ room }}"),
            ("dayName", "{{day}}"),
        ]

    def test_windows_line_ends_and_a_byte_order_mark_change_nothing(self) -> None:
        windows = parse("\ufeff" + WHOLE.replace("\n", "\r\n"))
        assert windows.sections == parse(WHOLE).sections
        assert windows.occurrences == parse(WHOLE).occurrences
        assert [d.line for d in windows.diagnostics] == [37]


class TestTitles:
    @pytest.mark.parametrize(
        "line", ["__ Role __", "  __ Role __\t", "__Role__", "__   Role  __", "/* x */__ Role __"]
    )
    def test_blanks_and_comments_around_a_title_do_not_matter(self, line: str) -> None:
        assert parse(f"{line}\ntext").sections == {"Role": "text"}

    def test_inner_blanks_collapse(self) -> None:
        assert parse("__ Two \t words __\ntext").sections == {"Two words": "text"}

    def test_titles_in_other_scripts_need_nothing_special(self) -> None:
        text = "__ 角色 __\n你是助手。\n__ الدور __\nأنت مساعد.\n__ Perché __\nUn aiuto."
        prompt = parse(text)
        assert list(prompt.sections) == ["角色", "الدور", "Perché"]
        assert prompt.diagnostics == ()

    @pytest.mark.parametrize(
        "line",
        [
            "call __init__ first",
            "use a__b__c",
            "Name: ______",
            "__________",
            "___",
            "x__",
            "__x",
            "see x__ and __ y",
            "fill __ a, then __init__",
            "see x __ y",
        ],
    )
    def test_underscores_inside_a_line_are_text_and_fine(self, line: str) -> None:
        prompt = parse(f"__ A __\n{line}\nmore")
        assert prompt.sections == {"A": f"{line}\nmore"}
        assert prompt.diagnostics == ()

    @pytest.mark.parametrize(
        ("line", "level", "column"),
        [
            ("__ Rules __ be kind", "error", 1),
            ("! __ Rules __", "error", 3),
            ("__ One __ Two __", "error", 1),
            ("__ Open", "warning", 1),
            ("___ Rules ___", "warning", 1),
            ("__init__ and __main__", "warning", 1),
        ],
    )
    def test_what_only_looks_like_a_title_is_text_and_reported(
        self, line: str, level: str, column: int
    ) -> None:
        prompt = parse(f"__ A __\nx\n{line}\ny")
        assert prompt.sections == {"A": f"x\n{line}\ny"}
        assert problems(f"__ A __\nx\n{line}\ny") == [(level, 3, column)]

    def test_a_title_does_not_span_lines(self) -> None:
        assert parse("__ A __\nx\n__ Be\nCareful __\ny").sections == {
            "A": "x\n__ Be\nCareful __\ny"
        }

    def test_a_section_without_text_is_dropped_and_reported(self) -> None:
        text = "__ A __\n__ B __\n \n\t\n__ C __\nx\n__ D __"
        assert parse(text).sections == {"C": "x"}
        assert problems(text) == [("warning", 1, 1), ("warning", 2, 1), ("warning", 7, 1)]

    def test_text_under_an_empty_title_is_dropped_and_reported(self) -> None:
        text = "__ A __\nx\n____\nlost\n__ __\nlost too\n__ B __\ny"
        assert parse(text).sections == {"A": "x", "B": "y"}
        assert problems(text) == [("warning", 3, 1), ("warning", 5, 1)]

    def test_text_before_the_first_title_is_reported(self) -> None:
        text = "// fine\n\n  stray\nmore\n__ A __\nx"
        assert parse(text).sections == {"A": "x"}
        assert problems(text) == [("warning", 3, 3)]

    @pytest.mark.parametrize("title", ["* Foo *", "*Constants*", "* Meta", "Var *", "*"])
    def test_an_unknown_special_section_is_dropped_with_an_error(self, title: str) -> None:
        text = f"__{title}__\n- a = 1\n__ A __\nx"
        prompt = parse(text)
        assert (prompt.sections, prompt.constants) == ({"A": "x"}, {})
        assert problems(text) == [("error", 1, 1)]

    def test_a_star_inside_a_title_makes_no_special_section(self) -> None:
        assert parse("__ A * B __\nx").sections == {"A * B": "x"}
        assert problems("__ A * B __\nx") == [("warning", 1, 1)]

    @pytest.mark.parametrize("text", ["", "\ufeff", "\n\n", "// only a comment"])
    def test_a_text_without_any_section_is_an_error(self, text: str) -> None:
        assert problems(text) == [("error", 1, 1)]

    def test_special_sections_alone_are_a_warning(self) -> None:
        assert problems("__* Const *__\n- a = 1") == [("warning", 1, 1)]

    def test_special_titles_ignore_case_and_blanks_and_may_stand_anywhere(self) -> None:
        text = "__ A __\n{{who}}\n__  *   cONST * __\n- who = Pim\n__*META*__\n- v = 1"
        prompt = parse(text)
        assert prompt.sections == {"A": "Pim"}
        assert prompt.metadata == {"v": "1"}
        assert prompt.diagnostics == ()


class TestWhiteSpace:
    def test_indentation_is_kept_and_other_runs_become_one_blank(self) -> None:
        text = "__ A __\n\n\n \t two\t\twords  here \n    -   item\n\n \n\t\nend\n\n"
        assert parse(text).sections == {"A": " \t two words here\n    - item\n\nend"}

    def test_other_spaces_are_not_collapsed(self) -> None:
        text = "__ A __\n\u3000\u3000段落 a\u00a0\u00a0b\u2003\u2003c"
        assert parse(text).sections == {"A": "\u3000\u3000段落 a\u00a0\u00a0b\u2003\u2003c"}

    def test_a_blank_behind_a_comment_at_the_start_is_indentation(self) -> None:
        assert parse("__ A __\nx\n/* c */ y").sections == {"A": "x\n y"}


class TestFields:
    @pytest.mark.parametrize(
        "line",
        ["- a b = c d", "a b = c d", "  -a  b=c \t d  ", "- a b = c d // why", "- a b:\tc d"],
    )
    def test_a_field_may_be_written_in_several_ways(self, line: str) -> None:
        assert parse(f"__* Const *__\n{line}\n__ A __\nx").constants == {"a b": "c d"}

    @pytest.mark.parametrize(
        ("line", "key", "value"),
        [
            ("- home = https://x.example/a?b=c // site", "home", "https://x.example/a?b=c"),
            ("- path = a__b__c", "path", "a__b__c"),
            ("- a__b = 1", "a__b", "1"),
            ("- ratio 3:4 = wide", "ratio 3:4", "wide"),
            ('- q = "quoted"', "q", '"quoted"'),
            ("- f = m = n", "f", "m = n"),
            ("- money = $5 \\1 %s {0}", "money", "$5 \\1 %s {0}"),
            ("- t = __ x __", "t", "__ x __"),
        ],
    )
    def test_keys_and_values_are_taken_literally(self, line: str, key: str, value: str) -> None:
        prompt = parse(f"__* Const *__\n{line}\n__ A __\nsay {{{{{key}}}}}!")
        assert prompt.constants == {key: value}
        assert prompt.sections == {"A": f"say {value}!"}
        assert prompt.diagnostics == ()

    @pytest.mark.parametrize(
        ("line", "level"),
        [
            ("some words", "warning"),
            ("Note: not a field", "warning"),
            ("- https://x.example", "warning"),
            ("- = 9", "error"),
            ("- empty =", "error"),
            ("- empty:", "error"),
        ],
    )
    def test_a_line_that_is_no_whole_field_is_dropped_and_reported(
        self, line: str, level: str
    ) -> None:
        text = f"__* Const *__\n  {line}\n- next = ok\n__ A __\nx"
        assert parse(text).constants == {"next": "ok"}
        assert [p for p in problems(text) if p[0] != "info"] == [(level, 2, 3)]

    def test_the_last_of_equal_keys_wins_and_is_reported(self) -> None:
        text = "__* Const *__\n- a = 1\n- a = 2\n__* Const *__\n- a = 3\n__ A __\n{{a}}"
        assert parse(text).sections == {"A": "3"}
        assert problems(text) == [("warning", 3, 1), ("warning", 5, 1)]

    def test_two_equal_signs_in_a_row_are_reported(self) -> None:
        text = "__* Const *__\n- a == b\n__ A __\nx"
        assert parse(text).constants == {"a": "= b"}
        assert problems(text) == [("warning", 2, 1)]

    def test_a_colon_separates_too(self) -> None:
        assert parse("__* Var *__\n- d: dayName\n__ A __\n{{d}}").diagnostics == ()


class TestPlaceholders:
    def test_constants_are_filled_everywhere_and_only_once(self) -> None:
        text = "__* Const *__\n- a = {{b}}\n- b = 2\n__ A __\n{{a}}{{  b}}{{b }}|{b}|{ {b} }"
        assert parse(text).sections == {"A": "{{b}}22|{b}|{ {b} }"}
        assert problems(text) == [("warning", 2, 1)]

    def test_metadata_is_not_filled_and_that_is_reported(self) -> None:
        text = "__* Meta *__\n- v = {{k}}\n__* Const *__\n- k = 1\n__ A __\n{{k}}"
        assert parse(text).metadata == {"v": "{{k}}"}
        assert problems(text) == [("warning", 2, 1)]

    def test_an_unknown_name_stays_and_is_reported_where_it_stands(self) -> None:
        text = "__* Const *__\n- city = Oslo\n__ A __\n/* x */ Hi {{City}} \t{{nobody}}"
        prompt = parse(text)
        assert prompt.sections == {"A": " Hi {{City}} {{nobody}}"}
        assert problems(text) == [("error", 4, 12), ("error", 4, 22)]
        assert "did you mean 'city'?" in prompt.diagnostics[0].message

    def test_a_placeholder_ends_at_the_first_closing_braces(self) -> None:
        text = "__* Const *__\n- k = v\n__ A __\n{{{k}}} {{k}}}"
        assert parse(text).sections == {"A": "{{{k}}} v}"}

    def test_a_placeholder_does_not_span_lines(self) -> None:
        text = "__* Const *__\n- k = v\n__ A __\n{{k\n}} {{k}} {{ k"
        assert parse(text).sections == {"A": "{{k\n}} v {{ k"}
        assert problems(text) == [("warning", 4, 1), ("warning", 5, 10)]

    def test_a_constant_goes_before_a_variable_of_the_same_name(self) -> None:
        text = "__* Const *__\n- d = noon\n__* Var *__\n- d = dayName\n__ A __\n{{d}}"
        assert parse(text).sections == {"A": "noon"}
        assert problems(text) == [("warning", 4, 1)]

    def test_a_variable_in_a_constant_is_a_variable_of_the_section(self) -> None:
        text = "__* Const *__\n- c = on {{d}}\n__* Var *__\n- d = dayName\n__ A __\n{{c}}!"
        prompt = parse(text)
        assert prompt.occurrences == {"A": (Occurrence("dayName", 3, 8),)}
        assert prompt.rendered == {"A": "on Friday!"}
        assert prompt.diagnostics == ()

    def test_an_unknown_function_drops_the_definition_with_an_error(self) -> None:
        text = "__* Var *__\n- d = dayNam\n- r = room_number\n__ A __\n{{d}} {{r}}"
        prompt = parse(text)
        assert prompt.variable_definitions == {"r": "room_number"}
        assert prompt.rendered == {"A": "{{d}} 204"}
        assert problems(text) == [("error", 2, 1)]
        assert "did you mean 'dayName'?" in prompt.diagnostics[0].message

    @pytest.mark.parametrize("function", ["dayName()", "day name", "1st", "os.getcwd"])
    def test_what_is_no_function_name_is_an_error(self, function: str) -> None:
        text = f"__* Var *__\n- d = {function}\n__ A __\n{{{{d}}}}"
        assert parse(text).variable_definitions == {}
        assert problems(text) == [("error", 2, 1)]

    def test_indices_count_code_points_after_constants_are_filled(self) -> None:
        text = "__* Const *__\n- w = 😀😀\n__* Var *__\n- d = dayName\n__ A __\né {{w}} {{d}}"
        assert parse(text).occurrences == {"A": (Occurrence("dayName", 5, 10),)}


class TestQuotedText:
    @pytest.mark.parametrize(
        ("line", "text"),
        [
            ('{{"//"}} a comment of C', "// a comment of C"),
            ('x {{ "/* y */" }} z', "x /* y */ z"),
            ('{{"__ No title __"}}', "__ No title __"),
            ('say {{"{{who}}"}}, not {{who}}', "say {{who}}, not Pim"),
            ('{{"{{"}}day}} {{day}}', "{{day}} Friday"),
            ('{{"a"}}{{"b  c"}}', "ab c"),
        ],
    )
    def test_it_is_text_whatever_it_holds(self, line: str, text: str) -> None:
        head = "__* Const *__\n- who = Pim\n__* Var *__\n- day = dayName\n"
        prompt = parse(f"{head}__ A __\n{line}")
        assert prompt.rendered == {"A": text}
        assert prompt.diagnostics == ()

    def test_titles_keys_and_values_may_be_quoted(self) -> None:
        text = '__* Const *__\n- {{"//"}}x = {{"/* y"}} z\n__ {{"*"}} A {{"//"}} __\nk'
        prompt = parse(text)
        assert prompt.constants == {"//x": "/* y z"}
        assert prompt.sections == {"* A //": "k"}
        assert [found.level for found in prompt.diagnostics] == ["warning"]

    def test_quoted_braces_in_a_constant_make_no_variable(self) -> None:
        text = '__* Const *__\n- c = {{"{{"}}d}}\n__* Var *__\n- d = dayName\n__ A __\n{{c}}'
        assert parse(text).occurrences == {}
        assert parse(text).rendered == {"A": "{{d}}"}

    @pytest.mark.parametrize("line", ['{{""}}', '{{" "}}', '{{" a"}}', '{{"a}}', '{{a"}}'])
    def test_what_is_not_whole_in_its_quotes_is_an_unknown_name(self, line: str) -> None:
        assert parse(f"__ A __\n{line}").sections == {"A": line}
        assert problems(f"__ A __\n{line}") == [("error", 2, 1)]


class TestFilling:
    def test_what_is_filled_in_makes_no_placeholder_with_its_neighbours(self) -> None:
        text = "__* Const *__\n- o = {\n__* Var *__\n- d = dayName\n__ A __\n{{o}}{{o}}d}}"
        assert parse(text).rendered == {"A": "{{d}}"}

    def test_a_constant_within_a_constant_is_not_its_variable_namesake(self) -> None:
        text = "__* Const *__\n- a = {{d}}\n- d = 1\n__* Var *__\n- d = dayName\n__ A __\n{{a}}"
        assert parse(text).sections == {"A": "{{d}}"}
        assert parse(text).occurrences == {}

    def test_a_small_file_does_not_grow_without_limit(self) -> None:
        text = f"__* Const *__\n- a = {'x' * 100_000}\n__ A __\n{'{{a}}' * 500}\n__ B __\n{{{{a}}}}"
        prompt = parse(text)
        assert len(prompt.sections["A"]) < (1 << 24) + 5 * 500
        assert prompt.sections["A"].startswith("xxx")
        assert prompt.sections["A"].endswith("{{a}}{{a}}")
        assert problems(text) == [("error", 3, 1)]

    @pytest.mark.parametrize("key", ["a /* b", "a */ b"])
    def test_a_key_holds_no_mark_of_a_comment(self, key: str) -> None:
        prompt = parse(f"__* Const *__\n- {key} = 1\n__ A __\nx")
        assert prompt.constants == {}
        assert {found.level for found in prompt.diagnostics} >= {"error"}
