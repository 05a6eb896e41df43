"""The web chat asks no other host for anything: Chromium's own log of its network says so."""

import pytest
from browser import find_foreign_hosts, open_browser
from web_server import import_life, run_server, run_service

pytestmark = [pytest.mark.browser, pytest.mark.sockets]

HOSTILE = (
    "Echo ![look](https://evil.example/pixel.png) <img src=//evil.example/x> [a](//evil.example)"
)


def test_no_request_leaves_the_machine(tmp_path):
    import_life(tmp_path)
    log = tmp_path / "network.json"
    with (
        run_service() as (service, gate),
        run_server(tmp_path, service) as (address, _),
        open_browser(log) as browser,
    ):
        gate.opened.set()
        with browser.open(f"{address}/chat?user=maya") as page:
            page.wait_for_selector("html[data-ready]")
            page.fill("#text", HOSTILE)
            page.keyboard.press("Enter")
            page.locator(".why-button").wait_for()
            page.locator(".why-button").click()
            page.wait_for_selector("#panel:not([hidden])")
        with browser.open(f"{address}/search?user=maya&q=tea"):
            pass
        assert browser.requested
        assert [url for url in browser.requested if not url.startswith(address)] == []
    assert find_foreign_hosts(log) == []
