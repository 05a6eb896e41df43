import copy
import inspect
import pickle

import pytest
from langchain_core.exceptions import LangChainException

from langchain_convmem import errors

EVERY = [
    thing
    for thing in vars(errors).values()
    if inspect.isclass(thing) and thing.__module__ == errors.__name__
]
BUILT_IN = {
    ConnectionError: "LineStoreError LogUnavailableError",
    ImportError: "MissingExtraError",
    RuntimeError: "ConversationError LogClosedError LogError SummaryError ThreadBusyError "
    "TurnCancelledError",
    ValueError: "BudgetError ChatTemplateError ConfigError ImportFormatError InvalidMessageError "
    "PromptSyntaxError StaleWindowError",
}


def made(kind):
    """Return an error with every attribute set to something other than its default."""
    names = {name for base in kind.__mro__ for name in vars(base).get("__annotations__", ())}
    values = {
        name: default + 7 if isinstance(default, int) else f"the {name}"
        for name in sorted(names - {"is_retryable"})
        for default in [getattr(kind, name)]
    }
    return kind("what happened; what to do", **values), values


@pytest.mark.parametrize("kind", EVERY)
def test_an_error_survives_pickling_with_its_attributes(kind):
    error, values = made(kind)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own
        assert type(again) is kind
        assert str(again) == str(error) == "what happened; what to do"
        assert {name: getattr(again, name) for name in values} == values


def test_every_error_is_ours_and_but_for_the_base_of_a_built_in_kind():
    assert all(issubclass(kind, errors.ConvMemError) for kind in EVERY)
    assert issubclass(errors.ConvMemError, LangChainException)
    for built_in, names in BUILT_IN.items():
        assert all(issubclass(getattr(errors, name), built_in) for name in names.split())
    named = " ".join(BUILT_IN.values()).split()
    assert {kind.__name__ for kind in EVERY} - {*named} == {"ConvMemError"}


def test_only_storage_that_cannot_be_reached_is_worth_another_try():
    retryable = {kind for kind in EVERY if kind.is_retryable}
    assert retryable == {errors.LineStoreError, errors.LogUnavailableError}


def test_a_missing_extra_says_how_to_get_it():
    error = errors.MissingExtraError.build("the terminal", "cli")
    assert error.extra == "cli"
    assert str(error).endswith("pip install 'langchain-convmem[cli]'")
