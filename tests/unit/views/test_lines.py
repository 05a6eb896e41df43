from dataclasses import replace

import pytest
from histories import spoken
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.views.edits import count_heard, cut_to_heard
from langchain_convmem.views.lines import (
    Recall,
    RecalledBlock,
    clean_name,
    find_trust,
    format_day,
    format_iso_time,
    get_moment,
    indent_text,
    make_dialog_lines,
)

REPLY = "Your train leaves from platform 9, at noon. Do you need a ticket?"
USAGE = {"input_tokens": 3, "output_tokens": 20, "total_tokens": 23}


def heard(text, until):
    return text[: count_heard(text, until)]


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (0, ""),
        (10, "Your train"),
        (len(REPLY), REPLY),
        (10_000, REPLY),
        ("", ""),
        ("  ", ""),
        (REPLY, REPLY),
        ("Your train leaves ", "Your train leaves "),
        ("Your train leaves from plat", "Your train leaves from plat"),
        ("your TRAIN   leaves\nfrom", "Your train leaves from"),
        ("Your train leaves from platform 9 at noon", REPLY[:42]),
        ("your train leaves from platform 9, at noon.", REPLY[:43]),
        ("yourtrain", "Your train"),
        ("Do you need", "Your train leaves from platform 9, at noon. Do you need"),
    ],
)
def test_characters_or_words_tell_how_much_was_heard(until, expected):
    assert heard(REPLY, until) == expected


@pytest.mark.parametrize(
    ("text", "until", "expected"),
    [
        ("**Platform 9**, at *noon*.", "platform 9 at", "**Platform 9**, at"),
        ("Le café est fermé.", "le cafe est", "Le café est"),
        ("Le cafe\u0301 est ferme\u0301.", "Le caf\u00e9", "Le cafe\u0301"),
        ("Die Straße ist gesperrt.", "die strasse", "Die Straße"),
        ("ट्रेन ९ बजे जाती है।", "ट्रेन 9 बजे", "ट्रेन ९ बजे"),
        ("在九号站台，中午发车。", "九号站台", "在九号站台"),  # noqa: RUF001 - as it is written
        ("😀😀 Fine.", "😀", "😀"),
        ("One, two, three, two.", "two", "One, two"),
        ("Really?! Yes.", "really?!", "Really?!"),
    ],
)
def test_words_are_found_however_they_are_written(text, until, expected):
    assert heard(text, until) == expected


@pytest.mark.parametrize("until", ["Goodbye", "Your train leaves at ten"])
def test_words_that_were_never_said_are_refused_and_not_repeated(until):
    with pytest.raises(InvalidMessageError, match="not in the reply") as raised:
        count_heard(REPLY, until)
    assert until not in str(raised.value)


@pytest.mark.parametrize("until", [-1, True, 2.5, None])
def test_what_is_neither_a_number_nor_words_is_refused(until):
    with pytest.raises(ConfigError, match="heard_until"):
        count_heard(REPLY, until)


@given(st.text(), st.integers(0, 40))
def test_every_beginning_of_a_text_is_found_as_it_is(text, length):
    assert count_heard(text, text[:length]) == len(text[:length])


def test_a_cut_reply_keeps_all_that_is_known_of_it():
    known = {"id": "r1", "name": "agent", "usage_metadata": USAGE}
    told = {"model_name": "m", "finish_reason": "stop"}
    beside = {"voice": "alto", "audio": {"id": "a1"}}
    reply = AIMessage(REPLY, **known, response_metadata=told, additional_kwargs=beside)
    cut = cut_to_heard(reply, "Your train leaves ")
    told["interrupted"], beside = True, {"voice": "alto"}
    text = "Your train leaves"
    assert cut == AIMessage(text, **known, response_metadata=told, additional_kwargs=beside)
    assert reply.content == REPLY


def test_blocks_are_cut_where_their_texts_together_were_heard_and_others_stay():
    image, text = {"type": "image", "url": "x", "text": "a caption"}, {"type": "text", "id": "t"}
    reply = AIMessage(["One. ", image, {**text, "text": "Two, three."}, "Four."])
    heard = cut_to_heard(reply, len("One. Two"))
    assert heard.content == ["One. ", image, {**text, "text": "Two"}]
    reply.tool_calls = [{"name": "weather", "args": {}, "id": "c1", "type": "tool_call"}]
    assert cut_to_heard(reply, 0).content == [image]


def test_a_line_says_who_said_what_when_and_where():
    beside = {"timestamp": "1970-01-01T00:00:07Z", "session": 4}
    said = HumanMessage("Behind the harbour.", id="h1", name="Ana", additional_kwargs=beside)
    [entry] = spoken(said)
    [line] = make_dialog_lines(entry)
    assert (line.line_id, line.part, line.entry_id) == ("h1", 0, entry.id)
    assert (line.key, line.position, line.role) == (entry.key, entry.position, "user")
    assert (line.speaker, line.text) == ("Ana", "Behind the harbour.")
    assert (line.time_ms, line.session) == (7_000, "4")


def test_each_piece_of_text_is_a_line_of_its_own():
    [entry] = spoken(AIMessage(["one", " ", {"type": "text", "text": "two"}, "three"], id="m"))
    lines = make_dialog_lines(entry)
    assert [line.text for line in lines] == ["one", "two", "three"]
    assert [line.line_id for line in lines] == ["m", "m#2", "m#3"]
    assert [line.part for line in lines] == [0, 1, 2]


@pytest.mark.parametrize(
    "message",
    [
        SystemMessage("s"),
        ToolMessage("t", tool_call_id="c"),
        FunctionMessage(name="f", content="f"),
        HumanMessage(" "),
        AIMessage([{"type": "reasoning", "reasoning": "thought"}]),
        ChatMessage(content="d", role="developer"),
    ],
)
def test_only_what_user_and_assistant_said_are_lines(message):
    [entry] = spoken(message)
    assert make_dialog_lines(entry) == []


def test_a_line_is_tagged_with_the_short_plain_values_beside_its_message():
    tags = {"topic": "boats", "weight": 2, "share": 0.5, "urgent": False, "mood": None}
    other = {"session": "one", "timestamp": 7, "speaker": "Bo", "call": {"a": 1}, "why": "hm " * 99}
    [entry] = spoken(HumanMessage(["one", "two"], additional_kwargs={**tags, **other}))
    first, second = make_dialog_lines(entry)
    assert first.tags == second.tags == tags
    assert hash(first) == hash(replace(first, tags={}))


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        (-1, "1969-12-31T23:59:59.999000+00:00"),
        (1_683_540_000_250, "2023-05-08T10:00:00.250000+00:00"),
        (-62_135_596_800_000, "0001-01-01T00:00:00+00:00"),
    ],
)
def test_a_time_is_told_in_utc(time_ms, text):
    assert format_iso_time(time_ms) == text
    assert format_day(time_ms) == text[:10]
    assert get_moment(time_ms).isoformat() == text


@pytest.mark.parametrize("time_ms", [-(10**18), 10**18, 10**30])
def test_a_time_outside_the_calendar_has_no_text(time_ms):
    assert (get_moment(time_ms), format_iso_time(time_ms), format_day(time_ms)) == (None, None, "")


@given(st.text())
def test_an_indented_text_is_the_same_but_for_white_space(text):
    indented = indent_text(text)
    assert "".join(indented.split()) == "".join(text.split())
    assert all(line.startswith("  ") for line in indented.splitlines()[1:])


@pytest.mark.parametrize(
    ("given", "cleaned"),
    [
        ("Ana", "Ana"),
        (" Ana  Lee ", "Ana Lee"),
        ("Ana\nBo", "Ana Bo"),
        ("Ana\u2028\x00Bo", "Ana Bo"),
        ("Ana: yes. Bo", "Ana:yes. Bo"),
        ("\u202eanA\u202c", "anA"),
        ("agent:one", "agent:one"),
        ("\U0001f469\u200d\U0001f33e", "\U0001f469\u200d\U0001f33e"),
        ("\n", ""),
    ],
)
def test_a_name_is_one_line_and_holds_no_second_one(given, cleaned):
    assert clean_name(given) == cleaned
    assert clean_name(cleaned) == cleaned


@pytest.mark.parametrize(
    ("role", "marks", "attributes", "trust"),
    [
        ("user", {}, (), "user"),
        ("assistant", {}, (), "model"),
        ("tool", {}, (), "tool"),
        ("system", {}, (), "outside"),
        ("user", {}, ("imported",), "import"),
        ("user", {"trust": "outside"}, ("imported",), "outside"),
        ("assistant", {"trust": "tool"}, (), "tool"),
        ("assistant", {"trust": "user"}, (), "model"),
        ("user", {"trust": "user"}, ("imported",), "import"),
        ("user", {"trust": ["user"]}, (), "user"),
    ],
)
def test_a_mark_can_only_lower_what_a_message_is_trusted_as(role, marks, attributes, trust):
    assert find_trust(role, marks, attributes) == trust


def test_a_recall_prints_what_a_model_would_read_and_its_problems_last():
    block = RecalledBlock((), "[2023-11-14]\nAna: Before.", (), 4.0, 0.8)
    found = Recall((), (block,), problems=("the embedder failed",), verdict="answered")
    assert str(found) == "answered: 1 block\n\n[2023-11-14]\nAna: Before.\n\nthe embedder failed"
