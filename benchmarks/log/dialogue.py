"""A deterministic dialogue of any length: 40 to 400 characters a message, in several scripts."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cache
from uuid import UUID

from langchain_core.messages import AIMessage, HumanMessage

PERIOD = 500
"""Exchanges until texts repeat, so that threads of 1,000, 5,000 and 100,000 messages end alike."""

_START_MS = 1_760_000_000_000
_WORDS = (
    "the tram to the harbour leaves at nine and we should bring the blue umbrella again",
    "können wir morgen über die Rechnung sprechen bevor der Zug nach Köln wieder ausfällt",
    "вчера вечером мы нашли ключи под старым креслом и сразу поехали на вокзал",
    "मुझे कल सुबह की बैठक के लिए नई रिपोर्ट और दो कप चाय चाहिए",
    "أين تركت مفاتيح السيارة قبل أن نسافر إلى البيت القديم قرب البحر",
    "明日の会議 資料を 送って ください 駅前の 喫茶店で 待って います",
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is said in one turn. Every call of `user` and `reply` makes a new message."""

    number: int
    question: str
    answer: str

    def user(self) -> HumanMessage:
        return HumanMessage(self.question)

    def reply(self) -> AIMessage:
        """Return a reply with what a provider's integration sets: an id, usage, the model."""
        read, wrote = len(self.question) // 4 + 800, len(self.answer) // 4
        return AIMessage(
            self.answer,
            id=f"lc_run--{UUID(int=random.Random(self.number).getrandbits(128))}",
            usage_metadata={
                "input_tokens": read,
                "output_tokens": wrote,
                "total_tokens": read + wrote,
            },
            response_metadata={"model_name": "gpt-5-mini", "finish_reason": "stop"},
        )

    def timing(self) -> dict[str, int]:
        """Return the times that a wrapped chain notes with a streamed reply."""
        start = _START_MS + 60_000 * self.number
        return {"llmStart": start, "firstToken": start + 400, "llmEnd": start + 2100}

    def payload_bytes(self) -> int:
        """Return the size of both messages and the timing as compact JSON, without defaults."""
        parts = [
            {"type": one.type, **one.model_dump(exclude_defaults=True)}
            for one in (self.user(), self.reply())
        ]
        return sum(
            len(json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode())
            for part in (*parts, self.timing())
        )


@cache
def _texts() -> list[str]:
    rng = random.Random(20251)
    return [_text(rng) for _ in range(2 * PERIOD)]


def _text(rng: random.Random) -> str:
    words = rng.choice(_WORDS).split()
    size = rng.randint(40, 400)
    said = ""
    while len(said) < size:
        said += f"{rng.choice(words)} "
    return said[:size].strip() + "."


def exchange(number: int) -> Exchange:
    """Return what is said in turn `number`; the same in every run."""
    at = 2 * (number % PERIOD)
    return Exchange(number, _texts()[at], _texts()[at + 1])
