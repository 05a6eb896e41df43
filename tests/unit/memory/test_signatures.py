"""What `help(ConversationMemory)` prints: every option by name, in both worlds the same."""

from __future__ import annotations

import inspect

import pytest

from langchain_convmem import ConversationMemory

CALLS = sorted(
    name
    for name, value in vars(ConversationMemory).items()
    if not name.startswith("_") and callable(getattr(value, "__func__", value))
)
TWINS = [name for name in CALLS if f"a{name}" in CALLS]


def _parameters(name):
    return inspect.signature(getattr(ConversationMemory, name)).parameters


def test_all_calls_are_looked_at():
    assert {"open", "wrap", "conversation", "recall", "arecall"} <= set(CALLS)
    assert {"recall", "close", "stats", "add_messages", "reindex"} <= set(TWINS)


@pytest.mark.parametrize("name", ["__init__", *CALLS])
def test_every_option_is_a_keyword_with_a_type(name):
    parameters = _parameters(name).values()
    assert not [p for p in parameters if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    assert all(p.annotation is not p.empty for p in parameters if p.name != "self")


@pytest.mark.parametrize("name", TWINS)
def test_an_asynchronous_call_takes_what_the_synchronous_one_takes(name):
    def options(of):
        return [(p.name, p.kind, p.default, p.annotation) for p in _parameters(of).values()]

    assert options(f"a{name}") == options(name)


def test_open_takes_the_options_of_a_memory_but_what_is_made_of_a_log():
    assert set(_parameters("__init__")) - set(_parameters("open")) == {"self", "log", "recall"}


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="embeding"):
        ConversationMemory.open(":memory:", embeding=None)
