import pytest
from summaries import bare_texts

from langchain_convmem.history import ConversationHistory
from langchain_convmem.logs import InMemoryLog


@pytest.fixture
def history():
    """A thread of ana's."""
    with InMemoryLog() as log:
        yield ConversationHistory(log, "t1", user_id="ana")


@pytest.fixture
def say(history):
    """Adds texts in turns, the user first: `say("a", "b")`."""

    def add(*texts):
        roles = ("user", "assistant")
        return [history.add(roles[number % 2], text) for number, text in enumerate(texts)]

    return add


@pytest.fixture
def shape_of():
    """Returns what the turns of a history say, summaries in capitals by custom."""
    return lambda history: [" ".join(turn.contents) for turn in history.turns]


@pytest.fixture
def shape(history, shape_of):
    return lambda: shape_of(history)


@pytest.fixture
def read(history):
    """Returns what the model's messages say, the summary without its fence included."""
    return lambda: bare_texts(history.messages)
