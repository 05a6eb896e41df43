import json
from dataclasses import replace

import pytest
from topics import TopicEmbeddings

from langchain_convmem.errors import ConfigError, LogUnavailableError
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.recall.buffer import BUFFER_DOCUMENT
from langchain_convmem.records import Control, Draft, Owner, ThreadKey

ANA = Owner(user_id="ana")
NOW = ThreadKey("ana", "now")
TALK = [
    "Hello there.",
    "The boat has a red hull.",
    "Fine weather today.",
    "Nothing else is new.",
    "Then we had soup.",
    "The dog is called Rex.",
    "Good night then.",
]
SETTINGS = replace(RecallSettings.spec(), k=1, threshold=0.4, window=1, buffer_size=3)


@pytest.fixture
def embedder():
    return TopicEmbeddings()


@pytest.fixture
def recall(log, embedder, say):
    say(log, TALK)
    return LineRecall(log, embedder, SETTINGS)


def numbers(blocks):
    """Return which lines of the talk the blocks show."""
    return [[TALK.index(line.text) for line in block.lines] for block in blocks]


@pytest.mark.parametrize("blank", ["", " \n"])
def test_a_blank_question_shows_the_buffer_and_changes_nothing(recall, log, blank):
    shown = recall.recall(ANA, "What colour is the boat?", buffer=NOW).buffer
    before = log.get_state(NOW, BUFFER_DOCUMENT)
    found = recall.recall(ANA, blank, buffer=NOW)
    assert found.blocks == ()
    assert numbers(found.buffer) == numbers(shown) != []
    assert log.get_state(NOW, BUFFER_DOCUMENT) == before
    with pytest.raises(ConfigError, match="blank"):
        recall.recall(ANA, blank)


def ask(recall, question, **options):
    return numbers(recall.recall(ANA, question, buffer=NOW, **options).buffer)


BOAT, DOG, SOUP, NOTHING = "Which boat?", "And the dog?", "What soup?", "What else?"


def test_a_block_that_is_found_again_moves_to_the_front_and_stands_there_once(recall):
    for question in (BOAT, DOG):
        ask(recall, question)
    assert ask(recall, BOAT) == [[0, 1, 2], [4, 5, 6]]
    kept = recall.log.get_state(NOW, BUFFER_DOCUMENT)
    assert ask(recall, BOAT) == [[0, 1, 2], [4, 5, 6]]
    assert recall.log.get_state(NOW, BUFFER_DOCUMENT) == kept, "nothing new, nothing written"


def test_blocks_that_overlap_share_their_lines(recall):
    wide = replace(SETTINGS, window=2)
    ask(recall, BOAT)
    assert ask(recall, DOG) == [[4, 5, 6], [0, 1, 2]]
    [block] = recall.recall(ANA, SOUP, buffer=NOW, settings=wide).buffer
    assert numbers([block]) == [[0, 1, 2, 3, 4, 5, 6]]
    assert {match.line.text for match in block.matches} == {TALK[1], TALK[4], TALK[5]}
    assert block.text.splitlines()[1:] == [f"{line.speaker}: {line.text}" for line in block.lines]


def test_lines_that_the_model_sees_are_not_repeated(recall, log):
    ask(recall, BOAT)
    entries = log.entries(ThreadKey("ana", "t"))

    def seen(*lines):
        return {ThreadKey("ana", "t"): [entries[line].position for line in lines]}

    assert ask(recall, NOTHING, exclude=seen(2, 3, 4)) == [[0, 1]]
    assert ask(recall, NOTHING, exclude=seen(1)) == [], "what is left was not looked for"
    assert ask(recall, NOTHING) == [[0, 1, 2]], "they come back when they leave the view"


def test_retracted_lines_leave_and_a_block_goes_with_its_match(recall, log):
    ask(recall, BOAT)
    entries = log.entries(ThreadKey("ana", "t"))

    def retract(line):
        control = Control((entries[line].id,), "undo")
        log.append(ThreadKey("ana", "t"), [Draft(role="control", control=control)])

    retract(2)
    assert ask(recall, NOTHING) == [[0, 1, 3]]
    retract(1)
    assert ask(recall, NOTHING) == []


def test_forgotten_lines_never_come_back(recall, log):
    for question in (BOAT, DOG):
        ask(recall, question)
    boat = log.entries(ThreadKey("ana", "t"))[1]
    log.forget(ThreadKey("ana", "t"), [boat.id])
    assert ask(recall, NOTHING) == [[4, 5, 6]]
    assert boat.id not in json.dumps(log.get_state(NOW, BUFFER_DOCUMENT).value)
    log.forget(ThreadKey("ana", "t"))
    assert ask(recall, NOTHING) == []


def test_the_document_holds_no_text(recall, log):
    ask(recall, BOAT)
    written = json.dumps(log.get_state(NOW, BUFFER_DOCUMENT).value)
    assert BUFFER_DOCUMENT.startswith("cache:")
    for word in ("boat", "hull", "Ana", "Bo", "Hello"):
        assert word not in written


def test_a_recall_that_is_not_remembered_shows_the_same_and_writes_nothing(recall, log):
    ask(recall, BOAT)
    kept = log.get_state(NOW, BUFFER_DOCUMENT)
    assert ask(recall, DOG, remember=False) == [[4, 5, 6], [0, 1, 2]]
    assert log.get_state(NOW, BUFFER_DOCUMENT) == kept
    assert ask(recall, NOTHING) == [[0, 1, 2]]


def test_settings_without_a_buffer_keep_none(recall, log):
    found = recall.recall(ANA, BOAT, buffer=NOW, settings=replace(SETTINGS, buffer_size=0))
    assert found.blocks
    assert found.buffer == ()
    assert log.get_state(NOW, BUFFER_DOCUMENT) is None


def test_of_two_turns_at_once_neither_loses_its_find(recall, log, embedder, monkeypatch):
    others = [lambda: ask(LineRecall(log, embedder, SETTINGS), DOG)]
    write = log.set_state

    def write_later(*args, **options):
        if others:
            others.pop()()
        return write(*args, **options)

    monkeypatch.setattr(log, "set_state", write_later)
    assert ask(recall, BOAT) == [[0, 1, 2], [4, 5, 6]]
    assert ask(recall, NOTHING) == [[0, 1, 2], [4, 5, 6]]


def test_a_buffer_that_cannot_be_written_is_a_problem_and_no_failure(recall, log, monkeypatch):
    def fail(*_, **__):
        raise LogUnavailableError("the disk is full")

    monkeypatch.setattr(log, "set_state", fail)
    found = recall.recall(ANA, BOAT, buffer=NOW)
    assert numbers(found.buffer) == [[0, 1, 2]]
    assert any("the disk is full" in problem for problem in found.problems)


@pytest.mark.parametrize("value", [None, [], "blocks", {"blocks": 7}, [[["id", 0]]], [[]], [7]])
def test_a_document_of_another_form_is_an_empty_buffer(recall, log, value):
    assert log.set_state(NOW, BUFFER_DOCUMENT, value, expected=None)
    assert ask(recall, NOTHING) == []
    assert ask(recall, BOAT) == [[0, 1, 2]]
