"""What a local model keeps of the tokens it has read."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_convmem.errors import ConversationClosedError

if TYPE_CHECKING:
    from langchain_convmem.conversation.sessions.local import LocalEngine

__all__ = ["LocalCache"]

_STEP = 512
"""Most tokens that the model reads at once; other sessions get their turn in between."""


class LocalCache:
    """Keys and values of a text's first tokens, and the scores of what follows the last of them.

    Not thread-safe, but for the model, which is used by one cache at a time.
    """

    def __init__(self, engine: LocalEngine) -> None:
        """Begin with nothing."""
        self._engine = engine
        self._length = 0
        self._kept: Any = None
        self._scores: Any = None
        self.tokens_read = 0
        """How many tokens the model has worked on."""

    def copy(self) -> LocalCache:
        """Return one that grows apart from this."""
        twin = LocalCache(self._engine)
        twin._kept = copy.deepcopy(self._kept)
        twin._length, twin._scores = self._length, self._scores
        return twin

    def fill(self, ids: Sequence[int]) -> None:
        """Read those of the tokens that are new."""
        while self._length < len(ids):
            self._scores = self._read(ids[self._length : self._length + _STEP])[-1]

    def next_scores(self, ids: Sequence[int]) -> Any:
        """Return the scores of all tokens as the next one behind `ids`, which are not empty."""
        if self._length == len(ids) and self._scores is None:
            self.cut(len(ids) - 1)
        self.fill(ids)
        return self._scores

    def chance(self, ids: Sequence[int], start: int) -> float:
        """Return the logarithm of the probability of the tokens from `start` on, which is not 0."""
        total = 0.0
        scores = self.next_scores(ids[:start])
        for place in range(start, len(ids), _STEP):
            part = ids[place : place + _STEP]
            rows = [scores, *self._read(part, all_scores=True)]
            for token, row in zip(part, rows, strict=False):
                total += float(row.float().log_softmax(-1)[token])
            scores = rows[-1]
        return total

    def cut(self, length: int) -> None:
        """Forget all tokens behind the first `length`."""
        if length >= self._length:
            return
        self._scores = None
        if length and self._cropped(self._length - length):
            self._length = length
        else:
            self._kept, self._length = None, 0

    def _cropped(self, number: int) -> bool:
        """Take back the last tokens, and return whether that is possible."""
        try:
            # A negative number is how many to remove, in all versions.
            self._kept.crop(-number)
        except (AttributeError, NotImplementedError, RuntimeError, ValueError):
            return False
        return True

    def _read(self, ids: Sequence[int], *, all_scores: bool = False) -> Any:
        """Return scores for the token behind each of these, or behind the last one alone."""
        import torch
        from transformers import DynamicCache

        model = self._engine.model
        if model is None:
            raise ConversationClosedError("the engine was closed")
        last_only = {} if all_scores or not self._engine.keeps_logits else {"logits_to_keep": 1}
        with self._engine.lock, torch.no_grad():
            if self._kept is None:
                self._kept = DynamicCache(config=model.config)
            told = model(
                input_ids=torch.tensor([list(ids)], device=model.device),
                past_key_values=self._kept,
                use_cache=True,
                **last_only,
            )
        self._length += len(ids)
        self.tokens_read += len(ids)
        return told.logits[0]
