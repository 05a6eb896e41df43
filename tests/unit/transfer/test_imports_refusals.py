import json

import pytest

from langchain_convmem.errors import ImportFormatError
from langchain_convmem.transfer.imports import parse_threads, read_files
from langchain_convmem.transfer.source import Source, read_source

GOOD = '{"role": "user", "content": "a"}'


def refusal(text, **options):
    with pytest.raises(ImportFormatError) as caught:
        parse_threads(Source("f.txt", text), **options)
    assert caught.value.path == "f.txt"
    assert caught.value.location in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("text", "location", "says"),
    [
        ("", "", "is empty"),
        (" \r\n\t\n", "", "is empty"),
        ("\n# Notes\n", "line 2", "JSONL"),
        ("[]", "$", "list of 0"),
        ('{"foo": 1}', "$", "keys foo"),
        (f'{GOOD}\n{{"role": "user", "role": "ai"}}', "line 2", "the key role stands twice"),
        (f'{GOOD}\n{{"role": "user"', "line 2, column 16", "not valid JSON"),
        (f'{GOOD}\n\n{{"role": nope}}', "line 3, column 10", "not valid JSON"),
        ('{"role": "user", "content": "cut', "line 1, column 29", "not valid JSON"),
        (f"{GOOD}\n[1]", "line 2", "expected a valid dictionary"),
        (f'{GOOD}\n{{"content": "a"}}', "line 2", '"role"'),
        ('{"role": "wizard", "content": "a"}', "$.role", "assistant"),
        ('{"role": "user"}', "$", '"content"'),
        ('{"role": "user", "content": null}', "$", '"content"'),
        ('{"role": "user", "content": 42}', "$.content", "found 42, expected text or"),
        ('{"role": "user", "content": " \\n"}', "$.content", "not blank"),
        ('[{"role": "assistant", "content": null}]', "$[0]", '"content"'),
        ('[{"role": "tool", "content": "x"}]', "$[0]", '"tool_call_id"'),
        ('[{"role": "ai", "tool_calls": [{"id": 1}]}]', "$[0].tool_calls[0]", '"function"'),
        ('[{"role": "user", "content": [7]}]', "$[0].content", "objects"),
        ('[{"role": "user", "content": [{"type": "text", "text": 7}]}]', "$[0].content", "text"),
        ('{"role": "user", "content": "\\ud800"}', "$", "surrogate"),
        ('{"role": "user", "content": "a", "id": true}', "$.id", "whole number"),
        ('{"role": "user", "content": "a", "name": 1}', "$.name", "expected a valid string"),
        ('{"role": "user", "content": "a", "session": 1.5}', "$.session", "1.5"),
        ('{"role": "user", "content": "a", "timestamp": "May"}', "$.timestamp", "ISO 8601"),
        ('{"role": "user", "content": "a", "timestamp": 1e999}', "$.timestamp", "inf"),
        ('{"role": "user", "content": "a", "id": ' + "9" * 5000 + "}", "", "digits"),
    ],
)
def test_a_bad_jsonl_file_is_refused_with_its_line(text, location, says):
    error = refusal(text)
    assert error.location == location
    assert says in str(error)


def test_nesting_that_exhausts_the_parser_is_refused():
    assert "not usable as JSON" in str(refusal("[" * 200_000))


def test_the_second_message_of_an_id_gets_another():
    [thread] = parse_threads(Source("f", json.dumps([{**json.loads(GOOD), "id": "x"}] * 2)))
    assert [message.id for message in thread.messages] == ["x", "x~2"]


def test_bytes_that_are_not_utf8_are_refused_with_line_and_offset(tmp_path):
    path = tmp_path / "latin.jsonl"
    path.write_bytes(f"{GOOD}\n".encode() + '{"role": "user", "content": "é"}'.encode("latin-1"))
    with pytest.raises(ImportFormatError, match="line 2: byte 0xe9 at offset 62") as caught:
        read_source(path)
    assert caught.value.location == "line 2"


def test_a_file_over_the_limit_is_refused_and_one_at_the_limit_is_read(tmp_path):
    path = tmp_path / "big.jsonl"
    path.write_text(GOOD)
    assert read_source(path, max_bytes=len(GOOD)).text == GOOD
    with pytest.raises(ImportFormatError, match="limit for one file"):
        read_source(path, max_bytes=len(GOOD) - 1)


def test_two_files_that_are_the_same_thread_are_refused(tmp_path):
    paths = [tmp_path / folder / "chat.jsonl" for folder in "ab"]
    for path in paths:
        path.parent.mkdir()
        path.write_text(GOOD)
    with pytest.raises(ImportFormatError, match=r"a/chat\.jsonl.*--thread"):
        read_files(paths)
