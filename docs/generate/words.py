"""Counts the words that a reader finds on the built site: `python docs/generate/words.py build/site`.

Text and code count alike. What is made of docstrings does not count, nor what the menu does not
list.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path

MOST_WORDS = 40_000
"""How many words the site shall have at most."""
_NOT_COUNTED = ("reference/api/", "project/adr/")
_WITHIN_WORDS = {
    "a",
    "abbr",
    "b",
    "code",
    "em",
    "i",
    "kbd",
    "small",
    "span",
    "strong",
    "sub",
    "sup",
}
"""Tags that end no word, such as those that colour a name and the bracket behind it."""


class _Article(HTMLParser):
    """The text of a page without its menus."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._open = {"article": 0, "style": 0, "script": 0, "svg": 0}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag in self._open:
            self._open[tag] += 1
        if tag == "br":
            self.texts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            self._open[tag] -= 1
        if tag not in _WITHIN_WORDS:
            self.texts.append(" ")

    def handle_data(self, data: str) -> None:
        if self._open["article"] and sum(self._open.values()) == 1:
            self.texts.append(data)


def count_words(site: Path) -> dict[str, int]:
    """Return how many words each page of a built site has, the longest page first."""
    pages = {
        page.relative_to(site).as_posix(): len("".join(_Article(text).texts).split())
        for page in site.rglob("*.html")
        if (text := page.read_text("utf-8"))
    }
    counted = {name: words for name, words in pages.items() if not name.startswith(_NOT_COUNTED)}
    return dict(sorted(counted.items(), key=lambda item: -item[1]))


if __name__ == "__main__":
    counts = count_words(Path(sys.argv[1]))
    for name, words in counts.items():
        print(f"{words:6} {name}")
    print(f"{sum(counts.values()):6} in all, of at most {MOST_WORDS}")
