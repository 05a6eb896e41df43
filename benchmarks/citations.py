"""How well the sentences of summaries find the entries they come from.

    python -m benchmarks.citations [--list]

Each chat's sentences are compared with its own lines, and with the lines of all chats at once.
What counts are pairs of sentence and line: precision is the share of the found ones that are
right, recall the share of the right ones that are found. The data and its form are described in
`benchmarks/data/README.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_convmem.records import Entry, Role, ThreadKey
from langchain_convmem.summarizing.citations import find_citations

DATA = Path(__file__).parent / "data" / "summaries" / "citations.json"
_KEY = ThreadKey(None, "citations")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a summary.

    Attributes:
        text: What it says.
        sources: The numbers of the lines it comes from, from 1.
        also: Lines that say the same again: citing them is neither right nor wrong.
    """

    text: str
    sources: frozenset[int]
    also: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Chat:
    """Lines, and a summary of them."""

    id: str
    language: str
    lines: tuple[tuple[str, str], ...]
    sentences: tuple[Sentence, ...]


@dataclass
class Score:
    """Counts of pairs of sentence and line."""

    right: int = 0
    found: int = 0
    wanted: int = 0

    def add(self, sentence: Sentence, cited: Iterable[int]) -> None:
        """Count what was cited for a sentence."""
        counted = frozenset(cited) - sentence.also
        self.right += len(counted & sentence.sources)
        self.found += len(counted)
        self.wanted += len(sentence.sources)

    @property
    def precision(self) -> float:
        """The share of what was found that is right."""
        return self.right / max(self.found, 1)

    @property
    def recall(self) -> float:
        """The share of what is right that was found."""
        return self.right / max(self.wanted, 1)

    def __str__(self) -> str:
        return f"precision {self.precision:.3f}  recall {self.recall:.3f}  ({self.wanted} wanted)"


def load_chats() -> list[Chat]:
    """Return the chats, in the order of the file."""
    return [
        Chat(
            row["id"],
            row["language"],
            tuple((line["speaker"], line["text"]) for line in row["lines"]),
            tuple(
                Sentence(one["text"], frozenset(one["sources"]), frozenset(one.get("also", ())))
                for one in row["sentences"]
            ),
        )
        for row in json.loads(DATA.read_text("utf-8"))
    ]


def make_entries(chat: Chat, after: int = 0) -> list[Entry]:
    """Return the lines of a chat as entries; the first stands after a position."""
    return [_make_entry(after + n, *line) for n, line in enumerate(chat.lines, 1)]


def _make_entry(position: int, speaker: str, text: str) -> Entry:
    role: Role = "user" if speaker == "user" else "assistant"
    message: BaseMessage = HumanMessage(text) if role == "user" else AIMessage(text)
    name = f"e{position}"
    return Entry(
        id=name, key=_KEY, position=position, turn_id=name, role=role, message=message,
        contents=(text,),
    )  # fmt: skip


def cite_alone(chats: Sequence[Chat]) -> Iterator[tuple[Chat, Sentence, frozenset[int]]]:
    """Yield what each sentence cites of the lines of its own chat."""
    for chat in chats:
        found = find_citations([one.text for one in chat.sentences], make_entries(chat))
        for sentence, cited in zip(chat.sentences, found, strict=True):
            yield chat, sentence, frozenset(cited)


def cite_in_crowd(chats: Sequence[Chat]) -> Iterator[tuple[Chat, Sentence, frozenset[int]]]:
    """Yield what each sentence cites of the lines of all chats, numbered from its own chat's."""
    entries: list[Entry] = []
    starts: dict[str, int] = {}
    for chat in chats:
        starts[chat.id] = len(entries)
        entries += make_entries(chat, len(entries))
    said = [(chat, sentence) for chat in chats for sentence in chat.sentences]
    found = find_citations([sentence.text for _, sentence in said], entries)
    for (chat, sentence), cited in zip(said, found, strict=True):
        yield chat, sentence, frozenset(at - starts[chat.id] for at in cited)


def score(cited: Iterable[tuple[Chat, Sentence, frozenset[int]]]) -> dict[str, Score]:
    """Return the scores by language, and of all under the empty name."""
    scores: dict[str, Score] = {"": Score()}
    for chat, sentence, found in cited:
        scores[""].add(sentence, found)
        scores.setdefault(chat.language, Score()).add(sentence, found)
    return scores


def main() -> None:
    """Print precision and recall, by language."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="print what was missed or is wrong")
    options = parser.parse_args()
    chats = load_chats()
    count = sum(len(chat.sentences) for chat in chats)
    print(
        f"{count} sentences of {len(chats)} chats in {len({c.language for c in chats})} languages"
    )
    for title, cite in (("own chat", cite_alone), ("all chats at once", cite_in_crowd)):
        began = time.perf_counter()
        rows = list(cite(chats))
        took = 1000 * (time.perf_counter() - began)
        print(f"\n{title}, {took:.0f} ms")
        for language, one in sorted(score(rows).items()):
            print(f"  {language or 'all':6} {one}")
        if options.list:
            for chat, sentence, found in rows:
                counted = found - sentence.also
                if counted != sentence.sources:
                    print(f"    {chat.id}: {sentence.text}")
                    print(f"      wanted {sorted(sentence.sources)}, found {sorted(found)}")


if __name__ == "__main__":
    main()
