"""When a thread is compacted: marks that can be followed, and no others."""

from __future__ import annotations

import pytest

from langchain_convmem import SummarySettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.summarizing.planning import Size

LOW = ("messages", 2)


@pytest.mark.parametrize(
    ("trigger", "due", "not_due"),
    [
        (("tokens", 100), Size(100, 1), Size(99, 50)),
        (("messages", 10), Size(1, 10), Size(5000, 9)),
        (("fraction", 0.5), Size(500, 1), Size(499, 50)),
        ({"tokens": 100, "messages": 10}, Size(100, 10), Size(5000, 9)),
        ([("tokens", 100), ("messages", 10)], Size(1, 10), Size(99, 9)),
        ([{"tokens": 100, "messages": 10}, ("tokens", 900)], Size(900, 1), Size(899, 9)),
    ],
)
def test_a_compaction_is_due_from_the_high_mark_on(trigger, due, not_due):
    settings = SummarySettings(trigger=trigger, keep=LOW, window_tokens=1000)
    assert settings.is_due(due)
    assert not settings.is_due(not_due)


def test_the_low_mark_is_reached_at_its_very_number():
    settings = SummarySettings(trigger=("tokens", 100), keep=("tokens", 40))
    assert settings.is_small(Size(40, 99))
    assert not settings.is_small(Size(41, 1))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"trigger": ("tokens", 0)}, "positive"),
        ({"trigger": ("tokens", True)}, "positive"),
        ({"trigger": ("words", 5)}, "words"),
        ({"trigger": ()}, "trigger"),
        ({"trigger": {}}, "trigger"),
        ({"trigger": 6000}, "trigger"),
        ({"keep": ("tokens", "many")}, "keep"),
        ({"keep": {"tokens": 5}}, "keep"),
        ({"trigger": ("fraction", 0.5)}, "window_tokens"),
        ({"trigger": ("fraction", 1.5), "window_tokens": 1000}, "at most 1"),
        ({"trigger": ("tokens", 50), "keep": ("tokens", 50)}, "above keep"),
        (
            {"trigger": ("tokens", 4000), "keep": ("fraction", 0.5), "window_tokens": 8000},
            r"tokens=4000 must be above keep fraction=0\.5 \(4000 tokens\)",
        ),
        (
            {"trigger": ("fraction", 0.5), "keep": ("tokens", 5000), "window_tokens": 8000},
            r"fraction=0\.5 \(4000 tokens\) must be above keep tokens=5000",
        ),
        (
            {"trigger": [("tokens", 6000), {"tokens": 90, "messages": 9}], "keep": ("tokens", 90)},
            "tokens=90 must be above keep tokens=90",
        ),
        ({"max_summary_tokens": 15}, "max_summary_tokens"),
        ({"facts_tokens": -1}, "facts_tokens"),
        ({"retries": 1.5}, "retries"),
        ({"input_tokens": 63}, "input_tokens"),
        ({"rebuild_every": True}, "rebuild_every"),
        ({"lease_s": 0}, "lease_s"),
        ({"first_pause_s": -1}, "first_pause_s"),
    ],
)
def test_what_no_compaction_can_follow_is_refused_by_name(options, reason):
    with pytest.raises(ConfigError, match=reason):
        SummarySettings(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"trigger": ("tokens", 4001), "keep": ("fraction", 0.5), "window_tokens": 8000},
        {"trigger": ("fraction", 0.5), "keep": ("tokens", 3999), "window_tokens": 8000},
        {"trigger": {"tokens": 90, "fraction": 0.5}, "keep": ("tokens", 90), "window_tokens": 8000},
        {"trigger": ("messages", 5), "keep": ("tokens", 9000)},
    ],
)
def test_marks_that_a_compaction_can_follow_are_taken_in_any_measures(options):
    settings = SummarySettings(**options)
    assert (settings.trigger, settings.keep) == (options["trigger"], options["keep"])


def test_a_mark_of_several_amounts_is_reached_at_the_largest():
    both = {"tokens": 90, "fraction": 0.5}
    settings = SummarySettings(trigger=both, keep=("tokens", 90), window_tokens=8000)
    assert settings.trigger_tokens == 4000
