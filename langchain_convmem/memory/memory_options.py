"""The options of a memory, whichever way it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from langchain_core.documents import BaseDocumentCompressor

    from langchain_convmem.memory.summarizing import SummarizeWhen
    from langchain_convmem.recall import DialogRecall, RecallSettings
    from langchain_convmem.recall.embedder_choice import Embedder
    from langchain_convmem.recall.hooks import Rewriter
    from langchain_convmem.summarizing import SummarySettings
    from langchain_convmem.summarizing.summarizers import SummarizerLike
    from langchain_convmem.views.drafting import WriteHook

__all__ = ["MemoryOptions"]


class MemoryOptions(TypedDict, total=False):
    """What a memory is made of besides its log; each may be left out.

    Attributes:
        embeddings: Any LangChain embeddings. `"auto"` (the default; None is the same) is one that
            comes with the package and needs neither key nor network: for new users the sentence
            encoder, where its weights are installed, else the static model; users of whom vectors
            are stored keep theirs until `reindex`.
        settings: How lines are recalled; None is the default of `RecallSettings`.
        before_write: Gets a copy of each message before it is stored or embedded, and returns what
            to store, or None to store nothing of it; see `WriteHook`. It stands before every way
            in: added and wrapped messages, edits, summaries and imports, and before the questions
            that are recalled with. None stores every message as it is.
        rewriter: Makes of a question what to search for; see `LineRecall`, as for the next.
        reranker: Puts the lines that were found in an order of its own.
        line_recall: Finds lines instead of a `LineRecall` made of the above, over the same log:
            such as `integrations.VectorStoreRecall`. Questions pass the write hook first.
        summarizer: Writes the summaries that take the place of what was said long ago: a chat
            model, another Runnable or function of messages, or the model-free
            `offline.ExtractiveSummarizer()`. None: nothing is ever summarised.
        summary_settings: When a thread is compacted, and how far.
        summarize_when: By a worker thread after the turn (`"background"`, the default); within the
            turn (`"foreground"`), for scripts; or by whoever a function tells, given the
            `ThreadKey` of a thread that is due, such as a queue whose worker calls `summarize`.
    """

    embeddings: Embedder
    settings: RecallSettings | None
    before_write: WriteHook | None
    rewriter: Rewriter | None
    reranker: BaseDocumentCompressor | None
    line_recall: DialogRecall | None
    summarizer: SummarizerLike | None
    summary_settings: SummarySettings | None
    summarize_when: SummarizeWhen
