"""The web chat in Chromium: what somebody does with it, over a service that streams on loopback."""

import json
import re
import signal
import time
from contextlib import contextmanager

import pytest
from browser import DESKTOP, PHONE, find_violations
from web_server import ROOT, import_life, run_server, run_service

from langchain_convmem import ConversationMemory

pytestmark = [pytest.mark.browser, pytest.mark.sockets]

PARKED = "I parked on level C, next to the blue pillar."
ASKED = "Where did I park?"
PATIENCE_MS = 40_000
REPLY = ".message.assistant:not(.is-live)"


@pytest.fixture(scope="module")
def service():
    with run_service() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="module")
def address(folder, service):
    with run_server(folder, service[0]) as (running, _):
        yield running


@pytest.fixture
def gate(service):
    service[1].opened.clear()
    service[1].reached.clear()
    return service[1]


@pytest.fixture
def chat(browser, address):
    @contextmanager
    def open_chat(user, thread="", **options):
        more = f"&thread={thread}" if thread else ""
        with browser.open(f"{address}/chat?user={user}{more}", **options) as page:
            page.set_default_timeout(PATIENCE_MS)
            page.faults = []
            page.on("pageerror", lambda error: page.faults.append(str(error)))
            page.on("console", lambda one: one.type == "error" and page.faults.append(one.text))
            page.wait_for_selector("html[data-ready]")
            yield page
            assert page.faults == []

    return open_chat


def begin(page, text):
    page.fill("#text", text)
    page.keyboard.press("Enter")


def say(page, text):
    """Say something and wait until the reply is there, whole."""
    before = page.locator(REPLY).count()
    begin(page, text)
    page.wait_for_function(
        "count => document.querySelectorAll('.message.assistant:not(.is-live)').length > count "
        "&& !document.querySelector('.is-live')",
        arg=before,
    )


def last_reply(page):
    return str(page.locator(f"{REPLY} .body").last.inner_text())


def own_texts(page):
    return [str(text).strip() for text in page.locator(".message.user .body").all_inner_texts()]


def wait_for_text(page, selector, text):
    page.locator(selector, has_text=text).first.wait_for()


def test_words_appear_as_they_come(chat, gate):
    with chat("ana") as page:
        begin(page, "Slowly, please.")
        assert gate.reached.wait(40)
        wait_for_text(page, ".is-live .body", "One, two,")
        assert "five" not in page.locator(".is-live .body").inner_text()
        assert page.locator("#messages").get_attribute("aria-busy") == "true"
        gate.opened.set()
        wait_for_text(page, f"{REPLY} .body", "One, two, three, four, five.")
        assert "One, two, three, four, five." in page.locator("#announcer").text_content()
        assert "thread=" in page.url  # a reload shows this thread


def test_stopping_keeps_what_came(chat, gate):
    with chat("ana") as page:
        begin(page, "Slowly, please.")
        wait_for_text(page, ".is-live .body", "One, two")
        page.get_by_role("button", name="Stop").click()
        wait_for_text(page, f"{REPLY} header", "interrupted")
        assert last_reply(page).startswith("One, two")
        assert "five" not in last_reply(page)
        gate.opened.set()


def test_a_reload_follows_the_reply_that_is_under_way(chat, gate):
    with chat("ana") as page:
        begin(page, "Slowly, please.")
        wait_for_text(page, ".is-live .body", "One, two")
        page.reload()
        wait_for_text(page, ".is-live .body", "One, two")
        gate.opened.set()
        wait_for_text(page, f"{REPLY} .body", "five.")
        assert own_texts(page) == ["Slowly, please."]


def test_editing_asks_again_and_leaves_what_followed(chat):
    with chat("ana") as page:
        say(page, "My tea is oolong.")
        say(page, "And my cat is Biscuit.")
        page.locator(".message.user").first.hover()
        page.get_by_role("button", name="Edit").first.click()
        page.get_by_label("Edit your message").fill("My tea is sencha.")
        page.get_by_role("button", name="Ask again").click()
        wait_for_text(page, f"{REPLY} .body", "My tea is sencha.")
        assert own_texts(page) == ["My tea is sencha."]


def test_a_model_that_fails_is_explained_and_asked_again(chat):
    with chat("ana") as page:
        begin(page, "Fail, please.")
        wait_for_text(page, ".toast", "this model is out of words")
        wait_for_text(page, ".notice", "There is no reply to this.")
        assert own_texts(page) == ["Fail, please."]
        page.faults.clear()


def test_the_panel_shows_what_was_recalled_and_leads_to_the_place(chat):
    with chat("rosa") as page:
        say(page, PARKED)
        page.get_by_role("link", name="New conversation").click()
        page.wait_for_load_state()
        say(page, ASKED)
        page.keyboard.press("Alt+m")
        panel = page.locator("#panel")
        panel.locator(".block").first.wait_for()
        assert page.locator("#panel-title").inner_text() == "What this reply recalled"
        assert panel.locator("mark").first.inner_text() == "parked"
        assert re.search(r"relevance -?\d+\.\d\d", panel.inner_text())
        assert "Tokens" in panel.inner_text()
        panel.locator(".block h3 a").first.click()
        page.wait_for_selector(".is-here")
        assert PARKED in page.locator(".is-here").inner_text()


def test_a_message_is_forgotten_for_good_after_it_was_said_so(chat, folder):
    with chat("noa") as page:
        say(page, "My number is 4711.")
        page.locator(".message.user").hover()
        page.locator(".message.user").get_by_role("button", name="Forget").click()
        wait_for_text(page, "dialog", "This cannot be undone.")
        page.get_by_role("button", name="Keep it").click()
        assert own_texts(page) == ["My number is 4711."]
        page.locator(".message.user").hover()
        page.locator(".message.user").get_by_role("button", name="Forget").click()
        page.get_by_role("button", name="Forget for good").click()
        wait_for_text(page, "#receipt", "Entries erased")
        page.get_by_role("button", name="Done").click()
        page.wait_for_function("() => !document.querySelector('.message.user')")
    with ConversationMemory.open(folder / "memory.db") as memory:
        [thread] = memory.threads("noa")
        entries = memory.history(thread.key.thread_id, user_id="noa").entries
        assert [entry.role for entry in entries if entry.control is None] == ["assistant"]


def test_a_file_that_is_dropped_is_imported(chat, tmp_path):
    rows = [{"role": "user", "content": PARKED}, {"role": "assistant", "content": "Noted."}]
    text = "\n".join(map(json.dumps, rows))
    with chat("ida") as page:
        transfer = page.evaluate_handle(
            """text => { const all = new DataTransfer();
            all.items.add(new File([text], "garage.jsonl")); return all }""",
            text,
        )
        for event in ("dragenter", "dragover", "drop"):
            page.dispatch_event("body", event, {"dataTransfer": transfer})
        wait_for_text(page, "#imports", "1 conversations, 2 new messages")
        wait_for_text(page, "#threads a", PARKED)
        path = tmp_path / "bad.json"
        path.write_text("hello")
        page.set_input_files("#files", path)
        wait_for_text(page, "#imports .has-failed", "bad.json, line 1")


def test_files_are_attached_to_what_is_said_and_pictures_are_shown(chat, tmp_path):
    page_file, note = tmp_path / "icon.webp", tmp_path / "note.txt"
    page_file.write_bytes((ROOT / "docs" / "how_to" / "web" / "panel.webp").read_bytes())
    note.write_text("Paint the shed.")
    with chat("ivo") as page:
        page.set_input_files("#attach", [page_file, note])
        page.get_by_role("button", name="Remove note.txt").click()
        say(page, "")  # a picture needs no words
        picture = page.locator(".message.user img.picture")
        picture.scroll_into_view_if_needed()
        page.wait_for_function("document.querySelector('img.picture').naturalWidth > 100")
        assert page.locator("#attached li").count() == 0
        assert "shed" not in page.locator("#messages").inner_text()


def test_a_server_that_is_killed_has_lost_nothing(browser, service, gate, tmp_path):
    def open_thread(address):
        return browser.open(f"{address}/chat?user=xia&thread=t1")

    with run_server(tmp_path, service[0]) as (address, server), open_thread(address) as page:
        say(page, PARKED)
        begin(page, "Slowly, please.")
        wait_for_text(page, ".is-live .body", "One, two")
        time.sleep(1.2)  # what has come is written down every second
        server.send_signal(signal.SIGKILL)
        server.wait(15)
        wait_for_text(page, ".toast", "The")
    gate.opened.set()
    time.sleep(4.1)  # longer than a server that lives leaves it alone
    with run_server(tmp_path, service[0]) as (address, _), open_thread(address) as page:
        assert own_texts(page) == [PARKED, "Slowly, please."]
        assert last_reply(page).startswith("One, two")
        assert "interrupted" in page.locator(REPLY).last.inner_text()
        say(page, "Still there?")
        assert "Still there?" in last_reply(page)


@pytest.fixture(scope="module")
def furnished(folder, address):
    """Return the address once Maya's weeks are there."""
    import_life(folder)
    return address


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_pages_fit_and_are_accessible(browser, furnished, width, dark):
    for path in ("/chat", "/chat?thread=s04", "/search?q=allergic", "/users"):
        url = f"{furnished}{path}{'&' if '?' in path else '?'}user=maya"
        with browser.open(url, width=width, dark=dark) as page:
            assert find_violations(page) == [], path
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_panels_and_dialogs_are_accessible(chat, furnished, width, dark):
    with chat("maya", "panels", width=width, dark=dark) as page:
        say(page, "What do I know of Lisbon, and of Jonas?")
        page.locator(".why-button").last.click()
        page.locator("#panel .block").first.wait_for()
        assert find_violations(page) == []
        page.keyboard.press("Escape")
        for item in ("Settings", "Summaries", "Your profile", "Rename", "Forget this conversation"):
            page.locator(".menu summary").click()
            assert find_violations(page) == []
            page.locator(".menu-items button", has_text=item).click()
            page.wait_for_selector("#panel:not([hidden]), dialog[open]")
            assert find_violations(page) == [], item
            page.keyboard.press("Escape")
            page.wait_for_selector("dialog:not([open])", state="attached")
            page.evaluate("document.querySelector('dialog').close()")
        page.keyboard.press("Alt+h")
        assert find_violations(page) == []


def test_keys_alone_reach_everything_in_order(chat):
    with chat("ana", "keys") as page:
        say(page, "Hello keys.")
        page.locator("#threads a", has_text="Hello keys.").wait_for()  # the list comes last
        page.focus(".skip")
        assert page.locator(".skip").evaluate("one => one.getBoundingClientRect().top") >= 0
        names = []
        for _ in range(60):
            page.keyboard.press("Tab")
            names.append(
                page.evaluate(
                    "(e => e.getAttribute('aria-label') || e.textContent.trim() || e.id || "
                    "e.name)(document.activeElement)"
                )
            )
        order = ["New conversation", "Hello keys.", "Light or dark", "Edit", "Regenerate", "text"]
        places = [names.index(name) for name in order]
        assert places == sorted(places)


HOSTILE = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "[press](javascript:document.title='owned')",
    "![look](https://evil.example/pixel.png)",
    "<style>*{display:none}</style>",
    "\u202eright to left\u2066 and more",
    "</textarea></p></article><h1>owned</h1>",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_on_both_sides(chat, text):
    with chat("mallory") as page:
        say(page, f"Echo {text}")
        assert page.locator(".message.user .body").inner_text().strip() == f"Echo {text}".strip()
        assert page.title() != "owned"
        assert page.locator("#messages :is(script, img, style, h1, iframe)").count() == 0
        links = page.locator("#messages .body a").evaluate_all("all => all.map(one => one.href)")
        assert [link for link in links if not link.startswith("https://")] == []
        page.keyboard.press("Alt+m")
        page.wait_for_selector("#panel:not([hidden])")
        assert page.locator("#panel :is(script, img, style, iframe)").count() == 0
        assert page.locator("#composer").is_visible()
