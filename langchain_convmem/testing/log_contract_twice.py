"""The log contract: a message's own id is its key within its thread."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.records import Entry
from langchain_convmem.testing.log_contract_base import (
    ANA,
    LONE,
    ContractLog,
    ContractPart,
    live_texts,
    retract,
    say,
    say_all,
    texts,
)
from langchain_convmem.testing.log_samples import ODD_MESSAGE_IDS, SAMPLE_MESSAGES, identical
from langchain_convmem.views.context import context
from langchain_convmem.views.live import live_entries

__all__ = ["TwicePart"]


def _controls(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.control is not None]


class TwicePart(ContractPart):
    """Appending what is there already."""

    def test_equal_messages_without_ids_are_all_kept(self, log: ContractLog) -> None:
        say_all(log, ANA, ["Yes", "Yes"])
        say(log, ANA, "Yes")
        entries = log.entries(ANA)
        assert texts(entries) == ["Yes"] * 3
        assert len({entry.id for entry in entries}) == 3

    def test_an_empty_id_is_no_id(self, log: ContractLog) -> None:
        said = [AIMessage("one", id=""), AIMessage("one", id=""), AIMessage("two", id="")]
        say_all(log, ANA, said)
        assert live_texts(log, ANA) == ["one", "one", "two"]

    def test_a_message_named_like_a_control_entry_replaces_nothing(self, log: ContractLog) -> None:
        [gone] = say_all(log, ANA, ["gone"])
        control = retract(log, ANA, gone.id)
        say_all(log, ANA, [HumanMessage("new", id=control.id)])
        assert live_texts(log, ANA) == ["new"]
        assert len(_controls(log.entries(ANA))) == 1

    def test_the_same_message_is_stored_once(self, log: ContractLog) -> None:
        for name, make in SAMPLE_MESSAGES.items():
            message = make()
            message.id = name
            [first] = say_all(log, ANA, [message])
            again = say_all(log, ANA, [message.model_copy(deep=True)])
            assert [entry.id for entry in again] == [first.id], name
        assert len(log.entries(ANA)) == len(SAMPLE_MESSAGES)

    def test_the_same_message_within_a_batch_is_stored_once(self, log: ContractLog) -> None:
        message = HumanMessage("Hi", id="m1")
        before, first, between, second = say_all(log, ANA, ["a", message, "b", message])
        assert first == second
        assert texts(log.entries(ANA)) == ["a", "Hi", "b"]
        assert [before.position, first.position, between.position] == [
            entry.position for entry in log.entries(ANA)
        ]

    def test_a_copy_that_was_handed_out_is_stored_once(self, log: ContractLog) -> None:
        said = [HumanMessage("Hi"), AIMessage("Ho", id="ai-1"), HumanMessage("Hum", name="Ana")]
        say_all(log, ANA, said)
        entries = log.entries(ANA)
        copies = context(entries).messages
        assert copies[0].id == entries[0].id
        assert say_all(log, ANA, copies) == entries
        assert log.entries(ANA) == entries

    def test_order_of_keys_makes_no_other_message(self, log: ContractLog) -> None:
        first = say(log, ANA, HumanMessage("x", id="m1", additional_kwargs={"a": 1, "b": 2}))
        again = say(log, ANA, HumanMessage("x", id="m1", additional_kwargs={"b": 2, "a": 1}))
        assert again == first

    def test_values_that_only_compare_equal_make_another_message(self, log: ContractLog) -> None:
        for value in (True, 1, 1.0):
            say(log, ANA, HumanMessage("x", id="m1", additional_kwargs={"value": value}))
        [live] = live_entries(log.entries(ANA))
        assert live.message is not None
        assert identical(live.message.additional_kwargs["value"], 1.0)

    def test_another_payload_replaces_the_message_in_its_place(self, log: ContractLog) -> None:
        say_all(log, ANA, [HumanMessage("frist", id="m1"), AIMessage("reply")], turn="turn 1")
        say(log, ANA, "last")
        old = log.entries(ANA)[0]
        new = say(log, ANA, HumanMessage("first", id="m1"))
        entries = log.entries(ANA)
        assert texts(entries) == ["frist", "reply", "last", "first"]
        [mark] = _controls(entries)
        assert mark.control is not None
        assert (mark.control.reason, mark.control.retracts) == ("replaced", (old.id,))
        assert mark.control.replacement == new.id
        assert entries[2].position < mark.position < new.position
        assert (new.turn_id, new.id != old.id) == ("turn 1", True)
        assert live_texts(log, ANA) == ["first", "reply", "last"]

    def test_a_message_may_be_replaced_many_times(self, log: ContractLog) -> None:
        versions = ["one", "two", "three", "one"]
        said = [HumanMessage(text, id="m1") for text in versions]
        say_all(log, ANA, [said[0], AIMessage("reply"), *said[1:3]], turn="turn 1")
        say(log, ANA, said[3])
        assert live_texts(log, ANA) == ["one", "reply"]
        assert texts(log.entries(ANA)) == ["one", "reply", "two", "three", "one"]
        assert len(_controls(log.entries(ANA))) == 3

    def test_a_stored_message_without_id_is_replaced_by_its_entry_id(
        self, log: ContractLog
    ) -> None:
        entry = say(log, ANA, "frist")
        say(log, ANA, HumanMessage("first", id=entry.id))
        say(log, ANA, HumanMessage("first", id=entry.id))
        assert live_texts(log, ANA) == ["first"]
        assert len(log.entries(ANA)) == 3

    def test_a_retracted_message_can_be_added_again(self, log: ContractLog) -> None:
        message = HumanMessage("Hi", id="m1")
        first = say(log, ANA, message)
        undo = retract(log, ANA, first.id)
        second = say(log, ANA, message)
        assert second.id != first.id
        assert live_texts(log, ANA) == ["Hi"]
        assert say(log, ANA, message) == second
        retract(log, ANA, second.id)
        retract(log, ANA, undo.id, reason="rewind")
        assert say(log, ANA, message) == first, "undone undo: the first one counts again"

    def test_ids_belong_to_their_thread(self, log: ContractLog) -> None:
        for key in (ANA, LONE):
            say(log, key, HumanMessage(f"of {key.user_id}", id="m1"))
        assert texts(log.entries(ANA)) == ["of ana"]
        assert texts(log.entries(LONE)) == ["of None"]

    def test_ids_are_compared_exactly(self, log: ContractLog) -> None:
        said = [HumanMessage(f"text of {own!r}", id=own) for own in ODD_MESSAGE_IDS]
        entries = say_all(log, ANA, said)
        assert live_texts(log, ANA) == [f"text of {own!r}" for own in ODD_MESSAGE_IDS]
        assert say_all(log, ANA, said) == entries
