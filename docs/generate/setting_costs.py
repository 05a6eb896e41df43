"""What a setting costs when it is changed, for the page of settings: time, tokens, money, quality."""

from __future__ import annotations

COSTS: dict[str, str] = {
    "TurnOptions.recall": "Most of the memory's own time in a turn.",
    "TurnOptions.recall_tokens": "Tokens of every call that finds something.",
    "TurnOptions.recall_k": "Returns so many blocks even if none is related.",
    "TurnOptions.remember": "False: the turn cannot be recalled, retried or exported.",
    "RecallSettings.cosine_only": "Misses names, numbers and codes.",
    "RecallSettings.k": "Returns so many blocks even if none is related.",
    "RecallSettings.max_tokens": "Tokens of every call that finds something.",
    "RecallSettings.threshold": "A number suits one embedder; 0.8 finds next to nothing with most.",
    "RecallSettings.window": "Each line takes the room of another hit.",
    "RecallSettings.buffer_size": "Tokens of every turn, and two reads and a write.",
    "SummarySettings.trigger": "A low mark means more calls and fewer cached prompts.",
    "SummarySettings.keep": "Tokens of every turn.",
    "SummarySettings.max_summary_tokens": "Tokens of every later turn.",
    "SummarySettings.facts_tokens": "Tokens of every later turn.",
    "SummarySettings.tree_tokens": "Tokens of every later turn.",
    "SummarySettings.input_tokens": "Larger parts need fewer calls, but a small model loses more.",
    "SummarySettings.judge": "One call per summary.",
    "SummarySettings.token_counter": "A model's own counter may call the network.",
    "ConversationConfig.prefill_preface": "Making the conversation takes longer, the first reply less.",
    "ConversationConfig.busy_timeout_s": "It holds a thread of the caller.",
}
