from dataclasses import replace

from histories import spoken
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_convmem.cli.output import escape_controls
from langchain_convmem.cli.rendering import (
    format_log,
    format_recall,
    format_recall_briefly,
    format_threads,
)
from langchain_convmem.records import Control, Entry, Metadata, ThreadInfo, ThreadKey
from langchain_convmem.views.lines import LineMatch, Recall, RecalledBlock, make_dialog_lines

KEY = ThreadKey("me", "garden")
AT = 1_683_554_160_000  # 2023-05-08 13:56 UTC


def entry(number, role, message=None, **fields):
    fields.setdefault("metadata", Metadata(timing={"creation": AT}))
    contents = () if message is None or not message.content else (message.content,)
    return Entry(
        id=f"e{number}",
        key=KEY,
        position=number,
        turn_id="t",
        role=role,
        message=message,
        contents=contents,
        **fields,
    )


LOOK = {"name": "look", "args": {"x": 1}, "id": "c1"}
ENTRIES = [
    entry(1, "system", SystemMessage("Be kind.")),
    entry(2, "user", HumanMessage("Hi\nthere", name="Ana", id="m1")),
    entry(
        3,
        "assistant",
        AIMessage("Hello", additional_kwargs={"timestamp": AT + 3_600_000, "session": 4}),
        metadata=Metadata(attributes=("interrupted",), timing={"creation": AT}),
    ),
    entry(4, "assistant", AIMessage("", tool_calls=[LOOK])),
    entry(5, "control", control=Control(("e3", "e4"), "undo")),
]


def test_the_log_shows_every_entry_and_marks_what_was_undone():
    assert [styled.text for styled in format_log(ENTRIES)] == [
        "2023-05-08 13:56  System: Be kind.",
        "2023-05-08 13:56  Ana: Hi\n    there",
        "2023-05-08 14:56  Assistant: Hello  (interrupted, retracted)",
        "2023-05-08 13:56  Assistant: [calls look(x=1)]  (retracted)",
        "2023-05-08 13:56  Control: undo: retracts 2 entries",
    ]
    picture = {"type": "image", "base64": "iVBO" * 400, "mime_type": "image/png"}
    [shown] = format_log([entry(1, "user", HumanMessage([picture]))])
    assert shown.text == "2023-05-08 13:56  User: [image, png, 1.2 kB]"
    imported = [{"file_name": "hive.png"}, {"content_type": "image_asset_pointer", "size": 4}]
    blocks = [{"type": "non_standard", "value": one} for one in imported]
    [shown] = format_log([entry(1, "user", HumanMessage(blocks))])
    assert shown.text.endswith("User: [hive.png]\n    [image_asset_pointer]")
    empty = [*format_recall(Recall((), ())), *format_threads([])]
    assert [one.text[:19] for one in empty] == ["no lines; --user ID", "no threads; --user "]


def test_threads_are_listed_in_the_given_order_by_title_and_cut_to_the_width():
    title = "Tulips along the south wall, and what became of Miguel's ladder"
    threads = [ThreadInfo(KEY, 12, AT, AT + 86_400_000)]
    threads += [ThreadInfo(ThreadKey("me", "t"), 1, AT, AT, title=title, archived=True)]
    assert [styled.text for styled in format_threads(threads, 80)] == [
        "garden                   12 entries, stored 2023-05-08 to 2023-05-09",
        "Tulips along the...       1 entry,  stored 2023-05-08  (archived)",
    ]
    wide = [styled.text for styled in format_threads(threads, 120)]
    assert wide[1].startswith("Tulips along the south wall, and what became of Miguel's...")
    assert max(map(len, wide)) <= 120


HOSTILE = "Ana\nBo: I agree\u2028\u202e\x1b[31m"
SHOWN = "Ana\\nBo: I agree\\u2028\\u202e\\x1b[31m"


def show(lines):
    return [escape_controls(line.text) for line in lines]


def test_names_of_speakers_threads_and_sessions_open_no_line():
    [plain] = make_dialog_lines(spoken("Hi")[0])
    named = {"key": ThreadKey("me", HOSTILE), "speaker": HOSTILE, "session": HOSTILE}
    block_line = replace(plain, **named)
    match = LineMatch(block_line, 1.0, 1.0, ("fits",))
    found = Recall((match,), (RecalledBlock((block_line,), "Ana: Hi", (match,), 1.0, 1.0),))
    for lines in (format_recall(found), format_recall_briefly(found)):
        shown = show(lines)
        assert SHOWN in "".join(shown)
        assert not any("\n" in one.replace("\n   ", "") for one in shown)


def test_names_in_a_log_and_a_list_of_threads_open_no_line():
    [said] = show(format_log([entry(1, "user", HumanMessage("Hi", name=HOSTILE))]))
    assert said == f"2023-05-08 13:56  {SHOWN.replace(': ', ':')}: Hi"  # nor a second name
    for title in ("", HOSTILE):
        info = ThreadInfo(ThreadKey("me", HOSTILE), 1, AT, AT, title=title)
        [row] = show(format_threads([info]))
        assert row.startswith(SHOWN)
        assert "\n" not in row
