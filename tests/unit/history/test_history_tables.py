from __future__ import annotations

import base64
import html
import re

from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.views.export import MAX_HTML_ROWS


def rows(history):
    """Return the marks, role and pieces of each line of the table."""
    found = re.findall(
        r"^(\d+)\t(.*)\t\[(\w+)\] \{(.*?)\} -- '(\w+)' (.*)[,.]$", str(history), re.MULTILINE
    )
    assert [int(row[0]) for row in found] == list(range(len(history.turns)))
    assert [row[4] for row in found] == [turn.id for turn in history.turns]
    return [(marks, role, pieces) for _, marks, role, pieces, _, _ in found]


def test_an_empty_thread_prints_as_nothing(history):
    assert str(history) == "---"


def test_the_table_shows_every_turn_with_its_marks(history, say):
    history.add("assistant", "Welcome!")
    say("a", "b")
    history.add("user", ["c", "d"])
    history.to_maps()
    history.add_summary("S", history.summary_window())
    assert rows(history) == [
        ("", "user", "'...'"),
        ("", "assistant", "'Welcome!'"),
        ("", "user", "'a'"),
        ("", "assistant", "'b'"),
        ("- ^", "summary", "'S'"),
        ("*", "user", "'c' 'd'"),
    ]
    assert not str(history).endswith("index 6.")


def test_marks_behind_the_last_turn_are_named(history, say):
    say("a", "b")
    history.add_summary("S", history.summary_window())
    history.to_maps(exclude_last=False)
    assert rows(history) == [("", "user", "'a'"), ("", "assistant", "'b'"), ("^", "summary", "'S'")]
    assert str(history).splitlines()[-1] == ".\t'*' -> index 3, '-' -> index 3."


def test_a_turn_is_one_line_whatever_was_said(history):
    history.add("user", "1\n2\t3\r4\b5\\6\x1b[31m\u202e\u2028 caf\u00e9 \u6f22\u3000\ud800")
    table = str(history)
    assert len(table.splitlines()) == 2
    assert r"'1\n2\t3\r4\x085\\6\x1b[31m\u202e\u2028 " in table
    assert "caf\u00e9 \u6f22\\u3000\\ud800'" in table
    table.encode()


def test_pictures_calls_and_blocks_of_other_sorts_leave_a_trace(history):
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(85_992)).decode()
    history.add_message(
        HumanMessage(
            [
                {"type": "text", "text": "Where is it?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png}"}},
                {"type": "odd", "value": 1},
            ]
        )
    )
    call = {"name": "weather", "args": {"city": "Porto", "days": 2}, "id": "c1"}
    broken = {"name": "map", "args": "{oops", "id": "c2", "error": None}
    history.add_message(AIMessage("", tool_calls=[call], invalid_tool_calls=[broken]))
    assert [pieces for _, _, pieces in rows(history)] == [
        "'Where is it?' '[image, png, 86 kB]' '[odd]'",
        "'[calls weather(city=\"Porto\", days=2)]' '[calls map({oops)]'",
    ]
    for text in (history._repr_html_(), "".join(turn._repr_html_() for turn in history.turns)):
        assert "Where is it?<br>[image, png, 86 kB]<br>[odd]" in text
        assert "[calls weather(city=&quot;Porto&quot;, days=2)]<br>[calls map({oops)]" in text


def test_metadata_are_shown(history):
    turn = history.add("user", "a")
    history.add("user", "b")
    turn.add_timing("playStart", 5)
    turn.add_data("k", {"x": [True, None, "t\n"]})
    created = history.turns[0].metadata.timing["creation"]
    shown = (
        "{'attribute': ['merged'], 'aux': {'k': {'x': [True, None, 't\\n']}}, "
        f"'timing': {{'creation': {created}, 'playStart': 5}}}}"
    )
    assert shown in str(history)


# -- notebooks ----------------------------------------------------------------------------------


def test_a_notebook_shows_a_table_in_which_everything_is_escaped(history):
    history.add_messages([HumanMessage(["<script>alert(1)</script>", "a\nb & \ud800"])])
    history.turns[0].add_data("<b>", "</td>")
    page = history._repr_html_()
    assert "<script>" not in page
    assert html.escape("<script>alert(1)</script>") + "<br>a<br>b &amp; \\ud800" in page
    assert html.escape("{'aux': {'<b>': '</td>'}}") in page
    assert page.count("<tr>") == 2
    page.encode()


def test_a_notebook_shows_the_latest_turns_of_a_long_thread(history):
    kinds = (HumanMessage, AIMessage)
    history.add_messages([kinds[n % 2](f"text {n}") for n in range(MAX_HTML_ROWS + 7)])
    page = history._repr_html_()
    assert page.count("<tr>") == MAX_HTML_ROWS + 1
    assert "7 earlier turns" in page
    assert "<td" in page
    assert ">text 6<" not in page
    assert ">text 7<" in page
