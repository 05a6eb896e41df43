"""What a setting costs when it is changed, for the page of settings: time, tokens, money, quality."""

from __future__ import annotations

COSTS: dict[str, str] = {
    "TurnOptions.recall": "Most of the memory's own time in a turn.",
    "TurnOptions.recall_tokens": "Tokens in every call that finds something.",
    "TurnOptions.recall_k": "Always returns this many blocks, even unrelated ones.",
    "TurnOptions.remember": "False: the turn cannot be recalled, retried or exported.",
    "RecallSettings.cosine_only": "Misses names, numbers and codes.",
    "RecallSettings.k": "Always returns this many blocks, even unrelated ones.",
    "RecallSettings.max_tokens": "Tokens in every call that finds something.",
    "RecallSettings.threshold": "A number suits only one embedder; 0.8 finds next to nothing with most.",
    "RecallSettings.window": "Each line takes space from another match.",
    "RecallSettings.buffer_size": "Tokens in every turn, two reads and a write.",
    "SummarySettings.trigger": "A low value means more calls and fewer cached prompts.",
    "SummarySettings.keep": "Tokens in every turn.",
    "SummarySettings.max_summary_tokens": "Tokens in every later turn.",
    "SummarySettings.facts_tokens": "Tokens in every later turn.",
    "SummarySettings.tree_tokens": "Tokens in every later turn.",
    "SummarySettings.input_tokens": "Larger parts need fewer calls, but a small model loses more.",
    "SummarySettings.judge": "One call per summary.",
    "SummarySettings.token_counter": "A model's own counter may use the network.",
    "ConversationConfig.prefill_preface": "Creating the conversation takes longer; the first reply comes sooner.",
    "ConversationConfig.busy_timeout_s": "Waiting blocks the caller's thread.",
}
