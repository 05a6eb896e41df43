"""The log contract: what is appended comes back exactly, in order, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem.errors import ConfigError, ConvMemError, InvalidMessageError, LogClosedError
from langchain_convmem.ids import is_ulid, new_ulid, ulid_ms
from langchain_convmem.protocols import OwnerListing
from langchain_convmem.records import Control, Cover, Draft, Metadata, Owner, ThreadKey
from langchain_convmem.testing.log_contract_base import (
    ANA,
    LONE,
    ContractLog,
    ContractPart,
    OpenLog,
    say,
    say_all,
    texts,
)
from langchain_convmem.testing.log_samples import ODD_IDS, ODD_TEXTS, SAMPLE_MESSAGES, identical
from langchain_convmem.views.codec import draft_of

__all__ = ["WritingPart"]


def _nested(levels: int) -> list[object]:
    inner: list[object] = []
    for _ in range(levels - 1):
        inner = [inner]
    return inner


class WritingPart(ContractPart):
    """Appending."""

    def test_an_unknown_thread_has_no_entries(self, log: ContractLog) -> None:
        assert log.entries(ANA) == []

    def test_every_message_comes_back_exactly(self, log: ContractLog) -> None:
        for name, make in SAMPLE_MESSAGES.items():
            key = ThreadKey("ana", name)
            [returned] = log.append(key, [draft_of(make())])
            [read] = log.entries(key)
            assert identical(returned.message, make()), name
            assert identical(read.message, make()), name

    def test_texts_come_back_verbatim(self, log: ContractLog) -> None:
        messages = [kind(text) for text in ODD_TEXTS for kind in (HumanMessage, AIMessage)]
        say_all(log, ANA, messages)
        assert texts(log.entries(ANA)) == [text for text in ODD_TEXTS for _ in range(2)]

    def test_everything_of_a_draft_comes_back(self, log: ContractLog) -> None:
        metadata = Metadata(
            attributes=("fake", "merged", "merged"),
            timing={"creation": 5, "llmStart": 7},
            summary_ids=("a", "b"),
            aux={"note": ("x", b"y"), "$set": None},
        )
        turn = new_ulid()
        drafts = [
            Draft(role="user", message=HumanMessage("Hi"), contents=("Hi",), turn_id=turn),
            Draft(role="assistant", message=AIMessage("Ho"), contents=("H", "o"), turn_id="turn 7"),
            Draft(
                role="summary",
                contents=("They greeted.",),
                metadata=metadata,
                cover=Cover(((1, 4), (7, 9)), "digest", "model", "v2"),
            ),
            Draft(role="control", control=Control(("x", "y"), "rewind", "z")),
        ]
        assert log.append(ANA, drafts) == log.entries(ANA)
        for draft, entry in zip(drafts, log.entries(ANA), strict=True):
            assert entry.key == ANA
            assert (entry.role, entry.contents) == (draft.role, draft.contents)
            assert (entry.control, entry.cover) == (draft.control, draft.cover)
            assert entry.turn_id == (draft.turn_id or entry.id)
        assert identical(log.entries(ANA)[2].metadata.aux, metadata.aux)
        assert log.entries(ANA)[2].metadata == metadata

    def test_an_entry_knows_when_it_was_made(self, log: ContractLog) -> None:
        entry = say(log, ANA, "Hi")
        assert is_ulid(entry.id)
        assert entry.metadata.timing == {"creation": ulid_ms(entry.id)}

    def test_order_holds_over_batches_and_inside_one(self, log: ContractLog) -> None:
        said = [f"{batch}-{number}" for batch in range(12) for number in range(3)]
        for start in range(0, len(said), 3):
            say_all(log, ANA, said[start : start + 3])
        large = [f"large {number}" for number in range(120)]
        say_all(log, ANA, large)
        entries = log.entries(ANA)
        assert texts(entries) == said + large
        positions = [entry.position for entry in entries]
        assert positions == sorted(set(positions))
        assert positions[0] > 0
        assert len({entry.id for entry in entries}) == len(entries)

    def test_odd_ids_are_kept_apart(self, log: ContractLog) -> None:
        keys = [
            ThreadKey(user, thread)
            for odd in ODD_IDS
            for user, thread in ((None, odd), (odd, "s"), ("ana", odd), ("bo", odd))
        ]
        for number, key in enumerate(keys):
            say(log, key, f"line {number}")
        for number, key in enumerate(keys):
            assert texts(log.entries(key)) == [f"line {number}"], key
            assert f"line {number}" in texts(log.changes(key.owner).entries), key
        assert len(log.changes(Owner(user_id="bo")).entries) == len(ODD_IDS)
        assert len(log.changes(Owner(thread_id="s")).entries) == 1

    def test_a_batch_with_one_bad_message_leaves_nothing(self, log: ContractLog) -> None:
        say(log, ANA, "before")
        bad = HumanMessage("bad", additional_kwargs={"client": object()})
        with pytest.raises(InvalidMessageError, match="client"):
            say_all(log, ANA, ["good", bad, "good too"])
        with pytest.raises(InvalidMessageError, match="client"):
            say_all(log, LONE, ["good", bad])
        assert texts(log.entries(ANA)) == ["before"]
        assert log.entries(LONE) == []
        assert log.threads(None) == []

    def test_what_could_not_be_read_back_is_refused(self, log: ContractLog) -> None:
        unfinished = AIMessage("x", id="m1")
        unfinished.tool_calls = [{"name": "weather"}]  # type: ignore[typeddict-item]  # the point
        deep = HumanMessage("x", additional_kwargs={"deep": _nested(500)})
        odd_keys = ToolMessage("x", tool_call_id="c", artifact={1: "one"})
        for message in (unfinished, deep, odd_keys):
            with pytest.raises(InvalidMessageError):
                say(log, ANA, message)
        say(log, ANA, HumanMessage("x", additional_kwargs={"deep": _nested(80)}))
        assert len(log.entries(ANA)) == 1

    def test_an_empty_batch_does_nothing(self, log: ContractLog) -> None:
        assert log.append(ANA, []) == []
        assert log.entries(ANA) == []
        assert log.threads("ana") == []

    def test_nothing_is_shared_with_the_caller(self, log: ContractLog) -> None:
        message = AIMessage([{"type": "text", "text": "as said"}], additional_kwargs={"n": [1]})
        aux = {"list": [1]}
        draft = Draft(role="assistant", message=message, metadata=Metadata(aux=aux))
        [returned] = log.append(ANA, [draft])
        before = AIMessage([{"type": "text", "text": "as said"}], additional_kwargs={"n": [1]})
        message.content = "changed by the writer"
        aux["list"].append(2)
        for entry in (returned, *log.entries(ANA), *log.changes(ANA.owner).entries):
            assert identical(entry.message, before)
            assert entry.message is not None
            entry.message.content[0]["text"] = "changed by the reader"  # type: ignore[index]  # a list
            entry.message.additional_kwargs["n"].append(2)
            assert identical(entry.metadata.aux, {"list": [1]})
            entry.metadata.aux["list"].append(2)
        [entry] = log.entries(ANA)
        assert identical(entry.message, before)
        assert identical(entry.metadata.aux, {"list": [1]})

    def test_bad_ids_are_refused(self, log: ContractLog) -> None:
        bad: Any
        for bad in ("", 7, None, "no encoding can hold \ud800", "nor two \ud83d\ude00"):
            with pytest.raises(ConfigError):
                ThreadKey("ana", bad)
        for bad in ("", 7, "\ud800"):
            with pytest.raises(ConfigError):
                ThreadKey(bad, "t1")
            with pytest.raises(ConfigError):
                log.threads(bad)

    def test_a_closed_log_says_so(self, log: ContractLog) -> None:
        entry = say(log, ANA, "Hi")
        log.close()
        log.close()
        calls: list[Callable[[], object]] = [
            lambda: log.append(ANA, [draft_of(HumanMessage("more"))]),
            lambda: log.append(ANA, []),
            lambda: log.entries(ANA),
            lambda: log.entries(ANA, after=2, until=1),
            lambda: log.find(ANA, ["m1"]),
            lambda: log.find(ANA, []),
            lambda: log.annotate(ANA, entry.id, attributes=["late"]),
            lambda: log.threads("ana"),
            lambda: log.changes(ANA.owner),
            lambda: log.forget(ANA),
            lambda: log.get_state(ANA, "buffer"),
            lambda: log.set_state(ANA, "buffer", [], expected=None),
            lambda: log.delete_state(ANA, "buffer"),
        ]
        if isinstance(log, OwnerListing):
            calls.append(log.owners)
        for call in calls:
            with pytest.raises(LogClosedError):
                call()
        assert not LogClosedError.is_retryable
        assert issubclass(LogClosedError, ConvMemError)

    def test_what_was_appended_is_there_after_reopening(self, open_log: OpenLog) -> None:
        if not self.persistent:
            pytest.skip("declared: does not outlive its handle")
        first = open_log()
        for number, make in enumerate(SAMPLE_MESSAGES.values()):
            first.append(ANA, [draft_of(make())], relaxed=number % 2 == 1)
        before = first.entries(ANA)
        first.close()
        again = open_log()
        after = again.entries(ANA)
        assert [entry.id for entry in after] == [entry.id for entry in before]
        for entry, make in zip(after, SAMPLE_MESSAGES.values(), strict=True):
            assert identical(entry.message, make())
        assert say(again, ANA, "more").position > before[-1].position
