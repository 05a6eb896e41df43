"""Anything that can happen to a thread, in any order: its context stays valid at every step."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Control, Cover, Draft, Metadata, ThreadKey
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.live import find_live_entries, find_live_summary
from langchain_convmem.views.providers import PROVIDERS
from tests.fuzz.blocks import keep_own
from tests.fuzz.promises import Thread, broken_promises

KEY = ThreadKey("ana", "t1")
texts = st.sampled_from(["Hi", "", " ", "汉字", "half \ud83d", "x" * 90])
names = st.sampled_from([None, "Ana", "Bo", "Ana María"])
blocks = st.sampled_from(
    [
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "text", "text": "said"},
        {"type": "text", "text": ""},
    ]
)
contents = st.one_of(texts, st.lists(blocks, max_size=3))
call_ids = st.sampled_from(["c1", "c2", "functions.f:0", "i" * 45, "", None])
providers = st.sampled_from([{}, {"model_provider": "anthropic"}, {"model_provider": "openai"}])


class AnyThread(RuleBasedStateMachine):
    """A log and a person who does everything a log allows."""

    calls = Bundle("calls")
    said = Bundle("said")

    def __init__(self):
        super().__init__()
        self.log = InMemoryLog()
        self.added = 0

    def teardown(self):
        self.log.close()

    def append(self, *drafts):
        entries = self.log.append(KEY, drafts)
        self.added += len(drafts)
        return entries[0].id

    @rule(target=said, content=contents, name=names)
    def ask(self, content, name):
        return self.append(make_draft(HumanMessage(content, name=name)))

    @rule(target=said, content=contents, provider=providers)
    def reply(self, content, provider):
        content = keep_own(content, provider.get("model_provider"))
        return self.append(make_draft(AIMessage(content, response_metadata=provider)))

    @rule(target=said, content=contents)
    def instruct(self, content):
        return self.append(make_draft(SystemMessage(content)))

    @rule(target=calls, content=contents, ids=st.lists(call_ids, min_size=1, max_size=3))
    def call(self, content, ids):
        wanted = [{"name": "look", "args": {}, "id": own, "type": "tool_call"} for own in ids]
        self.append(make_draft(AIMessage(content, tool_calls=wanted)))
        return ids

    @rule(
        ids=consumes(calls), content=contents, number=st.integers(0, 2), is_shuffled=st.booleans()
    )
    def answer(self, ids, content, number, is_shuffled):
        answered = ids[number:] if is_shuffled else ids[: number + 1]
        for own in reversed(answered) if is_shuffled else answered:
            self.append(make_draft(ToolMessage(content, tool_call_id=own or "")))

    @rule(own=call_ids)
    def answer_out_of_the_blue(self, own):
        self.append(make_draft(ToolMessage("?", tool_call_id=own or "")))

    @rule(target=said, old=said, content=contents)
    def replace(self, old, content):
        new = self.append(make_draft(HumanMessage(content)))
        self.append(Draft(role="control", control=Control((old,), "replaced", new)))
        return new

    @rule(number=st.integers(1, 4))
    def undo(self, number):
        last = tuple(entry.id for entry in find_live_entries(self.log.entries(KEY))[-number:])
        self.append(Draft(role="control", control=Control(last, "undo")))

    @rule()
    def redo(self):
        controls = [entry.id for entry in self.log.entries(KEY) if entry.role == "control"]
        self.append(Draft(role="control", control=Control(tuple(controls[-1:]), "undo")))

    @rule()
    def clear(self):
        live = tuple(entry.id for entry in find_live_entries(self.log.entries(KEY)))
        self.append(Draft(role="control", control=Control(live, "cleared")))

    @rule(share=st.floats(0, 1), text=texts)
    def summarise(self, share, text):
        entries = self.log.entries(KEY)
        if not entries:
            return
        before = find_live_summary(find_live_entries(entries))
        last = entries[int(share * (len(entries) - 1))]
        ids = () if before is None else (before.id,)
        cover = Cover(((entries[0].position, last.position),))
        metadata = Metadata(summary_ids=ids)
        self.append(Draft(role="summary", contents=(text,), cover=cover, metadata=metadata))

    @invariant()
    def every_provider_accepts_the_context(self):
        entries = self.log.entries(KEY)
        thread = Thread.from_chain(entries)
        for profile in PROVIDERS:
            assert broken_promises(thread, profile) == [], profile
        assert len(entries) <= self.added


# Steps are many and slow: a tenth of the examples that other properties get, at least 30.
examples = max(30, settings.default.max_examples // 10)
AnyThread.TestCase.settings = settings(max_examples=examples, stateful_step_count=25, deadline=None)
TestAnyThread = AnyThread.TestCase
