"""The record of a thread's summaries beside an oracle that reads everything, over random chats.

    python -m benchmarks.summary_record [--chats N] [--seed N] [--list]

Each chat plants facts of all kinds between small talk and results of tools, and is compacted
several times by a summariser that tells some of them: in another notation, by whom it was not
promised, or wrongly. The oracle knows what was planted and nothing of how the record is made:

    told     a text that the model reads holds the fact in one of the notations that mean it
    listed   only the list of details behind one does
    left     else: recall by words finds the sentence, asked for the other words of it
    lost     else

What is covered it sees from the model's messages. Exit code 1 if one fact is recorded otherwise.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from benchmarks.terminal import parse_positive, show_progress
from langchain_convmem import ConversationMemory, InMemoryLog, RecallSettings, SummarySettings
from langchain_convmem.records import SummaryRequest

_USER, _THREAD = "ana", "t"
_BLOCKS = 3
_RECALL = RecallSettings(dense_weight=0.0, buffer_size=0)
_DETAILS = "Details, word for word:"
_SETTINGS = SummarySettings(
    trigger=("messages", 8),
    keep=("messages", 2),
    facts_tokens=60,
    max_summary_tokens=400,
    tree_tokens=200,
    fan_out=2,
    retries=0,
)


@dataclass(frozen=True, slots=True)
class Planted:
    """A fact that a chat holds.

    Attributes:
        kind: As a record counts it.
        sentence: That says it.
        forms: Texts of which each means it, where one of them stands in a summary.
        restated: How a good summary says it; one of `forms` stands in it.
        wrong: How a bad one says it.
        words: The other words of its sentence.
        is_tool: Whether a tool said it, which recall does not search.
    """

    kind: str
    sentence: str
    forms: tuple[str, ...]
    restated: str
    wrong: str
    words: str
    is_tool: bool = False


_THINGS = [
    "boiler", "sofa", "bicycle", "kettle", "carpet", "mirror", "cabinet", "scooter",
    "blender", "printer", "toaster", "ladder", "tent", "guitar", "camera", "heater", "drill",
    "fridge", "monitor", "helmet", "suitcase", "telescope", "wardrobe", "trailer",
]  # fmt: skip
_PLACES = [
    "bakery", "library", "station", "harbour", "museum", "stadium", "airport", "theatre",
    "market", "chapel",
]  # fmt: skip
_NAMES = [
    "Dimitri", "Carla", "Ruth", "Bogdan", "Ingrid", "Yusuf", "Amara", "Tobias", "Farida",
    "Lucian", "Noemi", "Patrick",
]  # fmt: skip
_FOODS = [
    "mushrooms", "olives", "oysters", "lentils", "radishes", "walnuts", "anchovies", "celery",
]  # fmt: skip
_TASKS = {
    "the corrected invoice": "send",
    "the garden fence": "paint",
    "the broken window": "repair",
    "the winter tyres": "order",
    "the rental contract": "sign",
}
_MONTHS = [
    "January", "February", "March", "April", "June", "July", "August", "September", "October",
    "November",
]  # fmt: skip
_TALK = (
    "that sounds good to me",
    "let me think about it for a moment",
    "thanks, go on please",
    "hm, all right then",
    "fair enough",
)


class Planter:
    """Makes facts, no value of which occurs twice. Not thread-safe."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._pools = {
            "thing": rng.sample(_THINGS, len(_THINGS)),
            "name": rng.sample(_NAMES, len(_NAMES)),
            "food": rng.sample(_FOODS, len(_FOODS)),
            "task": rng.sample(list(_TASKS), len(_TASKS)),
        }
        self._numbers = iter(rng.sample(range(1101, 9999), 900))
        self._days = iter(rng.sample([(d, m) for d in range(2, 28) for m in _MONTHS], 60))

    def plant(self) -> Planted | None:
        """Return a fact of a random kind; None if its words are used up."""
        kinds = (
            "price",
            "code",
            "date",
            "number",
            "name",
            "promise",
            "preference",
            "serial",
            "tool",
        )
        kind = self._rng.choice(kinds)
        made: Planted | None = getattr(self, f"_make_{kind}")()
        return made

    def _take(self, pool: str) -> str | None:
        return self._pools[pool].pop() if self._pools[pool] else None

    def _make_price(self) -> Planted | None:
        thing, number = self._take("thing"), next(self._numbers)
        if thing is None:
            return None
        said = f"{number:,} euros"
        return Planted(
            "price",
            f"the {thing} was sold for {said}.",
            (said, f"{number} euros", f"\u20ac{number:,}", f"{number} EUR"),
            f"The {thing} was sold for \u20ac{number:,}.",
            f"The {thing} was sold for {number + 1:,} euros.",
            f"{thing} sold",
        )

    def _make_code(self) -> Planted | None:
        thing, number = self._take("thing"), next(self._numbers)
        if thing is None:
            return None
        code = f"XK-{number}"
        return Planted(
            "code",
            f"the label of the {thing} reads {code}.",
            (code, code.lower(), code.replace("-", "")),
            f"The {thing} has the label {code}.",
            f"The label of the {thing} reads XK-{number + 3}.",
            f"label {thing} reads",
        )

    def _make_date(self) -> Planted | None:
        thing = self._take("thing")
        if thing is None:
            return None
        day, month = next(self._days)
        other = next(self._days)
        return Planted(
            "date",
            f"the {thing} arrives on {day} {month}.",
            (f"{day} {month}", f"{month} {day}"),
            f"The {thing} arrives on {month} {day}.",
            f"The {thing} arrives on {other[0]} {other[1]}.",
            f"{thing} arrives",
        )

    def _make_number(self) -> Planted | None:
        thing, number = self._take("thing"), next(self._numbers)
        if thing is None:
            return None
        return Planted(
            "number",
            f"the {thing} has {number} scratches.",
            (f"{number}", f"{number:,}"),
            f"There are {number:,} scratches on the {thing}.",
            f"The {thing} has {number + 5} scratches.",
            f"{thing} scratches",
        )

    def _make_name(self) -> Planted | None:
        name, place = self._take("name"), self._rng.choice(_PLACES)
        if name is None:
            return None
        return Planted(
            "name",
            f"yesterday my visitor from the {place} was {name}.",
            (name,),
            f"A visitor from the {place} was {name}.",
            f"A visitor from the {place} was Zebulon.",
            f"visitor {place}",
        )

    def _make_promise(self) -> Planted | None:
        task = self._take("task")
        if task is None:
            return None
        sentence = f"I will {_TASKS[task]} {task}."
        right = f"The user will {_TASKS[task]} {task}."
        return Planted(
            "promise",
            sentence,
            (f"User: {sentence}", right),
            right,
            f"The assistant will {_TASKS[task]} {task}.",
            max(task.split()[1:], key=len),
        )

    def _make_preference(self) -> Planted | None:
        food = self._take("food")
        if food is None:
            return None
        sentence = f"I really like grilled {food} with butter."
        right = f"The user likes grilled {food} with butter."
        return Planted(
            "preference",
            sentence,
            (f"User: {sentence}", right),
            right,
            f"The user does not like grilled {food} with butter.",
            f"grilled {food}",
        )

    def _make_serial(self) -> Planted:
        """Return one of many facts whose other words are all alike."""
        number = next(self._numbers)
        return Planted(
            "code",
            f"the next parcel has the tag QZ-{number}.",
            (f"QZ-{number}", f"qz-{number}", f"QZ{number}"),
            f"A parcel has the tag QZ-{number}.",
            f"The next parcel has the tag QZ-{number + 2}.",
            "next parcel tag",
        )

    def _make_tool(self) -> Planted | None:
        thing, number = self._take("thing"), next(self._numbers)
        if thing is None:
            return None
        return Planted(
            "code",
            f"the locker of the {thing} shows LK-{number}.",
            (f"LK-{number}", f"lk-{number}", f"LK{number}"),
            f"The locker of the {thing} shows LK-{number}.",
            f"The locker of the {thing} shows LK-{number + 7}.",
            f"locker {thing} shows",
            is_tool=True,
        )


# -- a chat and its summariser --------------------------------------------------------------------
@dataclass
class Chat:
    """A chat under way. Not thread-safe."""

    rng: random.Random
    planted: list[Planted] = field(default_factory=list)

    def write_turn(self, planter: Planter) -> list[BaseMessage]:
        """Return the messages of a turn, with a fact in most of them."""
        fact = planter.plant() if self.rng.random() < 0.85 else None
        talk = self.rng.choice(_TALK)
        if fact is not None:
            self.planted.append(fact)
        if fact is not None and fact.is_tool:
            call = {"name": "look", "args": {}, "id": f"c{len(self.planted)}", "type": "tool_call"}
            result = ToolMessage(fact.sentence, tool_call_id=f"c{len(self.planted)}")
            return [HumanMessage(talk), AIMessage("", tool_calls=[call]), result, AIMessage("ok.")]
        said = talk if fact is None else f"{talk}. {fact.sentence}"
        return [HumanMessage(said), AIMessage("ok.")]

    def summarize(self, request: SummaryRequest) -> str:
        """Return a summary of what a request holds: most facts, some of them wrongly or not."""
        told = [fact for fact in self.planted if _is_in(fact, request.transcript)]
        again = [fact for fact in self.planted if _is_in(fact, request.previous)]
        lines = ["They talked about several things."]
        for fact in [*again, *told]:
            way = self.rng.random()
            lines += [fact.restated] if way < 0.4 else [fact.wrong] if way < 0.55 else []
        return " ".join(lines)


def _is_in(fact: Planted, text: str) -> bool:
    return fact.sentence in text or any(form in text for form in fact.forms)


# -- the oracle -----------------------------------------------------------------------------------
def judge(memory: ConversationMemory, fact: Planted) -> str | None:
    """Return where a fact is, from all that can be read; None for what no summary covers."""
    history = memory.history(_THREAD, user_id=_USER)
    shown = [str(message.text) for message in history.context(max_tokens=None).messages]
    summaries = [text for text in shown if "<summary>" in text]
    if any(fact.sentence in text for text in shown if "<summary>" not in text):
        return None
    told, listed = _cut_details("\n".join(summaries))
    if _holds(told, fact):
        return "told"
    if _holds(listed, fact):
        return "listed"
    return "left" if _is_recalled(memory, fact) else "lost"


def _cut_details(text: str) -> tuple[str, str]:
    """Return the texts of summaries and their lists of details."""
    told: list[str] = []
    listed: list[str] = []
    is_list = False
    for line in text.splitlines():
        is_list = line == _DETAILS or (is_list and line.startswith("- "))
        (listed if is_list else told).append(line)
    return "\n".join(told), "\n".join(listed)


def _holds(text: str, fact: Planted) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(form)}(?!\w)(?!,\d)", text) for form in fact.forms)


def _is_recalled(memory: ConversationMemory, fact: Planted) -> bool:
    found = memory.recall(fact.words, user_id=_USER, k=_BLOCKS, remember=False)
    return any(_holds(block.text, fact) or fact.sentence in block.text for block in found.blocks)


# -- running --------------------------------------------------------------------------------------
def compare_chat(seed: int) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Return how many facts of a chat are where, by kind, and what is recorded otherwise."""
    rng = random.Random(seed)
    chat, planter = Chat(rng), Planter(rng)
    memory = ConversationMemory(
        InMemoryLog(), settings=_RECALL, summarizer=_Teller(chat), summary_settings=_SETTINGS
    )
    with memory:
        for _ in range(rng.randint(12, 30)):
            memory.add_messages(chat.write_turn(planter), thread_id=_THREAD, user_id=_USER)
            memory.summarize(_THREAD, user_id=_USER)
        memory.summarize(_THREAD, user_id=_USER, force=True)
        for _ in range(rng.randint(0, 2)):
            memory.add_messages(chat.write_turn(planter), thread_id=_THREAD, user_id=_USER)
        record = memory.summary_record(_THREAD, user_id=_USER)
        truth = {fact: judge(memory, fact) for fact in chat.planted}
    recorded = [(one.kind, one.state, one.text.casefold()) for one in record.facts]
    wanted = [(fact.kind, where, fact) for fact, where in truth.items() if where is not None]
    return Counter((kind, where) for kind, where, _ in wanted), _find_differences(recorded, wanted)


class _Teller:
    """A summariser whose words are its own: it may quote."""

    name = "scripted"

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def summarize(self, request: SummaryRequest) -> str:
        return self._chat.summarize(request)

    async def asummarize(self, request: SummaryRequest) -> str:
        return self._chat.summarize(request)


def _find_differences(
    recorded: Sequence[tuple[str, str, str]], wanted: Sequence[tuple[str, str, Planted]]
) -> list[str]:
    left = list(recorded)
    wrong: list[str] = []
    for kind, where, fact in wanted:
        match = next((one for one in left if one[0] == kind and _is_same(one[2], fact)), None)
        if match is None:
            wrong.append(f"{kind}, {where}, is not in the record: {fact.sentence}")
            continue
        left.remove(match)
        if match[1] != where:
            wrong.append(f"{kind} is {where}, recorded as {match[1]}: {fact.sentence}")
    return [*wrong, *(f"nobody planted {kind} {text!r}" for kind, _, text in left)]


def _is_same(text: str, fact: Planted) -> bool:
    return text == fact.sentence.casefold() or any(
        text == form.casefold() or text == form.casefold().removesuffix(" euros")
        for form in fact.forms
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return whether the record differs from the oracle."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.summary_record")
    parser.add_argument("--chats", type=parse_positive, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="print what is recorded otherwise")
    wanted = parser.parse_args(arguments)
    counts, wrong = Counter[tuple[str, str]](), list[str]()
    for number in range(wanted.chats):
        show_progress(f"chat {number + 1} of {wanted.chats}")
        found, differences = compare_chat(wanted.seed + number)
        counts += found
        wrong += [f"chat {wanted.seed + number}: {one}" for one in differences]
    show_progress("")
    print(
        f"\n{wanted.chats} chats, {counts.total():,} covered facts, {len(wrong)} recorded otherwise"
    )
    states = ("told", "listed", "left", "lost")
    print(f"{'':12}{''.join(f'{state:>8}' for state in states)}")
    for kind in dict.fromkeys(kind for kind, _ in sorted(counts)):
        print(f"{kind:12}{''.join(f'{counts[kind, state]:8}' for state in states)}")
    if wanted.list:
        print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
