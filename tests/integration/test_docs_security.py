"""The page on security: each line of its tables has tests, and these are tests that exist.

Lines that no other test is about are tried here, from the outside: through files, memories and the
command line.
"""

import itertools
import sqlite3
import subprocess
import sys
import tomllib
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from benchmarks.chaos.__main__ import DRILLS
from langchain_convmem import ChatTemplate, ConversationMemory
from langchain_convmem.errors import ChatTemplateError
from langchain_convmem.offline import OfflineChatModel

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "project" / "security.md"
HERE = {"configurable": {"user_id": "ana", "thread_id": "t"}}

UNTESTED = "Fault injection"
"""The section whose table lists drills of a benchmark."""

CLAIMS = tomllib.loads((Path(__file__).parent / "security_claims.toml").read_text("utf-8"))
"""The tests of each line by section and first cell."""


def list_rows():
    """Return section and first cell of each line of each table."""
    rows, section = [], ""
    lines = PAGE.read_text("utf-8").splitlines()
    for above, line in itertools.pairwise(lines):
        if line.startswith("#"):
            section = line.lstrip("# ")
        if line.startswith("| ") and above.startswith("|") and not line.startswith("| ---"):
            rows.append((section, line.split(" | ")[0].removeprefix("| ")))
    return rows


def test_each_line_of_a_table_has_tests_and_no_other_line_has():
    rows = [(section, cell) for section, cell in list_rows() if section != UNTESTED]
    claims = [(section, cell) for section, cells in CLAIMS.items() for cell in cells]
    assert len(rows) > 40
    assert rows == claims
    assert [cell for cells in CLAIMS.values() for cell, tests in cells.items() if not tests] == []


def test_each_test_that_the_page_names_is_collected():
    named = sorted(
        {test for cells in CLAIMS.values() for tests in cells.values() for test in tests}
    )
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *named], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
    collected = Counter(line.partition("[")[0] for line in done.stdout.splitlines())
    assert [test for test in named if not collected[test.partition("[")[0]]] == []


def test_the_page_lists_every_drill_of_the_benchmark():
    listed = [cell for section, cell in list_rows() if section == UNTESTED]
    assert listed == list(DRILLS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


def change(path, script):
    """Change a file as another program would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(script)


def recall_key(path):
    with ConversationMemory.open(path) as memory:
        return memory.recall("Who has the spare key?", user_id="ana", k=2).matches


def test_words_and_vectors_that_changed_are_derived_again(path):
    with ConversationMemory.open(path) as memory:
        texts = ["The spare key is with Teresa.", "The plumber comes on Thursday."]
        memory.add_messages([HumanMessage(text) for text in texts], user_id="ana", thread_id="t")
        memory.refresh(user_id="ana")
    expected = recall_key(path)
    assert expected[0].line.text == "The spare key is with Teresa."
    others = "(SELECT {0} FROM segments s WHERE s.place <> segments.place)"
    change(path, f"UPDATE segments SET terms = {others.format('terms')}")
    change(path, f"UPDATE segments SET vector = {others.format('vector')}")
    assert recall_key(path) == expected


def test_a_turn_and_its_recall_go_on_beside_a_damaged_entry(path):
    with ConversationMemory.open(path) as memory:
        for text in ("The key is with Teresa.", "Pay 1000 euros.", "The bill is blue."):
            memory.add_messages([HumanMessage(text)], user_id="ana", thread_id="bills")
    change(path, "UPDATE entries SET body = replace(body, '1000', '9000')")
    with ConversationMemory.open(path) as memory:
        reply = memory.wrap(OfflineChatModel()).invoke("Who has the key?", HERE)
        assert "Teresa" in reply.text
        found = memory.recall("How many euros do I pay?", user_id="ana", k=3)
        assert not any("euros" in match.line.text for match in found.matches)
        assert "1 entry is damaged" in " ".join(found.problems)


def test_a_template_changes_no_message_and_keeps_nothing():
    message = {"role": "user", "content": "Hi", "tags": ["a"]}
    with pytest.raises(ChatTemplateError):
        ChatTemplate("{{ messages[0].tags.append('b') }}{{ 1 }}").render([message])
    counting = ChatTemplate("{% set n = namespace(v=0) %}{% set n.v = n.v + 1 %}{{ n.v }}")
    assert [counting.render([message]) for _ in range(2)] == ["1", "1"]
    assert message == {"role": "user", "content": "Hi", "tags": ["a"]}
