import pytest

from benchmarks.templates_hostile import read_hostile, render_both
from langchain_convmem import ChatTemplate
from langchain_convmem.errors import ChatTemplateError
from langchain_convmem.text import TemplateLimits

USER = {"role": "user", "content": "Hi"}
HOSTILE = read_hostile()
HARMLESS = {"nested namespaces"}
"""They show nothing of what they hold, so such a template may finish."""


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_template_ends_with_our_error(name):
    # It is the benchmark that says what time and memory it took.
    ends = render_both(HOSTILE[name])
    assert ends[0] == ends[1]
    assert (ends[0] == "finished") == (name in HARMLESS)


def _outcome(source, **limits):
    try:
        return ChatTemplate(source, limits=TemplateLimits(**limits)).render([USER])
    except ChatTemplateError as error:
        return error.kind


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ("{% set x = 'x' * 3000 %}{{ x | length }}", {"max_work": 2_000}),
        ("{% set x = 'é' * 600 %}{{ x | length }}", {"max_work": 2_000}),
        ("{% set x %}{{ 'x' * 1500 }}{{ 'x' * 1500 }}{% endset %}{{ x }}", {"max_work": 5_000}),
        ("{% for a in range(99) %}{% set x = 'x' * 2000 %}{% endfor %}", {"max_work": 100_000}),
        ("{% for a in range(999) %}{% set x = messages[0:] %}{% endfor %}", {"max_work": 9_999}),
        ("{{ 'x' * 200 }}{{ 'x' * 200 }}", {"max_output": 300}),
        ("{% set x %}{{ 'x' * 200 }}{{ 'x' * 200 }}{% endset %}", {"max_output": 300}),
    ],
    ids=range(7),
)
def test_each_limit_stops_what_goes_beyond_it_and_nothing_else(source, limit):
    assert _outcome(source, **limit) == "LimitExceeded"
    assert _outcome(source) != "LimitExceeded"


def test_a_limit_names_itself_the_template_and_the_line():
    template = ChatTemplate("\n{{ 'x' * 9000 }}", limits=TemplateLimits(max_work=1000), name="mine")
    with pytest.raises(ChatTemplateError, match=r"mine, line 2 .*more work than 1000") as caught:
        template.render([])
    assert (caught.value.kind, caught.value.line) == ("LimitExceeded", 2)


def test_a_template_that_is_too_long_is_refused():
    with pytest.raises(ChatTemplateError, match="11 characters, allowed 10"):
        ChatTemplate("x" * 11, limits=TemplateLimits(max_source=10))


def test_every_turn_has_all_of_its_limits_and_one_that_is_stopped_leaves_no_trace():
    source = (
        "{% for m in messages %}{% for a in range(m.content | int) %}{% endfor %}"
        "{{ m.content }}{% endfor %}"
    )
    state = ChatTemplate(source, limits=TemplateLimits(max_work=200_000)).start()
    for _ in range(30):
        state.feed([{"role": "user", "content": "1"}])
    with pytest.raises(ChatTemplateError) as caught:
        state.feed([{"role": "user", "content": "99999"}])
    assert caught.value.kind == "LimitExceeded"
    assert (state.read_text(), len(state.messages)) == ("1" * 30, 30)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("{{ 'x' | center(9) }}", "filter named 'center'"),
        ("{{ ['x'] | map('center', 9) | list }}", "filter named 'center'"),
        ("{{ lipsum() }}", "'lipsum' is undefined"),
        ("{{ 'x'.center(9) }}", "attribute 'center' of 'str' object is unsafe"),
        ("{{ '{:>9}'.format(1) }}", "attribute 'format' of 'str' object is unsafe"),
        ("{{ 'x'['format'](1) }}", "attribute 'format' of 'str' object is unsafe"),
        ("{{ '%9s' % 'x' }}", "does not use '%' here"),
        ("{{ 2 ** 3 }}", "does not use '..' here"),
        ("{{ (5).bit_length() }}", "attribute 'bit_length' of 'int' object is unsafe"),
        ("{{ messages.append(1) }}", "attribute 'append' of 'list' object is unsafe"),
        ("{{ strftime_now.__globals__ }}x{{ strftime_now.__globals__.x }}", "is unsafe"),
        ("{% include 'x' %}", "no loader"),
        ("{{ raise_exception('x' * 90000) }}", r": x{2000} \(TemplateError"),
    ],
)
def test_what_chat_templates_do_not_use_is_refused_by_name(source, name):
    with pytest.raises(ChatTemplateError, match=name):
        ChatTemplate(source).render([USER])


USED = """
{{ ' a,b ' | trim | upper | replace(',', ';') }} -> A;B
{{ 'a b'.split(' ') | join('-') }}{{ 'x'.join(['a', 'b']) }} -> a-baxb
{{ 'abab'.rsplit('b', 1)[0] }}{{ 'ab'.strip('b') }}{{ 'ab'.replace('', '.') }} -> abaa.a.b.
{{ [3, 1, 2] | reverse | join('-') }}{{ [1, 2] | map('string') | list }} -> 2-1-3['1', '2']
{{ {'a': [1, 'é']} | tojson }}{{ ['<'] | tojson(separators=(',', ':')) }} -> {"a": [1, "é"]}["<"]
{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }} -> {"a": 2, "b": 1}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} -> 1
{{ messages | map(attribute='content') | first }} -> Hi
{{ {'a': {'b': 1}}.get('a').b }}{{ {'b': 1}.items() | list }} -> 1[('b', 1)]
{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k ~ v }}{% endfor %} -> a2b1
{{ 'b' in 'abc' and 1 in [1] and 'k' in {'k': 1} and 1 < 2 <= 2 }} -> True
{{ 7 // 2 - 1 }}{{ 7 % 3 }}{{ [1] + [2] }}{{ [0] * 2 }}{{ 'x' * -9 }} -> 21[1, 2][0, 0]
{{ 'abc'[::-1] }}{{ [1, 2, 3][1:] }}{{ 'abc'[-1] }} -> cba[2, 3]c
{{ ('<' | safe) + '<' }}{{ '<' | safe }} -> <&lt;<
{{ '12' | int + 1 }}{{ '1.5' | float }}{{ -3 | abs }} -> 131.53
{% macro f(x) %}[{{ x }}{{ caller() }}]{% endmacro %}{% call f(1) %}y{% endcall %} -> [1y]
{% for x in [1, [2]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %} -> 12
{% for x in 'aab' %}{{ loop.changed(x) }}{{ loop.cycle(1, 2) }}{% endfor %} -> True1False2True1
{% filter upper %}a{{ 'b' }}{% endfilter %}{% set x %}c{% endset %}{{ x }} -> ABc
{% if false %}{{ 'x' | center(9) }}{% endif %}ok -> ok
{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %} -> Hi
{% for m in 'ab' %}{% if m == 'a' %}{% continue %}{% endif %}{{ m }}{% endfor %} -> b
{% for m in 'ab' %}{% if m == 'b' %}{% break %}{% endif %}{{ m }}{% endfor %} -> a
"""


@pytest.mark.parametrize("line", USED.strip().splitlines())
def test_what_chat_templates_use_does_what_it_does_in_jinja(line):
    source, _, written = line.partition(" -> ")
    assert ChatTemplate(source).render([USER]) == written
