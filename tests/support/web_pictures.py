"""The pictures of the page on the web chat: `python tests/support/web_pictures.py docs/how_to/web`.

They show the weeks of the examples as a user's memory, and a scripted service's reply to it.
"""

import re
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from browser import DESKTOP, PHONE, open_browser
from web_server import import_life, run_server, run_service

from langchain_convmem import ConversationMemory

QUESTION = (
    "I am planning a day in Lisbon with Jonas. What should we see, and where do we eat, with his "
    "allergy?"
)
TITLES = {
    "s01": "The net loft",
    "s02": "Handover on the 14th",
    "s03": "Meter readings",
    "s04": "The kiln is in",
    "s05": "The electrician",
    "s06": "Code of the key box",
    "s07": "Failed",
    "s08": "The school kiln",
    "s09": "Packing for Porto",
    "s10": "Porto",
    "s11": "Back home",
    "s12": "Passed!",
    "s13": "Timetable of the opening",
    "s14": "After the opening",
}


def say(page, text):
    page.fill("#text", text)
    page.keyboard.press("Enter")
    page.locator(".message.assistant:not(.is-live)").wait_for()


def take(page, path):
    """Write what a page shows, small."""
    from PIL import Image

    page.wait_for_timeout(200)
    picture = Image.open(BytesIO(page.screenshot()))
    picture.save(path, "WEBP", quality=82, method=6)


def main():
    """Take all pictures into a folder."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        import_life(folder, embeds=True)
        with ConversationMemory.open(folder / "memory.db") as memory:
            for info in memory.threads("maya"):
                thread = info.key.thread_id
                memory.set_title(thread, TITLES.get(thread, thread), user_id="maya")
        with (
            run_service() as (service, gate),
            run_server(folder, service) as (address, _),
            open_browser() as browser,
        ):
            gate.opened.set()
            with browser.open(f"{address}/chat?user=maya&thread=lisbon", width=DESKTOP) as page:
                page.wait_for_selector("html[data-ready]")
                say(page, QUESTION)
                page.locator(".why-button").click()
                page.locator("#panel .block").first.wait_for()
                take(page, target / "panel.webp")
            url = f"{address}/chat?user=maya&thread=lisbon"
            with browser.open(url, width=PHONE, dark=True) as page:
                page.wait_for_selector("html[data-ready]")
                take(page, target / "phone.webp")
            with browser.open(f"{address}/search?user=maya&q=allergic", width=DESKTOP) as page:
                page.wait_for_selector("html[data-ready]")
                take(page, target / "search.webp")
    assert all(re.fullmatch(r"[a-z]+\.webp", path.name) for path in target.iterdir())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
