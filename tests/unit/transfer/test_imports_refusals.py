from __future__ import annotations

import json
import pickle

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
        ("[1, 2]", "$", "list of 2"),
        (f'{GOOD}\n{{"role": "user", "role": "ai"}}', "line 2", "the key role stands twice"),
        (f'{GOOD}\n{{"role": "user"', "line 2, column 16", "not valid JSON"),
        (f'{GOOD}\n\n{{"role": nope}}', "line 3, column 10", "not valid JSON"),
        ('{"role": "user", "content": "cut', "line 1, column 29", "not valid JSON"),
        (f"{GOOD}\n[1]", "line 2", "expected an object"),
        (f'{GOOD}\n{{"content": "a"}}', "line 2", '"role"'),
        ('{"role": "wizard", "content": "a"}', "line 1, role", "assistant"),
        ('{"role": 3, "content": "a"}', "line 1, role", "found 3"),
        ('{"role": "user"}', "line 1", '"content"'),
        ('{"role": "user", "content": null}', "line 1", '"content"'),
        ('{"role": "user", "content": 42}', "line 1, content", "found 42, expected text"),
        ('{"role": "user", "content": " \\n"}', "line 1, content", "not blank"),
        ('{"role": "user", "content": "\\ud800"}', "line 1", "surrogate"),
        ('{"role": "user", "content": "a", "id": true}', "line 1, id", "whole number"),
        ('{"role": "user", "content": "a", "id": ""}', "line 1, id", "not blank"),
        ('{"role": "user", "content": "a", "name": 1}', "line 1, name", "expected text"),
        ('{"role": "user", "content": "a", "session": 1.5}', "line 1, session", "1.5"),
        ('{"role": "user", "content": "a", "timestamp": "May"}', "line 1, timestamp", "ISO 8601"),
        ('{"role": "user", "content": "a", "timestamp": 1.5}', "line 1, timestamp", "ISO 8601"),
        ('{"role": "user", "content": "a", "timestamp": 1e999}', "line 1, timestamp", "inf"),
        ('{"role": "user", "content": "a", "id": ' + "9" * 5000 + "}", "line 1", "digits"),
    ],
)
def test_a_bad_jsonl_file_is_refused_with_its_line(text, location, says):
    error = refusal(text)
    assert error.location == location
    assert says in str(error)


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        (
            '{"role":"user","content":"a","id":1}\n\n{"role":"ai","content":"b","id":"1"}',
            "line 1",
            "line 3",
        ),
        (json.dumps([{**json.loads(GOOD), "id": "x"}] * 2), "$[0]", "$[1]"),
    ],
)
def test_an_id_that_stands_twice_is_refused_with_both_places(text, first, second):
    error = refusal(text)
    assert error.location == second
    assert first in str(error)


def test_one_thread_id_cannot_name_several_dialogues():
    said = [{"type": "human", "data": {"content": "a"}}]
    rows = [{"SessionId": name, "History": said} for name in "ab"]
    assert "2 dialogues" in str(refusal(json.dumps(rows), thread_id="t"))


def test_nesting_that_exhausts_the_parser_is_refused():
    deep = 200_000
    for text in ("[" * deep, f'{GOOD}\n{{"a": {"[" * deep}{"]" * deep}}}'):
        assert "nested too deeply" in str(refusal(text))


def test_a_line_over_the_limit_is_refused_in_every_format():
    text = "x" * (5 * 1024 * 1024)
    # The JSONL limit counts the whole line, the others the text alone.
    message = {"role": "user", "content": text}
    assert refusal(f"{GOOD}\n{json.dumps(message)}").location == "line 2"
    assert refusal(json.dumps([message, {**message, "content": text + "x"}])).location == "$[1]"
    assert parse_threads(Source("f", json.dumps([message])))


def test_bytes_that_are_not_utf8_are_refused_with_line_and_offset(tmp_path):
    path = tmp_path / "latin.jsonl"
    path.write_bytes(f"{GOOD}\n".encode() + '{"role": "user", "content": "é"}'.encode("latin-1"))
    with pytest.raises(ImportFormatError, match="line 2: byte 0xe9 at offset 62") as caught:
        read_source(path)
    assert caught.value.location == "line 2"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert read_source(path).text == GOOD


def test_a_file_over_the_limit_is_refused_and_one_at_the_limit_is_read(tmp_path):
    path = tmp_path / "big.jsonl"
    path.write_text(GOOD)
    assert read_source(path, max_bytes=len(GOOD)).text == GOOD
    with pytest.raises(ImportFormatError, match="limit for one file"):
        read_source(path, max_bytes=len(GOOD) - 1)


def test_what_cannot_be_opened_is_refused_with_its_path(tmp_path):
    path = tmp_path / "missing.jsonl"
    with pytest.raises(ImportFormatError, match="cannot be read") as caught:
        read_source(path)
    assert caught.value.path == str(path)


def _write_files(folder, *names):
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(GOOD)
    return paths


def test_two_files_that_are_the_same_thread_are_refused(tmp_path):
    paths = _write_files(tmp_path, "a/chat.jsonl", "b/chat.jsonl")
    with pytest.raises(ImportFormatError, match=r"a/chat\.jsonl.*--thread"):
        read_files(paths)


def test_progress_counts_the_bytes_of_all_files(tmp_path):
    seen = []
    paths = _write_files(tmp_path, "a.jsonl", "b.jsonl")
    read_files(paths, progress=lambda done, total: seen.append((done, total)))
    whole = 2 * len(GOOD)
    assert {total for _, total in seen} == {whole}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert {len(GOOD), whole} <= {done for done, _ in seen}


def test_a_refusal_survives_pickling():
    error = refusal(f"{GOOD}\n[1]")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(again), again.path, again.location) == (str(error), "f.txt", "line 2")
