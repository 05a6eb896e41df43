import base64
import html
import json
import re
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from web_client import COUNTING, open_client, read_events, say, show

from langchain_convmem import ConversationMemory
from langchain_convmem.web.access import Access
from langchain_convmem.web.live import LiveReply

PARKED = "I parked on level C, next to the blue pillar."


@pytest.fixture
def client(memory):
    with open_client(memory) as opened:
        yield opened


def texts(memory, thread):
    shown = memory.history(thread, user_id="ana").turns
    return [(turn.role, " ".join(turn.contents)) for turn in shown]


def last_id(memory, thread, role="assistant"):
    entries = memory.history(thread, user_id="ana").entries
    return [one.message_id for one in entries if one.role == role][-1]


def post(client, path, thread, **more):
    answer = client.post(path, data={"user": "ana", "thread": thread, **more})
    assert answer.status_code == 200, answer.text
    return answer


def refused(client, path, thread, status=400, **more):
    """Return why a call is refused."""
    answer = client.post(path, data={"user": "ana", "thread": thread, **more})
    assert answer.status_code == status
    return answer.text


def test_a_reply_comes_word_by_word_and_is_stored(client, memory):
    answer = post(client, "/say", "t1", text=PARKED)
    events = read_events(answer.text)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [name for name, _ in events][-1] == "done"
    said = "".join(data["text"] for name, data in events if name == "text")
    assert texts(memory, "t1") == [("user", PARKED), ("assistant", said)]


class NotingMemory(ConversationMemory):
    def refresh(self, **options):
        self.loaded.append("lines")
        return super().refresh(**options)

    def profile(self, *args, **options):
        self.loaded.append("profile")
        return super().profile(*args, **options)


def test_what_the_first_turn_needs_is_loaded_once_when_a_page_opens():
    with NotingMemory.open(":memory:") as memory:
        memory.loaded = []
        with open_client(memory) as client:
            for thread in ("t1", "t2"):
                show(client, "/chat", thread=thread)
        assert sorted(memory.loaded) == ["lines", "profile"]


def test_an_empty_message_and_one_that_is_too_long_are_refused_with_a_sentence(client, memory):
    assert refused(client, "/say", "t1", text=" \n") == "text is missing"
    assert "the limit is 16 MB" in refused(client, "/say", "t1", text="x" * 17_000_000)
    assert memory.threads("ana") == []


def test_the_reply_of_a_model_that_fails_is_a_sentence_and_the_question_stays(client, memory):
    answer = post(client, "/say", "t1", text="Fail.")
    [(name, data)] = read_events(answer.text)
    assert name == "failed"
    assert data["failure"] == "The model failed: ProviderError: no words left"
    assert texts(memory, "t1") == [("user", "Fail.")]
    assert "There is no reply to this." in show(client, "/messages", "t1")


def test_stopping_keeps_what_came_marked_as_interrupted(client, memory):
    with ThreadPoolExecutor(1) as pool:
        saying = pool.submit(post, client, "/say", "t1", text="Count.")
        assert COUNTING.wait(20)
        assert "live-mark" in show(client, "/chat", "t1")
        assert post(client, "/stop", "t1").json() == {"stopped": 1}
        events = read_events(saying.result(20).text)
    assert events[-1][0] == "stopped"
    assert texts(memory, "t1") == [("user", "Count."), ("assistant", "One, two")]
    assert "interrupted" in show(client, "/messages", "t1")


def test_a_second_tab_follows_a_reply_from_its_beginning(client, monkeypatch):
    following, follow = Semaphore(0), LiveReply.follow

    def follow_and_tell(reply):
        following.release()
        return follow(reply)

    monkeypatch.setattr(LiveReply, "follow", follow_and_tell)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(post, client, "/say", "t1", text="Count.")
        assert COUNTING.wait(20)
        second = pool.submit(client.get, "/live", params={"user": "ana", "thread": "t1"})
        other = client.get("/live", params={"user": "ben", "thread": "t1"})
        assert other.status_code == 204  # another user's thread of the same name
        assert following.acquire(timeout=20)
        assert following.acquire(timeout=20)
        post(client, "/stop", "t1")
        heard = [read_events(one.result(20).text) for one in (first, second)]
    for events in heard:
        assert "".join(data["text"] for name, data in events if name == "text") == "One, two"
    assert client.get("/live", params={"user": "ana", "thread": "t1"}).status_code == 204


def test_a_server_that_ends_stores_what_had_come(memory):
    with ThreadPoolExecutor(1) as pool, open_client(memory) as client:
        saying = pool.submit(post, client, "/say", "t1", text="Count.")
        assert COUNTING.wait(20)
        client.app.state.chat.replies.stop_all()
        saying.result(20)
    assert texts(memory, "t1")[-1] == ("assistant", "One, two")


def test_an_edited_message_takes_the_place_of_the_old_one_and_of_all_after_it(client, memory):
    say(client, "t1", "My tea is oolong.", id="m1")
    say(client, "t1", "What else?")
    say(client, "t1", "My tea is sencha.", id="m1")
    assert [text for role, text in texts(memory, "t1") if role == "user"] == ["My tea is sencha."]
    assert show(client, "/threads").count("My tea is sencha.") == 1  # the title goes along


def test_the_last_message_is_answered_anew(client, memory):
    say(client, "t1", PARKED, id="m1")
    before = last_id(memory, "t1")
    answer = post(client, "/again", "t1", message="m1")
    assert read_events(answer.text)[-1][0] == "done"
    assert [role for role, _ in texts(memory, "t1")] == ["user", "assistant"]
    assert last_id(memory, "t1") != before


def test_an_imported_message_without_an_id_is_answered_anew_in_its_place(client, memory):
    memory.add_messages([HumanMessage(PARKED), AIMessage("Noted.")], thread_id="t1", user_id="ana")
    post(client, "/again", "t1", message=last_id(memory, "t1", "user"))
    assert texts(memory, "t1")[0] == ("user", PARKED)
    assert len(texts(memory, "t1")) == 2


def test_a_reply_cannot_be_answered(client, memory):
    say(client, "t1", PARKED)
    why = refused(client, "/again", "t1", message=last_id(memory, "t1"))
    assert why == "only a user's message can be answered again"


def test_the_last_exchange_is_taken_back_and_brought_back(client, memory):
    say(client, "t1", PARKED)
    say(client, "t1", "My tea is oolong.")
    before = texts(memory, "t1")
    assert post(client, "/undo", "t1").json() == {"undone": 2}
    assert len(texts(memory, "t1")) == 2
    assert "Some messages are hidden from the assistant." in show(client, "/messages", "t1")
    assert post(client, "/redo", "t1").json() == {"redone": True}
    assert texts(memory, "t1") == before
    assert "Some messages are hidden from the assistant." not in show(client, "/messages", "t1")


def test_a_branch_goes_on_from_a_message_and_says_where_it_comes_from(client, memory):
    say(client, "t1", PARKED, id="m1")
    say(client, "t1", "My tea is oolong.", id="m2")
    post(client, "/settings", "t1")  # recall is off there
    url = post(client, "/fork", "t1", message="m2").json()["url"]
    page = html.unescape(client.get(url).text)
    assert PARKED in page
    assert "My tea is oolong." in page
    assert "A branch of" in page
    assert "/chat?user=ana&thread=t1" in page
    assert "Recall off" in page
    branch = next(one.key.thread_id for one in memory.threads("ana") if one.key.thread_id != "t1")
    assert [role for role, _ in texts(memory, branch)] == ["user", "assistant", "user"]


def test_a_thread_is_called_what_was_said_first_until_it_is_renamed(client, memory):
    say(client, "t1", PARKED)
    assert f"<bdi>{PARKED}</bdi>" in show(client, "/threads")
    post(client, "/rename", "t1", title="The car")
    assert "<bdi>The car</bdi>" in show(client, "/threads")
    assert memory.get_title("t1", user_id="ana") == "The car"
    post(client, "/rename", "t1", title="")
    assert f"<bdi>{PARKED}</bdi>" in show(client, "/threads")


def test_a_thread_is_put_away_and_taken_out(client):
    say(client, "t1", PARKED)
    say(client, "t2", "My tea is oolong.")
    post(client, "/archive", "t1", archived="1")
    assert PARKED not in show(client, "/threads")
    assert PARKED in show(client, "/threads", archived=1)
    post(client, "/archive", "t1", archived="0")
    assert PARKED in show(client, "/threads")


def test_a_reply_shows_what_it_recalled_when_and_why(client, memory):
    say(client, "t1", PARKED)
    assert "level C" in say(client, "t2", "Where did I park?")
    page = show(client, "/messages", "t2")
    assert re.search(r"\d lines? recalled", page)
    why = show(client, "/why", "t2", message=last_id(memory, "t2"))
    assert "I <mark>parked</mark> on level C" in why
    assert "meaning" in why
    assert "words: <bdi>parked</bdi>" in why
    position = memory.history("t1", user_id="ana").entries[0].position
    assert f"/chat?user=ana&amp;thread=t1&amp;at={position}#at-{position}" in why
    assert f'id="at-{position}"' in show(client, "/chat", "t1", at=position)


def test_a_line_that_was_forgotten_is_gone_from_the_panel_too(client, memory):
    say(client, "t1", PARKED)
    say(client, "t2", "Where did I park?")
    client.post("/forget", data={"user": "ana", "thread": "t1", "scope": "thread"})
    reply = memory.history("t2", user_id="ana").entries[-1]
    why = show(client, "/why", "t2", message=reply.message_id)
    assert "has been forgotten or replaced" in why
    assert "level C" not in json.dumps(dict(reply.metadata.aux))


def test_recall_is_switched_off_for_one_thread(client, memory):
    say(client, "t1", PARKED)
    post(client, "/settings", "t2")
    assert "level C" not in say(client, "t2", "Where did I park?")
    assert "Recall off" in show(client, "/chat", "t2")
    assert "level C" in say(client, "t3", "Where did I park?")


def test_budgets_are_kept_and_shown_and_checked(client):
    post(client, "/settings", "t1", recall="on", recall_tokens="250", history_tokens="")
    page = show(client, "/settings", "t1")
    assert 'name="recall_tokens" value="250"' in page
    assert 'name="history_tokens" value=""' in page
    for value, message in (("many", "must be a whole number"), ("0", "at least 1")):
        why = refused(client, "/settings", "t1", recall="on", recall_tokens=value)
        assert message in why


def test_summaries_say_what_they_cover_and_are_taken_back(client, memory):
    say(client, "t1", PARKED)
    history = memory.history("t1", user_id="ana")
    history.add_summary("The user parked on level C.", history.summary_window())
    page = show(client, "/summaries", "t1")
    assert "The user parked on level C." in page
    assert "covers 2 messages" in page
    assert ">entry " in page
    assert "Summary of the messages above" in show(client, "/messages", "t1")
    assert post(client, "/summaries/undo", "t1").json() == {"undone": True}
    assert "it has no summary" in show(client, "/summaries", "t1")


def test_what_is_known_of_a_user_is_shown_pinned_retracted_and_restored(client, memory):
    assert "Your profile is empty." in show(client, "/profile", "t1")
    say(client, "t1", "I'm vegetarian. I live in Lisbon.")
    say(client, "t2", "We moved to Porto.")
    say(client, "t3", "I'm allergic to figs <b>and</b> nuts.", user="ben")
    page = show(client, "/profile", "t2")
    assert "allergic" not in page
    held, past = page.split('aria-label="Past"')
    assert "vegetarian" in held
    assert "Porto" in held
    assert "Lisbon" in past
    item = memory.profile("ana").list_kind("health")[0]
    for verdict, shown in (("pin", "Unpin"), ("restore", "Pin: "), ("retract", "Restore: ")):
        assert post(client, "/profile", "t2", verdict=verdict, item=item.id).json() == {
            "decided": verdict
        }
        assert shown in show(client, "/profile", "t2")
    assert memory.profile("ana").list_kind("health") == ()
    post(client, "/profile", "t2", verdict="restore", item=item.id)
    assert [one.id for one in memory.profile("ana").list_kind("health")] == [item.id]
    assert "&lt;b&gt;" in show(client, "/profile", "t3", user="ben")


def test_nobody_decides_of_what_is_known_of_another_user(client, memory):
    say(client, "t1", "I'm vegetarian.")
    [item] = memory.profile("ana").items
    refused(client, "/profile", "t1", user="ben", verdict="retract", item=item.id)
    assert memory.profile("ana").items[0].is_current


def test_search_finds_by_meaning_and_word_for_word(client):
    say(client, "t1", PARKED)
    say(client, "t2", "My tea is oolong.")
    page = show(client, "/search", q="blue pillar")
    assert "By meaning and words" in page
    assert page.count("<mark>blue</mark> <mark>pillar</mark>") == 2  # in both lists
    assert "No line contains all of these words" in show(client, "/search", q="zeppelin")
    part = client.get("/search?user=ana&q=tea", headers={"hx-request": "true"})
    assert "<!doctype html>" not in part.text


def test_a_message_a_thread_and_a_user_are_forgotten_with_a_receipt(client, memory):
    for thread in ("t1", "t2"):
        say(client, thread, PARKED, id="m1")
        say(client, thread, "My tea is oolong.")
    receipt = post(client, "/forget", "t1", scope="message", message="m1").text
    assert "<dt>Entries erased</dt><dd>1</dd>" in receipt
    assert PARKED not in show(client, "/messages", "t1")
    receipt = post(client, "/forget", "t1", scope="thread").text
    assert "<dt>Conversations erased</dt><dd>1</dd>" in receipt
    why = refused(client, "/forget", "", scope="user", confirm="an")
    assert why == "type the user's name to confirm; nothing was erased"
    assert len(memory.threads("ana")) == 1
    post(client, "/forget", "", scope="user", confirm="ana")
    assert memory.threads("ana") == []


def wait_for(client, job):
    while job["state"] in ("reading", "storing"):
        params = {"user": "ana", "job": job["id"]}
        job = client.get("/import/job", params=params).json()
    return job


def test_a_dropped_file_is_imported_and_counted(client, memory):
    rows = [{"role": "user", "content": PARKED}, {"role": "assistant", "content": "Noted."}]
    body = "\n".join(map(json.dumps, rows)).encode()
    params = {"user": "ana", "name": "C:\\old\\garage.jsonl"}
    job = wait_for(client, client.post("/import", params=params, content=body).json())
    assert (job["state"], job["threads"], job["added"]) == ("done", 1, 2)
    assert texts(memory, "garage")[0] == ("user", PARKED)
    again = wait_for(client, client.post("/import", params=params, content=body).json())
    assert (again["added"], again["known"]) == (0, 2)
    other = client.get("/import/job", params={"user": "ben", "job": job["id"]})
    assert other.status_code == 400  # another user's


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("x.json", b"hello", "x.json, line 1: found text"),
        ("../../etc/passwd", b"{}", "passwd"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_without_where_it_was_kept(client, name, body, message):
    params = {"user": "ana", "name": name}
    job = wait_for(client, client.post("/import", params=params, content=body).json())
    assert job["state"] == "failed"
    assert message in job["failure"]
    assert "convmem-upload" not in job["failure"]


@pytest.mark.parametrize("name", ["", "..", "/", ".hidden"])
def test_what_is_no_name_of_a_file_is_refused(client, name):
    answer = client.post("/import", params={"user": "ana", "name": name}, content=b"x")
    assert answer.status_code == 400
    assert "is not the name of a file" in answer.text


def test_users_see_their_own_threads_alone(client):
    say(client, "t1", PARKED)
    say(client, "t1", "Mine is an omnibus.", user="ben")
    assert "omnibus" not in show(client, "/chat", "t1")
    assert "level C" not in client.get("/chat", params={"user": "ben", "thread": "t1"}).text
    page = client.get("/users").text
    assert "<bdi>ana</bdi>" in page
    assert "<bdi>ben</bdi>" in page


def test_with_a_fixed_user_no_other_ones_memory_is_shown(memory):
    with open_client(memory, access=Access(user_id="ana")) as client:
        assert client.get("/").headers["location"] == "/chat?user=ana"
        assert client.get("/users").status_code == 303
        answer = client.get("/chat", params={"user": "ben"})
        assert answer.status_code == 400
        assert "another user" in answer.text


TOKEN, OTHER = "a-token-of-this-test", "the-token-of-another"


def test_without_the_token_nothing_is_shown_or_done(memory):
    with open_client(memory, access=Access(token=TOKEN)) as client:
        page = client.get("/chat?user=ana", headers={"accept": "text/html"})
        assert (page.status_code, page.headers["location"]) == (303, "/login")
        routes = client.app.state.chat.list_routes()
        paths = [route.path for route in routes if route.path not in ("/login", "/static")]
        for path in paths:
            assert client.get(path).status_code == 401, path
            assert client.post(path, data={"user": "ana"}).status_code == 401, path
        assert memory.threads("ana") == []


def test_whoever_knows_the_token_signs_in_and_out(memory):
    with open_client(memory, access=Access(token=TOKEN)) as client:
        wrong = client.post("/login", data={"token": TOKEN + "x"})
        assert wrong.status_code == 401
        assert "This token is not valid" in wrong.text
        right = client.post("/login", data={"token": TOKEN})
        cookie = right.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert say(client, "t1", PARKED)
        client.post("/logout")
        assert client.get("/chat?user=ana").status_code == 401


def test_a_token_of_a_user_opens_that_users_memory_alone(memory):
    access = Access(user_tokens={"ana": TOKEN, "ben": OTHER})
    with open_client(memory, access=access, authorization=f"Bearer {OTHER}") as client:
        assert client.get("/").headers["location"] == "/chat?user=ben"
        assert client.get("/chat", params={"user": "ana"}).status_code == 400
        refused(client, "/say", "t", text="x")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
def test_other_sites_change_nothing(client, memory, origin):
    fields = {"user": "ana", "thread": "t1", "text": PARKED}
    answer = client.post("/say", data=fields, headers={"origin": origin})
    assert answer.status_code == 403
    assert memory.threads("ana") == []


def test_a_foreign_name_bound_to_this_address_reads_nothing(client):
    say(client, "t1", PARKED)
    answer = client.get("/chat?user=ana&thread=t1", headers={"host": "evil.example"})
    assert answer.status_code == 421
    assert "level C" not in answer.text


def test_every_answer_carries_the_policy_and_is_kept_by_no_cache(client):
    for path in ("/users", "/chat?user=ana", "/gone", "/login"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_pages_hold_no_scripts_styles_or_handlers_of_their_own(client, memory):
    say(client, "t1", PARKED)
    say(client, "t2", "Where did I park?")
    say(client, "t3", "I'm vegetarian.")
    parts = ["/chat", "/why", "/settings", "/summaries", "/search", "/import", "/forget", "/rename"]
    for path in (*parts, "/profile"):
        page = show(client, path, "t2", message=last_id(memory, "t2"), q="park")
        assert not re.search(r"<script(?! src=\"/static/)|<style|\sstyle=|\son\w+=", page), path
        assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", page), path


def test_what_the_pages_are_made_of_may_be_kept_for_ever(client):
    page = client.get("/chat?user=ana").text
    [style] = re.findall(r'href="(/static/app.css\?v=\w+)"', page)
    answer = client.get(style)
    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]
    assert client.get("/static/../server.py").status_code == 404


@pytest.mark.parametrize("name", ["../x", "a/b?c#d&e", "<script>", "%2e%2e", "naïve café", "."])
def test_users_and_threads_may_have_any_name(client, memory, name):
    say(client, name, PARKED, user=name)
    assert client.get("/export", params={"user": name, "thread": name}).status_code == 200
    page = client.get("/chat", params={"user": name, "thread": name})
    assert "level C" in page.text
    assert "<script>" not in page.text
    link = re.search(r'<li><a href="([^"]+)"', page.text)
    assert link is not None
    assert "level C" in client.get(html.unescape(link[1])).text


@pytest.mark.parametrize("path", ["/chat", "/say", "/chat?user="])
def test_a_request_that_names_nobody_is_told_so(client, path):
    answer = client.post(path, data={}) if path == "/say" else client.get(path)
    assert answer.status_code == 400
    assert "missing" in answer.text or "whose memory" in answer.text


PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n and what follows").decode()


def test_files_go_to_the_model_with_the_words_and_stay_when_these_are_edited(client, memory):
    files = [
        {"name": "dot.png", "type": "image/png", "data": PIXEL},
        {"name": "plan.txt", "type": "text", "data": "Paint the shed."},
    ]
    say(client, "t1", "What is this?", id="m1", files=json.dumps(files))
    [asked, _] = memory.history("t1", user_id="ana").messages
    assert [block["type"] for block in asked.content] == ["text", "image", "text"]
    assert "plan.txt:\n\nPaint the shed." in asked.content[2]["text"]
    page = show(client, "/chat", "t1")
    assert "/picture?user=ana&amp;thread=t1&amp;message=m1&amp;block=1" in page
    named = {"thread": "t1", "message": "m1", "block": 1}
    picture = client.get("/picture", params={"user": "ana", **named})
    assert picture.headers["content-type"] == "image/png"
    assert picture.content == base64.b64decode(PIXEL)
    assert client.get("/picture", params={"user": "ben", **named}).status_code == 400
    say(client, "t1", "And what colour?", id="m1")
    [edited, _] = memory.history("t1", user_id="ana").messages
    assert [block["type"] for block in edited.content] == ["text", "image"]
    say(client, "t2", "", files=json.dumps(files[:1]))
    [bare, _] = memory.history("t2", user_id="ana").messages
    assert [block["type"] for block in bare.content] == ["image"]


@pytest.mark.parametrize("files", ["[1]", "{", '[{"name": "a.exe", "type": "x/y", "data": ""}]'])
def test_files_that_no_model_reads_are_refused_before_anything_is_stored(client, memory, files):
    refused(client, "/say", "t1", text="Look.", files=files)
    assert memory.threads("ana") == []


def test_a_thread_has_instructions_and_a_model_of_its_own(memory):
    seen = {name: [] for name in ("first", "second")}

    def make(name):
        return RunnableLambda(lambda given: seen[name].append(given["messages"]) or AIMessage(name))

    with open_client(memory, models={name: make(name) for name in seen}) as client:
        post(client, "/settings", "t1", recall="on", instructions="Be brief.", model="second")
        assert say(client, "t1", PARKED) == "second"
        assert seen["second"][0][0].text.startswith("Be brief.")
        assert "Be brief." in show(client, "/settings", "t1")
        assert say(client, "t2", PARKED) == "first"
        post(client, "/settings", "t1", model="gone")
        assert say(client, "t1", "And now?") == "first"
    assert texts(memory, "t1")[0] == ("user", PARKED)
