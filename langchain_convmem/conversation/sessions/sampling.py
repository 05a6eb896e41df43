"""How the next token is chosen among all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from langchain_convmem.errors import ConfigError

__all__ = ["Sampling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is chosen.

    Attributes:
        temperature: 0 takes the likeliest token; the higher, the more even the chances.
        top_p: Of the likeliest tokens only as many as have this probability together, 0 to 1.
        top_k: Of the likeliest tokens only so many; 0: all.
        seed: The same seed, text and settings give the same reply; None: another one each time.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, is_sound in (
            ("temperature", self.temperature >= 0),
            ("top_p", 0 < self.top_p <= 1),
            ("top_k", self.top_k >= 0),
        ):
            if not is_sound:
                raise ConfigError(f"{name} cannot be {getattr(self, name)!r}")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the settings that the options of a call name.

        Raises:
            ConfigError: If there is no such setting, or it cannot be so.
        """
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise ConfigError(f"a local model knows {known}, not {unknown}")
        return cls(**options)

    def chooser(self) -> Callable[[Any], int]:
        """Return the function that chooses a token by the scores of all, a tensor of one axis."""
        import torch

        generator = torch.Generator()
        if self.seed is None:
            generator.seed()
        else:
            generator.manual_seed(self.seed)

        def choose(scores: Any) -> int:
            if not self.temperature:
                return int(scores.argmax())
            chances = self._chances(scores.float().cpu() / self.temperature)
            return int(torch.multinomial(chances, 1, generator=generator))

        return choose

    def _chances(self, scores: Any) -> Any:
        if self.top_k:
            least = scores.topk(min(self.top_k, len(scores))).values[-1]
            scores = scores.masked_fill(scores < least, float("-inf"))
        chances = scores.softmax(-1)
        if self.top_p < 1:
            ordered, places = chances.sort(descending=True)
            is_over = ordered.cumsum(-1) - ordered >= self.top_p
            chances = chances.scatter(0, places, ordered.masked_fill(is_over, 0.0))
        return chances
