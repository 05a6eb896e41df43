"""The log contract: ranges that end at a position, messages by their ids, and whose they are."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import new_ulid
from langchain_convmem.protocols import OwnerListing
from langchain_convmem.records import Draft, Owner, ThreadKey
from langchain_convmem.testing.log_contract_base import (
    ANA,
    LONE,
    ContractLog,
    ContractPart,
    retract,
    say,
    say_all,
    texts,
)
from langchain_convmem.testing.log_samples import ODD_IDS, ODD_MESSAGE_IDS, identical

__all__ = ["FindingPart"]

ANAS_OTHER = ThreadKey("ana", "t2")
BO = ThreadKey("bo", "t1")
MANY = 250
"""More ids than some services take in one call."""


def _listing(log: ContractLog) -> OwnerListing:
    if not isinstance(log, OwnerListing):
        pytest.skip("declared: cannot list its owners")
    return log


class FindingPart(ContractPart):
    """Reading a part of a thread, and listing owners."""

    # -- ranges ---------------------------------------------------------------------------------

    def test_ranges_end_at_a_position(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, [f"line {number}" for number in range(4)])
        between = say(log, ANAS_OTHER, "elsewhere")
        entries += say_all(log, ANA, [f"line {number}" for number in range(4, 8)])
        entries.append(retract(log, ANA, entries[0].id))
        at = [entry.position for entry in entries]
        assert log.entries(ANA, until=at[5]) == entries[:6]
        assert log.entries(ANA, until=at[5] - 1) == entries[:5]
        assert log.entries(ANA, until=between.position) == entries[:4]
        assert log.entries(ANA, until=at[8]) == log.entries(ANA, until=at[8] + 10**9) == entries
        for nowhere in (at[0] - 1, 0, -1):
            assert log.entries(ANA, until=nowhere) == []
        assert log.entries(ANAS_OTHER, until=at[8]) == [between]
        assert log.entries(LONE, until=at[8]) == []

    def test_ranges_have_two_ends(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, [f"line {number}" for number in range(4)])
        entries += say_all(log, ANA, [f"line {number}" for number in range(4, 9)])
        at = [entry.position for entry in entries]
        assert log.entries(ANA, after=at[1], until=at[5]) == entries[2:6]
        assert log.entries(ANA, after=at[4], until=at[5]) == entries[5:6]
        assert log.entries(ANA, after=at[8], until=at[8] + 10**9) == []
        for end in (at[5], at[4], at[0], 0):
            assert log.entries(ANA, after=at[5], until=end) == []
            assert log.entries(ANA, after=at[5], until=end, last=3) == []

    def test_no_number_is_too_large_for_a_range(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, [f"line {number}" for number in range(3)])
        assert log.entries(ANA, after=-(10**30), until=10**30, last=10**30) == entries
        assert log.entries(ANA, after=10**30) == log.entries(ANA, until=-(10**30)) == []
        assert log.changes(ANA.owner, -(10**30), limit=10**30).entries == tuple(entries)
        assert log.changes(ANA.owner, 10**30).entries == ()

    def test_the_latest_of_a_range_are_those_before_its_end(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, [f"line {number}" for number in range(4)])
        say(log, ANAS_OTHER, "elsewhere")
        entries += say_all(log, ANA, [f"line {number}" for number in range(4, 9)])
        at = [entry.position for entry in entries]
        assert log.entries(ANA, until=at[5], last=3) == entries[3:6]
        assert log.entries(ANA, until=at[3], last=1) == entries[3:4]
        assert log.entries(ANA, until=at[5], last=6) == entries[:6]
        assert log.entries(ANA, until=at[5], last=99) == entries[:6]
        assert log.entries(ANA, until=at[5], last=0) == []
        assert log.entries(ANA, after=at[1], until=at[5], last=2) == entries[4:6]
        assert log.entries(ANA, after=at[1], until=at[5], last=99) == entries[2:6]
        assert log.entries(ANA, until=at[8], last=2) == entries[-2:]

    # -- find -----------------------------------------------------------------------------------

    def test_messages_are_found_by_their_own_ids(self, log: ContractLog) -> None:
        one, _, two, three = say_all(
            log,
            ANA,
            [
                HumanMessage("one", id="m1"),
                "without an id",
                AIMessage("two", id="m2", additional_kwargs={"n": 1}),
                HumanMessage("three", id="m3"),
            ],
        )
        noted = log.annotate(ANA, two.id, attributes=["seen"])
        assert log.find(ANA, ["m3", "m1"]) == [one, three]
        assert log.find(ANA, ("m2",)) == [noted]
        assert log.find(ANA, {"m1", "m2", "m3"}) == [one, noted, three]
        assert log.find(ANA, ["m1", "m1", "unknown", ""]) == [one]
        assert log.find(ANA, ["M1", "m", "m1 ", new_ulid(), "%"]) == []
        assert log.find(ANA, []) == []
        [found] = log.find(ANA, ["m2"])
        assert found.message is not None
        found.message.additional_kwargs["n"] = "changed by the reader"
        assert log.find(ANA, ["m2"]) == [noted]

    def test_messages_without_an_id_are_found_by_that_of_their_entry(
        self, log: ContractLog
    ) -> None:
        entries = say_all(log, ANA, ["none", AIMessage("empty", id=""), AIMessage("own", id="m1")])
        entries += log.append(ANA, [Draft(role="summary", contents=("They spoke.",))])
        control = retract(log, ANA, entries[0].id)
        none, empty, own, summary = entries
        ids = [entry.id for entry in (*entries, control)]
        assert log.find(ANA, ids) == [none, empty, summary]
        assert log.find(ANA, [own.id]) == log.find(ANA, [control.id]) == []
        assert [entry.message_id for entry in entries] == [none.id, empty.id, "m1", summary.id]

    def test_replaced_and_retracted_messages_are_found(self, log: ContractLog) -> None:
        first = say(log, ANA, HumanMessage("frist", id="m1"))
        gone = say(log, ANA, HumanMessage("gone", id="m2"))
        second = say(log, ANA, HumanMessage("first", id="m1"))
        undo = retract(log, ANA, gone.id)
        third = say(log, ANA, HumanMessage("first!", id="m1"))
        assert log.find(ANA, ["m1"]) == [first, second, third]
        assert log.find(ANA, ["m2", "m1"]) == [first, gone, second, third]
        assert log.find(ANA, ["m2"]) == [gone]
        retract(log, ANA, undo.id, third.id)
        assert log.find(ANA, ["m1", "m2"]) == [first, gone, second, third]

    def test_nothing_of_other_threads_is_found(self, log: ContractLog) -> None:
        keys = (ANA, ANAS_OTHER, BO, LONE, ThreadKey(None, "ana"), ThreadKey("t1", "t1"))
        said = {
            key: say_all(log, key, [HumanMessage(f"of {key}", id="m1"), f"more of {key}"])
            for key in keys
        }
        ids = ["m1", *(more.id for _, more in said.values())]
        for key in keys:
            assert log.find(key, ids) == said[key], key
        assert log.find(ThreadKey("nobody", "t1"), ids) == []
        assert log.find(ThreadKey("ana", "t3"), ids) == []

    def test_ids_are_found_exactly(self, log: ContractLog) -> None:
        messages = [HumanMessage(f"text of {own!r}", id=own) for own in ODD_MESSAGE_IDS]
        entries = say_all(log, ANA, messages)
        for own, entry in zip(ODD_MESSAGE_IDS, entries, strict=True):
            assert log.find(ANA, [own]) == [entry], own
        assert log.find(ANA, ODD_MESSAGE_IDS) == entries

    def test_any_number_of_messages_is_found(self, log: ContractLog) -> None:
        messages = [HumanMessage(f"line {number}", id=f"m{number}") for number in range(MANY)]
        entries = say_all(log, ANA, messages)
        ids = [f"m{number}" for number in range(MANY + 50)]
        found = log.find(ANA, ids[::-1])
        assert found == entries
        assert identical([entry.message for entry in found], messages)

    def test_what_was_forgotten_is_not_found(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, [HumanMessage("one", id="m1"), "two", "three"])
        log.forget(ANA, ["m1", entries[1].id])
        assert log.find(ANA, ["m1", *(entry.id for entry in entries)]) == [entries[2]]
        again = say(log, ANA, HumanMessage("one", id="m1"))
        assert log.find(ANA, ["m1"]) == [again]
        log.forget(ANA)
        assert log.find(ANA, ["m1", entries[2].id]) == []

    def test_one_text_is_no_collection_of_message_ids(self, log: ContractLog) -> None:
        say(log, ANA, HumanMessage("Hi", id="m"))
        with pytest.raises(ConfigError):
            log.find(ANA, "m")

    # -- owners ---------------------------------------------------------------------------------

    def test_owners_are_those_who_have_entries(self, log: ContractLog) -> None:
        listing = _listing(log)
        assert listing.owners() == []
        entries = {key: say(log, key, "Hi") for key in (ANA, ANAS_OTHER, BO, LONE)}
        log.set_state(ThreadKey("cy", "t1"), "buffer", 1, expected=None)
        log.set_state(ThreadKey(None, "t2"), "buffer", 1, expected=None)
        owners = listing.owners()
        assert set(owners) == {ANA.owner, BO.owner, LONE.owner}
        assert len(owners) == 3
        retract(log, BO, entries[BO].id, reason="cleared")
        log.forget(ANA)
        assert set(listing.owners()) == {ANA.owner, BO.owner, LONE.owner}
        log.forget(ANAS_OTHER, [entries[ANAS_OTHER].id])
        assert set(listing.owners()) == {BO.owner, LONE.owner}
        log.forget(LONE.owner)
        assert listing.owners() == [BO.owner]

    def test_owners_come_back_as_they_were_named(self, log: ContractLog) -> None:
        listing = _listing(log)
        for odd in ODD_IDS:
            say(log, ThreadKey(odd, "t1"), "of a user")
            say(log, ThreadKey(None, odd), "of nobody")
        wanted = {Owner(user_id=odd) for odd in ODD_IDS} | {Owner(thread_id=odd) for odd in ODD_IDS}
        owners = listing.owners()
        assert set(owners) == wanted
        assert len(owners) == len(wanted)
        for owner in owners:
            assert texts(log.changes(owner).entries) in (["of a user"], ["of nobody"])
