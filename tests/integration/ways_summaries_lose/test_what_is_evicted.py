"""What leaves the view without having been told: half a tool loop."""

from langchain_core.messages import AIMessage, ToolMessage


def call(*ids):
    return AIMessage("", tool_calls=[{"name": "look", "args": {"at": i}, "id": i} for i in ids])


def test_parallel_tool_calls_are_covered_with_all_their_results_or_not_at_all(thread):
    for number in range(4):
        ids = [f"{kind}{number}" for kind in "abc"]
        results = [ToolMessage(f"saw {i}", tool_call_id=i) for i in reversed(ids)]
        thread.say(f"Look {number}", call(*ids), *results, AIMessage(f"Found {number}."))
        thread.summarize()
        thread.check()
    assert len(thread.summaries) > 1
    thread.check_all_was_told()
    for number in range(3):
        assert all(f"saw {kind}{number}" in thread.summarizer.asked for kind in "abc")
