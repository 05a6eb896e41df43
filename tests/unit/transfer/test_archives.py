import json
import os
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ImportFormatError
from langchain_convmem.transfer import archives, read_threads
from langchain_convmem.transfer.imports import read_file


def make_chat(name, *texts):
    messages = [
        {"uuid": f"{name}-{n}", "sender": "human", "text": text, "created_at": f"{2019 + n}-01-01"}
        for n, text in enumerate(texts)
    ]
    return {"uuid": name, "name": "A title", "chat_messages": messages}


CHATS = [make_chat("c1", "The key is at Teresa's.", "Noted?"), make_chat("c2", "Red boat.")]


def write_zip(path, **files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return path


@pytest.fixture
def export(tmp_path):
    return write_zip(
        tmp_path / "export.zip", conversations__json=json.dumps(CHATS), users__json="[]"
    )


def titles(memory, user_id="ana"):
    return {info.key.thread_id: info.title for info in memory.threads(user_id)}


def refusal(path):
    with pytest.raises(ImportFormatError) as caught:
        read_file(path)
    assert caught.value.path.startswith(str(path))
    return str(caught.value)


def test_a_zip_brings_threads_and_titles(memory, export):
    report = memory.import_file(export, user_id="ana")
    assert report.thread_ids == ("c1", "c2")
    assert (report.added, report.known, report.unread) == (3, 0, ())
    assert titles(memory) == {"c1": "A title", "c2": "A title"}
    again = memory.import_file(export, user_id="ana")
    assert (again.added, again.known) == (0, 3)


def test_files_in_parts_are_read_in_their_order(tmp_path, memory):
    export = write_zip(
        tmp_path / "parts.zip",
        **{
            "x/conversations-001.json": json.dumps(CHATS[1:]),
            "x/conversations-000.json": json.dumps(CHATS[:1]),
            "__MACOSX/x/._conversations-000.json": "rubbish",
            "x/shared_conversations.json": "[]",
        },
    )
    assert memory.import_file(export, user_id="ana").thread_ids == ("c1", "c2")


def test_a_text_that_lies_in_the_zip_is_attached_to_the_message_that_names_it(tmp_path, memory):
    note = {"id": "file-note0", "name": "plan.txt", "mime_type": "text/plain"}
    asked = {
        "id": "m1",
        "author": {"role": "user"},
        "content": {"content_type": "text", "parts": ["What is the plan?"]},
        "metadata": {"attachments": [note]},
    }
    nodes = {
        "root": {"id": "root", "parent": None, "children": ["m1"], "message": None},
        "m1": {"id": "m1", "parent": "root", "children": [], "message": asked},
    }
    chat = {"conversation_id": "c1", "title": "Plans", "current_node": "m1", "mapping": nodes}
    export = write_zip(
        tmp_path / "export.zip",
        conversations__json=json.dumps([chat]),
        **{"file-note0-plan.txt": "Paint the shed on Tuesday.", "chat.html": "<html></html>"},
    )
    report = memory.import_file(export, user_id="ana")
    assert (report.thread_ids, report.unread) == (("c1",), ())
    [entry] = memory.history("c1", user_id="ana").entries
    [attached] = [one for one in entry.message.content if one["type"] == "text-plain"]
    assert (attached["title"], attached["text"]) == ("plan.txt", "Paint the shed on Tuesday.")


def test_a_conversation_that_cannot_be_read_is_named_and_the_others_arrive(tmp_path, memory):
    bad = make_chat("c3", "x")
    bad["chat_messages"][0]["sender"] = "robot"
    lone = make_chat("c4", "half \ud800 of a pair")
    chats = json.dumps([CHATS[0], bad, {"what": "is this"}, lone, CHATS[0], CHATS[1]])
    path = write_zip(tmp_path / "export.zip", conversations__json=chats, inner__zip="PK")
    report = memory.import_file(path, user_id="ana")
    assert report.thread_ids == ("c1", "c2")
    inner, *others = report.unread
    assert inner == "inner.zip is an archive itself; unpack it and import what it holds"
    places = ("$[1].chat_messages[0].sender", "$[2]", "$[3]", "'c1' is there already")
    for sentence, place in zip(others, places, strict=True):
        assert sentence.startswith("conversations.json")
        assert place in sentence
    with pytest.raises(ImportFormatError, match=r"inner\.zip is an archive"):
        read_threads(path)


def test_an_export_that_changed_before_it_was_stored_is_refused(export):
    file = read_file(export)
    write_zip(export, conversations__json=json.dumps(CHATS[:1]), more__txt="x" * 99)
    with pytest.raises(ImportFormatError, match="changed while it was read"):
        list(file.threads)


def test_the_database_may_be_made_in_the_folder_of_the_export(tmp_path):
    (tmp_path / "conversations.json").write_text(json.dumps(CHATS))
    with ConversationMemory.open(tmp_path / "memory.db") as memory:
        file = read_file(tmp_path)
        memory.add_messages(["Hello."], thread_id="t1")
        assert [thread.thread_id for thread in file.threads] == ["c1", "c2"]


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_conversations_are_found_wherever_pieces_of_the_file_end(tmp_path, monkeypatch, size):
    monkeypatch.setattr(archives, "CHUNK_BYTES", size)
    chats = [make_chat(f"c{n}", 'Grüße "\\" 🦊 ] } ,', "é" * n) for n in range(1, 6)]
    text = json.dumps(chats, ensure_ascii=bool(size % 2), indent=size % 2 or None)
    path = write_zip(tmp_path / "export.zip", conversations__json=f"\ufeff {text} \n")
    assert read_file(path).thread_ids == ("c1", "c2", "c3", "c4", "c5")
    assert [t.messages[0].text for t in read_file(path).threads] == ['Grüße "\\" 🦊 ] } ,'] * 5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (json.dumps(CHATS)[:-30], "conversation 2: not valid JSON"),
        (json.dumps(CHATS)[:-1], "ends before the list does"),
        ('[{"uuid": nope}]', "conversation 1: not valid JSON"),
        ('[{"uuid": 1} {"uuid": 2}]', "conversation 2: ',' expected"),
        ("[" + "[" * 100_000, "not usable as JSON"),
        ('[{"a": ' + "9" * 5000 + "}]", "not usable as JSON"),
        ("[]", "holds no conversation"),
        (json.dumps(CHATS) + "[]", "goes on after its end"),
        (json.dumps(CHATS[0]) * 2, "goes on after its end"),
        ("", "holds no conversation"),
        (b"[\xff]", "is not UTF-8"),
    ],
)
def test_broken_json_is_refused_with_its_place(tmp_path, text, problem):
    path = write_zip(tmp_path / "export.zip", conversations__json=text)
    assert problem in refusal(path)


@pytest.mark.parametrize(
    "name", ["../evil.json", "/etc/evil.json", "a/../../b.json", "C:\\evil.json", "..\\evil.json"]
)
def test_a_name_that_leads_out_of_the_zip_is_refused(tmp_path, name):
    files = {"conversations.json": json.dumps(CHATS), name: "x"}
    path = write_zip(tmp_path / "export.zip", **files)
    assert "leads out of the archive" in refusal(path)


def test_a_zip_that_would_unpack_to_too_much_is_refused(tmp_path, export, monkeypatch):
    bomb = write_zip(tmp_path / "bomb.zip", conversations__json=" " * (8 * 2**20))
    assert "would unpack to 8,388,608 bytes" in refusal(bomb)
    names = {f"{number}__txt": "x" * 2**20 for number in range(5)}
    path = write_zip(tmp_path / "shared.zip", conversations__json=json.dumps(CHATS), **names)
    assert "would unpack to" in refusal(path)


def test_an_encrypted_zip_is_refused(tmp_path, export):
    data = bytearray(export.read_bytes())
    struct.pack_into("<H", data, data.index(b"PK\x01\x02") + 8, 0x1)
    export.write_bytes(data)
    assert "'conversations.json': is encrypted" in refusal(export)


def test_a_link_in_a_zip_is_refused(tmp_path):
    path = tmp_path / "export.zip"
    info = zipfile.ZipInfo("conversations.json")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    assert "'conversations.json': is a link" in refusal(path)


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
def test_links_in_a_folder_are_not_followed(tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(CHATS))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "conversations.json").symlink_to(secret)
    assert "conversations.json is a link; links are not followed" in refusal(folder)


def test_an_incomplete_or_damaged_download_is_refused(export):
    data = export.read_bytes()
    for bad in (data[:-30], data[:-200], data[:60] + b"\xff" * 10 + data[70:]):
        export.write_bytes(bad)
        assert "damaged or incomplete zip; download it again" in refusal(export)


@pytest.mark.parametrize("swap", [Path.unlink, lambda place: (place.unlink(), os.mkfifo(place))])
@pytest.mark.skipif(os.name == "nt", reason="no pipes")
def test_a_folder_that_changed_below_before_it_was_stored_is_refused(tmp_path, swap):
    place = tmp_path / "of ana" / "conversations.json"
    place.parent.mkdir()
    place.write_text(json.dumps(CHATS))
    found = read_file(tmp_path)
    swap(place)
    with pytest.raises(ImportFormatError, match="changed while it was read"):
        list(found.threads)


OTHER_KINDS = pytest.mark.skipif(os.name == "nt", reason="other kinds of files")


@pytest.fixture
def fifo(tmp_path):
    place = tmp_path / "pipe.jsonl"
    os.mkfifo(place)
    return place


@OTHER_KINDS
def test_a_pipe_that_came_in_the_place_of_the_file_is_refused(fifo, tmp_path, monkeypatch):
    file = tmp_path / "file.jsonl"
    file.write_text('{"role": "user", "content": "a"}\n')
    seen_before = file.stat()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: seen_before)
    assert "is a pipe" in refusal(fifo)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/null", "/dev/tty"])
@OTHER_KINDS
def test_a_device_is_refused(device):
    assert "is a pipe, a socket or a device" in refusal(Path(device))


@OTHER_KINDS
def test_pipes_are_refused_before_anybody_waits_for_them_and_left_alone_in_a_folder(fifo):
    assert "is a pipe, a socket or a device" in refusal(fifo)
    assert "holds nothing; expected conversations.json" in refusal(fifo.parent)
