from uuid import UUID

import pytest
from host_promises import kept_by_all
from scripted_chat import at, texts
from turn_hosts import App, in_a_graph

from langchain_convmem.errors import ConfigError


@kept_by_all("no thread")
def test_a_call_names_a_thread(host, run, memory, model):
    with pytest.raises(ConfigError, match="thread_id is missing"):
        run(host.app(memory, model), "Hello", {"configurable": {"user_id": "ana"}})
    assert memory.threads("ana") == []
    assert model.seen == []


@kept_by_all("session_id")
def test_a_session_is_a_thread(host, run, memory, model):
    run(host.app(memory, model), "Hello", {"configurable": {"session_id": "s", "user_id": "ana"}})
    run(host.app(memory, model), "Again", at("s", session_id="s"))
    assert texts(memory, "s") == ["Hello", "Yes.", "Again", "Yes."]


@kept_by_all("ids")
def test_ids_need_not_be_text(host, run, memory, model):
    thread_id = UUID(int=7)
    run(host.app(memory, model), "Hello", at(thread_id, 42))
    assert texts(memory, str(thread_id), "42") == ["Hello", "Yes."]
    for config in (at(" ", "ana"), at("t", " \n")):
        with pytest.raises(ConfigError):
            run(host.app(memory, model), "Hello", config)
    assert len(model.seen) == 1


@kept_by_all("two threads")
def test_a_thread_and_another_session_are_refused(host, run, memory, model):
    with pytest.raises(ConfigError, match="thread_id 'new' and the session_id 'other'"):
        run(host.app(memory, model), "Hello", at("new", session_id="other"))
    assert memory.threads("ana") == []
    assert model.seen == []


def test_a_conversation_keeps_its_thread_whatever_thread_the_config_around_it_names(memory, model):
    talk = memory.conversation(model, thread_id="t", user_id="ana")
    talk.send_message("Hello", at("of the graph around it"))
    assert texts(memory, "t") == ["Hello", "Yes."]


def test_a_conversation_is_for_its_user_alone(memory, model):
    talk = memory.conversation(model, thread_id="t", user_id="ana")
    with pytest.raises(ConfigError, match="'ana', and this call names 'ben'"):
        talk.send_message("Hello", at("t", "ben"))
    assert texts(memory, "t") == []
    assert model.seen == []


def _in_a_graph(run, app, config, user_id):
    """Run a turn in the node of a graph whose context names a user."""
    graph = in_a_graph(app)

    class InGraph(App):
        def run(self, way, said, config):
            return getattr(graph, way)({"text": said}, config, context={"user_id": user_id})

    run(InGraph(), "Hello", config)


@kept_by_all("two users")
def test_two_users_in_one_call_are_refused(host, run, memory, model):
    with pytest.raises(ConfigError, match="'ana'"):
        _in_a_graph(run, host.app(memory, model), at("new"), "ben")
    assert [memory.threads(user_id) for user_id in ("ana", "ben")] == [[], []]
    assert model.seen == []


@kept_by_all("one user twice")
def test_the_same_user_in_both_places_is_one(host, run, memory, model):
    _in_a_graph(run, host.app(memory, model), at("new"), "ana")
    assert texts(memory, "new") == ["Hello", "Yes."]


@kept_by_all("user in the context")
def test_a_context_may_name_the_user_alone(host, run, memory, model):
    _in_a_graph(run, host.app(memory, model), at("new", None), "ana")
    assert texts(memory, "new") == ["Hello", "Yes."]
