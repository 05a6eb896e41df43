"""Command lines of the documentation are ones that convmem takes, and print what the page shows."""

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import click
import pytest

from langchain_convmem.cli import main
from langchain_convmem.cli.app import convmem

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [found[2] for found in _FENCED.finditer(page.read_text("utf-8")) if found[1] == language]


def command_lines():
    for page in PAGES:
        for block in blocks(page, "") + blocks(page, "console"):
            for line in re.sub(r"\\\n\s*", "", block).splitlines():
                for part in re.split(r" ; | \| | > ", line.removeprefix("$ ")):
                    if part.startswith("convmem "):
                        yield page.name, part


SHOWN = [pytest.param(line, id=f"{page}: {line[:60]}") for page, line in command_lines()]
MISSPELT = {"convmem recal ladder"}


def test_there_are_command_lines_to_look_at():
    assert len(SHOWN) > 30


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_line_of_a_page_is_one_that_convmem_takes(line):
    words = shlex.split(line, comments=True)[1:]
    group = convmem
    while True:
        if words[0] == "--version" or line in MISSPELT:
            return
        command = group.commands[words.pop(0)]
        if not isinstance(command, click.Group):
            break
        group = command
    command.make_context("convmem", words)


_VARYING = [
    (re.compile(r"relevance -?\d+\.\d+, similarity -?\d+\.\d+"), "(scores)"),
    (re.compile(r"\[(\d{4}-\d{2}-\d{2}), [^\]]* ago\]"), r"[\1, (some time) ago]"),
    (re.compile(r"stored .*"), "stored (times)"),
    (re.compile(r"\d+ bytes"), "(size)"),
    (re.compile(r"\d+ index rows"), "(rows)"),  # what is indexed by then depends on the embedder
    (re.compile(r'"segments": \d+'), "(rows)"),
]


def masked(text):
    for pattern, mask in _VARYING:
        text = pattern.sub(mask, text)
    return text.splitlines()


def steps(page):
    """Yield each command of the page's transcripts with what the page shows for it."""
    for block in blocks(page, "console"):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = step.partition("\n")
            yield line, output


def run(line, monkeypatch):
    """Run one line of a transcript; return what a terminal would show."""
    typed, _, line = line.rpartition(" | ")
    text = "".join(f"{word}\n" for word in shlex.split(typed)[1:])
    stdin = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
        main(shlex.split(line)[1:])
    return screen.getvalue()


def test_the_transcripts_of_the_page_on_the_command_line_are_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONVMEM_EMBEDDER")  # a page runs as its reader runs it
    monkeypatch.setenv("COLUMNS", "80")
    found = list(steps(ROOT / "docs" / "reference" / "command_line.md"))
    assert len(found) > 15
    for line, shown in found:
        if line.startswith("cat "):
            Path(line.removeprefix("cat ")).write_text(shown, "utf-8")
            continue
        printed = run(line, monkeypatch).replace(f"{tmp_path}/", "/chats/")
        assert masked(printed) == masked(shown), line


def test_the_page_on_the_command_line_lists_the_shape_of_every_command():
    page = (ROOT / "docs" / "reference" / "command_line.md").read_text("utf-8")
    listed = re.findall(r"^\| `([a-z ]+)` \| (?=[`o])", page.partition("## JSON")[2], re.MULTILINE)
    names = []
    for name, command in convmem.commands.items():
        inner = command.commands if isinstance(command, click.Group) else None
        names += [name] if inner is None else [f"{name} {one}" for one in inner]
    assert sorted(listed) == sorted(names)
