from __future__ import annotations

import pytest

from langchain_convmem.errors import ConfigError
from langchain_convmem.recall import RecallSettings


def test_spec_settings_are_those_of_plain_dialog_line_memory():
    spec = RecallSettings.spec()
    assert (spec.lexical_weight, spec.kernel, spec.speaker_bonus) == (0.0, (1.0,), 0.0)
    assert (spec.k, spec.max_tokens, spec.threshold, spec.window) == (3, None, 0.8, 3)
    assert (spec.refill, spec.buffer_size) == (False, 10)
    assert (spec.person_bonus, spec.session_prior, spec.kind_weight) == (0.0, 0.0, 0.0)
    assert (spec.latest_first, spec.skip_repeats) == (False, False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel", (0.5, 0.5)),
        ("kernel", ()),
        ("window", -1),
        ("window", (1, -1)),
        ("window", (1, 2, 3)),
        ("window", ()),
        ("window", 1.5),
        ("buffer_size", -1),
        ("budget_window", -1),
    ],
)
def test_numbers_that_no_recall_can_follow_are_refused_by_name(name, value):
    with pytest.raises(ConfigError, match=name):
        RecallSettings(**{name: value})
