"""Runs the code of a page of the documentation, and compares what it prints with the page.

Fenced blocks of `python` run from top to bottom, in one namespace. A block of `text` right after
one, with nothing but blank lines between, is exactly what it prints; a date there stands for the
day on which it runs.

Blocks in tabs are alternatives: each is run by itself, by the tests of its page. But those in the
tabs `Before` and `After` are run with the others of their language.

Blocks of `py` need another library, which the package does not depend on. Most tests skip them;
they run where that library is installed: `make migration` and `make web`.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

OURS = "python"
THEIRS = "py"

_FENCED = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```\n", re.MULTILINE | re.DOTALL)
_TAB = re.compile(r'^=== "([^"]+)"$', re.MULTILINE)
_PAIR = ("Before", "After")


_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")


class PageError(AssertionError):
    """A block printed something else than its page says."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A block of code on a page.

    Attributes:
        page: The page.
        line: The line of the block's fence, counted from 1.
        language: `python` or `py`.
        code: What is run.
        output: What it prints, if the page says so.
        tab: The title of the tab in which it stands, if in any.
    """

    page: Path
    line: int
    language: str
    code: str
    output: str | None
    tab: str | None = None

    def run(self, names):
        """Run the block in a namespace and return what it printed.

        Raises:
            PageError: If the page shows another output.
        """
        numbered = "\n" * self.line + self.code  # a traceback names the line of the page
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(numbered, str(self.page), "exec", dont_inherit=True), names)  # noqa: S102 - our own pages
        found = printed.getvalue()
        self.compare(found)
        return found

    def compare(self, found):
        """Compare what the block printed with what the page shows for it, if anything.

        Raises:
            PageError: If it is something else.
        """
        if self.output is None:
            return
        shown = self.output
        page, printed = (_DATE.sub("(a date)", text).splitlines() for text in (shown, found))
        if page != printed:
            diff = "\n".join(difflib.unified_diff(page, printed, "page", "printed", lineterm=""))
            raise PageError(f"{self.page}:{self.line}: prints something else\n{diff}")


def blocks_of(page):
    """Return the blocks of code of a page, each with the output that the page shows for it."""
    text, blocks = page.read_text("utf-8"), []
    fences = list(_FENCED.finditer(text))
    for fence, after in itertools.zip_longest(fences, fences[1:]):
        indent, language, code = fence.groups()
        if language not in (OURS, THEIRS):
            continue
        follows = after is not None and not text[fence.end() : after.start()].strip()
        shown = textwrap.dedent(after[3]) if follows and after[2] == "text" else None
        line = text.count("\n", 0, fence.start()) + 1
        tab = _find_tab(text, fence.start()) if indent else None
        blocks.append(CodeBlock(page, line, language, textwrap.dedent(code), shown, tab))
    return blocks


def _find_tab(text, place):
    titles = [found[1] for found in _TAB.finditer(text, 0, place)]
    return titles[-1] if titles and titles[-1] not in _PAIR else None


def run_page(page, language=OURS):
    """Run a page's blocks of one language in the current directory; return what they printed.

    Raises:
        PageError: If a block prints something else than the page shows.
    """
    blocks = blocks_of(page)
    names = {"__name__": page.name}
    wanted = [block for block in blocks if block.language == language and block.tab is None]
    if language == THEIRS:
        wanted.insert(0, next(block for block in blocks if block.language == OURS))
    return "".join(block.run(names) for block in wanted)


def without_a_key(code):
    """Return the README's program with the offline model, as the README tells to write it."""
    ours = "from langchain_convmem.offline import OfflineChatModel"
    theirs = {
        "from langchain_openai import ChatOpenAI": ours,
        'ChatOpenAI(model="gpt-5-mini")': "OfflineChatModel()",
    }
    for old, new in theirs.items():
        assert old in code, old
        code = code.replace(old, new)
    return code
