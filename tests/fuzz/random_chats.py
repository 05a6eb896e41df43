"""Random chats as a template may meet them: sound ones, odd ones, and some that it must refuse."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_WORDS = (
    *("a", "hello", "x y", "Zoë", "日本語", "🌍", "é", "  two  ", "\n", "line\nline"),
    *("1 < 2 & 'q'", "{{ 7 * 7 }}", "{% raw %}", "<|im_end|>", "</think>", "<think>hm</think>"),
    *('{"k": 1}', "\u2028"),
)
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Finds <{name}> & 'more' æ",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Name"}},
                "required": ["city"],
            },
        },
    }
    for name in ("weather", "clock")
]
_VALUES: dict[str, tuple[Any, ...]] = {
    "add_vision_id": (True, False),
    "date_string": ("26 Jul 2024",),
    "documents": ([{"title": "t", "text": "d", "contents": "d"}],),
    "enable_thinking": (True, False),
    "keep_past_thinking": (True, False),
    "preserve_thinking": (True, False),
    "reasoning_effort": ("low", "high"),
    "thinking": (True, False),
    "truncate_history_thinking": (True, False),
}
"""Variables that real templates know, and what they may be."""


@dataclass
class Turn:
    """What is fed at once.

    Attributes:
        messages: What is new.
        extra: Variables of this turn.
        prompt: The variable `add_generation_prompt`.
        reply: What the model writes then.
        detour: What happens to the session before: nothing, a way back to this share of its
            text, a turn on a copy, or half of the last message (`"ahead"`).
    """

    messages: list[dict[str, Any]]
    extra: dict[str, Any] = field(default_factory=dict)
    prompt: bool = True
    reply: str = ""
    detour: float | str | None = None


def random_chat(rng: random.Random) -> tuple[dict[str, Any], list[Turn]]:
    """Return the variables of a chat and its turns."""
    style = rng.choice(("text", "text", "parts", "mixed"))
    tidy = rng.random() < 0.35  # many templates refuse anything else
    base = _some(rng, 0.15)
    base["tools"] = rng.choice((None, None, _TOOLS[:1], _TOOLS))
    base["bos_token"], base["eos_token"] = "<s>", "</s>"
    first = {"role": "user", "content": _content(rng, style)}
    turns = [Turn([first] if tidy else list(_opening(rng, style)), reply=_text(rng))]
    for _ in range(rng.randint(1, 7)):
        exchange = _tidy_exchange if tidy else _exchange
        turns.append(Turn(list(exchange(rng, style, turns[-1].reply))))
        turn = turns[-1]
        turn.reply = rng.choice(
            ("", _text(rng), f"<think>\n{_text(rng)}\n</think>\n\n{_text(rng)}")
        )
        turn.prompt = rng.random() > 0.07
        turn.extra = _some(rng, 0.3) if rng.random() < 0.1 else {}
        turn.detour = rng.choice((None,) * 8 + ("copy", "ahead", "ahead", rng.random()))
    return base, turns


def _some(rng: random.Random, share: float) -> dict[str, Any]:
    return {name: rng.choice(one) for name, one in _VALUES.items() if rng.random() < share}


def _text(rng: random.Random) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(rng.choice((1, 1, 2, 5))))


def _content(rng: random.Random, style: str, *, media: bool = False) -> Any:
    kind = rng.choice(("text", "parts")) if style == "mixed" else style
    if kind == "text":
        return _text(rng) if rng.random() > 0.03 else rng.choice(("", None))
    parts = [{"type": "text", "text": _text(rng)} for _ in range(rng.choice((1, 1, 2)))]
    if media and rng.random() < 0.3:
        parts.insert(rng.randrange(2), {"type": "image"})
    return parts


def _opening(rng: random.Random, style: str) -> Iterator[dict[str, Any]]:
    if rng.random() < 0.5:
        yield {"role": "system", "content": _content(rng, style)}
    if rng.random() < 0.1:
        yield {"role": "developer", "content": _content(rng, style)}


def _exchange(rng: random.Random, style: str, said: str) -> Iterator[dict[str, Any]]:
    """Yield the answer to the turn before, then what comes next."""
    calls = rng.random() < 0.25
    if said or rng.random() < 0.9:
        yield _answer(rng, style, said, calls=calls)
    if calls:
        for name in rng.sample(("weather", "clock"), rng.choice((1, 1, 2))):
            content = rng.choice((_text(rng), '{"t": 4}'))
            yield {"role": "tool", "content": content, "name": name, "tool_call_id": "call00001"}
        return
    if rng.random() < 0.05:
        odd = rng.choice(("system", "developer", "user", "ipython", "critic"))
        yield {"role": odd, "content": _content(rng, style)}
    yield {"role": "user", "content": _content(rng, style, media=True)}


def _tidy_exchange(rng: random.Random, style: str, said: str) -> Iterator[dict[str, Any]]:
    in_parts = style == "parts"
    yield {"role": "assistant", "content": [{"type": "text", "text": said}] if in_parts else said}
    yield {"role": "user", "content": _content(rng, style, media=in_parts)}


def _answer(rng: random.Random, style: str, said: str, *, calls: bool) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": said if rng.random() < 0.5 else _content(rng, style),
    }
    if rng.random() < 0.3:
        thought = _text(rng)
        message |= {"reasoning_content": thought, "thinking": thought}
    if calls:
        message["tool_calls"] = [
            {
                "type": "function",
                "id": "call00001",
                "function": {
                    "name": rng.choice(("weather", "clock")),
                    "arguments": rng.choice(({"city": _text(rng), "n": 1}, {}, '{"city": "A"}')),
                },
            }
            for _ in range(rng.choice((1, 1, 2)))
        ]
        message["content"] = rng.choice(("", message["content"]))
    return message
