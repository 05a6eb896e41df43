from datetime import datetime, timedelta

import pytest

from langchain_convmem.errors import ChatTemplateError, ConfigError, InvalidMessageError
from langchain_convmem.text.chat_template import BUILTINS, ChatTemplate

PLAIN = (
    "{{ head | default('') }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
SCANNING = "{{ messages | length }}:" + PLAIN
IN_PARTS = (
    "{% if is_appending_to_prefill %}{% if is_first_part %}<{{ message.role }}>{% endif %}"
    "{{ message.content }}{% if is_last_part %}</>{% endif %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}{% else %}" + PLAIN + "{% endif %}"
)


def user(text):
    return {"role": "user", "content": text}


def reply(text):
    return {"role": "assistant", "content": text}


def started(source=PLAIN, **variables):
    """Return a state after a first turn and its reply."""
    state = ChatTemplate(source).start(**variables)
    state.feed([user("a")])
    state.record_reply("b")
    return state


def test_a_reply_that_is_shown_otherwise_diverges_where_it_differs():
    state = started()
    increment = state.feed([reply("B"), user("c")])
    assert increment.stats.diverged_at == increment.kept == len("<user>a</><assistant>")
    assert increment.stats.diverged_in == "reply"
    assert increment.text == "B</><user>c</><assistant>"


def test_the_time_stands_still_within_a_conversation():
    times = iter(datetime(2031, 5, 6) + timedelta(days=n) for n in range(9))  # noqa: DTZ001
    template = ChatTemplate("{{ strftime_now('%d') }}" + PLAIN, now=lambda: next(times))
    state = template.start()
    state.feed([user("a")])
    assert state.feed([user("b")]).kept > len("06")
    assert state.read_text().startswith("06")
    assert template.render([]).startswith("07")


TAKING_TURNS = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('take turns') }}{% endif %}{{ m.content }}{% endfor %}"
)


@pytest.mark.parametrize(
    ("source", "bad", "kind"),
    [
        (TAKING_TURNS, user("c"), ChatTemplateError),
        (PLAIN, {"content": "no role"}, InvalidMessageError),
        (PLAIN, 7, TypeError),
    ],
)
def test_a_turn_that_fails_leaves_no_trace(source, bad, kind):
    state = started(source)
    before = (state.read_text(), state.messages, state.length)
    with pytest.raises(kind):
        state.feed([bad])
    assert (state.read_text(), state.messages, state.length) == before
    twin = started(source)
    assert state.feed([reply("b"), user("c")]) == twin.feed([reply("b"), user("c")])
    assert state.read_text() == twin.read_text()


ONLY_PARTS = (
    "{% if is_first_part %}<{{ message.role }}>{% endif %}{{ message.content }}"
    "{% if is_last_part %}</>{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}"
    "{% if is_appending_to_prefill %}{% endif %}"
)


def test_a_template_that_knows_parts_alone_writes_whole_conversations_of_them():
    template = ChatTemplate(ONLY_PARTS)
    assert template.render([user("a"), reply("b"), user("c")]) == (
        "<user>a</><assistant>b</><user>c</><assistant>"
    )
    state = template.start()
    state.feed([user("a")])
    state.record_reply("b")
    increment = state.feed([reply("b"), user("c ")], continue_final_message=True)
    assert (increment.text, increment.stats.diverged_at) == ("</><user>c ", None)
    assert state.feed([user("c d")]).text == "d</><assistant>"


@pytest.mark.parametrize("source", [PLAIN, SCANNING, IN_PARTS, ONLY_PARTS])
def test_what_is_said_so_far_is_read_before_the_message_ends(source):
    state = started(source)
    texts = [
        state.feed([reply("b"), user("Hel")], continue_final_message=True).text,
        state.feed([user("Hello, ")], continue_final_message=True).text,
        state.feed([user("Hello, Ana")]).text,
    ]
    if source is SCANNING:  # the first prompt told of one message, the next of three
        assert texts[1:] == ["lo,", " Ana</><assistant>"]
    elif source is PLAIN:
        assert texts == ["</><user>Hel", "lo,", " Ana</><assistant>"]
    else:  # a template that renders parts trims none of them
        assert texts == ["</><user>Hel", "lo, ", "Ana</><assistant>"]
    whole = ChatTemplate(source).render([user("a"), reply("b"), user("Hello, Ana")])
    assert state.read_text() == whole
    assert [message["content"] for message in state.messages] == ["a", "b", "Hello, Ana"]


def test_a_message_in_blocks_goes_on_with_its_last_text():
    source = "{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}"
    state = ChatTemplate(source).start()
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert state.feed([user(parts[:1])], continue_final_message=True).text == "[a"
    assert state.feed([user(parts)], continue_final_message=True).text == "][b"


def test_a_session_that_was_lost_is_filled_anew():
    state = started()
    with pytest.raises(ConfigError, match="not 99"):
        state.rewind(99)
    state.rewind()
    increment = state.feed([reply("b"), user("c")])
    assert (increment.kept, increment.stats.diverged_at) == (0, None)
    assert increment.text == "<user>a</><assistant>b</><user>c</><assistant>"


@pytest.mark.parametrize("source", ["{{ messages | length }}", "{{ messages[0].content | upper }}"])
def test_a_template_that_hides_the_message_cannot_let_it_go_on(source):
    state = ChatTemplate(source).start()
    with pytest.raises(InvalidMessageError, match="end with text"):
        state.feed([user([{"type": "image"}])], continue_final_message=True)
    with pytest.raises(ChatTemplateError) as caught:
        state.feed([user("a")], continue_final_message=True)
    assert caught.value.kind == "NothingToContinue"
    assert (state.read_text(), state.messages) == ("", [])


@pytest.fixture
def check_template(from_the_root):
    from tests.fuzz.chat_templates import check_template

    return check_template


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_what_is_sent_for_each_turn_makes_the_whole_prompt(check_template, name):
    found = check_template(ChatTemplate.from_builtin(name).source, chats=40, seed=7)
    assert found.mismatches == []
    assert min(found.turns, found.diverged, found.ahead) > 0
