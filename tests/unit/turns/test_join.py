import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem import InMemoryLog
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.records import ThreadKey
from langchain_convmem.turns.turn import continue_turn, join
from langchain_convmem.views.codec import make_draft

KEY = ThreadKey("ana", "t")
CALL = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}


def _thread(*messages, turn_id=None):
    log = InMemoryLog()
    log.append(KEY, [make_draft(message, turn_id=turn_id) for message in messages])
    return log.entries(KEY)


def _chat(*texts):
    return [(HumanMessage, AIMessage)[n % 2](text) for n, text in enumerate(texts)]


def _texts(messages):
    return [str(message.text) for message in messages]


TOLD = ("one?", "1", "two?", "2", "three?", "3")


@pytest.mark.parametrize(
    ("said", "new"),
    [
        (["new"], ["new"]),
        ([*TOLD, "new"], ["new"]),
        ([*TOLD[2:], "new"], ["new"]),
        ([*TOLD[4:], "new"], ["new"]),
        ([*TOLD, "x?", "y", "new"], ["x?", "y", "new"]),
        ([*TOLD[:4], "new"], ["new"]),
        ([*TOLD[2:4], "new"], ["new"]),
        (["x?", "y", "new"], ["x?", "y", "new"]),
        (["x?", "y", *TOLD, "new"], ["new"]),
        (["one?", "1", "x?", "y", "new"], ["x?", "y", "new"]),
        (["one?", "other", "two?", "other", "three?", "other", "new"], ["new"]),
        (["one?", "1", "two of them?"], ["two of them?"]),
        (TOLD[:5], ["three?"]),
        (TOLD[:3], ["two?"]),
        (["  one? ", "1", "two?\n", "2", "new"], ["new"]),
    ],
    ids=" ".join,
)
def test_what_is_new_of_a_list(said, new):
    found = join(_thread(*_chat(*TOLD)), _chat(*said))
    assert _texts(found.new) == new
    assert (found.again, found.replaces) == (None, None)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_question_without_an_answer_goes_on(size):
    thread = _thread(*_chat(*TOLD[:5]))
    found = join(thread, _chat(*TOLD[5 - size : 5]))
    assert (found.again, found.new) == (thread[-1], ())
    alike = _thread(*_chat("yes", "ok", "b", "2", "yes"))  # the same was answered before
    assert join(alike, _chat(*["b", "2", "yes"][-size:])).again == alike[-1]


AGAIN = ("a", "1", *("yes", "ok") * 3)


@pytest.mark.parametrize(
    ("told", "said", "new"),
    [
        (TOLD[:3], (*TOLD[:3], "2", "new"), ["2", "new"]),  # nobody answered it here
        (AGAIN, (*AGAIN, "yes"), ["yes"]),  # told apart by its order
        (AGAIN, (*("yes", "ok") * 2, "yes", "ok", "b"), ["b"]),
    ],
)
def test_what_is_new_where_questions_are_open_or_alike(told, said, new):
    assert _texts(join(_thread(*_chat(*told)), _chat(*said)).new) == new


def test_ids_decide_where_there_are_ids():
    thread = _thread(HumanMessage("one?", id="q1"), AIMessage("1"), HumanMessage("yes", id="q2"))
    fresh = join(thread, [HumanMessage("one?", id="q1"), HumanMessage("yes", id="q3")])
    edited = join(thread, [HumanMessage("no such words", id="q2")])
    again = join(thread, [HumanMessage("one?", id="q1"), HumanMessage("yes", id="q2")])
    assert _texts(fresh.new) == ["yes"]
    assert edited.replaces == again.again == thread[2]


def test_media_are_a_part_of_what_is_said():
    def picture(data):
        block = {"type": "image", "base64": data, "mime_type": "image/png"}
        return HumanMessage([{"type": "text", "text": "What is this?"}, block])

    thread = _thread(picture("aGk="), AIMessage("A bike."))
    same = join(thread, [picture("aGk="), AIMessage("A bike."), HumanMessage("Sure?")])
    other = join(thread, [picture("eW8="), AIMessage("A bike."), HumanMessage("Sure?")])
    assert (len(same.new), len(other.new)) == (1, 3)


def _open(*more):
    asked = [HumanMessage("Where?"), AIMessage("", tool_calls=[CALL])]
    return _thread(*asked, *more, turn_id="01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_a_result_goes_on_with_the_turn_that_asked_for_it():
    kept, _ = continue_turn(_open(), [ToolMessage("found", tool_call_id="c1")])
    assert kept[0].contents == ("Where?",)
    assert len(kept) == 2


@pytest.mark.parametrize("results", [[], [ToolMessage("found", tool_call_id="c9")]])
def test_what_answers_nothing_is_refused(results):
    thread = _open(ToolMessage("found", tool_call_id="c1"), AIMessage("There."))
    with pytest.raises(InvalidMessageError):
        continue_turn(thread, results)
    with pytest.raises(InvalidMessageError):
        continue_turn([], results)


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_a_blank_message_is_never_the_last_one_once_more(text):
    found = join(_thread(HumanMessage(text)), [HumanMessage(text)])
    assert (len(found.new), found.again) == (1, None)


def test_a_result_that_comes_with_words_that_were_said_before_is_new():
    entries = _thread(*_chat("yes", "1", "look"), AIMessage("", tool_calls=[CALL]))
    result = ToolMessage("30", tool_call_id="c1")
    assert join(entries, [result, HumanMessage("yes")]).new == [result, HumanMessage("yes")]
