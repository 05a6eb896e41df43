import os
import threading

import pytest
from forked_processes import in_child

from langchain_convmem.records import ThreadKey
from langchain_convmem.turns.turn import get_line

PLACE = ("log", ThreadKey("ana", "t"))
OTHER = ("log", ThreadKey("ben", "t"))


def test_different_places_do_not_wait_for_each_other():
    with (
        get_line(PLACE).hold(1),
        get_line(OTHER).hold(0.01),
        get_line(("log 2", PLACE[1])).hold(0.01),
    ):
        assert get_line(PLACE) is get_line(PLACE)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_does_not_wait_for_its_parents_turns():
    done = []

    def hold():
        with get_line(PLACE).hold(5):
            done.append(True)

    def hold_in_thread():
        thread = threading.Thread(target=hold)
        thread.start()
        thread.join()
        return done

    with get_line(PLACE).hold(1):
        assert in_child(hold_in_thread) == "[True]"
