import pytest
from host_promises import kept_by_all
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import at
from turn_hosts import given

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import BudgetError, ConfigError
from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.summarizing import SummarySettings
from langchain_convmem.views.messages import count_tokens

ASKED = "What is my bicycle like?"


def _given_by_host_and_call(host, run, memory, model, **options):
    """Return what a model gets where the host sets options; the same where a call does."""
    run(host.app(memory, model, **options), ASKED, at())
    of_host = given(model)
    memory.history("t", user_id="ana").undo()
    run(host.app(memory, model), ASKED, at(**options))
    assert given(model) == of_host
    return of_host


@kept_by_all("defaults")
def test_without_options_a_model_gets_the_thread_and_lines_of_others(host, run, told, model):
    run(host.app(told, model), ASKED, at())
    assert "My name is Ana." in given(model)
    assert given(model).count("My bicycle is") == 3


@kept_by_all("recall")
def test_recall_is_turned_off(host, run, told, model):
    text = _given_by_host_and_call(host, run, told, model, recall=False)
    assert "My bicycle is" not in text


@kept_by_all("recall_tokens")
def test_a_budget_holds_for_the_recalled_text(host, run, told, model):
    small = _given_by_host_and_call(host, run, told, model, recall_tokens=80)
    assert small.count("My bicycle is") == 1


@kept_by_all("recall_k")
def test_a_number_of_blocks_is_what_is_recalled(host, run, told, model):
    text = _given_by_host_and_call(host, run, told, model, recall_k=2)
    assert text.count("My bicycle is") == 2
    run(host.app(told, model, recall_k=1), ASKED, at("u", recall_tokens=1000))
    assert given(model).count("My bicycle is") == 3, "a budget of the call replaces the number"


@kept_by_all("recall_place")
def test_recalled_lines_stand_in_the_system_message_where_that_is_asked_for(host, run, told, model):
    text = _given_by_host_and_call(host, run, told, model, recall_place="system")
    assert text.count("My bicycle is") == 3
    first, *middle, last = model.seen[-1]
    assert first.type == "system"
    assert "<recalled>" in first.text
    assert last.text == ASKED
    assert all(one.type != "system" for one in middle)
    with pytest.raises(ConfigError, match="'user' or 'system', got 'top'"):
        run(host.app(told, model, recall_place="top"), ASKED, at())


@kept_by_all("history_tokens")
def test_the_budget_of_the_history_leaves_out_old_exchanges(host, run, told, model):
    run(host.app(told, model, recall=False, history_tokens=0), ASKED, at())
    assert given(model) == ASKED
    told.history("t", user_id="ana").undo()
    _given_by_host_and_call(host, run, told, model, history_tokens=0)


@kept_by_all("context_tokens")
def test_one_budget_holds_for_all_that_a_model_gets(host, run, told, model):
    text = _given_by_host_and_call(host, run, told, model, context_tokens=300)
    assert len(text) // 4 <= 300
    assert 0 < text.count("My bicycle is") < 3


@kept_by_all("reserved_tokens")
def test_what_is_reserved_is_left_free(host, run, told, model):
    options = {"context_tokens": 300, "reserved_tokens": 250}
    text = _given_by_host_and_call(host, run, told, model, **options)
    assert len(text) // 4 <= 50


@kept_by_all("profile")
def test_messages_keep_the_rules_of_the_profile(host, run, memory, model):
    talk = [HumanMessage("Hello", name="Eva"), AIMessage("Hi."), HumanMessage("Hi", name="Tom")]
    memory.add_messages([*talk, AIMessage("Hi.")], thread_id="t", user_id="ana")
    run(host.app(memory, model, recall=False, provider="openai"), "Who is here?", at())
    assert [one.name for one in model.seen[-1] if one.type == "human"][:2] == ["Eva", "Tom"]
    assert "Eva" not in given(model)
    run(host.app(memory, model, recall=False, provider="anthropic"), "And now?", at())
    assert "Eva" in given(model), "where names are not sent, the text says who speaks"


@kept_by_all("profile_tokens")
@pytest.mark.parametrize("place", ["host", "call"])
def test_what_is_known_of_the_user_stands_in_the_system_messages(host, run, place, memory, model):
    said = [HumanMessage("I'm vegetarian."), HumanMessage("Always answer in metric units.")]
    memory.add_messages(said, thread_id="earlier", user_id="ana")
    options = {"profile_tokens": 150}
    app = host.app(memory, model, recall=False, **(options if place == "host" else {}))
    config = at(**options) if place == "call" else at()
    run(app, "Hello?", config)
    first = model.seen[-1][0]
    assert first.type == "system"
    assert "<profile>" in first.text
    assert "I'm vegetarian." in first.text
    assert "<profile>" not in str(memory.history("t", user_id="ana").entries)
    memory.add_messages([HumanMessage("I live in Rome.")], thread_id="other", user_id="ana")
    run(app, "And now?", config)
    assert model.seen[-1][0].text == first.text, "the prefix stays as it is"
    profile = memory.profile("ana")
    profile.retract(profile.list_kind("health")[0])
    run(app, "And then?", config)
    assert "I'm vegetarian." not in given(model)
    run(app, "And last?", at(profile_tokens=0))
    assert "<profile>" not in given(model)


@kept_by_all("remember")
@pytest.mark.parametrize("place", ["host", "call"])
def test_a_turn_that_is_not_to_be_remembered_leaves_nothing(host, run, place, told, model):
    key = told.history("t", user_id="ana").entries[0].key
    before = told.log.entries(key)
    options = {"remember": False}
    app = host.app(told, model, **(options if place == "host" else {}))
    run(app, "My code is 1234.", at(**options) if place == "call" else at())
    assert "My code is 1234." in given(model)
    assert told.log.entries(key) == before


REFUSED = {
    "an unknown option": ({"memory": {"recal": False}}, "no option 'recal'; it has recall, "),
    "text for a switch": ({"memory": {"recall": "no"}}, "recall must be True or False, got 'no'"),
    "a switch for a number": ({"memory": {"recall_k": True}}, "recall_k must be a whole number"),
    "a number below one": ({"memory": {"recall_tokens": 0}}, "at least 1, got 0"),
    "something else": ({"memory": "off"}, "must be a map of options .*, got 'off'"),
    "a budget in the wrong place": ({"recall_tokens": 9}, "'recall_tokens'.* not read; .*memory"),
    "a number in the wrong place": ({"recall_k": 2}, "'recall_k'.* not read; .*memory"),
    "a switch in the wrong place": ({"recall": False}, "'recall'.* not read; .*memory"),
    "what is not to be stored": ({"remember": False}, "'remember'.* not read; .*memory"),
}


@kept_by_all("refused options")
def test_what_a_call_cannot_set_is_refused_and_nothing_stored(host, run, memory, model):
    app = host.app(memory, model)
    for configurable, words in REFUSED.values():
        config = {"configurable": {**at("new")["configurable"], **configurable}}
        with pytest.raises(ConfigError, match=words):
            run(app, "Hello", config)
    assert memory.history("new", user_id="ana").entries == []
    assert model.seen == []


@kept_by_all("refused options")
@pytest.mark.parametrize("option", [{"recall_k": 0}, {"history_tokens": -1}, {"recall": "no"}])
def test_what_a_host_cannot_set_is_refused_when_it_is_made(host, option, memory, model):
    with pytest.raises(ConfigError, match=next(iter(option))):
        host.app(memory, model, **option).invoke("Hello", at())
    assert model.seen == []


@kept_by_all("too small for summaries")
@pytest.mark.parametrize("options", [{"history_tokens": 50}, {"context_tokens": 600}])
def test_threads_are_summarised_before_a_small_budget_leaves_something_out(
    host, run, options, model
):
    settings = SummarySettings(trigger=("tokens", 5000))
    summarising = {"summarizer": ExtractiveSummarizer(), "summary_settings": settings}
    with ConversationMemory.open(":memory:", **summarising) as memory:
        app = host.app(memory, model, **options)
        for number in range(12):
            run(app, f"Number {number} lives on a street of that name. {'So it is. ' * 20}", at())
        assert memory.flush(30)
        assert memory.history("t", user_id="ana").last_summary is not None


@kept_by_all("too large a question")
def test_a_question_larger_than_the_budget_is_shown_cut_and_kept_whole(host, run, memory, model):
    asked = "word " * 1000 + "really?"
    run(host.app(memory, model, context_tokens=300), asked, at())
    assert given(model).endswith("really?")
    assert "more characters here, not shown" in given(model)
    assert count_tokens(model.seen[-1]) <= 300
    assert memory.history("t", user_id="ana").entries[0].message.text == asked


@kept_by_all("no room at all")
def test_a_budget_that_holds_nothing_of_a_question_is_an_error(host, run, memory, model):
    with pytest.raises(BudgetError):
        run(host.app(memory, model, context_tokens=20), "word " * 100, at())
    assert model.seen == []


@kept_by_all("unanswered before")
def test_what_was_never_answered_does_not_block_a_thread(host, run, memory, model):
    memory.add_messages([HumanMessage("lost " * 300)], thread_id="t", user_id="ana")
    run(host.app(memory, model, recall=False, context_tokens=60), "Hello?", at())
    assert given(model) == "Hello?"


@kept_by_all("other names")
def test_names_that_belong_to_a_model_are_left_to_it(host, run, memory, model):
    run(host.app(memory, model), "Hello", at(max_tokens=9, k="top", temperature=0.1))
    assert model.asked[-1].endswith("Hello")
