import json
import sys

import pytest

from langchain_convmem import ConversationMemory, SQLiteLog
from langchain_convmem.recall import LineRecall

SAID = [
    ("D1:1", "2024-03-03T19:11", "Ana", "I locked my bicycle behind the bakery on Mill Lane."),
    ("D1:2", "2024-03-03T19:11", None, "Behind the bakery, noted."),
    ("D1:3", "2024-03-03T19:11", "Ana", "My sister Ruth visits in May."),
    ("D2:1", "2024-03-06T19:12", "Ana", "The plumber comes on Thursday to mend the boiler."),
    ("D2:2", "2024-03-06T19:12", None, "I hope the hot water is back soon."),
    ("D3:1", "2024-03-09T19:13", "Ana", "I am learning to play the oboe."),
    ("D3:2", "2024-03-09T19:13", None, "A demanding instrument! Which piece do you practise?"),
]
WEEKS = [
    {
        "id": own_id,
        "session": own_id[1],
        "timestamp": f"{time}:00Z",
        "role": "user" if name else "assistant",
        "name": name,
        "content": text,
    }
    for own_id, time, name, text in SAID
]
GOOD_ROW = json.dumps({"role": "user", "content": "The spare key hangs in the cellar."})


@pytest.fixture
def weeks(tmp_path):
    path = tmp_path / "weeks.any"
    path.write_text(json.dumps(WEEKS))
    return path


@pytest.fixture
def weeks_imported(convmem, weeks):
    assert convmem("import", weeks)[0] == 0


def entries_of(db, thread_id="weeks", user_id="me"):
    with ConversationMemory.open(db) as memory:
        return memory.history(thread_id, user_id=user_id).entries


def test_an_imported_dialogue_is_in_the_log_word_for_word(convmem, db, weeks):
    code, out, err = convmem("import", weeks)
    assert (code, err) == (0, "")
    assert out == f"{weeks}: 7 lines, 7 new, thread weeks\n"
    stored = [(entry.message.id, entry.message.content) for entry in entries_of(db)]
    assert stored == [(line["id"], line["content"]) for line in WEEKS]


def test_a_bad_second_file_keeps_the_first_one_out(convmem, db, weeks, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text(f'{GOOD_ROW}\n{{"role": "user", "content": 42}}\n')
    code, out, err = convmem("import", weeks, bad)
    assert (code, out) == (1, "")
    assert err == f"convmem: {bad}, line 2, content: found 42, expected text or a list of parts\n"
    assert not db.exists()


def test_a_thread_name_can_be_given_for_one_file_only(convmem, db, weeks):
    assert convmem("import", weeks, "--thread", "mine")[0] == 0
    assert len(entries_of(db, "mine")) == 7
    code, _, err = convmem("import", weeks, weeks, "--thread", "mine")
    assert code == 1
    assert "--thread" in err


def test_recall_shows_the_line_its_time_its_thread_and_why(convmem, weeks):
    convmem("import", weeks)
    code, out, err = convmem("recall", "Where is the bicycle locked?")
    assert (code, err) == (0, "")
    first = out.split("\n2. ")[0]
    assert first.startswith("1. thread weeks, session 1, 2024-03-03 19:11, relevance ")
    assert "Ana: I locked my bicycle behind the bakery on Mill Lane." in first
    assert 'why: "I locked my bicycle behind the bakery..." (Ana, 2024-03-03 19:11): ' in first


def test_recall_in_one_thread_leaves_the_others_out(convmem, weeks, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"role": "user", "content": "Another bicycle stands in Rome."}))
    convmem("import", weeks, other)
    everywhere = json.loads(convmem("recall", "bicycle", "--json")[1])["blocks"]
    assert {block["lines"][0]["thread_id"] for block in everywhere} == {"weeks", "other"}
    for thread_id in ("weeks", "other"):
        found = json.loads(convmem("recall", "bicycle", "--json", "--thread", thread_id)[1])
        assert {block["lines"][0]["thread_id"] for block in found["blocks"]} == {thread_id}


def test_recall_never_crosses_users(convmem, weeks):
    convmem("import", weeks, "--user", "ana")
    code, out, _ = convmem("recall", "bicycle", "--user", "ben")
    assert code == 0
    assert out == "no lines; --user ID searches another user's\n"
    assert "bicycle" in convmem("recall", "bicycle", "--user", "ana")[1]


def test_the_log_prints_the_thread_as_it_was_said(convmem, weeks):
    convmem("import", weeks)
    code, out, _ = convmem("log", "--thread", "weeks")
    assert code == 0
    assert out.splitlines()[:2] == [
        "2024-03-03 19:11  Ana: I locked my bicycle behind the bakery on Mill Lane.  (imported)",
        "2024-03-03 19:11  Assistant: Behind the bakery, noted.  (imported)",
    ]
    data = json.loads(convmem("log", "--thread", "weeks", "--json")[1])
    assert [item["message"]["data"]["id"] for item in data] == [line["id"] for line in WEEKS]


def test_forget_without_a_terminal_needs_a_yes(convmem, db, weeks):
    convmem("import", weeks)
    code, out, err = convmem("forget", "--thread", "weeks")
    assert (code, out) == (1, "")
    assert "7 entries" in err
    assert "--yes" in err
    assert len(entries_of(db)) == 7


def test_forgetting_a_thread_erases_it_alone_and_prints_the_receipt(convmem, db, weeks):
    convmem("import", weeks)
    convmem("import", weeks, "--thread", "kept")
    code, out, _ = convmem("forget", "--thread", "weeks", "--yes")
    assert code == 0
    assert out.startswith("erased 7 entries, 1 thread, ")
    assert entries_of(db) == []
    assert len(entries_of(db, "kept")) == 7


def test_threads_of_nobody_are_listed_where_they_are_asked_for(convmem, db):
    with ConversationMemory.open(db) as memory:
        memory.add_messages(["Hello."], thread_id="nobodys")
    assert convmem("threads")[1] == "no threads; --user ID shows another user's\n"
    assert "nobodys" in convmem("threads", "--anonymous")[1]


def test_forgetting_by_age_leaves_what_is_newer(convmem, db, weeks):
    convmem("import", weeks)
    assert convmem("forget", "--everything", "--before", "90d", "--yes")[1].startswith("erased 0")
    code, _, err = convmem("forget", "--thread", "weeks", "--before", "soon", "--yes")
    assert (code, "90d, 12h" in err, len(entries_of(db))) == (2, True, 7)
    out = convmem("forget", "--thread", "weeks", "--before", "0h", "--yes")[1]
    assert ", 1 thread" in out


def test_forgetting_everything_is_of_one_user(convmem, db, weeks):
    convmem("import", weeks)
    convmem("import", weeks, "--thread", "second")
    convmem("import", weeks, "--user", "ben")
    assert convmem("forget", "--everything", "--yes")[1].startswith("erased 14 entries, 2 threads")
    assert convmem("threads")[1] == "no threads; --user ID shows another user's\n"
    assert len(entries_of(db, user_id="ben")) == 7
    assert convmem("recall", "bicycle")[1].startswith("no lines; --user ID")


@pytest.mark.parametrize(("answer", "left"), [("y", 0), ("", 7), ("never", 7)])
@pytest.mark.usefixtures("weeks_imported")
def test_forget_asks_a_person_first(convmem, db, monkeypatch, answer, left):
    monkeypatch.setattr("builtins.input", lambda prompt="": answer)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    code, *_ = convmem("forget", "--thread", "weeks")
    assert code == (1 if left else 0)
    assert len(entries_of(db)) == left


@pytest.mark.parametrize(
    "words",
    [
        ("recall", "bicycle"),
        ("log", "--thread", "weeks"),
        ("threads",),
        ("threads", "--json"),
        ("forget", "--everything", "--yes"),
        ("db", "verify"),
        ("db", "backup", "copy.db"),
    ],
)
def test_a_missing_database_is_named_and_not_made(convmem, tmp_path, words):
    code, out, err = convmem(*words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "there is no database at memory.db" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("log", "--thread", "nosuch"),
        ("recall", "bicycle", "--thread", "nosuch"),
        ("forget", "--thread", "nosuch", "--yes"),
    ],
)
def test_an_unknown_thread_is_an_error(convmem, weeks, words):
    convmem("import", weeks)
    code, out, err = convmem(*words)
    assert (code, out) == (1, "")
    assert "'nosuch'" in err


def test_what_was_said_cannot_command_the_terminal(convmem, tmp_path):
    path = tmp_path / "evil.jsonl"
    path.write_text(json.dumps({"role": "user", "content": "bicycle \x1b]0;owned\x07"}))
    convmem("import", path)
    for words in (("recall", "bicycle"), ("log", "--thread", "evil")):
        out = convmem(*words)[1]
        assert "\x1b" not in out
        assert "bicycle \\x1b]0;owned\\x07" in out


def test_what_indexing_complains_of_is_said(convmem, weeks, monkeypatch):
    monkeypatch.setattr(LineRecall, "refresh", lambda self, owner, progress: ("2 lines wait",))
    code, out, err = convmem("import", weeks)
    assert (code, err) == (0, "2 lines wait\n")
    assert "7 new" in out


@pytest.mark.parametrize(
    ("step", "said"),
    [((LineRecall, "refresh"), "7 lines, 7 new"), ((SQLiteLog, "append"), "")],
)
def test_ctrl_c_in_an_import_says_that_it_can_go_on(convmem, weeks, monkeypatch, step, said):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(*step, interrupted)
    code, out, err = convmem("import", weeks)
    assert (code, len(out.splitlines()), len(err.splitlines())) == (130, bool(said), 1)
    assert said in out
    assert "Run the same import again to continue" in err
