import os
from pathlib import Path

import pytest

from langchain_convmem.errors import ImportFormatError
from langchain_convmem.transfer.imports import read_threads

pytestmark = pytest.mark.skipif(os.name == "nt", reason="other kinds of files")


def refusal(path):
    with pytest.raises(ImportFormatError) as caught:
        read_threads(path)
    assert caught.value.path == str(path)
    return str(caught.value)


@pytest.fixture
def fifo(tmp_path):
    place = tmp_path / "pipe.jsonl"
    os.mkfifo(place)
    return place


def test_a_pipe_is_refused_before_anybody_waits_for_it(fifo):
    assert "is a pipe, a socket or a device" in refusal(fifo)


def test_a_pipe_that_came_in_the_place_of_the_file_is_refused(fifo, tmp_path, monkeypatch):
    file = tmp_path / "file.jsonl"
    file.write_text('{"role": "user", "content": "a"}\n')
    seen_before = file.stat()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: seen_before)
    assert "is a pipe" in refusal(fifo)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/null", "/dev/tty"])
def test_a_device_is_refused(device):
    assert "is a pipe, a socket or a device" in refusal(Path(device))


def test_a_folder_without_an_export_is_refused_and_its_pipes_are_left_alone(fifo):
    assert "holds nothing; expected conversations.json" in refusal(fifo.parent)
