"""Anthropic's memory tool over the log: what a model edits, what stays, and what is refused."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from scripted_chat import ScriptedChatModel

from langchain_convmem import ConfigError, ConversationMemory, EmbeddedEmbeddings
from langchain_convmem.integrations import ClaudeMemoryMiddleware
from langchain_convmem.integrations.claude_memory import (
    FILES_THREAD,
    FileCommand,
    MemoryFiles,
    make_memory_tool,
)

NOTES = "/memories/notes.md"
TEXT = "Tea at four.\nNo sugar.\n"


@pytest.fixture
def memory(tmp_path):
    path = tmp_path / "memory.db"
    with ConversationMemory.open(path, embeddings=EmbeddedEmbeddings()) as opened:
        yield opened


@pytest.fixture
def files(memory):
    return MemoryFiles(memory, user_id="ana")


def do(files, command, path=None, **more):
    return files.run(FileCommand(command=command, path=path, **more))


def test_a_file_is_created_edited_and_viewed(files):
    assert do(files, "create", NOTES, file_text=TEXT) == f"File created at: {NOTES}"
    do(files, "str_replace", NOTES, old_str="four", new_str="five")
    do(files, "insert", NOTES, insert_line=1, insert_text="Milk first.")
    do(files, "insert", NOTES, insert_line=3, insert_text="Biscuits.")
    assert files.read_all() == {NOTES: "Tea at five.\nMilk first.\nNo sugar.\nBiscuits."}
    assert do(files, "view", NOTES, view_range=[2, 3]).splitlines()[1:] == [
        "     2\tMilk first.",
        "     3\tNo sugar.",
    ]
    assert do(files, "view", "/memories").splitlines()[1:] == [f"44\t{NOTES}"]


def test_folders_are_moved_and_deleted_whole(files):
    for name in ("a/1", "a/2", "a/b/3", "c"):
        do(files, "create", f"/memories/{name}", file_text=name)
    do(files, "rename", old_path="/memories/a", new_path="/memories/z/a")
    assert files.read_all() == {
        "/memories/c": "c",
        "/memories/z/a/1": "a/1",
        "/memories/z/a/2": "a/2",
        "/memories/z/a/b/3": "a/b/3",
    }
    do(files, "delete", "/memories/z/a")
    assert files.read_all() == {"/memories/c": "c"}


def test_every_version_stays_and_can_be_brought_back(files):
    do(files, "create", NOTES, file_text="one")
    do(files, "str_replace", NOTES, old_str="one", new_str="two")
    do(files, "delete", NOTES)
    assert files.read_all() == {}
    versions = files.list_versions(NOTES)
    assert [(one.text, one.is_current) for one in versions] == [("two", False), ("one", False)]
    files.restore(NOTES, versions[-1].entry_id)
    assert files.read_all() == {NOTES: "one"}
    assert files.list_versions(NOTES)[0].is_current
    with pytest.raises(ConfigError, match="no such version"):
        files.restore("/memories/other", versions[0].entry_id)


REFUSED = [
    ("view", {"path": "/memories/none"}, "does not exist"),
    ("view", {"path": NOTES, "view_range": [2, 9]}, "lines 1 to 3"),
    ("create", {"path": NOTES, "file_text": "x"}, "already exists"),
    ("create", {"path": f"{NOTES}/below", "file_text": "x"}, "is a file"),
    ("create", {"path": "/memories/dir", "file_text": "x"}, "is a folder"),
    ("create", {"path": "/memories", "file_text": "x"}, "stays as it is"),
    ("create", {"path": "/memories/new"}, "file_text is missing"),
    ("create", {"path": "/memories/new", "file_text": "x" * 100_001}, "100,000 characters"),
    ("str_replace", {"path": NOTES, "old_str": "o", "new_str": "x"}, "2 times, in lines 1, 2"),
    ("str_replace", {"path": NOTES, "old_str": "coffee", "new_str": "x"}, "is not in"),
    ("str_replace", {"path": NOTES, "old_str": "", "new_str": "x"}, "stand once"),
    ("insert", {"path": NOTES, "insert_line": 3, "insert_text": "x"}, "lines 0 to 2"),
    ("insert", {"path": NOTES, "insert_text": "x"}, "insert_line is None"),
    ("delete", {"path": "/memories"}, "stays as it is"),
    ("rename", {"old_path": NOTES, "new_path": "/memories/dir/f"}, "already exists"),
    ("rename", {"old_path": "/memories/dir", "new_path": "/memories/dir/in"}, "into itself"),
    ("rename", {"old_path": "/memories/none", "new_path": "/memories/n"}, "does not exist"),
]


@pytest.mark.parametrize(("command", "asked", "told"), REFUSED, ids=lambda one: str(one)[:40])
def test_what_cannot_be_done_is_told_and_changes_nothing(files, memory, command, asked, told):
    do(files, "create", NOTES, file_text=TEXT)
    do(files, "create", "/memories/dir/f", file_text="f")
    before = memory.log.entries(files._key)
    reply = files.run(FileCommand(command=command, **asked))
    assert reply.startswith("Error: ")
    assert told in reply
    assert memory.log.entries(files._key) == before


TRICKS = [
    "/etc/passwd", "memories/x", "/memoriesx/y", "", None, "/memories/../secret", "/memories/./x",
    "/memories/a/../../b", "/memories//x", "/memories/..", "/memories/%2e%2e/x", "/memories/a\\b",
    "/memories/~root", "/memories/a\x00b", "/memories/a\nb", "\\memories\\x",
    "/memories/" + "x" * 600, "/Memories/x", "file:///memories/x",
]  # fmt: skip


@pytest.mark.parametrize("path", TRICKS)
@pytest.mark.parametrize("command", ["view", "create", "delete", "rename"])
def test_no_path_leads_anywhere_else(files, memory, command, path):
    reply = do(files, command, path, file_text="x", new_path="/memories/ok")
    assert reply.startswith("Error: a path begins with /memories/")
    assert memory.threads("ana") == []


def test_users_have_files_of_their_own_whatever_their_names(memory):
    for user in ("ana", "../ana", "ana/claude"):
        do(MemoryFiles(memory, user_id=user), "create", NOTES, file_text=user)
    for user in ("ana", "../ana", "ana/claude"):
        assert MemoryFiles(memory, user_id=user).read_all() == {NOTES: user}


def test_recall_finds_what_a_file_says_now_and_trusts_it_as_a_tools(files, memory):
    do(files, "create", NOTES, file_text="The heating engineer is called Bruno.")
    do(files, "str_replace", NOTES, old_str="Bruno", new_str="Carla")
    found = memory.recall("Who is the heating engineer?", user_id="ana")
    shown = "\n".join(block.text for block in found.blocks)
    assert "Carla" in shown
    assert "Bruno" not in shown
    assert found.blocks[0].lines[0].trust == "tool"
    assert memory.profile("ana").items == ()


def test_forgetting_erases_every_version(files, memory):
    do(files, "create", NOTES, file_text="The code is 47-11.")
    do(files, "str_replace", NOTES, old_str="47-11", new_str="none")
    memory.forget(user_id="ana", thread_id=FILES_THREAD)
    assert files.read_all() == {}
    assert files.list_versions(NOTES) == []


def test_what_the_write_hook_stores_nothing_of_changes_nothing_and_is_told():
    def hook(message):
        return None if "47-11" in message.text else message

    with ConversationMemory.open(":memory:", before_write=hook) as memory:
        files = MemoryFiles(memory, user_id="ana")
        do(files, "create", NOTES, file_text="The code is in the drawer.")
        reply = do(files, "str_replace", NOTES, old_str="in the drawer", new_str="47-11")
        assert reply == "Error: the memory's write hook stores nothing of it"
        assert files.read_all() == {NOTES: "The code is in the drawer."}


def test_the_files_of_an_earlier_time_are_read_like_those_of_now(files, memory):
    do(files, "create", NOTES, file_text="one")
    at = files.list_versions(NOTES)[0].entry_id
    do(files, "str_replace", NOTES, old_str="one", new_str="two")
    assert MemoryFiles(memory.as_of(at), user_id="ana").read_all() == {NOTES: "one"}


def test_another_process_sees_each_edit_at_once(files, memory, tmp_path):
    do(files, "create", NOTES, file_text="one")
    with ConversationMemory.open(tmp_path / "memory.db") as other:
        theirs = MemoryFiles(other, user_id="ana")
        assert theirs.read_all() == {NOTES: "one"}
        do(theirs, "str_replace", NOTES, old_str="one", new_str="two")
    assert files.read_all() == {NOTES: "two"}


STEPS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from("abc"), st.text("xyz\n", max_size=8)),
    st.tuples(st.just("insert"), st.sampled_from("abc"), st.text("xyz\n", max_size=4)),
    st.tuples(st.just("delete"), st.sampled_from("abc"), st.just("")),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=12))
def test_files_are_what_the_commands_made_of_them(steps):
    expected, versions = {}, 0
    with ConversationMemory.open(":memory:") as memory:
        files = MemoryFiles(memory, user_id="ana")
        for command, name, text in steps:
            path = f"/memories/{name}"
            if command == "create" and path not in expected:
                expected[path], versions = text, versions + 1
            elif command == "insert" and path in expected:
                old = expected[path]
                end = "" if text.endswith("\n") or not old else "\n"
                expected[path], versions = f"{text}{end}{old}", versions + 1
            elif command == "delete":
                expected.pop(path, None)
            do(files, command, path, file_text=text, insert_line=0, insert_text=text)
        assert files.read_all() == expected
        kept = [one for name in "abc" for one in files.list_versions(f"/memories/{name}")]
        assert len(kept) == versions
        assert asyncio.run(files.aread_all()) == expected


# -- in an agent ----------------------------------------------------------------------------------


def call(**arguments):
    asked = {"name": "memory", "args": arguments, "id": "c1", "type": "tool_call"}
    return AIMessage("", tool_calls=[asked])


def run_agent(memory, *replies, user="ana", thread="t1"):
    model = ScriptedChatModel(replies=[*replies, AIMessage("Done.")])
    agent = create_agent(model, [], middleware=[ClaudeMemoryMiddleware(memory)])
    config = {"configurable": {"user_id": user, "thread_id": thread}}
    return agent.invoke({"messages": [("user", "Take a note.")]}, config), model


def test_an_agent_writes_in_one_thread_and_reads_in_the_next(memory):
    run_agent(memory, call(command="create", path=NOTES, file_text=TEXT))
    state, _ = run_agent(memory, call(command="view", path=NOTES), thread="t2")
    [shown] = [one for one in state["messages"] if isinstance(one, ToolMessage)]
    assert "Tea at four." in shown.text
    assert "memory_files" not in state
    other, _ = run_agent(memory, call(command="view", path="/memories"), user="ben")
    assert NOTES not in str(other["messages"])


async def test_an_agent_of_an_event_loop_does_the_same(memory):
    model = ScriptedChatModel(
        replies=[call(command="create", path=NOTES, file_text="x"), AIMessage("Done.")]
    )
    agent = create_agent(model, [], middleware=[ClaudeMemoryMiddleware(memory, user_id="kim")])
    await agent.ainvoke({"messages": [("user", "Take a note.")]})
    assert await MemoryFiles(memory, user_id="kim").aread_all() == {NOTES: "x"}


def test_a_run_without_a_user_is_refused_before_anything_is_written(memory):
    tool = make_memory_tool(memory)
    with pytest.raises(ConfigError, match="whose files"):
        tool.invoke({"command": "create", "path": NOTES, "file_text": "x"})
    assert memory.threads(None) == []
