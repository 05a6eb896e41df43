import asyncio
import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from scripted_chat import texts

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import ConfigError
from langchain_convmem.records import Owner
from langchain_convmem.transfer import ImportReport, export_rows

CHAT = [
    {"role": "user", "content": "My boat is red.", "id": "m1"},
    {"role": "assistant", "content": "I see.", "id": "m2"},
]
WAYS = {
    "import_file": ConversationMemory.import_file,
    "aimport_file": lambda *args, **given: asyncio.run(
        ConversationMemory.aimport_file(*args, **given)
    ),
}


@pytest.fixture
def chat(tmp_path):
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT))
    return path


@pytest.fixture(params=WAYS)
def imported(request, memory):
    """The import of a file into a memory, in both forms."""
    return lambda *args, **options: WAYS[request.param](memory, *args, **options)


def test_a_file_becomes_threads_that_are_recalled(memory, imported, chat):
    report = imported(chat, user_id="ana")
    assert report == ImportReport(
        path=str(chat), thread_ids=("chat",), branches=0, added=2, known=0, skipped=()
    )
    assert len(report) == 2
    assert texts(memory, "chat") == ["My boat is red.", "I see."]
    assert "My boat is red." in str(memory.recall("Which boat?", user_id="ana").blocks)


def _no_boats(message):
    if "boat" in message.text:
        return None
    message.content = str(message.text).replace("42-42", "[number]")
    return message


@pytest.fixture
def discreet():
    with ConversationMemory(InMemoryLog(), before_write=_no_boats) as opened:
        yield opened


@pytest.mark.parametrize("way", WAYS)
def test_an_export_goes_through_the_hook_with_its_edits(discreet, tmp_path, way):
    with ConversationMemory(InMemoryLog()) as other:
        history = other.history("t", user_id="ana")
        history.add_messages([HumanMessage("A boat?", id="q0"), SystemMessage("Dial 42-42.")])
        history.add_messages([HumanMessage("Who?", id="q1"), AIMessage("42-42.", id="a1")])
        history.replace("a1", "Dial 42-42!")
        history.add_summary("They dialled 42-42.", history.summary_window())
        path = tmp_path / "export.jsonl"
        path.write_text("\n".join(export_rows(other.log, Owner(user_id="ana"))))
    report = WAYS[way](discreet, path, user_id="ana")
    assert report.skipped == ("message 'q0' of thread 't': the write hook stores nothing of it",)
    shown = discreet.history("t", user_id="ana")
    assert shown.last_summary.contents == ("They dialled [number].",)
    assert "42-42" not in str([(entry.contents, entry.message) for entry in shown.entries])
    shown.undo_summary()
    assert texts(discreet) == ["Dial [number].", "Who?", "Dial [number]!"]
    entries = shown.entries
    assert WAYS[way](discreet, path, user_id="ana").skipped == report.skipped
    assert [entry.contents for entry in shown.entries if entry not in entries] == []


def test_a_finder_says_whose_each_thread_is_and_a_branch_goes_with_it(imported, memory, tmp_path):
    path = tmp_path / "export.json"
    says = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Hello."]}}
    root = {"id": "a", "parent": None, "message": {"id": "ma", **says}}
    ends = [{"id": one, "parent": "a", "message": {"id": f"m{one}", **says}} for one in "bc"]
    mapping = {node["id"]: node for node in (root, *ends)}
    kept = {"current_node": "b", "mapping": mapping}
    chats = [{"id": one, "title": one.title(), **kept} for one in ("boat", "tent")]
    path.write_text(json.dumps(chats))
    imported(path, find_user={"boat": "ana", "tent": None}.get)
    listed = {info.key.thread_id: info.title for info in memory.threads("ana")}
    assert listed == {"boat": "Boat", "boat~branch-1": "Boat (branch 1)"}
    assert {info.key.thread_id for info in memory.threads()} == {"tent", "tent~branch-1"}
    with pytest.raises(ConfigError, match="pass user_id or find_user, not both"):
        imported(path, user_id="ana", find_user=str)
