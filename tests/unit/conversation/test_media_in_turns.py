from __future__ import annotations

import base64
import re

import pytest

from langchain_convmem import ChatTemplate, Conversation
from langchain_convmem.conversation.inputs import MediaLimits
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.testing import ScriptedEngine

PNG = b"\x89PNG\r\n\x1a\n" + b"picture"
OTHER = b"\x89PNG\r\n\x1a\n" + b"another"


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "car.png"
    path.write_bytes(PNG)
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


def test_later_turns_read_only_their_own_media(picture):
    engine = gemma("A car.", "A bus.")
    said = Conversation(engine)
    said.send_message(asked({"type": "image", "path": str(picture)}))
    picture.unlink()
    said.send_message(asked(blob(OTHER)))
    assert "user\n[image/png picture]What is this?<end_of_turn>" in engine.prefills[0]
    assert shown(engine) == [["picture"], ["another"]]


def test_a_session_that_begins_again_reads_media_again():
    engine = gemma("A car.", "A bus.", "So.", rewindable=False)
    said = Conversation(engine)
    said.send_message(asked(blob(PNG)))
    said.send_message(asked(blob(OTHER)))
    said.undo()
    said.send_message("And?")
    assert shown(engine) == [["picture"], ["another"], ["picture"]]


def test_media_without_a_place_in_the_prompt_are_refused_before_anything_is_sent():
    engine = ScriptedEngine(
        "x", template=ChatTemplate("{% for m in messages %}{{ m.role }}{% endfor %}")
    )
    said = Conversation(engine)
    with pytest.raises(InvalidMessageError):
        said.send_message(asked(blob(PNG)))
    assert engine.prefills == []
    assert said.history == []


def test_words_that_look_like_a_mark_take_no_picture_away():
    engine = gemma("A car.")
    said = Conversation(engine)
    said.send_message(asked(blob(PNG), text="What does <start_of_image> mean?"))
    assert "[image/png picture]What does < start_of_image> mean?" in engine.prefills[0]


def test_a_stranger_names_no_file_outside_the_folder(picture, tmp_path):
    (tmp_path / "shared").mkdir()
    limits = MediaLimits(folder=tmp_path / "shared")
    said = Conversation(gemma("x"), media_limits=limits)
    with pytest.raises(InvalidMessageError):
        said.send_message(asked({"type": "image", "path": str(picture)}))
