import re

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from markupsafe import Markup

from langchain_convmem.records import Entry, Metadata, ThreadKey
from langchain_convmem.views.codec import get_role, get_text_pieces
from langchain_convmem.web.display import (
    LONG_TEXT,
    make_title,
    mark_words,
    read_note,
    render_markdown,
    shorten,
    show_message,
    show_messages,
)

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "</p></article><script src=//evil.example/x.js></script>",
    "![x](https://evil.example/pixel.png)",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1))",
    "[click](data:text/html;base64,PHNjcmlwdD4=)",
    "[click](vbscript:x)",
    "[click]( javascript:alert(1))",
    "[x]: javascript:alert(1)\n\n[x]",
    "<javascript:alert(1)>",
    '<a href="https://evil.example" onclick="alert(1)">x</a>',
    "```<script>alert(1)</script>",
    "`<script>alert(1)</script>`",
    '"><script>alert(1)</script>',
    "<style>*{display:none}</style>",
    "<iframe src=https://evil.example></iframe>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "# <b onmouseover=alert(1)>x</b>",
    "| <script> |\n| --- |\n| <img src=x onerror=alert(1)> |",
    "```js onload=alert(1)\nx\n```",
    "\u202egnp.exe\u202c",
    "{{ 7 * 7 }}{% raw %}",
]
ALLOWED = re.compile(
    r"</?(?:p|a|em|strong|s|code|pre|ul|ol|li|blockquote|hr|br|h[4-6]|div|table|thead|tbody|tr|th|td)"
    r"(?: (?:class|href|rel|target|tabindex|start|title)=\"[^\"<>]*\")* ?/?>"
)


def entry(message, **more):
    return Entry(
        id="01AAAAAAAAAAAAAAAAAAAAAAAA",
        key=ThreadKey("ana", "t1"),
        position=7,
        turn_id="01AAAAAAAAAAAAAAAAAAAAAAAB",
        role=get_role(message),
        message=message,
        contents=get_text_pieces(message),
        metadata=Metadata(**{"timing": {"creation": 5}, **more}),
    )


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", [HumanMessage, AIMessage])
def test_nothing_that_was_said_becomes_markup_of_its_own(kind, text):
    html = str(show_message(entry(kind(text))).html)
    rest = ALLOWED.sub("", html)
    assert "<" not in rest
    assert not re.search(r"href=\"(?!https?:|mailto:)", html)
    assert "<img" not in html


def test_markdown_of_a_reply_is_shown():
    html = render_markdown("**bold** and *soft*\n\n- one\n- two\n\n| a |\n| - |\n| 1 |")
    assert "<strong>bold</strong>" in html
    assert "<li>one</li>" in html
    assert "<td>1</td>" in html


def test_links_of_a_reply_lead_out_without_a_trace():
    html = render_markdown("[here](https://example.org/a?b=1&c=2)")
    where = 'rel="noopener noreferrer nofollow" target="_blank"'
    assert f'<a href="https://example.org/a?b=1&amp;c=2" {where}>here</a>' in html


def test_what_the_user_said_is_no_markdown():
    shown = show_message(entry(HumanMessage("**x**")))
    assert shown.html == Markup('<p class="verbatim">**x**</p>')


def test_a_long_text_waits_to_be_unfolded_and_loses_nothing():
    text = "x" * 100_000
    shown = show_message(entry(HumanMessage(text)))
    lengths = [len(part.striptags()) for part in (shown.html, shown.rest)]
    assert lengths == [LONG_TEXT, 100_000 - LONG_TEXT]


def test_a_title_is_the_first_thing_that_the_user_said():
    entries = [entry(AIMessage("Hello.")), entry(HumanMessage("Where   did\nI park?"))]
    assert make_title(entries) == "Where did I park?"
    assert make_title([]) == ""


def test_a_title_is_cut_after_a_word_and_turns_nothing_around():
    assert shorten("one two three four", 12) == "one two …"
    assert shorten("ab\u202edc\u0000", 20) == "abdc"
    assert shorten("x" * 30, 10) == "x" * 10 + " …"


def test_words_of_the_question_are_marked_and_the_rest_is_text():
    marked, words = mark_words("I <b>parked</b> there.", frozenset({"park"}))
    assert marked == "I &lt;b&gt;<mark>parked</mark>&lt;/b&gt; there."
    assert words == ("parked",)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        {"blocks": "none"},
        {"blocks": [{"lines": 3}]},
        {"blocks": [{"thread_id": "t", "lines": [["a", "x", 0]], "hits": []}]},
    ],
)
def test_what_an_application_wrote_under_the_key_of_the_note_is_not_read(value):
    assert read_note(entry(AIMessage("x"), aux={"recalled": value})) is None


def test_times_usage_and_marks_of_a_reply_are_shown():
    usage = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    timing = {"creation": 5, "llmStart": 10, "firstToken": 12, "llmEnd": 30}
    reply = AIMessage("x", usage_metadata=usage)
    shown = show_message(entry(reply, attributes=("interrupted",), timing=timing))
    assert shown.is_interrupted
    assert (shown.first_word_ms, shown.total_ms) == (2, 20)
    assert shown.usage == {"input_tokens": 9, "output_tokens": 3}


def test_a_picture_and_calls_leave_a_trace_on_a_page():
    picture = {"type": "image", "base64": "iVBO" * 400, "mime_type": "image/png"}
    shown = show_messages([entry(HumanMessage([picture]))])
    assert [str(one.html) for one in shown] == ['<p class="verbatim">[image, png, 1.2 kB]</p>']
    call = {"name": "weather", "args": {"city": "Porto"}, "id": "c1"}
    [told] = show_message(entry(AIMessage("", tool_calls=[call]))).calls
    assert told == ("weather", 'city="Porto"')
