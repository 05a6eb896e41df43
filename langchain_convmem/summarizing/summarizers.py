"""The border to foreign code: any chat model, Runnable or function that summarises.

Whatever they raise or return becomes a text or a `SummaryError`, here and nowhere else.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, RunnableSequence

from langchain_convmem.errors import ConfigError, SummaryError
from langchain_convmem.protocols import INTERNAL_TAGS, Summarizer
from langchain_convmem.records import SummaryRequest, ThreadKey
from langchain_convmem.steps import Step, Steps
from langchain_convmem.summarizing.prompt import request_messages
from langchain_convmem.views.finish_reasons import cut_off_reason

__all__ = ["ModelSummarizer", "SummarizerLike", "as_summarizer", "called", "summary_steps"]

_logger = logging.getLogger("langchain_convmem")

SummarizerLike = Summarizer | Runnable[Any, Any] | Callable[..., Any]
"""What may summarise: a `Summarizer`; a chat model or other Runnable, or a plain or async function,
that gets messages and returns a message or text."""

_CONFIG: RunnableConfig = {
    "run_name": "convmem_summary",
    "tags": list(INTERNAL_TAGS),
    "metadata": {"lc_source": "convmem"},
}


def as_summarizer(value: SummarizerLike) -> Summarizer:
    """Return what may summarise as a `Summarizer`.

    Raises:
        ConfigError: If it can summarise nothing.
    """
    is_type = isinstance(value, type)
    if isinstance(value, Summarizer) and not is_type:
        return value
    if isinstance(value, Runnable):
        return ModelSummarizer(value)
    if inspect.iscoroutinefunction(value):
        return ModelSummarizer(RunnableLambda(partial(_in_own_loop, value), afunc=value))
    if callable(value) and not is_type:
        return ModelSummarizer(RunnableLambda(value))
    msg = (
        "a summarizer is a chat model, another Runnable or a function of messages, or has "
        f"summarize() and asummarize(); got {value!r:.80}"
    )
    raise ConfigError(msg)


def _in_own_loop(function: Callable[..., Coroutine[Any, Any, Any]], asked: Any) -> Any:
    """Call an async function from synchronous code."""
    answer = function(asked)
    try:
        return asyncio.run(answer)
    finally:
        answer.close()  # where a loop runs already, it was never begun


class ModelSummarizer:
    """Asks a chat model, or any Runnable that takes messages and returns a message or text.

    Thread-safe as the Runnable is.
    """

    def __init__(self, runnable: Runnable[Any, Any], *, name: str | None = None) -> None:
        """Take the Runnable.

        Args:
            runnable: Gets a system message with instructions and a human message with the text.
            name: What stands with its summaries; by default the name of the model inside.
        """
        self._runnable = runnable
        self._name = name or _model_name(runnable)

    @property
    def name(self) -> str:
        """What stands with its summaries."""
        return self._name

    def __repr__(self) -> str:
        return f"ModelSummarizer({self._name!r})"

    def summarize(self, request: SummaryRequest) -> str:
        """Return the model's summary; see `Summarizer.summarize`."""
        return _text_of(self._runnable.invoke(request_messages(request), _CONFIG))

    async def asummarize(self, request: SummaryRequest) -> str:
        """Return the model's summary, without blocking the event loop."""
        return _text_of(await self._runnable.ainvoke(request_messages(request), _CONFIG))


def _model_name(runnable: Runnable[Any, Any]) -> str:
    if isinstance(runnable, RunnableSequence):
        models = [part for part in runnable.steps if isinstance(part, BaseLanguageModel)]
        runnable = models[0] if models else runnable.last
    for field in ("model_name", "model", "model_id"):
        name = getattr(runnable, field, None)
        if isinstance(name, str) and name:
            return name
    return type(runnable).__name__


def _text_of(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    if not isinstance(answer, BaseMessage):
        msg = f"the summarizer returned a {type(answer).__name__}, not a message or text"
        raise SummaryError(msg)
    reason = cut_off_reason(answer.response_metadata)
    if reason is not None:
        msg = f"the summary was cut off by its model ({reason}); raise the model's output limit"
        raise SummaryError(msg)
    return str(answer.text)


def summary_steps(summarizer: Summarizer, request: SummaryRequest) -> Steps[str]:
    """Return the text that a summariser writes, without the blanks around it.

    Raises:
        SummaryError: If it fails, or says nothing.
    """
    try:
        answer = yield Step(
            lambda: summarizer.summarize(request),
            lambda: summarizer.asummarize(request),
        )
    except SummaryError:
        raise
    except Exception as error:
        msg = f"{summarizer.name} failed to summarise: {type(error).__name__}: {error}"
        raise SummaryError(msg) from error
    if not isinstance(answer, str) or not answer.strip():
        raise SummaryError(f"{summarizer.name} returned no summary: {answer!r:.80}")
    return answer.strip()


def called(on_due: Callable[[ThreadKey], object], key: ThreadKey) -> None:
    """Tell the application that a thread is due; if that fails, the next turn tells it again."""
    try:
        on_due(key)
    except Exception:
        _logger.exception("could not hand over the compaction of thread %r", key.thread_id)
