"""Tokens that a local model reads in each turn of a conversation, with and without a kept cache.

A random model of a few thousand weights by default; `--model PATH` measures a real one.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from benchmarks.tiny_model import tiny_model, tiny_tokenizer
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.local import LocalEngine, LocalSession

QUESTION = "Where did I park the car on day {}? I went to the market, and then by train to town."


class Turn(NamedTuple):
    """What one turn cost before the first token came: tokens and seconds."""

    tokens: int
    seconds: float


def kept_turns(engine: LocalEngine, turns: int, reply_tokens: int) -> tuple[list[Turn], list[str]]:
    """Return the cost of turns in one session that is sent what is new, and the replies."""
    template = engine.template or ChatTemplate.from_builtin("chatml")
    session, state = engine.create_session(), template.start()
    costs: list[Turn] = []
    replies: list[str] = []
    new: list[BaseMessage] = []
    for number in range(turns):
        increment = state.feed([*new, HumanMessage(QUESTION.format(number))])
        if increment.diverged:
            session.reset()
            text = state.read_text()
        else:
            text = increment.text
        costs.append(_prefilled(session, text))
        replies.append("".join(session.decode(max_tokens=reply_tokens)))
        state.record_reply(replies[-1])
        new = [AIMessage(replies[-1])]
    return costs, replies


def whole_turns(engine: LocalEngine, replies: list[str]) -> list[Turn]:
    """Return the cost of the same turns, each in a new session that reads the whole prompt."""
    template = engine.template or ChatTemplate.from_builtin("chatml")
    costs: list[Turn] = []
    messages: list[BaseMessage] = []
    for number, reply in enumerate(replies):
        messages.append(HumanMessage(QUESTION.format(number)))
        costs.append(_prefilled(engine.create_session(), template.render(messages)))
        messages.append(AIMessage(reply))
    return costs


def _prefilled(session: LocalSession, text: str) -> Turn:
    read, started = session.tokens_read, time.perf_counter()
    session.prefill([text])
    return Turn(session.tokens_read - read, time.perf_counter() - started)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a model's folder; by default a random one is made")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--reply-tokens", type=int, default=24)
    given = parser.parse_args()
    tokenizer = None if given.model else tiny_tokenizer()
    engine = LocalEngine(given.model or tiny_model(tokenizer), tokenizer)
    engine.create_session().prefill(["Warm up."])
    kept, replies = kept_turns(engine, given.turns, given.reply_tokens)
    whole = whole_turns(engine, replies)
    print("tokens read before a reply      kept cache      whole prompt")
    for number in sorted({1, 2, 3, 10, 20, given.turns}):
        if number <= given.turns:
            one, other = kept[number - 1].tokens, whole[number - 1].tokens
            print(f"turn {number:<3} {one:>33} {other:>17}")
    read, read_whole = sum(turn.tokens for turn in kept), sum(turn.tokens for turn in whole)
    print(f"all {given.turns:<3} {read:>34} {read_whole:>17}  {read_whole / read:.1f} times")
    ratio = sum(turn.seconds for turn in whole) / sum(turn.seconds for turn in kept)
    print(f"time for that: {ratio:.1f} times as long without the kept cache")


if __name__ == "__main__":
    main()
