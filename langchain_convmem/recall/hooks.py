"""The border to hooks of the application: a rewriter of questions, and a reranker of lines.

Both are somebody else's code, often a model behind a network. Whatever they raise or return, a
recall goes on without them: their failures are caught here, named in `problems` and logged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import isawaitable, iscoroutine
from typing import Any, TypeAlias

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import Runnable

from langchain_convmem.errors import ConfigError
from langchain_convmem.recall.workers import in_worker
from langchain_convmem.steps import Step, Steps, step

__all__ = ["CANDIDATE", "Rewriter", "check_hooks", "reranked", "rewritten"]

Queries: TypeAlias = "str | list[str]"
Rewriter: TypeAlias = (
    "Runnable[str, Queries] | Callable[[str], Queries] | Callable[[str], Awaitable[Queries]]"
)
"""Makes of a question the question or questions to search for."""

CANDIDATE = "candidate"
"""The key in the metadata of a reranker's documents that says which candidate each one is."""

_log = logging.getLogger("langchain_convmem")


def check_hooks(rewriter: Any, reranker: Any) -> None:
    """Refuse what can never serve as a hook.

    Raises:
        ConfigError: If it cannot; the message names it.
    """
    if rewriter is not None and not isinstance(rewriter, Runnable) and not callable(rewriter):
        msg = f"rewriter must be a Runnable or a function of a question, got {rewriter!r}"
        raise ConfigError(msg)
    if reranker is not None and not isinstance(reranker, BaseDocumentCompressor):
        msg = f"reranker must be a LangChain BaseDocumentCompressor, got {reranker!r}"
        raise ConfigError(msg)


# -- rewriting -------------------------------------------------------------------------------


def rewritten(
    rewriter: Rewriter | None, question: str
) -> Steps[tuple[tuple[str, ...], str | None]]:
    """Return what to search for instead of the question, and what went wrong, if anything did."""
    if rewriter is None:
        return (question,), None
    try:
        queries = _checked_queries((yield _asking(rewriter, question)))
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        return (question,), _problem(
            "the rewriter failed and the question is asked as it is", error
        )
    return queries, None


def _asking(rewriter: Any, question: str) -> Step:
    if isinstance(rewriter, Runnable):
        return step(rewriter, "invoke", question)
    call = partial(rewriter, question)
    return Step(lambda: _said_at_once(call()), lambda: _awaited(call))


def _said_at_once(answer: Any) -> Any:
    if iscoroutine(answer):
        # Or Python would complain later that nobody awaited it.
        answer.close()
        msg = "an asynchronous rewriter serves asynchronous recalls alone: use arecall or ainvoke"
        raise TypeError(msg)
    return answer


async def _awaited(call: Callable[[], Any]) -> Any:
    answer = await in_worker(call)
    return await answer if isawaitable(answer) else answer


def _checked_queries(answer: Any) -> tuple[str, ...]:
    queries = [answer] if isinstance(answer, str) else answer
    if not isinstance(queries, list | tuple) or not all(isinstance(one, str) for one in queries):
        msg = f"expected a text or a list of texts, got {type(answer).__name__}"
        raise TypeError(msg)
    asked = tuple(dict.fromkeys(one.strip() for one in queries if one.strip()))
    if not asked:
        raise ValueError("got nothing but blanks")
    return asked


# -- reranking -------------------------------------------------------------------------------


def reranked(
    reranker: BaseDocumentCompressor, question: str, documents: Sequence[Document]
) -> Steps[tuple[list[int] | None, str | None]]:
    """Return which documents the reranker keeps, in its order, or None and what went wrong.

    Args:
        reranker: Puts documents in order, and may leave some out.
        question: As it was asked.
        documents: Best first; which one each is, is added to their metadata.
    """
    marked = [
        Document(id=one.id, page_content=one.page_content, metadata={**one.metadata, CANDIDATE: n})
        for n, one in enumerate(documents)
    ]
    try:
        answer = yield _compressing(reranker, marked, question)
        return _checked_order(answer, len(marked)), None
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        return None, _problem("the reranker failed and lines keep their order", error)


def _compressing(
    reranker: BaseDocumentCompressor, documents: list[Document], question: str
) -> Step:
    inherited = BaseDocumentCompressor.acompress_documents
    if type(reranker).acompress_documents is not inherited:
        return step(reranker, "compress_documents", documents, question)
    # LangChain's own twin waits for the loop's executor, which the application may have filled.
    call = partial(reranker.compress_documents, documents, question)
    return Step(call, lambda: in_worker(call))


def _checked_order(answer: Any, count: int) -> list[int]:
    order = [document.metadata.get(CANDIDATE) for document in answer]
    known = [number for number in order if isinstance(number, int) and 0 <= number < count]
    if len(known) < len(order):
        msg = f"expected documents that it was given, with their metadata's {CANDIDATE!r} kept"
        raise ValueError(msg)
    return known


def _problem(what: str, error: Exception) -> str:
    problem = f"{what}: {type(error).__name__}: {error}"
    # The traceback goes to the log alone: it may show what the user wrote.
    _log.warning("%s", problem, exc_info=error)
    return problem
