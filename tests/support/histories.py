"""Random histories of a thread, and a judge of what a provider would accept."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Control, Cover, Draft, Metadata, ThreadKey
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.live import find_live_summary

KEY = ThreadKey("ana", "t1")
CALL_BLOCKS = {"tool_use", "tool_call", "function_call", "invalid_tool_call", "tool_call_chunk"}

# -- generated messages -------------------------------------------------------------------------

blanks = st.sampled_from(["", " ", "\n\t ", "\u3000"])
said = st.sampled_from(["Hi", "Where did I park?", "汉字", "  padded ", "x" * 200])
text_blocks = st.builds(lambda text: {"type": "text", "text": text}, st.one_of(said, blanks))
images = st.just({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}})
contents = st.one_of(said, blanks, st.lists(st.one_of(said, blanks, text_blocks, images)))
call_ids = st.sampled_from(["c1", "c2", "c3", "", None])
calls = st.lists(
    st.builds(lambda own: {"name": "weather", "args": {"days": [1]}, "id": own}, call_ids),
    max_size=3,
)
call_blocks = st.builds(
    lambda own, kind: {"type": kind, "id": own, "name": "weather", "input": {}},
    call_ids,
    st.sampled_from(sorted(CALL_BLOCKS)),
)
broken_calls = st.lists(
    st.builds(lambda own: {"name": "w", "args": '{"a', "id": own, "error": None}, call_ids),
    max_size=1,
)
raw_calls = st.lists(
    st.builds(
        lambda own, args: {
            "id": own,
            "type": "function",
            "function": {"name": "w", "arguments": args},
        },
        call_ids,
        st.sampled_from(["{}", "{"]),
    ),
    min_size=1,
    max_size=2,
).map(lambda raw: {"tool_calls": raw})
message_ids = st.one_of(st.none(), st.sampled_from(["m1", "m2", "m3", ""]))


def _ai(content, blocks, wanted, more):
    broken, extra, own = more
    pieces = [content] if isinstance(content, str) else content
    message = AIMessage([*pieces, *blocks] if blocks else content, tool_calls=wanted, id=own)
    message.additional_kwargs = extra
    message.invalid_tool_calls = broken
    return message


extras = st.one_of(
    st.just({}), st.just({}), raw_calls, st.just({"function_call": {"name": "w", "arguments": ""}})
)
ai_messages = st.one_of(
    st.builds(lambda content, own: AIMessage(content, id=own), contents, message_ids),
    st.builds(
        _ai,
        contents,
        st.lists(call_blocks, max_size=2),
        calls,
        st.tuples(st.one_of(st.just([]), broken_calls), extras, message_ids),
    ),
    st.builds(
        lambda args, own: AIMessageChunk(
            content="",
            tool_call_chunks=[{"name": "weather", "args": args, "id": own, "index": 0}],
        ),
        st.sampled_from(['{"days": 1}', '{"da', "[1"]),
        call_ids,
    ),
)
tool_messages = st.builds(
    lambda content, call_id, own: ToolMessage(
        content, tool_call_id=call_id or "", id=own, artifact={"days": {1, 2}}
    ),
    contents,
    call_ids,
    message_ids,
)
messages = st.one_of(
    st.builds(lambda content, own: HumanMessage(content, id=own), contents, message_ids),
    st.builds(lambda content, own: HumanMessage(content, id=own, name="Bo"), contents, message_ids),
    ai_messages,
    ai_messages,
    tool_messages,
    tool_messages,
    st.builds(SystemMessage, contents),
    st.builds(lambda content: HumanMessageChunk(content=content), contents),
    st.builds(
        lambda content, role: ChatMessage(content=content, role=role),
        contents,
        st.sampled_from(["user", "Assistant", "developer", "tool", "narrator"]),
    ),
    st.builds(lambda content: FunctionMessage(content=content, name="weather"), said),
)

# -- generated histories ------------------------------------------------------------------------


@dataclass(frozen=True)
class Say:
    message: object
    turn: str | None


@dataclass(frozen=True)
class Retract:
    chosen: list[int]
    reason: str


@dataclass(frozen=True)
class Summarise:
    first: int
    last: int
    chained: bool
    covered: bool = True


@dataclass(frozen=True)
class Forget:
    chosen: int


says = st.builds(Say, messages, st.sampled_from([None, None, "turn 1", "turn 2"]))
steps = st.one_of(
    says,
    says,
    says,
    says,
    st.builds(
        Retract,
        st.lists(st.integers(0, 30), max_size=2),
        st.sampled_from(["undo", "failed", "replaced", "cleared"]),
    ),
    st.builds(Summarise, st.integers(0, 20), st.integers(0, 30), st.booleans(), st.booleans()),
    st.builds(Forget, st.integers(0, 30)),
)


def written(chosen):
    """Return the entries of a thread in which the steps happened."""
    with InMemoryLog() as log:
        for step in chosen:
            _write(log, step)
        return log.entries(KEY)


def _write(log, step):
    entries = log.entries(KEY)
    if isinstance(step, Say):
        log.append(KEY, [make_draft(step.message, turn_id=step.turn)])
    elif isinstance(step, Retract):
        ids = tuple(entries[n].id for n in step.chosen if n < len(entries))
        log.append(KEY, [Draft(role="control", control=Control(ids, step.reason))])
    elif isinstance(step, Forget):
        log.forget(KEY, [entry.id for entry in entries[step.chosen : step.chosen + 1]])
    elif entries:
        log.append(KEY, [_summary(entries, step)])


def spoken(*messages, turn=None):
    """Return the entries of a thread in which the messages were said, texts by the user."""
    whole = [HumanMessage(item) if isinstance(item, str) else item for item in messages]
    return written([Say(message, turn) for message in whole])


def answered(*messages):
    """Return the entries of a thread in which the messages were said, and the last one answered.

    What a turn says that still goes on is shown as it is.
    """
    return spoken(*messages, *([] if isinstance(messages[-1], AIMessage) else [AIMessage("So.")]))


def _summary(entries, step):
    first, last = sorted((step.first % len(entries), step.last % len(entries)))
    before = find_live_summary([entry for entry in entries if entry.role == "summary"])
    ids = (before.id,) if step.chained and before is not None else ()
    ranges = ((entries[first].position, entries[last].position),) if step.covered else ()
    return Draft(
        role="summary",
        contents=("What was said.",),
        metadata=Metadata(summary_ids=ids),
        cover=Cover(ranges),
    )


histories = st.lists(steps, max_size=24).map(written)

# -- the judge ----------------------------------------------------------------------------------


@dataclass
class Judge:
    """Reads messages as the strictest provider would and notes every fault."""

    faults: list[str] = field(default_factory=list)
    owed: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    spoken: str = "system"

    def read(self, messages):
        for number, message in enumerate(messages):
            self.check(message, f"message {number} ({message.type})")
        if self.owed:
            self.faults.append(f"unanswered at the end: {self.owed}")
        return self.faults

    def check(self, message, at):
        kinds = {SystemMessage: "system", HumanMessage: "user", AIMessage: "assistant"}
        kind = "tool" if type(message) is ToolMessage else kinds.get(type(message))
        self.note(kind is None, at, f"is a {type(message).__name__}")
        self.note(kind != "tool" and bool(self.owed), at, f"comes before results {self.owed}")
        self.note(kind != "tool" and not message.id, at, "has no id")
        self.check_content(message, at)
        if kind == "tool":
            self.note(message.tool_call_id not in self.owed, at, "answers no open call")
            self.owed = [own for own in self.owed if own != message.tool_call_id]
        if kind == "assistant":
            self.check_calls(message, at)
        if kind == "system":
            self.note(self.spoken != "system", at, "stands behind the conversation")
        if self.spoken == "system":
            self.note(kind in ("assistant", "tool"), at, "opens the conversation")
        self.note(kind == self.spoken != "tool" and kind != "system", at, "repeats the role")
        self.spoken = kind

    def check_content(self, message, at):
        content = message.content
        blocks = [content] if isinstance(content, str) else content
        pieces = [block if isinstance(block, str) else block.get("text", "-") for block in blocks]
        blank = [piece for piece in pieces if not piece.strip()]
        only_calls = content == "" and getattr(message, "tool_calls", [])
        self.note(bool(blank or not blocks) and not only_calls, at, f"has blank text: {content!r}")

    def check_calls(self, message, at):
        own = [call["id"] for call in message.tool_calls]
        self.note(bool(message.invalid_tool_calls), at, "has invalid calls")
        self.note(not all(own) or len(set(own)) < len(own), at, f"has bad call ids {own}")
        self.note(bool(self.used & set(own)), at, f"uses call ids again: {own}")
        blocks = [block for block in message.content if isinstance(block, dict)]
        also = [block.get("id") for block in blocks if block.get("type") in CALL_BLOCKS]
        also += [call.get("id") for call in message.additional_kwargs.get("tool_calls", ())]
        self.note(not set(also) <= set(own), at, f"names other calls: {also}")
        self.note("function_call" in message.additional_kwargs, at, "has a function call")
        self.used.update(own)
        self.owed = own

    def note(self, fault, at, what):
        if fault:
            self.faults.append(f"{at} {what}")
