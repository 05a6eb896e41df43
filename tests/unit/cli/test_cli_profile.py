import json

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.cli import main


@pytest.fixture
def told(tmp_path):
    """A log and the id of its first entry."""
    path = tmp_path / "memory.db"
    with ConversationMemory.open(path) as memory:
        said = [HumanMessage("I live in Lisbon."), HumanMessage("We moved to Porto.")]
        entries = memory.add_messages(said, thread_id="t1", user_id="ana")
    return path, entries[0].id


def run(told, capsys, *words):
    code = main(["profile", "--db", str(told[0]), "--user", "ana", *words])
    return code, capsys.readouterr()


def test_the_profile_is_printed_as_markdown_and_as_json(told, capsys):
    assert "## Places\n\n- We moved to Porto." in run(told, capsys)[1].out
    rows = json.loads(run(told, capsys, "--json")[1].out)
    assert [row["state"] for row in rows["items"]] == ["replaced", "current"]


def test_an_earlier_time_shows_what_held_then(told, capsys):
    said = run(told, capsys, "--as-of", told[1])[1].out
    assert "I live in Lisbon." in said
    assert "Porto" not in said
    code, printed = run(told, capsys, "--as-of", told[1], "--retract", told[1])
    assert code == 1
    assert "read-only" in printed.err


def test_an_item_is_retracted_explained_and_restored_by_its_id(told, capsys):
    new = json.loads(run(told, capsys, "--json")[1].out)["items"][1]["id"]
    assert "replaces: I live in Lisbon." in run(told, capsys, "--explain", new)[1].out
    assert "## Places\n\n- I live in Lisbon." in run(told, capsys, "--retract", new)[1].out
    assert "- We moved to Porto." in run(told, capsys, "--restore", new)[1].out.split("## Past")[0]


def test_the_timeline_has_a_line_for_each_item(told, capsys):
    lines = run(told, capsys, "--timeline")[1].out.splitlines()
    assert [line[12:] for line in lines] == ["I live in Lisbon.", "We moved to Porto."]
    assert "no items; --day takes" in run(told, capsys, "--day", "nonsense")[1].out
