"""Methods of the log of the page "A log of your own" that are written wrong."""

from __future__ import annotations

import time
from dataclasses import replace

from list_log import ListLog

from langchain_convmem.logs import base as kit


def write_without_a_lock(log, key, drafts, stored):
    first_position = log.last_position + 1
    time.sleep(0.001)
    plan = kit.plan_append(kit.encode_drafts(drafts), stored, first_position=first_position)
    log.rows += [(key, replace(row, decoded=None)) for row in plan.added]
    log.last_position += len(plan.added)
    return plan.build_entries(key)


def plan_with_what_is_outdated(log, key, drafts, **options):
    return write_without_a_lock(log, key, drafts, [row for _, row in log.read(key)])


def store_an_id_twice(log, key, drafts, **options):
    with log.lock:
        return write_without_a_lock(log, key, drafts, [])


def lose_the_last_of_a_batch(log, key, drafts, **options):
    entries = ListLog.append(log, key, drafts)
    if len(drafts) > 1:
        log.rows.pop()
    return entries


def give_positions_again(log, scope, entry_ids=None):
    receipt = ListLog.forget(log, scope, entry_ids)
    log.last_position = max((row.position for _, row in log.rows), default=0)
    return receipt


def overwrite_any_version(log, key, name, value, *, expected):
    found = log.get_state(key, name)
    return ListLog.set_state(log, key, name, value, expected=found.version if found else None)


def answer_when_closed(log):
    """Go on."""


WRONG = (
    (plan_with_what_is_outdated, "append", "writers_at_once_lose_nothing"),
    (store_an_id_twice, "append", "a_messages_own_id_is_its_key"),
    (lose_the_last_of_a_batch, "append", "entries_stand_in_order_and_know_when_they_were_made"),
    (give_positions_again, "forget", "what_is_forgotten_can_be_said_anew_in_a_new_place"),
    (overwrite_any_version, "set_state", "a_document_is_written_over_the_version_that_was_read"),
    (answer_when_closed, "close", "a_closed_log_says_so"),
)
"""What is done wrong, in which method, and the test of the contract that tells."""
