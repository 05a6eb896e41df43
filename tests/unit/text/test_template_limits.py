"""What a template may use, and use up."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.runnables import RunnableLambda

from benchmarks.templates_hostile import make_limits, read_hostile, render_both
from langchain_convmem import ChatTemplate
from langchain_convmem.errors import ChatTemplateError, ConfigError
from langchain_convmem.text import TemplateLimits
from langchain_convmem.text.meter import (
    CountedValues,
    LimitExceededError,
    Meter,
    measure,
    measure_made,
)
from langchain_convmem.text.template_chat_model import TemplateChatModel

USER = {"role": "user", "content": "Hi"}
HOSTILE = read_hostile()

REFUSED = {
    "append": "SecurityError",
    "center": "NotAllowed",
    "include": "NotAllowed",
    "lipsum": "NotAllowed",
    "number to bytes": "NotAllowed",
    "operation by its name": "NotAllowed",
    "the same argument twice": "TemplateSyntaxError",
}


def _outcome(source, **limits):
    try:
        return ChatTemplate(source, limits=TemplateLimits(**limits)).render([USER])
    except ChatTemplateError as error:
        return error.kind


# -- hostile templates ----------------------------------------------------------------------------


def test_there_are_enough_hostile_templates():
    assert len(HOSTILE) >= 40


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name.startswith("nested list") else ())
        for name in sorted(HOSTILE)
    ],
)
def test_a_hostile_template_ends_with_our_error_within_its_memory(name):
    # Time of this process is not asserted: it is the benchmark that says what it took.
    tracemalloc.start()
    try:
        ends = render_both(HOSTILE[name], make_limits(0.2, 32))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "finished" not in ends
    assert ends[0] == ends[1]
    assert ends[0] == REFUSED.get(name, ends[0])
    assert peak <= 32_000_000


# -- what counts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ("{% for a in range(100) %}{% endfor %}", {"max_steps": 90}),
        ("{% for a in range(100) if false %}{% endfor %}", {"max_steps": 90}),
        ("{{ range(100) | map('string') | list | length }}", {"max_steps": 90}),
        ("{% set x = 'x' * 3000 %}{{ x | length }}", {"max_value": 2_000}),
        ("{% set x = 'é' * 600 %}{{ x | length }}", {"max_value": 2_000}),
        ("{% for a in range(99) %}{% set x = 'x' * 2000 %}{% endfor %}", {"max_memory": 100_000}),
        ("{{ 'x' * 200 }}{{ 'x' * 200 }}", {"max_output": 300}),
        ("{% macro f(n) %}{{ f(n - 1) if n }}{% endmacro %}{{ f(9) }}", {"max_depth": 8}),
        (
            "{% if true %}{% if true %}{% if true %}x{% endif %}{% endif %}{% endif %}",
            {"max_depth": 3},
        ),
        ("{{ 1 + 1 + 1 + 1 + 1 + 1 }}", {"max_tokens": 10}),
    ],
    ids=range(10),
)
def test_each_limit_stops_what_goes_beyond_it_and_nothing_else(source, limit):
    assert _outcome(source, **limit) == "LimitExceeded"
    assert _outcome(source) != "LimitExceeded"


def test_a_limit_names_itself_and_the_line():
    template = ChatTemplate("\n{{ 'x' * 9000 }}", limits=TemplateLimits(max_value=1000))
    with pytest.raises(ChatTemplateError, match="larger than 1000 bytes") as caught:
        template.render([])
    assert (caught.value.kind, caught.value.line) == ("LimitExceeded", 2)


def test_every_turn_of_a_conversation_has_all_of_its_limits():
    source = (
        "{% for m in messages %}{% for a in range(90) %}{% endfor %}{{ m.content }}{% endfor %}"
    )
    state = ChatTemplate(source, limits=TemplateLimits(max_steps=200)).start()
    for number in range(9):
        assert state.feed([{"role": "user", "content": str(number)}]).text == str(number)


def test_a_value_is_as_large_as_its_text_however_it_is_shared():
    shared = ["x" * 100]
    assert measure([shared, shared], 10_000) == 64 + 2 * (64 + 64 + 100)
    for _ in range(60):
        shared = [shared, shared]
    with pytest.raises(LimitExceededError):
        measure(shared, 10_000)


def test_a_value_is_counted_before_it_is_made():
    meter = Meter(TemplateLimits(max_value=100))
    with pytest.raises(LimitExceededError):
        meter.make(101)
    assert meter.made > 100


def test_words_that_are_capitalised_one_by_one_are_counted_one_by_one():
    assert ChatTemplate("{{ 'two words'|title }}").render([]) == "Two Words"
    template = ChatTemplate("{{ ('a ' * 1000000)|title }}")
    with pytest.raises(ChatTemplateError, match="the template makes a value"):
        template.render([])


def test_values_that_come_one_by_one_count_one_by_one():
    meter = Meter(TemplateLimits())
    values = CountedValues(meter, iter("abc"))
    assert next(values) == "a"
    assert meter.steps == 1


def test_one_wide_character_makes_its_text_wide():
    assert measure_made(10, "abc", "") == 10
    assert measure_made(10, "abc", "é") == 40


def test_what_is_written_is_counted_before_it_is_joined():
    meter = Meter(TemplateLimits(max_memory=300_000))
    with pytest.raises(LimitExceededError):
        meter.join(["x" * 100_000, "é"])


def test_a_share_is_of_time_and_memory():
    limits = TemplateLimits(max_memory=80, max_seconds=8, max_steps=9)
    assert limits.share(8) == TemplateLimits(max_memory=10, max_seconds=1, max_steps=9)


def test_a_rendering_keeps_nothing_of_what_it_made():
    source = (
        "{% set ns = namespace(x='x' * 1000000) %}"
        "{% macro f(n) %}{{ f(n - 1) if n else ns.x | length }}{% endmacro %}{{ f(1) }}"
    )
    template = ChatTemplate(source)
    template.render([USER])
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        assert template.render([USER]) == "1000000"
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert held < 1_000_000


def test_the_parts_of_one_prompt_share_its_limits():
    source = (
        "{% for a in range(90) %}{% endfor %}{{ message.content }}{{ is_appending_to_prefill }}"
    )
    template = ChatTemplate(source, limits=TemplateLimits(max_steps=1000))
    assert template.render([USER] * 2) == "HiTrueHiTrue"
    with pytest.raises(ChatTemplateError, match="more than 1000 steps"):
        template.render([USER] * 20)


# -- where limits hold ----------------------------------------------------------------------------

ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


def test_limits_hold_in_any_thread():
    template = ChatTemplate(ENDLESS, limits=TemplateLimits(max_seconds=0.05))
    with ThreadPoolExecutor(2) as pool:
        errors = [
            one.exception() for one in [pool.submit(template.render, [USER]) for _ in range(2)]
        ]
    assert [error.kind for error in errors] == ["LimitExceeded"] * 2


async def test_limits_hold_in_async_code_and_the_model_is_not_called():
    called = []
    template = ChatTemplate(ENDLESS, limits=TemplateLimits(max_seconds=0.05))
    model = TemplateChatModel(llm=RunnableLambda(called.append), template=template)
    for error in await asyncio.gather(
        model.ainvoke("Hi"), model.ainvoke("Hi"), return_exceptions=True
    ):
        assert isinstance(error, ChatTemplateError)
        assert error.kind == "LimitExceeded"
    with pytest.raises(ChatTemplateError):
        async for _ in model.astream("Hi"):
            pass
    assert called == []


# -- what is allowed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("{{ ' a,b ' | trim | upper | replace(',', ';') }}", "A;B"),
        ("{{ 'a b'.split(' ') | join('-') }}{{ 'x'.join(['a', 'b']) }}", "a-baxb"),
        (
            "{{ 'abab'.rsplit('b', 1)[0] }}{{ 'ab'.strip('b') }}{{ 'ab'.replace('', '.') }}",
            "abaa.a.b.",
        ),
        ("{{ '%s is %05.2f%%' % ('x', 1.5) }}{{ '%(a)s' % {'a': 1} }}", "x is 01.50%1"),
        ("{{ '{} {k:>3}'.format(1, k=2) }}{{ '%s' | format('x') }}", "1   2x"),
        ("{{ [3, 1, 2] | sort | join }}{{ [1, 2] | sum }}{{ [1, 1] | unique | list }}", "1233[1]"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
        ("{{ messages | map(attribute='content') | first }}", "Hi"),
        ("{{ {'a': {'b': 1}}.get('a').b }}{{ {'b': 1}.items() | list }}", "1[('b', 1)]"),
        ("{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k ~ v }}{% endfor %}", "a2b1"),
        ("{{ 'b' in 'abc' and 1 in [1] and 'k' in {'k': 1} and 1 < 2 <= 2 }}", "True"),
        ("{{ 7 // 2 - 1 }}{{ 2 ** 3 }}{{ 7 % 3 }}{{ [1] + [2] }}{{ [0] * 2 }}", "281[1, 2][0, 0]"),
        ("{{ 'abc'[::-1] }}{{ [1, 2, 3][1:] }}{{ 'abc'[-1] }}", "cba[2, 3]c"),
        (
            "{{ '<&>' | e }}{{ ('<' | safe) + '<' }}{{ 'a\nb' | indent(2) }}",
            "&lt;&amp;&gt;<&lt;a\n  b",
        ),
        (
            "{{ '12' | int + 1 }}{{ '1.5' | float }}{{ 2.567 | round(1) }}{{ -3 | abs }}",
            "131.52.63",
        ),
        (
            "{% macro f(x) %}[{{ x }}{{ caller() }}]{% endmacro %}{% call f(1) %}y{% endcall %}",
            "[1y]",
        ),
        (
            "{% for x in [1, [2]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}",
            "12",
        ),
        (
            "{% for x in 'aab' %}{{ loop.changed(x) }}{{ loop.cycle(1, 2) }}{% endfor %}",
            "True1False2True1",
        ),
        ("{% filter upper %}a{{ 'b' }}{% endfilter %}{% set x %}c{% endset %}{{ x }}", "ABc"),
        ("{% if false %}{{ 'x' | center(9) }}{% endif %}ok", "ok"),
    ],
    ids=range(20),
)
def test_what_chat_templates_use_does_what_it_does_in_jinja(source, written):
    assert ChatTemplate(source).render([USER]) == written


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("{{ 'x' | center(9) }}", "filter 'center'.*extra_filters"),
        ("{{ ['x'] | map('center', 9) | list }}", "filter 'center'.*extra_filters"),
        ("{{ 'x' is escaped }}", "test 'escaped'"),
        ("{{ ['x'] | select('escaped') | list }}", "test 'escaped'"),
        ("{{ lipsum() }}", "function 'lipsum'.*extra_functions"),
        ("{{ 'x'.center(9) }}", "method 'str.center'"),
        ("{{ (5).bit_length() }}", "method 'int.bit_length'"),
        ("{% include 'x' %}", "tag 'include'"),
        ("{% if true %}{{ 'x' | center(9) }}{% endif %}", "filter 'center'"),
    ],
    ids=range(9),
)
def test_what_chat_templates_do_not_use_is_refused_by_name(source, name):
    with pytest.raises(ChatTemplateError, match=name) as caught:
        ChatTemplate(source).render([USER])
    assert caught.value.kind == "NotAllowed"


def test_an_application_may_add_filters_and_functions_whose_values_count():
    given = {
        "extra_filters": {"center": lambda text, width: text.center(width)},
        "extra_functions": {"repeat": lambda text, times: text * times},
    }
    source = "{{ 'x' | center(3) }}{{ repeat('y', 2) }}{{ ['z'] | map('center', 3) | join }}"
    assert ChatTemplate(source, **given).render([]) == " x yy z "
    limits = TemplateLimits(max_value=1000)
    with pytest.raises(ChatTemplateError, match="larger than 1000"):
        ChatTemplate("{{ 'x' | center(3000) }}", limits=limits, **given).render([])


def test_names_that_no_template_can_write_are_refused():
    with pytest.raises(ConfigError, match="convmem-tick"):
        ChatTemplate("", extra_filters={"convmem-tick": str})


def test_the_words_of_a_template_are_cut_short():
    with pytest.raises(ChatTemplateError) as caught:
        ChatTemplate("{{ raise_exception('x' * 90000) }}").render([])
    assert caught.value.reason == "x" * 2000
