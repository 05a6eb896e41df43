import copy
import inspect
import pickle
import sys

import pytest
from langchain_core.exceptions import LangChainException

from langchain_convmem import errors, to_dynamodb
from langchain_convmem.cli.models import choose_model
from langchain_convmem.logs.dynamodb import DynamoDBLog
from langchain_convmem.text.completions import CompletionsEngine

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


@pytest.mark.parametrize(
    ("missing", "need", "extra"),
    [
        ("boto3", lambda: DynamoDBLog("log", region_name="eu-central-1"), "aws"),
        ("boto3.dynamodb.types", lambda: to_dynamodb([{"a": 1}]), "aws"),
        ("openai", lambda: CompletionsEngine("m", api_key="k"), "openai"),
        ("langchain.chat_models", lambda: choose_model("openai:test-model"), "cli"),
    ],
)
def test_a_missing_extra_says_how_to_get_it(monkeypatch, missing, need, extra):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(errors.MissingExtraError) as caught:
        need()
    assert caught.value.extra == extra
    assert str(caught.value).endswith(f"pip install 'langchain-convmem[{extra}]'")
