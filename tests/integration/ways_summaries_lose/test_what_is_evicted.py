"""What leaves the view without having been told: the question, half a tool loop, a long middle."""

from langchain_core.messages import AIMessage, ToolMessage
from scripted_chat import ScriptedChatModel, at
from summaries import bare_texts


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


def test_what_is_said_while_it_is_summarised_stays_whole_behind_the_summary(thread):
    thread.talk(4)

    def interrupted(request):
        thread.say("Meanwhile?", "Yes.", "And this?")
        return "They talked. " + request.transcript

    thread.summarizer.replies = [interrupted]
    assert thread.summarize(force=True)
    assert thread.shown[1:] == ["Meanwhile?", "Yes.", "And this?"]
    assert "Meanwhile" not in thread.summarizer.asked
    thread.check()


def test_a_chat_with_a_summariser_asks_its_model_with_the_summary_and_the_rest(thread):
    memory = thread.with_summarizer(thread.summarizer, summarize_when="foreground")
    model = ScriptedChatModel(replies=[lambda asked: f"Re: {asked[-1].text}"])
    chain = memory.wrap(model, recall=False)
    for number in range(12):
        chain.invoke(f"Message {number}", at())
        said = bare_texts(model.seen[-1])
        assert all(f"Message {before}" in "\n".join(said) for before in range(number + 1))
        assert len(said) <= 8
        thread.check()
    thread.check_all_was_told()
