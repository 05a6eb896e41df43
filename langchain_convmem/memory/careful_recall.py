"""Recall behind a write hook: a question is what somebody said, and an embedder may be another's.

Imported when recall is first asked for, since recall's own imports are heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_convmem.protocols import MessageLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Owner, Recall
from langchain_convmem.steps import Steps
from langchain_convmem.views.drafting import Drafting

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

__all__ = ["CarefulRecall"]


class CarefulRecall(LineRecall):
    """A recall that asks the write hook about each question; otherwise the same."""

    def __init__(
        self,
        log: MessageLog,
        embeddings: Embeddings | None,
        settings: RecallSettings | None,
        *,
        drafting: Drafting,
    ) -> None:
        """Create a recall over `log`; nothing is read yet."""
        super().__init__(log, embeddings, settings)
        self._drafting = drafting

    def recall_steps(self, owner: Owner, query: str, **options: Any) -> Steps[Recall]:
        """Return the steps of a recall; where the hook leaves nothing to ask, it finds nothing."""
        if isinstance(query, str) and query.strip():
            query = self._drafting.question(query)
            if not query.strip():
                return (yield from self._without_question(options))
        found: Recall = yield from super().recall_steps(owner, query, **options)
        return found

    def _without_question(self, options: Mapping[str, Any]) -> Steps[Recall]:
        if options.get("buffer") is None:
            return Recall((), ())
        known = ("buffer", "k", "max_tokens", "exclude", "settings")
        kept: Recall = yield from self.buffer_steps(
            **{name: options[name] for name in known if name in options}
        )
        return kept
