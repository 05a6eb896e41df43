import pytest
from langchain_core.messages import AIMessage, HumanMessage
from watched_embedder import WordEmbeddings

from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import make_draft

MINUTE_MS = 60_000
START_MS = 1_700_000_000_000


def append_lines(log, texts, *, thread="t", user="ana", speakers=("Ana", "Bo"), session=None):
    drafts = []
    for number, text in enumerate(texts):
        extra = {"timestamp": START_MS + number * MINUTE_MS}
        if session is not None:
            extra["session"] = session
        kind = HumanMessage if number % 2 == 0 else AIMessage
        name = speakers[number % len(speakers)]
        drafts.append(make_draft(kind(content=text, name=name, additional_kwargs=extra)))
    return log.append(ThreadKey(user, thread), drafts)


DAY_MS = 24 * 60 * MINUTE_MS
EVERYDAY = (
    ("My bicycle has a flat tyre again.", "Check the rim tape before you patch the tube."),
    ("How long does rice keep in the fridge?", "Cooked rice keeps for about a day."),
    ("I planted tomatoes on the balcony.", "Tomatoes want six hours of sun and even watering."),
    ("Write a limerick about a heron.", "A heron who fished by the weir held a grudge."),
    ("We are painting the kitchen green.", "Two coats over a primer cover best."),
    ("Translate 'good luck' into Welsh.", "It is 'pob lwc'."),
    ("My brother Tom moved to Lisbon.", "Lisbon has mild winters and steep streets."),
    ("Which spices belong into a curry?", "Cumin, coriander and turmeric are the base."),
    ("I started to learn the cello.", "Begin with long bows on open strings."),
    ("What does a capacitor do?", "It stores charge and smooths a voltage."),
    ("The boiler makes a banging noise.", "That may be limescale on the heat exchanger."),
    ("Suggest a name for a sailing boat.", "You could name it Petrel."),
    ("I am allergic to peanuts.", "Noted, so no satay in the menu."),
    ("How do I sharpen a chisel?", "Flatten the back first, then hone the bevel."),
    ("My thesis is about medieval bridges.", "Toll records would be a good source."),
    ("Is Pluto a planet?", "It has been a dwarf planet since 2006."),
    ("Our cat Minka sleeps in the laundry basket.", "Cats like enclosed and warm places."),
    ("Explain compound interest briefly.", "Interest earns interest in later periods."),
    ("I bought hiking boots for the Dolomites.", "Break them in on short walks."),
    ("Who painted the Night Watch?", "Rembrandt finished it in 1642."),
)
"""What a user and an assistant said in turn, each exchange on a day of its own."""


def append_chat(log, exchanges, *, thread="t", user="ana", start_ms=START_MS, session="own"):
    """Append exchanges of a user and an assistant, one a day; None leaves a side silent."""
    drafts = []
    for number, texts in enumerate(exchanges):
        name = f"{thread}-{number}" if session == "own" else session
        said = {"timestamp": start_ms + number * DAY_MS, "session": name}
        drafts += [
            make_draft(kind(content=text, additional_kwargs=said))
            for kind, text in zip((HumanMessage, AIMessage), texts, strict=True)
            if text is not None
        ]
    return log.append(ThreadKey(user, thread), drafts)


@pytest.fixture(scope="session")
def chat():
    return append_chat


@pytest.fixture(scope="session")
def everyday():
    return EVERYDAY


@pytest.fixture(scope="session")
def say():
    return append_lines


@pytest.fixture
def embedder():
    return WordEmbeddings()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def sqlite_log(path):
    with SQLiteLog(path) as opened:
        yield opened
