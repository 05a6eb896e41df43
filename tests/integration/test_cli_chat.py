from __future__ import annotations

import io
import json
import re
import sys

import pytest
from scripted_chat import ScriptedChatModel

from langchain_convmem import ConversationMemory
from langchain_convmem.cli import chat as chat_module
from langchain_convmem.cli import main
from langchain_convmem.cli.models import OFFLINE_NOTICE
from langchain_convmem.cli.output import MarkdownBlocks

PROMPT_FILE = """\
__ Role __
You are a gardener who never says {why}.

__ Manner __
Answer with care.
"""


@pytest.fixture
def chat(db, capsys, monkeypatch):
    """Chat through a pipe; the answer is code, stdout and stderr."""

    def run(*lines, options=(), thread="t1"):
        data = "".join(f"{line}\n" for line in lines).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        named = () if thread is None else ("--thread", thread)
        code = main(["chat", "--db", str(db), *named, *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def model(monkeypatch):
    """Let a scripted model answer instead of the offline one."""

    def script(*replies):
        scripted = ScriptedChatModel(replies=list(replies))
        monkeypatch.setattr(chat_module, "choose_model", lambda name, base_url: scripted)
        return scripted

    return script


@pytest.fixture
def person(db, capsys, monkeypatch):
    """Chat as a person at a terminal; an exception is raised where it would be typed."""

    def run(*lines):
        queue = [*lines, EOFError()]

        def answer(prompt=""):
            line = queue.pop(0)
            if isinstance(line, BaseException):
                raise line
            return line

        monkeypatch.setattr("builtins.input", answer)
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        code = main(["chat", "--db", str(db), "--thread", "t1"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def said(db, thread_id="t1"):
    with ConversationMemory.open(db) as memory:
        entries = memory.history(thread_id, user_id="me").entries
    return [(e.role, e.message.text, e.metadata.attributes) for e in entries if e.message]


def test_each_line_of_a_pipe_is_answered_on_its_own_line(chat, db, model):
    model(["Hello ", "Ana."], ["I do."])
    code, out, err = chat("Hi!", "", "  You remember? ")
    assert (code, out) == (0, "Hello Ana.\nI do.\n")
    assert err == "thread t1: continue it with --thread t1\n"
    assert said(db) == [
        ("user", "Hi!", ()),
        ("assistant", "Hello Ana.", ()),
        ("user", "  You remember? ", ()),
        ("assistant", "I do.", ()),
    ]


def test_every_chat_without_a_name_is_a_new_thread(chat, model):
    scripted = model(["one"], ["two"])
    first = chat("first", thread=None, options=["--no-recall"])[2]
    second = chat("second", thread=None, options=["--no-recall"])[2]
    assert first != second
    assert [one.text for one in scripted.seen[1]] == ["second"]


def test_the_offline_model_says_what_it_is_and_remembers_other_threads(chat):
    chat("I locked my bicycle behind the bakery on Mill Lane.")
    code, out, err = chat("Where did I lock my bicycle?", thread="t2")
    assert code == 0
    assert "bakery" in out
    assert OFFLINE_NOTICE in err.splitlines()


def test_recalled_lines_reach_the_model_unless_they_are_switched_off(chat, model):
    scripted = model(["ok"], ["ok"], ["ok"])
    chat("I locked my bicycle behind the bakery.")
    chat("Where is the bicycle?", thread="t2")
    chat("Where is the bicycle?", thread="t3", options=["--no-recall"])
    assert "behind the bakery" in scripted.asked[1]
    assert [one.text for one in scripted.seen[2]] == ["Where is the bicycle?"]


def test_what_was_recalled_is_shown_before_the_answer(chat, model):
    scripted = model(["ok"], ["Behind the bakery."])
    chat("I locked my bicycle behind the bakery.")
    _, out, _ = chat("Where is the bicycle?", thread="t2", options=["--show-recall"])
    shown, answer = out.rsplit("\n", 2)[0], out.splitlines()[-1]
    assert shown.splitlines()[0] == "> Where is the bicycle?"
    assert "User: I locked my bicycle behind the bakery." in shown.splitlines()[1]
    line = "User: I locked my bicycle behind the bakery."
    assert line in scripted.asked[1]
    assert answer == "Behind the bakery."


def test_commands_are_answered_and_not_remembered(chat, db, model):
    model(["Noted."])
    lines = ("My oboe is new.", "/recall oboe", "/history", "/help", "/quit", "unheard")
    code, out, _ = chat(*lines)
    assert code == 0
    answer, recalled, history = re.split("1. thread t1|   why.*\n", out, maxsplit=2)
    assert answer == "Noted.\n"
    assert "User: My oboe is new." in recalled
    assert "My oboe is new." in history
    assert "/recall TEXT" in history
    assert [text for _, text, _ in said(db)] == ["My oboe is new.", "Noted."]


def test_a_misspelt_command_ends_a_pipe_with_a_sentence(chat, db, model):
    model(["ok"])
    code, _, err = chat("hello", "/hsitory", "unheard")
    assert code == 1
    assert "'/hsitory' is not a command" in err
    assert [text for _, text, _ in said(db)] == ["hello", "ok"]


def test_a_prompt_file_stands_before_the_conversation(chat, model, tmp_path):
    prompt = tmp_path / "garden.prompt"
    prompt.write_text(PROMPT_FILE)
    scripted = model(["ok"])
    code, _, _ = chat("the roses", options=["--prompt", str(prompt), "--no-recall"])
    assert code == 0
    instructions, question = scripted.seen[0]
    assert "never says {why}" in instructions.text
    assert question.text == "the roses"


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "nosuchprovider:x"],
        ["--base-url", "http://127.0.0.1:1/v1"],
        ["--prompt", "/nosuch/file.prompt"],
    ],
)
def test_a_chat_that_cannot_begin_is_one_sentence_and_leaves_no_database(chat, db, options):
    code, out, err = chat("hi", options=options)
    assert (code, out) == (1, "")
    assert err.startswith("convmem: ")
    assert not db.exists()


def test_a_failing_provider_ends_a_pipe_and_the_message_is_kept(chat, db, model):
    model([OSError("no route to host")], ["never"])
    code, _, err = chat("Are you there?", "Hello?")
    assert code == 1
    assert err.splitlines()[-1] == "convmem: the model failed: OSError: no route to host"
    assert said(db) == [("user", "Are you there?", ())]


def test_a_failing_provider_does_not_end_a_persons_chat(person, db, model):
    model(["I ", OSError("line is dead")], ["Yes."])
    code, out, err = person("Are you there?", "And now?")
    assert (code, out) == (0, "I \nYes.\n\n")
    assert "convmem: the model failed: OSError: line is dead" in err
    assert [text for role, text, _ in said(db) if role == "user"] == ["Are you there?", "And now?"]


def test_ctrl_c_stops_an_answer_keeps_it_and_goes_on(person, db, model):
    model(["One ", "two ", KeyboardInterrupt(), "three"], ["Yes."])
    code, out, err = person("Count!", "Still there?")
    assert code == 0
    assert "stopped" in err
    assert "three" not in out
    assert said(db) == [
        ("user", "Count!", ()),
        ("assistant", "One two ", ("interrupted",)),
        ("user", "Still there?", ()),
        ("assistant", "Yes.", ()),
    ]


def texts(db, thread_id="t1"):
    with ConversationMemory.open(db) as memory:
        turns = memory.history(thread_id, user_id="me").turns
    return [" ".join(turn.contents) for turn in turns]


def test_undo_takes_back_retry_asks_again_and_edit_asks_something_else(chat, db, model):
    model(["One"], ["Two"], ["Three"], ["Four"])
    code, out, _ = chat("Hi", "/undo", "Ho", "/retry")
    assert (code, out) == (0, "One\nundone: Hi\nTwo\nThree\n")
    assert texts(db) == ["Ho", "Three"]
    chat("/edit Hello there")
    assert texts(db) == ["Hello there", "Four"]


@pytest.mark.parametrize("line", ["/undo", "/retry", "/edit x", "/why"])
def test_nothing_is_taken_back_where_nothing_was_said(chat, model, line):
    model()
    code, _, err = chat(line)
    assert code == 1
    assert "this thread has no" in err


def test_threads_are_listed_titled_and_changed(chat, db, model):
    model(["One"], ["Two"])
    code, out, err = chat(
        "Hi", "/title Tulips", "/thread new", "Ho", "/thread", "/thread t1", "/history"
    )
    assert code == 0
    assert "Tulips" in out
    assert "thread Tulips" in err.splitlines()[-1]
    assert texts(db) == ["Hi", "One"]
    with ConversationMemory.open(db) as memory:
        assert [info.title for info in memory.threads("me")] == ["", "Tulips"]


def test_why_says_what_was_recalled_for_the_last_message(chat, model):
    model(["Noted."], ["Behind the bakery."])
    chat("I locked my bicycle behind the bakery.", thread="old")
    code, out, _ = chat("Where is my bicycle?", "/why")
    assert code == 0
    assert "thread old" in out
    assert "why:" in out


def test_forgetting_is_confirmed_by_a_person_only(person, chat, db, model):
    model(["One"], ["Two"], ["Three"])
    assert "needs a terminal to confirm" in chat("Hi", "/forget last")[2]
    person("Ho", "/forget last", "n", "/forget last", "y")
    assert texts(db) == ["Hi", "One"]
    person("/forget thread", "y")
    assert texts(db) == []


def test_there_must_be_a_thread_to_go_on_with(chat, db, model):
    model()
    code, _, err = chat("Hi", thread=None, options=("-c",))
    assert (code, db.exists()) == (1, False)
    assert "there is no database" in err


def test_recall_finds_lines_that_hold_all_words(chat, model, convmem):
    model(["A ladder, fine."], ["Gone."], ["Two."])
    chat("Miguel has the long LADDER.", "/title Tools", "The ladder is gone", "/undo", thread="a")
    chat("My ladder", thread="b")
    code, out, _ = convmem("recall", "--words", "ladder", "--json")
    assert code == 0
    found = [(one["thread_id"], one["title"], one["text"]) for one in json.loads(out)]
    assert found == [
        ("b", "", "My ladder"),
        ("a", "Tools", "A ladder, fine."),
        ("a", "Tools", "Miguel has the long LADDER."),
    ]
    code, out, _ = convmem("recall", "--words", "ladder long")
    assert code == 0
    assert "  User: Miguel has the long LADDER." in out
    assert "  Tools" in out
    code, out, _ = convmem("recall", "--words", "ladder", "--thread", "a", "-k", "1", "--json")
    assert [one["text"] for one in json.loads(out)] == ["A ladder, fine."]
    assert convmem("recall", "--words", "zebra")[:2] == (1, "no line contains all of these words\n")


def test_the_log_is_that_of_the_latest_thread(chat, model, convmem):
    model(["One"], ["Two"])
    chat("Hi", thread="a")
    chat("Ho", thread="b")
    assert "Ho" in convmem("log")[1]
    assert "Hi" not in convmem("log")[1]


def test_blocks_are_given_out_when_they_are_complete():
    blocks = MarkdownBlocks()
    given = [blocks.add(piece) for piece in ("One ", "two.\n", "\n```\na\n", "\nb\n```\n", "\nEnd")]
    assert given == [[], [], ["One two.\n\n"], [], ["```\na\n\nb\n```\n\n"]]
    assert blocks.finish() == ["End"]
    assert blocks.finish() == []
