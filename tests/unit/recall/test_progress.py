"""How far embedding has come is shown in terminals and notebooks, and nowhere else."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from langchain_convmem.recall.progress import show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch, stream, quiet_s=0.0):
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress(quiet_s) as note:
        note(20, 40)
        during = stream.getvalue()
    return during, stream.getvalue()


def test_a_terminal_shows_how_many_are_done_and_is_clean_afterwards(monkeypatch):
    during, after = shown(monkeypatch, Terminal())
    assert "20 of 40" in during
    assert after.endswith(" \r")


def test_a_notebook_shows_it(monkeypatch):
    notebook = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert "20 of 40" in shown(monkeypatch, io.StringIO())[0]


@pytest.mark.parametrize(("stream", "quiet_s"), [(io.StringIO(), 0.0), (Terminal(), 3600.0)])
def test_a_server_and_what_is_quick_show_nothing(monkeypatch, stream, quiet_s):
    assert shown(monkeypatch, stream, quiet_s) == ("", "")
