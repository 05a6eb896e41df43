"""Budgets in real tokens: the estimate beside vocabularies, and chats whose providers report usage.

    python -m benchmarks.token_budgets [--turns N] [--budget N]

`data/tokens/texts.json` holds texts in 19 languages of 15 scripts and of nine other kinds, such as
ids and JSON; `data/tokens/counts.json` how many tokens seven vocabularies take for each. The first
table compares the estimate with these, and with four characters a token.

The second plays a chat for each kind with a scripted provider that reports what it read, by each
vocabulary that is installed: that of Llama 2 is part of a wheel of this package's embedder, those
of Claude (2023), DeepSeek, `cl100k_base` and `o200k_base` are in the `litellm` wheel
(`pip install --group tokens`). Told are the most real tokens of a request, as a share of the
budget, and the last request: how much of the budget a thread has once the estimate is calibrated.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langchain_convmem import ConversationMemory
from langchain_convmem.views.messages import TOKENS_PER_MESSAGE, list_counted
from langchain_convmem.views.tokens import count_text_tokens

DATA = Path(__file__).parent / "data" / "tokens"
LEAST = 0.97
"""The estimate may be so much of the real count, for any kind and vocabulary."""
MOST_OVER = 1.0
"""A request may take so much of its budget in real tokens."""

CountText = Callable[[str], int]

_TIKTOKEN = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
            r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
        ),
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
    ),
}


def read_texts() -> dict[str, list[str]]:
    """Return the texts by kind."""
    texts: dict[str, list[str]] = json.loads((DATA / "texts.json").read_text("utf-8"))
    return texts


def read_counts() -> dict[str, dict[str, list[int]]]:
    """Return the real tokens of each text, by vocabulary and kind."""
    counts: dict[str, dict[str, list[int]]] = json.loads((DATA / "counts.json").read_text("utf-8"))
    return counts


# -- The estimate beside seven vocabularies -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is counted for the texts of a kind, as a share of real tokens.

    Attributes:
        kind: The kind.
        least: By the vocabulary that takes most.
        most: By the one that takes fewest.
        characters: Four characters a token instead, by the vocabulary that takes most.
    """

    kind: str
    least: float
    most: float
    characters: float


def compare() -> list[Comparison]:
    """Return how the estimate compares, kind by kind."""
    counts = read_counts()
    found: list[Comparison] = []
    for kind, texts in read_texts().items():
        real = [sum(by_kind[kind]) for by_kind in counts.values()]
        ours = sum(map(count_text_tokens, texts))
        plain = sum(-(-len(text) // 4) for text in texts)
        found.append(Comparison(kind, ours / max(real), ours / min(real), plain / max(real)))
    return found


# -- Chats with a provider that reports usage -----------------------------------------------------


class ReportingModel(BaseChatModel):
    """Answers with the same text and reports what it read."""

    model_name: str = "scripted"
    count_text: Any
    read: list[int]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's signature
        run_manager: Any = None,  # noqa: ARG002
        **_: Any,
    ) -> ChatResult:
        tokens = count_messages(messages, self.count_text)
        self.read.append(tokens)
        usage = {"input_tokens": tokens, "output_tokens": 2, "total_tokens": tokens + 2}
        reply = AIMessage("Noted.", usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def count_messages(messages: Sequence[BaseMessage], count: CountText) -> int:
    """Return the real tokens of messages, with a frame for each."""
    texts = [text for message in messages for text in list_counted(message)[0]]
    return TOKENS_PER_MESSAGE * len(messages) + sum(map(count, texts))


@dataclass(frozen=True, slots=True)
class Chat:
    """What the requests of a chat took, as shares of the budget.

    Attributes:
        kind: What was said.
        vocabulary: By which the provider counts.
        most: The largest request.
        last: The last one.
    """

    kind: str
    vocabulary: str
    most: float
    last: float


def play(kind: str, texts: Sequence[str], name: str, count: CountText, options: Any) -> Chat:
    """Return what a chat of one kind takes."""
    model = ReportingModel(count_text=count, read=[])
    with ConversationMemory.open(":memory:") as memory:
        chain = memory.wrap(model, recall_tokens=200, context_tokens=options.budget)
        for number in range(options.turns):
            said = f"{texts[number % len(texts)]} {texts[(number + 1) % len(texts)]}"
            chain.invoke(said, {"configurable": {"thread_id": "t", "user_id": "u"}})
    return Chat(kind, name, max(model.read) / options.budget, model.read[-1] / options.budget)


def load_vocabularies() -> Iterator[tuple[str, CountText]]:
    """Yield the vocabularies that are installed, by name."""
    llama = _find_file("wordllama", "tokenizers/l2_supercat_tokenizer_config.json")
    if llama is not None:
        yield "llama 2", _load_tokenizer(llama)
    folder = "litellm_core_utils/tokenizers"
    for name, file in (("claude (2023)", "anthropic"), ("deepseek", "deepseek")):
        path = _find_file("litellm", f"{folder}/{file}_tokenizer.json")
        if path is not None:
            yield name, _load_tokenizer(path)
    for name, (file, pattern) in _TIKTOKEN.items():
        path = _find_file("litellm", f"{folder}/{file}")
        if path is not None and importlib.util.find_spec("tiktoken") is not None:
            yield name, _load_ranks(name, path, pattern)


def _find_file(package: str, name: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    return next((path for place in places if (path := Path(place) / name).exists()), None)


def _load_tokenizer(path: Path) -> CountText:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _load_ranks(name: str, path: Path, pattern: str) -> CountText:
    tiktoken: Any = importlib.import_module("tiktoken")
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(encoding.encode_ordinary(text))


# -- The report -----------------------------------------------------------------------------------


def print_comparisons(found: Sequence[Comparison]) -> None:
    print(f"{'counted : real':24}{'least':>8}{'most':>8}{'characters / 4':>18}")
    for one in found:
        print(f"  {one.kind:22}{one.least:8.2f}{one.most:8.2f}{one.characters:18.2f}")


def print_chats(chats: Sequence[Chat]) -> None:
    names = list(dict.fromkeys(chat.vocabulary for chat in chats))
    print("\nreal tokens : budget, most / last request")
    print(" " * 24 + "".join(f"{name:>16}" for name in names))
    for kind in dict.fromkeys(chat.kind for chat in chats):
        shown = [f"{one.most:.2f} / {one.last:.2f}" for one in chats if one.kind == kind]
        print(f"  {kind:22}" + "".join(f"{text:>16}" for text in shown))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables and the bars; return 1 if one is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--budget", type=int, default=2000)
    options = parser.parse_args(arguments)
    found = compare()
    print_comparisons(found)
    chats = [
        play(kind, texts, name, count, options)
        for name, count in load_vocabularies()
        for kind, texts in read_texts().items()
    ]
    print_chats(chats)
    least, most = min(one.least for one in found), max(chat.most for chat in chats)
    print("\nbars")
    print(f"  counted : real, least   {least:10.2f}  at least {LEAST}  {_judge(least >= LEAST)}")
    print(
        f"  real : budget, most     {most:10.2f}  at most {MOST_OVER}   {_judge(most <= MOST_OVER)}"
    )
    return 0 if least >= LEAST and most <= MOST_OVER else 1


def _judge(is_met: bool) -> str:
    return "ok" if is_met else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
