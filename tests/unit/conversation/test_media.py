import base64
import os
import re

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from langchain_convmem import ChatTemplate, Conversation
from langchain_convmem.conversation.inputs import MediaLimits, coerce_messages
from langchain_convmem.conversation.text_backend import interleave, list_media
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.testing import ScriptedEngine
from langchain_convmem.text.control_tokens import MEDIA_MARKS
from langchain_convmem.text.sessions import Media

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


def shown(engine):
    """Return the names of the pictures that each prefill read."""
    return [re.findall(r"\[image/png (\w+)\]", text) for text in engine.prefills]


def test_later_turns_read_only_their_own_media_and_a_session_that_begins_again_all(picture):
    engine = gemma("A car.", "A bus.", "So.", rewindable=False)
    said = Conversation(engine)
    said.send_message(asked({"type": "image", "path": str(picture)}))
    picture.unlink()
    said.send_message(asked(blob(BUS_PNG)))
    assert "user\n[image/png picture]What is this?<end_of_turn>" in engine.prefills[0]
    said.undo()
    said.send_message("And?")
    assert shown(engine) == [["picture"], ["another"], ["picture"]]


def test_media_without_a_place_in_the_prompt_are_refused_before_anything_is_sent():
    template = ChatTemplate("{% for m in messages %}{{ m.role }}{% endfor %}")
    engine = ScriptedEngine("x", template=template)
    said = Conversation(engine)
    with pytest.raises(InvalidMessageError):
        said.send_message(asked(blob(CAR_PNG)))
    assert (engine.prefills, said.history) == ([], [])


def test_words_that_look_like_a_mark_take_no_picture_away():
    engine = gemma("A car.")
    said = Conversation(engine)
    said.send_message(asked(blob(CAR_PNG), text="What does <start_of_image> mean?"))
    assert "[image/png picture]What does < start_of_image> mean?" in engine.prefills[0]
