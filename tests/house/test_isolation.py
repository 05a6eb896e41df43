"""Tests reach no network and see no keys, unless they ask for loopback."""

import os
import socket
from contextlib import closing

import pytest

BLOCKED = (RuntimeError, UserWarning)  # pytest-socket warns first, and warnings are errors


def test_a_test_cannot_open_a_socket():
    with pytest.raises(BLOCKED, match="socket"):
        socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def test_a_test_cannot_look_up_a_name():
    with pytest.raises(BLOCKED, match="getaddrinfo"):
        socket.getaddrinfo("localhost", 80)


@pytest.mark.sockets
def test_a_test_that_asks_for_sockets_reaches_nothing_else():
    # An address for documentation, which nobody has (RFC 5737).
    with (
        closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as outward,
        pytest.raises(BLOCKED, match=r"192\.0\.2\.1"),
    ):
        outward.connect(("192.0.2.1", 80))


def test_no_key_and_no_setting_of_this_machine_is_seen():
    beginnings = ("ANTHROPIC_", "AWS_", "CONVMEM_", "LANGCHAIN_", "LANGSMITH_", "OPENAI_")
    ours = {"CONVMEM_CACHE", "CONVMEM_EMBEDDER"}  # of the suite itself
    assert [name for name in os.environ if name.startswith(beginnings) and name not in ours] == []
