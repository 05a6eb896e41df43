"""Recall as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, SkipValidation

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.recall.options import Owners, RecallOptions, make_owners, make_scope
from langchain_convmem.recall.recall import DialogRecall
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.lines import RecalledBlock, format_iso_time

_CALL = ("k", "max_tokens", "threshold", "filter", "since", "until")
"""What a call may name with its query, each as the field of this name."""


class DialogLineRetriever(BaseRetriever):
    """Retrieves verbatim dialog lines, one `Document` per block of neighbouring lines.

    With `user_id`, it searches all threads of that user, or only one with `thread_id`. Without
    `user_id`, it searches the anonymous thread `thread_id`; with `user_ids`, all their threads. A
    call's `k` or `max_tokens` replaces both fields; its `threshold`, `filter`, `since` and `until`
    replace the fields with the same names.

    A document's `page_content` is a date header and `Speaker: text` lines in the order of the
    dialogue. Its `metadata` contains plain values: `line_ids`, `thread_id`, `user_id`, `positions`,
    `time` (ISO 8601, of the best match), `session`, `speakers`, `trust` (the distinct trust classes
    of the lines), `similarity`, `relevance`, `why`.
    """

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True
    )

    # A public field: private attributes are lost whenever LangChain makes a configured copy.
    recall: DialogRecall = Field(exclude=True, repr=False)
    """Finds the lines; shared by all copies of the retriever."""
    user_id: str | UUID | int | None = None
    """The user whose lines are searched."""
    thread_id: str | UUID | int | None = None
    """Only this thread."""
    user_ids: frozenset[str] | None = None
    """Search the lines of all these users together, instead of `user_id` and `thread_id`.

    For a bot shared by several people: the person asking sees what all of them said.
    """
    k: int | None = Field(default=None, ge=1)
    """Number of documents; fewer if there are not enough lines."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Token budget of all documents together, headers included."""
    threshold: Annotated[float, Field(ge=-1, le=1)] | Literal["auto"] | None = None
    """Cosine similarity that a match must exceed; None and -1 accept every line.

    "auto" accepts every line, too, but finds nothing if the question is related to no line.
    """
    filter: Mapping[str, Any] | None = None
    """For each name, the value that a line must have, or a list of accepted values.

    Names are `speaker`, `role`, `session`, `thread_id`, `user_id`, `trust` and the keys of a
    message's `additional_kwargs`.
    """
    since: SkipValidation[datetime | int | None] = None
    """Only lines from this time on: a datetime with a time zone, or milliseconds since the
    epoch."""
    until: SkipValidation[datetime | int | None] = None
    """Only lines before this time."""

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        **options: Any,
    ) -> list[Document]:
        del run_manager
        owners, asked = self._resolve_owners(), _read_question(query)
        found = self.recall.recall(owners, asked, **self._merge_options(options))
        return [to_document(block) for block in found.blocks]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        **options: Any,
    ) -> list[Document]:
        del run_manager
        owners, asked = self._resolve_owners(), _read_question(query)
        found = await self.recall.arecall(owners, asked, **self._merge_options(options))
        return [to_document(block) for block in found.blocks]

    def check_scope(self) -> None:
        """Refuse invalid fields.

        Raises:
            ConfigError: If a field is invalid; the message names it.
        """
        make_scope(self._resolve_owners(), filter=self.filter, since=self.since, until=self.until)

    def _resolve_owners(self) -> Owners:
        if self.user_ids is not None:
            if self.user_id is not None or self.thread_id is not None:
                msg = "user_ids stand instead of user_id and thread_id: pass one or the other"
                raise ConfigError(msg)
            return make_owners(self.user_ids)
        if self.user_id is not None:
            return Owner(user_id=str(self.user_id))
        if self.thread_id is not None:
            return Owner(thread_id=str(self.thread_id))
        msg = "a DialogLineRetriever needs a user_id, a thread_id or both, or user_ids; got none"
        raise ConfigError(msg)

    def _merge_options(self, given: Mapping[str, Any]) -> RecallOptions:
        """Return what a call asks for, where it says nothing what the fields say."""
        unknown = [name for name in given if name not in _CALL]
        if unknown:
            known = ", ".join(_CALL)
            raise TypeError(f"a call has no option {unknown[0]!r}; its options are {known}")
        named = {name: value for name, value in given.items() if value is not None}
        kept = {name: getattr(self, name) for name in _CALL}
        if named.keys() & {"k", "max_tokens"}:
            kept |= {"k": None, "max_tokens": None}
        has_both = self.user_id is not None and self.thread_id is not None
        within = ThreadKey(str(self.user_id), str(self.thread_id)) if has_both else None
        return cast("RecallOptions", {"within": within, **kept, **named})


def _read_question(query: Any) -> str:
    """Return the text to search for: a text itself, or that of the last human message."""
    if isinstance(query, str):
        return query
    messages = query if isinstance(query, list | tuple) else [query]
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return str(message.text)
    wanted = "a query must be a text, a HumanMessage or a list of messages with one"
    raise ConfigError(f"{wanted}, got {describe_value(query)}")


def to_document(block: RecalledBlock) -> Document:
    """Return a block as a LangChain `Document`."""
    best = block.matches[0]
    return Document(
        id=best.line.line_id,
        page_content=block.text,
        metadata={
            "line_ids": [line.line_id for line in block.lines],
            "thread_id": best.line.key.thread_id,
            "user_id": best.line.key.user_id,
            "positions": [line.position for line in block.lines],
            "time": format_iso_time(best.line.time_ms),
            "session": best.line.session,
            "speakers": list(dict.fromkeys(line.speaker for line in block.lines)),
            "trust": list(dict.fromkeys(line.trust for line in block.lines)),
            "similarity": block.similarity,
            "relevance": block.relevance,
            "why": list(best.why),
        },
    )
