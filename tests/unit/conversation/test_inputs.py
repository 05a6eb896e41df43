import base64
import json
import os
import re
import threading

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)
from langchain_core.prompts import ChatPromptTemplate

from langchain_convmem import ChatTemplate, Conversation
from langchain_convmem.conversation import MediaLimits
from langchain_convmem.conversation.inputs import coerce_messages
from langchain_convmem.conversation.text_backend import interleave, list_media
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.testing import ScriptedEngine
from langchain_convmem.text.control_tokens import MEDIA_MARKS
from langchain_convmem.text.sessions import Media


def seen_by_a_template(value):
    return json.loads(ChatTemplate("{{ messages | tojson }}").render(coerce_messages(value)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Hi", [HumanMessage("Hi")]),
        ("", [HumanMessage("")]),
        (HumanMessage("Hi", id="1"), [HumanMessage("Hi", id="1")]),
        (("user", "Hi"), [HumanMessage("Hi")]),
        (("model", "Yes?"), [AIMessage("Yes?")]),
        ({"role": "human", "content": "Hi"}, [HumanMessage("Hi")]),
        ({"role": "System", "content": "Be brief."}, [SystemMessage("Be brief.")]),
        ({"role": "ipython", "content": "4"}, [ChatMessage(content="4", role="ipython")]),
        ({"role": "user", "content": "Hi", "name": "ana"}, [HumanMessage("Hi", name="ana")]),
        (["Hi", ("ai", "Yes?")], [HumanMessage("Hi"), AIMessage("Yes?")]),
        ((HumanMessage("Hi"), AIMessage("Yes?")), [HumanMessage("Hi"), AIMessage("Yes?")]),
        ([], []),
        (AIMessageChunk("Yes?", chunk_position="last"), [AIMessage("Yes?")]),
        (ChatPromptTemplate.from_messages(["Hi {x}"]).invoke({"x": "Bo"}), [HumanMessage("Hi Bo")]),
        (ToolMessage("9", tool_call_id="c1"), [ToolMessage("9", tool_call_id="c1")]),
    ],
)
def test_every_form_of_a_message_is_taken(value, expected):
    found = coerce_messages(value)
    assert found == expected
    assert [type(message) for message in found] == [type(message) for message in expected]


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("Hi", id="7", additional_kwargs={"session": "a"}),
        AIMessage("", tool_calls=[{"name": "look", "args": {"at": 1}, "id": "c"}]),
        ToolMessage("3", tool_call_id="c", status="error"),
    ],
)
def test_what_langchain_wrote_as_a_map_is_read_back(message):
    assert coerce_messages(messages_to_dict([message])[0]) == [message]
    assert coerce_messages([message.model_dump()]) == [message]


def test_nothing_is_shared_with_what_was_given():
    given = HumanMessage([{"type": "text", "text": "Hi"}], additional_kwargs={"a": []})
    parts = [{"type": "text", "text": "Hi"}]
    written = {"role": "user", "content": parts, "note": {"a": []}}
    copied, made = coerce_messages([given, written])
    copied.content[0]["text"] = made.content[0]["text"] = "changed"
    copied.additional_kwargs["a"].append(1)
    made.additional_kwargs["template_fields"]["note"]["a"].append(1)
    assert given == HumanMessage([{"type": "text", "text": "Hi"}], additional_kwargs={"a": []})
    assert written == {
        "role": "user",
        "content": [{"type": "text", "text": "Hi"}],
        "note": {"a": []},
    }


def test_what_cannot_be_copied_is_refused():
    given = HumanMessage("Hi", additional_kwargs={"lock": threading.Lock()})
    with pytest.raises(InvalidMessageError, match="cannot be copied"):
        coerce_messages(given)


def test_further_keys_of_a_map_reach_templates_and_its_reasoning_as_reasoning():
    assert seen_by_a_template({"role": "user", "content": "x", "note": 1, "gone": None}) == [
        {"role": "user", "content": "x", "note": 1}
    ]
    given = {"role": "assistant", "content": "4", "reasoning_content": "two and two"}
    [message] = seen_by_a_template(given)
    assert message["thinking"] == message["reasoning_content"] == "two and two"


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
        {"id": "c", "function": {"name": "look", "arguments": {"at": 1}}},
        {"id": "c", "name": "look", "arguments": {"at": 1}},
        {"id": "c", "type": "tool_call", "name": "look", "args": {"at": 1}},
    ],
)
def test_tool_calls_are_read_in_every_shape_and_need_no_content(call):
    [message] = coerce_messages({"role": "assistant", "tool_calls": [call]})
    assert message.tool_calls == [
        {"type": "tool_call", "name": "look", "args": {"at": 1}, "id": "c"}
    ]
    assert message.content == ""


def test_a_call_whose_arguments_nobody_can_read_is_an_invalid_call():
    call = {"id": "c", "function": {"name": "look", "arguments": "{broken"}}
    [message] = coerce_messages({"role": "assistant", "tool_calls": [call]})
    assert message.tool_calls == []
    assert [(call["id"], call["args"]) for call in message.invalid_tool_calls] == [("c", "{broken")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("3", "3"),
        ({"level": "Größe"}, '{"level": "Größe"}'),
        ([1, 2], "[1, 2]"),
        ([], "[]"),
        ([{"type": "text", "text": "3"}], [{"type": "text", "text": "3"}]),
    ],
)
def test_a_tools_result_is_text_parts_or_json(content, expected):
    given = {"role": "tool", "content": content, "tool_call_id": "c", "name": "look"}
    assert coerce_messages(given) == [ToolMessage(expected, tool_call_id="c", name="look")]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"content": "x"}, "no role"),
        ({"role": "", "content": "x"}, "role ''"),
        ({"role": "a b", "content": "x"}, "role text of 3 characters"),
        (("user", None), "the content None"),
        ({"role": "user"}, "the content None"),
        ({"role": "user", "content": 5}, "the content 5"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "the content None"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "tool call 0"),
        ({"role": "assistant", "tool_calls": {"name": "look"}}, "pass a list"),
        ({"role": "tool", "content": "3"}, "without the tool_call_id"),
        ({"role": "user", "content": "x", "note": object()}, "note"),
        ({"role": "user", "content": "x", "name": 5}, "name: string_type"),
        ([{"type": "text", "text": "x"}], "wrap parts"),
        ({"type": "human", "data": {"content": 5}}, "no role"),
        ({"type": "remote", "data": {"content": "x"}}, "no role"),
        ({"role": "user", "content": [{"text": 5}]}, "part 0"),
        ({"role": "user", "content": [5]}, "part 0"),
        (["Hi", ("tool", "x")], "message 1"),
        (RemoveMessage(id="1"), "RemoveMessage"),
    ],
)
def test_a_message_that_says_too_little_is_refused_by_name(value, named):
    with pytest.raises(InvalidMessageError, match=named):
        coerce_messages(value)


@pytest.mark.parametrize("value", [None, 5, b"Hi", ["Hi", None], {"Hi"}])
def test_what_could_be_no_message_is_refused_with_the_forms(value):
    with pytest.raises(InvalidMessageError, match="pass text, a LangChain message"):
        coerce_messages(value)


PNG = b"\x89PNG\r\n\x1a\n\xfb\xff\xbe" + bytes(14)
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(16)
TEXT = {"type": "text", "text": "Look:"}


def encoded(data):
    return base64.b64encode(data).decode()


def block(part, **limits):
    [message] = coerce_messages(
        {"role": "user", "content": [TEXT, part]}, limits=MediaLimits(**limits)
    )
    assert message.content[0] == TEXT
    return message.content[1]


def test_a_part_by_path_holds_what_the_file_held(tmp_path, monkeypatch):
    path = tmp_path / "ä b.png"
    path.write_bytes(PNG)
    monkeypatch.chdir(tmp_path)
    found = [block({"type": "image", "path": given}) for given in (str(path), path, path.name)]
    path.unlink()
    assert found == [{"type": "image", "base64": encoded(PNG), "mime_type": "image/png"}] * 3


@pytest.mark.parametrize(
    "blob",
    [
        encoded(PNG),
        encoded(PNG).rstrip("="),
        base64.urlsafe_b64encode(PNG).decode(),
        base64.urlsafe_b64encode(PNG).decode().rstrip("="),
        base64.encodebytes(PNG * 20).decode(),
        f"data:image/jpeg;base64,{encoded(PNG)}",
        PNG,
    ],
    ids=["standard", "bare", "url-safe", "url-safe bare", "in lines", "data url", "bytes"],
)
@pytest.mark.parametrize("key", ["blob", "base64"])
def test_a_blob_is_read_in_both_alphabets_with_or_without_padding(blob, key):
    found = block({"type": "image", key: blob, "detail": "low"})
    assert base64.b64decode(found.pop("base64")).startswith(PNG)
    assert found == {"type": "image", "mime_type": "image/png", "detail": "low"}


@pytest.mark.parametrize(
    ("start", "kind", "expected"),
    [
        (b"\xff\xd8\xff\xe0", "image", "image/jpeg"),
        (b"GIF89a", "image", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image", "image/webp"),
        (WAV, "audio", "audio/wav"),
        (b"ID3\x04", "audio", "audio/mp3"),
        (b"\xff\xfb\x90\x64", "audio", "audio/mp3"),
        (b"\xff\xf1\x50\x80", "audio", "audio/aac"),
        (b"OggS\x00", "audio", "audio/ogg"),
        (b"fLaC\x00", "audio", "audio/flac"),
        (b"\x00\x00\x00\x20ftypM4A ", "audio", "audio/mp4"),
        (b"\x00\x00\x00\x20ftypisom", "audio", "video/mp4"),
        (b"\x00\x00\x00\x20ftypavif", "image", "image/avif"),
    ],
)
def test_the_type_is_what_the_bytes_say(start, kind, expected):
    data = start + bytes(20)
    found = block({"type": kind, "blob": encoded(data), "mime_type": "image/png"})
    assert found["mime_type"] == expected
    assert list_media([HumanMessage([found])]) == [Media(kind, data, expected)]


@pytest.mark.parametrize("data", [b"new format", b"BMW are cars", b"\xff\x00\x00\x00"])
def test_unknown_bytes_are_taken_if_somebody_names_their_type(data):
    part = {"type": "image", "blob": encoded(data)}
    assert block({**part, "mime_type": "image/new"})["mime_type"] == "image/new"
    with pytest.raises(InvalidMessageError, match="name its type with 'mime_type'"):
        block(part)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "url": "https://example.org/a.png"},
        {"type": "image", "file_id": "file-1"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(PNG)}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {"data": encoded(WAV), "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "image", "url": "https://example.org/a.png", "base64": None, "path": None},
    ],
)
def test_shapes_of_providers_are_checked_and_left_as_they_are(part):
    assert block(part) == part


def test_langchain_messages_of_every_role_may_name_files(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(WAV)
    given = ToolMessage([{"type": "audio", "path": str(path)}], tool_call_id="c")
    [found] = coerce_messages(given)
    assert list_media([found]) == [Media("audio", WAV, "audio/wav")]
    assert given.content == [{"type": "audio", "path": str(path)}]


@pytest.mark.parametrize(
    ("part", "named"),
    [
        ({"type": "image"}, "holds nothing"),
        ({"type": "image", "blob": ""}, "holds nothing"),
        ({"type": "image", "blob": "%%%"}, "holds nothing"),
        ({"type": "image", "blob": "abcde"}, "holds nothing"),
        ({"type": "image", "blob": "ab=cd==="}, "holds nothing"),
        ({"type": "image", "blob": 5}, "holds nothing"),
        ({"type": "image", "path": ""}, "path ''"),
        ({"type": "image", "path": 5}, "path 5"),
        ({"type": "image", "path": "gone.png"}, "gone.png"),
        ({"type": "image", "path": "a\0b"}, "file 'a"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}}, "holds nothing"),
    ],
)
def test_media_that_nobody_can_read_are_refused_by_name(part, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidMessageError, match=f"part 1 of message 0.*{named}"):
        block(part)


def test_only_plain_files_are_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe):
        with pytest.raises(InvalidMessageError, match="not a regular file"):
            block({"type": "image", "path": str(path)})


def test_media_over_the_limit_are_refused_however_they_come(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    url = f"data:image/png;base64,{encoded(PNG)}"
    for part in (
        {"type": "image", "path": str(path)},
        {"type": "image", "blob": encoded(PNG)},
        {"type": "image", "blob": PNG},
        {"type": "image_url", "image_url": {"url": url}},
    ):
        assert block(part, max_bytes=len(PNG))
        assert block(part, max_bytes=None)
        with pytest.raises(InvalidMessageError, match=f"larger than {len(PNG) - 1} bytes"):
            block(part, max_bytes=len(PNG) - 1)


def test_files_outside_the_folder_are_refused_though_a_link_lies_within(tmp_path):
    folder = tmp_path / "uploads"
    folder.mkdir()
    outside = tmp_path / "private.png"
    outside.write_bytes(PNG)
    (folder / "own.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(outside)
    assert block({"type": "image", "path": folder / "own.png"}, folder=folder)
    for path in (outside, folder / "link.png", folder / ".." / "private.png"):
        with pytest.raises(InvalidMessageError, match="outside"):
            block({"type": "image", "path": path}, folder=folder)
        said = Conversation(gemma("x"), media_limits=MediaLimits(folder=folder))
        with pytest.raises(InvalidMessageError, match="outside"):
            said.send_message(asked({"type": "image", "path": str(path)}))


CAT = Media("image", PNG, "image/png")
DOG = Media("image", b"GIF89a" + bytes(20), "image/gif")
SONG = Media("audio", WAV, "audio/wav")


@pytest.mark.parametrize(
    ("part", "named"),
    [
        ({"type": "image", "url": "https://example.org/a.png"}, "fetch it"),
        ({"type": "image", "file_id": "file-1"}, "fetch it"),
        ({"type": "file", "base64": encoded(b"%PDF-1"), "mime_type": "application/pdf"}, "pdf"),
    ],
)
def test_a_session_that_reads_text_gets_bytes_of_pictures_and_sounds_only(part, named):
    with pytest.raises(InvalidMessageError, match=named):
        list_media([HumanMessage([part])])


SEEN = "{% for m in messages %}{% for p in m.content %}{{ marks.get(p.type, p.text) }}{% endfor %}"


def written(parts, **marks):
    """Return what a template that writes these marks makes of the parts of a message."""
    literals = "{% set marks = {" + ", ".join(f"{k!r}: {v!r}" for k, v in marks.items()) + "} %}"
    state = ChatTemplate(literals + SEEN + "{% endfor %}").start()
    state.feed([HumanMessage(parts)])
    return state


A_PICTURE = {"type": "image", "base64": encoded(PNG), "mime_type": "image/png"}


def a_text(text):
    return {"type": "text", "text": text}


@pytest.mark.parametrize("mark", MEDIA_MARKS["image"])
def test_media_take_the_places_of_the_marks_of_known_families(mark):
    state = written([a_text("One "), A_PICTURE, a_text(" and "), A_PICTURE], image=mark)
    assert interleave(state, [CAT, DOG]) == ["One ", CAT, " and ", DOG]


@pytest.mark.parametrize("media", [[CAT], [CAT, DOG, CAT], [CAT, SONG]])
def test_every_medium_needs_its_mark_and_every_mark_its_medium(media):
    with pytest.raises(InvalidMessageError, match="writes marks for 2 image, but"):
        interleave(written([A_PICTURE, A_PICTURE], image="<image>"), media)


def test_the_model_may_speak_of_marks_and_the_conversation_goes_on():
    state = written([A_PICTURE, a_text("What?\n")], image="<image>")
    state.record_reply("It is an <image>, <image>.")
    assert interleave(state, [CAT]) == [CAT, "What?\nIt is an <image>, <image>."]


@pytest.mark.parametrize(("start", "left"), [(0, 5), (1, 4), (8, 3), (9, 2), (16, 1), (17, 0)])
def test_a_prompt_can_be_sent_from_any_place_on(start, left):
    parts = [a_text("a"), A_PICTURE, a_text("b"), A_PICTURE, a_text("c")]
    whole = ["a", CAT, "b", DOG, "c"]
    sent = interleave(written(parts, image="<image>"), [CAT, DOG], start)
    assert sent == whole[5 - left :]


CAR_PNG = b"\x89PNG\r\n\x1a\n" + b"picture"
BUS_PNG = b"\x89PNG\r\n\x1a\n" + b"another"


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "car.png"
    path.write_bytes(CAR_PNG)
    return path


def asked(*parts, text="What is this?"):
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


def blob(data):
    return {"type": "image", "blob": base64.urlsafe_b64encode(data).decode()}


def gemma(*replies, **options):
    return ScriptedEngine(
        list(replies),
        template=ChatTemplate.from_builtin("gemma"),
        end_text="<end_of_turn>",
        media_mark=lambda media: f"[{media.mime_type} {media.data[-7:].decode()}]",
        **options,
    )


def test_later_turns_read_only_their_own_media_and_a_session_that_begins_again_all(picture):
    engine = gemma("A car.", "A bus.", "So.", rewindable=False)
    said = Conversation(engine)
    said.send_message(asked({"type": "image", "path": str(picture)}))
    picture.unlink()
    said.send_message(asked(blob(BUS_PNG), text="What does <start_of_image> mean?"))
    assert "user\n[image/png picture]What is this?<end_of_turn>" in engine.prefills[0]
    assert "[image/png another]What does < start_of_image> mean?" in engine.prefills[1]
    said.undo()
    said.send_message("And?")
    shown = [re.findall(r"\[image/png (\w+)\]", text) for text in engine.prefills]
    assert shown == [["picture"], ["another"], ["picture"]]


def test_media_without_a_place_in_the_prompt_are_refused_before_anything_is_sent():
    template = ChatTemplate("{% for m in messages %}{{ m.role }}{% endfor %}")
    engine = ScriptedEngine("x", template=template)
    said = Conversation(engine)
    with pytest.raises(InvalidMessageError):
        said.send_message(asked(blob(CAR_PNG)))
    assert (engine.prefills, said.history) == ([], [])
