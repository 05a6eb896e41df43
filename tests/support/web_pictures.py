"""The pictures of the page on the web chat: `python tests/support/web_pictures.py docs/how_to/web`.

They show the weeks of the examples as a user's memory, and a scripted service's reply to it.
"""

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


PAGES = {
    "panel": ("/chat?user=maya&thread=lisbon", {"width": DESKTOP}),
    "phone": ("/chat?user=maya&thread=lisbon", {"width": PHONE, "dark": True}),
    "search": ("/search?user=maya&q=allergic", {"width": DESKTOP}),
}


def ask(page):
    """Ask the question, and open what was recalled for it."""
    page.fill("#text", QUESTION)
    page.keyboard.press("Enter")
    page.locator(".message.assistant:not(.is-live)").wait_for()
    page.locator(".why-button").click()
    page.locator("#panel .block").first.wait_for()


def main():
    """Take all pictures into a folder, small."""
    from PIL import Image

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
            for name, (place, looks) in PAGES.items():
                with browser.open(address + place, **looks) as page:
                    page.wait_for_selector("html[data-ready]")
                    if name == "panel":
                        ask(page)
                    page.wait_for_timeout(200)
                    picture = Image.open(BytesIO(page.screenshot()))
                    picture.save(target / f"{name}.webp", "WEBP", quality=82, method=6)


if __name__ == "__main__":
    main()
