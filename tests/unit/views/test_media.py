"""Pictures, sound, video and files: what stays, in which form, and what the note says."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from histories import answered, spoken
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem.views.context import build_context
from langchain_convmem.views.media import read_media
from langchain_convmem.views.providers import PROVIDERS
from tests.fuzz.validators import VALIDATORS

ALL = sorted({*PROVIDERS} - {"openai_responses"})  # media of which are OpenAI's
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(22)).decode()
PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(20)).decode()
PDF_FILE = {"type": "file", "base64": PDF, "mime_type": "application/pdf"}
SOUND = {"type": "audio", "base64": "AAAA", "mime_type": "audio/mpeg"}
CLIP = {"type": "video", "base64": "AAAA", "mime_type": "video/mp4"}
URL = "https://example.org/a.png"
PICTURE = {"type": "image", "base64": PNG, "mime_type": "image/png"}


def zeros(number):
    return base64.b64encode(bytes(number)).decode()


def content(profile, *blocks):
    found = build_context(answered(HumanMessage(["Look.", *blocks])), provider=profile)
    assert VALIDATORS[profile](found.messages) == []
    return found.messages[0].content[1:]


def takers(block, accepted=lambda shown: shown["type"] != "text"):
    return {profile for profile in ALL if accepted(content(profile, block)[0])}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "image", "url": f"data:image/png;base64,{PNG}"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"image": {"format": "png", "source": {"bytes": base64.b64decode(PNG)}}},
        {"type": "image", "image": {"format": "png", "source": {"bytes": base64.b64decode(PNG)}}},
        {"type": "media", "mime_type": "image/png", "data": base64.b64decode(PNG)},
        {"type": "image", "base64": PNG.rstrip("="), "mime_type": "IMAGE/PNG; q=1"},
        {"type": "image", "base64": f"{PNG[:8]}\n{PNG[8:]}"},
        {"type": "file", "base64": PNG, "mime_type": "image/png"},
    ],
)
def test_a_picture_is_the_same_picture_in_every_shape(block):
    for profile in ALL:
        media = read_media(content(profile, block)[0])
        assert (media.kind, media.form, media.data, media.type) == (
            "image",
            "base64",
            PNG,
            "image/png",
        )


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (PICTURE, set(ALL)),
        ({"type": "image", "base64": "R0lGODlh", "mime_type": "image/gif"},
         {"bedrock_converse", "anthropic", "openai"}),
        ({"type": "image", "url": URL}, {"anthropic", "openai", "gemini"}),
        ({"type": "image_url", "image_url": {"url": URL}}, {"anthropic", "openai", "gemini"}),
        ({"type": "image", "file_id": "file_011"}, {"anthropic"}),
        ({"type": "file", "file_id": "file-011"}, {"openai"}),
        ({"type": "image", "base64": "PHN2Zz4=", "mime_type": "image/svg+xml"}, set()),
        ({"type": "image", "base64": "no base64!", "mime_type": "image/png"}, set()),
        ({"type": "image", "base64": "", "mime_type": "image/png"}, set()),
        ({"type": "image", "url": "gs://bucket/a.png"}, set()),
        ({"type": "image", "url": "/etc/passwd"}, set()),
        ({"type": "image"}, set()),
        (PDF_FILE, set(ALL)),
        ({"type": "file", "url": "https://example.org/a.pdf"}, {"anthropic", "gemini"}),
        ({"type": "file", "base64": "UEsDBA==", "mime_type": "application/zip"}, set()),
        ({"type": "file", "base64": "YSxi", "mime_type": "text/csv"}, {"bedrock_converse"}),
        (SOUND, {"openai", "gemini"}),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
         {"openai", "gemini"}),
        ({"type": "audio", "url": "https://example.org/a.mp3"}, {"gemini"}),
        (CLIP, {"bedrock_converse", "gemini"}),
    ],
)  # fmt: skip
def test_each_provider_gets_the_media_it_takes(block, expected):
    assert takers(block) == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (PICTURE, {"bedrock_converse", "anthropic", "gemini"}),
        ({"type": "image", "url": URL}, {"anthropic", "gemini"}),
        (PDF_FILE, {"bedrock_converse", "anthropic"}),
    ],
)  # fmt: skip
def test_each_provider_gets_the_media_it_takes_from_a_tool(block, expected):
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    said = ("q", AIMessage("", tool_calls=[call]), ToolMessage([block], tool_call_id="c1"))
    found = {profile: build_context(answered(*said), provider=profile).messages for profile in ALL}
    assert {p for p, ms in found.items() if ms[2].content[-1]["type"] != "text"} == expected
    assert all(VALIDATORS[profile](messages) == [] for profile, messages in found.items())


@pytest.mark.parametrize("profile", ["strict", "bedrock_converse", "anthropic", "openai"])
def test_an_assistants_picture_is_a_note_but_for_the_provider_that_draws(profile):
    entries = spoken("Draw.", AIMessage([{"type": "text", "text": "Here:"}, PICTURE]))
    shown = build_context(entries, provider=profile).messages[1].content
    assert shown[1] == {"type": "text", "text": "[image, image/png, 30 B: not shown]"}
    assert build_context(entries, provider="gemini").messages[1].content[1] == PICTURE


@pytest.mark.parametrize(
    ("block", "note"),
    [
        ({"type": "image", "url": URL}, f"[image, {URL}: not shown]"),
        ({"type": "image", "base64": zeros(12_345), "mime_type": "image/bmp"},
         "[image, image/bmp, 12.3 kB: not shown]"),
        ({"type": "video", "base64": zeros(1_500_000), "mime_type": "video/mp4"},
         "[video, video/mp4, 1.5 MB: not shown]"),
        ({"type": "file", "base64": "UEsDBA==", "mime_type": "application/zip",
          "filename": "all my\nfiles.zip"},
         "[file all my files.zip, application/zip, 4 B: not shown]"),
        ({"type": "audio", "file_id": "x"}, "[audio: not shown]"),
    ],
)  # fmt: skip
def test_a_note_says_what_stood_there(block, note):
    [shown] = content("strict", block)
    assert shown == {"type": "text", "text": note}


def test_a_text_file_is_shown_as_its_text_where_files_of_its_type_are_not_taken():
    block = {"type": "file", "base64": "YSxi", "mime_type": "text/csv", "filename": "t.csv"}
    assert content("strict", block) == [{"type": "text", "text": "[file t.csv]\na,b"}]
    assert content("bedrock_converse", block)[0]["type"] == "file"


def test_files_have_plain_names_of_their_own_where_the_provider_wants_them():
    def file(name):
        return {"type": "file", "base64": PDF, "mime_type": "application/pdf", "filename": name}

    blocks = [file("año  1.pdf"), file("report.v2.pdf"), file("report-v2.pdf"), file("???.pdf")]
    shown = content("bedrock_converse", *blocks)
    assert [block["name"] for block in shown] == ["a-o 1", "report-v2", "report-v2-2", "file"]
    assert shown[0]["filename"] == "año 1.pdf"


def test_of_too_many_pictures_the_newest_are_shown():
    said = [part for n in range(25) for part in (HumanMessage([f"{n}", PICTURE]), AIMessage("a"))]
    found = build_context(spoken(*said), provider="strict")
    kinds = [m.content[1]["type"] for m in found.messages if m.type == "human"]
    assert kinds == ["text"] * 5 + ["image"] * 20
    assert found.repairs == ("replaced the oldest 5 of kind image: strict takes no more at a time",)
    assert VALIDATORS["strict"](found.messages) == []
    assert "image" in {
        m.content[1]["type"] for m in build_context(spoken(*said), provider="openai").messages[:1]
    }


@pytest.mark.parametrize("profile", ["anthropic", "openai", "gemini"])
def test_media_by_address_are_shown_until_the_user_asks_again(profile):
    asked = HumanMessage([{"type": "text", "text": "What is it?"}, {"type": "image", "url": URL}])
    entries = spoken(asked, AIMessage("A garden."))
    assert build_context(entries, provider=profile).messages[0].content[1]["type"] == "image"
    later = build_context(
        spoken(asked, AIMessage("A garden."), HumanMessage("Where?")), provider=profile
    )
    assert later.messages[0].content[1]["text"] == f"[image, {URL}: not shown]"
    assert any("replaced the image" in repair for repair in later.repairs)
    kept = replace(PROVIDERS[profile], old_addresses="keep")
    again = build_context(
        spoken(asked, AIMessage("A garden."), HumanMessage("Where?")), provider=kept
    )
    assert again.messages[0].content[1]["type"] == "image"


def test_the_media_of_one_request_have_a_limit_of_bytes():
    large = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(3_000)).decode()
    block = {"type": "image", "base64": large, "mime_type": "image/png"}
    said = [part for n in range(3) for part in (HumanMessage([f"{n}", block]), AIMessage("a"))]
    small = replace(PROVIDERS["anthropic"], max_bytes=2 * len(large))
    found = build_context(spoken(*said), provider=small)
    kinds = [m.content[1]["type"] for m in found.messages if m.type == "human"]
    assert kinds == ["text", "image", "image"]
