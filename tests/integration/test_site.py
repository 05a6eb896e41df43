"""The documentation site, built strictly, as a reader's browser meets it."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from browser import (
    DESKTOP,
    PHONE,
    find_foreign_hosts,
    find_violations,
    open_browser,
    serve_directory,
)
from words import MOST_WORDS, count_words

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.browser, pytest.mark.sockets, pytest.mark.timeout(600)]

LOOKED_AT = [
    "index.html",
    "get_started/quickstart.html",
    "concepts/recall.html",
    "how_to/troubleshoot.html",
    "reference/api/conversation_memory.html",
    "benchmarks/reliability.html",
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the site; a warning is an error."""
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", target]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return target


@pytest.fixture(scope="module")
def site(built):
    with serve_directory(built) as address:
        yield address


class _Links(HTMLParser):
    """The ids of a page, and what its elements refer to."""

    def __init__(self, text):
        super().__init__()
        self.ids = set()
        self.links = []
        self.loaded = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if value is None:
                continue
            if name in ("id", "name"):
                self.ids.add(value)
            elif tag == "a" and name == "href":
                self.links.append(value)
            elif name in ("src", "srcset", "href", "poster", "data"):
                self.loaded.append(value)


def test_no_link_and_no_anchor_of_the_site_is_broken(built):
    pages = {
        page.relative_to(built).as_posix(): _Links(page.read_text("utf-8"))
        for page in built.rglob("*.html")
    }
    broken = []
    for name, page in pages.items():
        if name == "404.html":  # its links begin at the root of the server
            continue
        for link in [*page.links, *page.loaded]:
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            target, anchor = urldefrag(link)
            path = (
                (built / name).parent / unquote(urlsplit(target).path) if target else built / name
            )
            path = path / "index.html" if path.is_dir() else path
            if not path.exists():
                broken.append(f"{name}: {link}")
            elif anchor and path.suffix == ".html":
                other = path.resolve().relative_to(built.resolve()).as_posix()
                if unquote(anchor) not in pages[other].ids:
                    broken.append(f"{name}: {link}")
    assert len(pages) > 50
    assert broken == []


def test_the_site_has_no_more_words_than_it_may(built):
    assert 1_000 < sum(count_words(built).values()) <= MOST_WORDS


def test_no_page_loads_anything_from_another_host(built):
    foreign = [
        f"{page.relative_to(built)}: {loaded}"
        for page in built.rglob("*.html")
        for loaded in _Links(page.read_text("utf-8")).loaded
        if urlsplit(loaded).netloc
    ]
    assert foreign == []


def test_chromium_asks_no_other_host_for_any_page(built, site, tmp_path):
    log = tmp_path / "network.json"
    with open_browser(log) as browser:
        with browser.open() as opened:
            for page in sorted(built.rglob("*.html")):
                opened.goto(f"{site}/{page.relative_to(built).as_posix()}")
                assert opened.title()
            opened.goto(f"{site}/index.html")
            opened.locator("input.md-search__input").fill("forget")
            opened.locator(".md-search-result__item a").first.wait_for(state="attached")
        requested = {url for url in browser.requested if not url.startswith(site)}
    assert {url for url in requested if not url.startswith(("data:", "blob:"))} == set()
    assert find_foreign_hosts(log) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("page", LOOKED_AT)
def test_axe_core_finds_nothing_wrong(browser, site, page, width, dark):
    with browser.open(f"{site}/{page}", width=width, dark=dark) as opened:
        assert find_violations(opened) == []


def test_axe_core_finds_nothing_wrong_on_any_page(browser, site, built):
    pages = [path.relative_to(built).as_posix() for path in sorted(built.rglob("*.html"))]
    found = {}
    with browser.open() as opened:
        for page in pages:
            if not page.startswith("reference/api/"):  # all made alike; one is in `LOOKED_AT`
                opened.goto(f"{site}/{page}")
                found[page] = find_violations(opened)
    assert {page: wrong for page, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("page", LOOKED_AT)
def test_no_page_scrolls_sideways_on_a_phone(browser, site, page):
    with browser.open(f"{site}/{page}", width=PHONE) as opened:
        assert opened.evaluate("document.documentElement.scrollWidth") <= PHONE


def find_top(browser, address, selector):
    """Return how far below the top of a page something begins, in pixels."""
    with browser.open(address, width=DESKTOP) as opened:
        box = opened.locator(selector).first.bounding_box()
    assert box is not None
    return box["y"] + box["height"]


@pytest.mark.parametrize(
    "selector", ["code:has-text('pip install')", "code:has-text('ConversationMemory.open')"]
)
def test_the_home_page_shows_code_and_how_to_install_it_at_once(browser, site, selector):
    assert find_top(browser, f"{site}/index.html", selector) <= 900


def test_the_page_of_a_memory_shows_how_it_is_opened_at_once(browser, site):
    selector = "[id='langchain_convmem.memory.ConversationMemory.open']"
    assert find_top(browser, f"{site}/reference/api/conversation_memory.html", selector) <= 2_000


def test_models_find_every_page_as_text(built):
    listed = re.findall(
        r"^- \[.+?\]\((.+?)\)", (built / "llms.txt").read_text("utf-8"), re.MULTILINE
    )
    whole = (built / "llms-full.txt").read_text("utf-8")
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    menu = {page for page in pages if not page.startswith(("project/adr/", "reference/api/"))}
    assert menu <= set(listed)
    assert [page for page in listed if f"<!-- {page} -->" not in whole] == []
    assert [page for page in listed if not (built / page).exists()] == []
    twin = (built / "reference/api/scripted_reply.md").read_text("utf-8")
    assert "cut_after_chunks: int | None = None" in twin
    assert " at 0x" not in whole
