"""What is no summary is named as what it is, and named without being quoted."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import ScriptedChatModel

from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.summarizing.gates import find_fault, remove_reasoning

LINES = ["Mila flies to Porto on 3 May.", "Noted.", "The booking is QX7R2P.", "Fine."]
GOOD = "Mila flies to Porto on 3 May, booking QX7R2P."
COVERED = " ".join(LINES)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("...", "it says nothing"),
        ("I'm sorry, but I can't help with that.", "it is a refusal"),
        ('{"name": "search", "arguments": {}}', "it is a call of a tool"),
        ('```json\n[{"name": "search", "arguments": {}}]\n```', "it is a call of a tool"),
        ('search(query="Porto")', "it is a call of a tool"),
        ("word " * 100, "it is longer than what it covers"),
        (GOOD, ""),
        ("word " * 80, ""),
        ("I can't help worrying about the flight.", ""),
        ("As an AI researcher, I fly to Porto.", ""),
        ('{"name": "Mila", "flight": "QX7R2P"}', ""),
        ("Porto(cancelled)", ""),
        ("[" * 10_000, "it says nothing"),
        ("[" * 300 + "1", ""),
    ],
    ids=lambda text: str(text)[:20],
)
def test_each_kind_of_fault_has_its_name(text, fault):
    assert find_fault(text, COVERED) == fault


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (f"<think>Hm.</think>\n{GOOD}", GOOD),
        (f"<think>\nA\n</think>\n<reflection>B</reflection>\n{GOOD}", GOOD),
        (f"<thinking>A <reflection>B</reflection>\nC\n</thinking>\n{GOOD}", GOOD),
        (f"Hm.\n</think>\n\n{GOOD}", GOOD),
        (f"{GOOD}\n<think>Was that all?", GOOD),
        ("<think>Hm.", ""),
        (f"[THINK]Hm.[/THINK]{GOOD}", GOOD),
        (
            "Use <think> first, then </think> and go on.",
            "Use <think> first, then </think> and go on.",
        ),
        (f"```text\n{GOOD}\n```", f"```text\n{GOOD}\n```"),
    ],
)
def test_reasoning_is_removed_and_nothing_else(answer, left):
    assert remove_reasoning(answer) == left


BLOCKED = {"category": "X", "probability": "HIGH", "blocked": True}
SIGNS = [
    *({"response_metadata": {"finish_reason": reason}} for reason in (
        "content_filter", "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
        "tool_calls", "length", "MALFORMED_FUNCTION_CALL",
    )),
    *({"response_metadata": {"stop_reason": reason}} for reason in (
        "refusal", "tool_use", "max_tokens",
    )),
    *({"response_metadata": {"stopReason": reason}} for reason in (
        "guardrail_intervened", "content_filtered",
    )),
    {"response_metadata": {"incomplete_details": {"reason": "content_filter"}}},
    {"response_metadata": {"prompt_feedback": {"block_reason": "SAFETY"}}},
    {"response_metadata": {"safety_ratings": [BLOCKED]}},
    {"additional_kwargs": {"refusal": "I can't help with that."}},
    {"content": [{"type": "refusal", "refusal": "I can't help with that."}]},
    {"tool_calls": [{"name": "search", "args": {"q": "x"}, "id": "1"}]},
]  # fmt: skip


def remember(model, **settings):
    options = SummarySettings(**settings)
    memory = ConversationMemory(InMemoryLog(), summarizer=model, summary_settings=options)
    said = [(HumanMessage, AIMessage)[number % 2](line) for number, line in enumerate(LINES)]
    memory.add_messages(said, thread_id="t")
    return memory


@pytest.mark.parametrize("sign", SIGNS, ids=str)
def test_what_a_provider_says_of_its_answer_counts(sign):
    answer = AIMessage(**{"content": GOOD, **sign})
    with remember(ScriptedChatModel(replies=[answer])) as memory:
        report = memory.summarize("t", force=True)
        assert report.outcome == "failed"
        assert report.problem
        assert "Mila" not in report.problem
        assert memory.history("t").last_summary is None


def test_a_refused_summary_leaves_the_thread_at_rest_and_shown_whole():
    model = ScriptedChatModel(replies=["I'm sorry, but I can't help with that."])
    options = {"trigger": ("messages", 4), "keep": ("messages", 2), "first_pause_s": 3600}
    with remember(model, **options) as memory:
        assert [memory.summarize("t").outcome for _ in range(2)] == ["failed", "resting"]
        assert [one.text for one in memory.history("t").messages] == LINES
