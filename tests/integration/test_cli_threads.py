"""Threads are named by title or id; results go to a file or fit the screen; little is loaded."""

import json
import subprocess
import sys

import pytest

from langchain_convmem import ConversationMemory
from langchain_convmem.cli.output import fold_line

TITLE = "Tulips for the wall"


@pytest.fixture(autouse=True)
def _three_threads(convmem):
    with ConversationMemory.open("memory.db") as memory:
        for name, title in (("01-wall", TITLE), ("02-a", "Twice"), ("03-b", "twice")):
            said = f"The ladder of {name} is at Miguel's."
            memory.add_messages([said], thread_id=name, user_id="me")
            memory.set_title(name, title, user_id="me")


@pytest.mark.parametrize(
    "words",
    [("log", TITLE), ("log", "--thread", TITLE), ("log", "01-wall"), ("log", TITLE.upper())],
)
def test_a_thread_is_named_by_title_or_id_in_either_place(convmem, words):
    code, out, err = convmem(*words)
    assert (code, err) == (0, "")
    assert "ladder of 01-wall" in out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("log", "tulip for the wall"), 1, f"did you mean '{TITLE}'?"),
        (("export", "nosuch", "-o", "x"), 1, "no thread 'nosuch'"),
        (("log", "Twice"), 1, "2 threads titled 'Twice'; name one by its id: 03-b, 02-a"),
        (("stats", "01-wall", "--thread", "02-a"), 2, "name the thread once"),
    ],
)
def test_a_name_that_leads_nowhere_is_answered_with_a_way_out(convmem, words, code, says):
    found, out, err = convmem(*words)
    assert (found, out) == (code, "")
    assert says in err


def test_titles_stand_where_ids_would(convmem):
    for words in (("threads",), ("recall", "ladder"), ("recall", "--words", "ladder")):
        out = convmem(*words)[1]
        assert TITLE in out
        assert "  01-wall" not in out
        assert "thread 01-wall" not in out
    assert f"thread '{TITLE}' of user 'me'" in convmem("forget", TITLE)[2]
    code, out, _ = convmem("export", TITLE, "-o", "-")
    assert (code, json.loads(out.splitlines()[0])["thread_id"]) == (0, "01-wall")


def test_a_result_goes_to_a_file(convmem, tmp_path):
    printed = convmem("threads", "--json")[1]
    assert convmem("threads", "--json", "-o", "threads.json") == (0, "", "")
    assert (tmp_path / "threads.json").read_text() == printed
    assert "cannot be written" in convmem("stats", "--out", "no/such/folder")[2]


def test_stats_count_one_thread_or_all(convmem):
    one = json.loads(convmem("stats", TITLE, "--json")[1])
    every = json.loads(convmem("stats", "--json")[1])
    assert (one["threads"], one["entries"], one["messages"]) == (1, 1, {"user": 1})
    assert (every["threads"], every["entries"], every["turns"]) == (3, 3, 3)
    assert convmem("stats")[1].startswith("threads: 3\nentries: 3\nmessages: 3 user\n")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("bad.pdf", b"%PDF-1.7 x", "bad.pdf: is a PDF; convmem reads"),
        ("a.png", b"\x89PNG\r\n", "is a picture"),
        ("notes.txt", b"Dear diary", "found text that is no JSON; convmem reads"),
        ("a.json", b'{"foo": 1}', "found an object with the keys foo; convmem reads"),
        ("page.html", b"<!doctype html>", "is a web page"),
    ],
)
def test_a_wrong_file_is_answered_in_one_sentence(convmem, tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    code, out, err = convmem("import", name)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert says in err
    assert len(err) < 300
    assert "'convmem import --formats'" in err


def test_the_formats_are_listed(convmem):
    listed = json.loads(convmem("import", "--formats", "--json")[1])
    assert {"chatgpt", "claude", "openai", "convmem", "maps"} <= listed.keys()
    assert convmem("import")[0] == 2


def test_long_lines_are_folded_between_words():
    line = "   User: " + "tulips and ladders " * 9 + "https://example.org/" + "x" * 90
    folded = fold_line(line, 80).split("\n")
    assert [one for one in folded if len(one) > 80] == [folded[-1]]
    assert all(one.startswith("     ") for one in folded[1:])
    assert " ".join(" ".join(folded).split()) == " ".join(line.split())
    assert fold_line("short", 80) == "short"


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--version"], ("langchain_core.messages", "numpy")),
        (["--help"], ("rich", "langchain", "numpy", "faiss")),
        (["threads"], ("langchain_convmem.memory", "numpy", "langgraph", "langchain")),
    ],
)
def test_a_command_loads_no_more_than_it_needs(convmem, words, heavy):
    convmem("threads")
    code = f"import sys; from langchain_convmem.cli import main; main({words!r})"
    code += f"; print([one for one in {heavy!r} if one in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
