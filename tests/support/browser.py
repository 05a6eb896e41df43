"""Headless Chromium for tests: it reaches loopback alone, and every request it makes is logged.

It takes Debian's package `chromium`, the client `playwright` and axe-core from the npm registry;
`make browser` installs all three where it can. Where one is missing, tests are skipped.

    def test_the_page_is_accessible(browser):
        with browser.open("http://127.0.0.1:8000/", width=390, dark=True) as page:
            assert find_violations(page) == []
"""

import contextlib
import functools
import json
import shutil
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

AXE = Path(__file__).parents[2] / "build/node/node_modules/axe-core/axe.min.js"
DESKTOP, PHONE = 1280, 390

_SILENT = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
"""What keeps Chromium, with all its own services, from every other machine."""


class Browser:
    """A running Chromium whose requests are written to a log of its own.

    Attributes:
        requested: Every address that a page has asked for so far, in order.
    """

    def __init__(self, chromium, log):
        self.requested = []
        self._chromium = chromium
        self._log = log

    @contextlib.contextmanager
    def open(self, url="about:blank", *, width=DESKTOP, dark=False):
        """Yield a page, loaded, of a browser without cookies.

        Args:
            url: Its address.
            width: In CSS pixels; the height is 900.
            dark: Whether the reader prefers dark pages.
        """
        context = self._chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        context.on("request", lambda request: self.requested.append(request.url))
        try:
            page = context.new_page()
            page.goto(url, wait_until="load")
            yield page
        finally:
            context.close()


def find_foreign_hosts(log):
    """Return hosts other than loopback that pages asked, by Chromium's log of all its traffic.

    The log holds what no page reports, too: prefetches, workers, beacons. What Chromium itself
    would like to know of its vendor has no origin, and gets no answer here.
    """
    events = json.loads(log.read_text("utf-8"))["events"]
    asked = [event["params"] for event in events if "initiator" in event.get("params", {})]
    assert asked, "the log holds no request"
    hosts = {_host_of(one["url"]) for one in asked if one["initiator"] != "not an origin"}
    return sorted(hosts - {"127.0.0.1", "localhost", "::1", ""})


def _host_of(value):
    if value.startswith(("data:", "blob:", "about:", "chrome:", "chrome-extension:", "file:")):
        return ""
    return urlsplit(value).hostname or ""


@contextlib.contextmanager
def open_browser(log=None):
    """Yield a new Chromium; skip the test where something it takes is missing.

    Args:
        log: Where Chromium writes its network log, whole once the browser is closed.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("chromium is not installed")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with tempfile.TemporaryDirectory(prefix="convmem-browser-") as directory:
        written = log or Path(directory) / "network.json"
        with api.sync_playwright() as started:
            chromium = started.chromium.launch(
                executable_path=program,
                args=[*_SILENT, f"--log-net-log={written}", "--net-log-capture-mode=Everything"],
            )
            try:
                yield Browser(chromium, written)
            finally:
                chromium.close()


@functools.cache
def _axe_source():
    if not AXE.exists():
        pytest.skip("axe-core is missing: npm install --no-save --prefix build/node axe-core@4")
    return AXE.read_text("utf-8")


def find_violations(page, within=None):
    """Return what axe-core finds wrong with a page, one line an element: rule, element, reason.

    Args:
        page: A loaded page.
        within: A CSS selector that limits the check; all of the page without one.
    """
    page.evaluate(_axe_source())
    report = page.evaluate("within => axe.run(within || document)", within)
    return [
        f"{rule['id']} ({rule['impact']}): {' '.join(node['target'][0:1])}: "
        + node["failureSummary"].replace("\n", " ")[:300]
        for rule in report["violations"]
        for node in rule["nodes"]
    ]


@contextlib.contextmanager
def serve_directory(directory):
    """Serve files on a free port of loopback; yield the address, without a slash at the end."""
    handler = partial(_SilentHandler, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class _SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):  # noqa: A002 - named by the base
        """Say nothing on the terminal."""
