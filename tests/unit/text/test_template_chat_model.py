import asyncio
from functools import reduce
from operator import add
from typing import Any

import pytest
from langchain_core.language_models import LLM, FakeListChatModel
from langchain_core.language_models.llms import BaseLLM
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import Generation, GenerationChunk, LLMResult
from langchain_core.tools import tool
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ChatTemplateError, ConfigError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.template_chat_model import TemplateChatModel

CALL = '<tool_call>\n{"name": "look", "arguments": {"where": "here"}}\n</tool_call>'


@tool
def look(where: str) -> str:
    """Look there."""
    return where


@tool
def listen() -> str:
    """Listen."""
    return ""


class ScriptedLLM(LLM):
    """Writes one text, whatever it reads, three characters at a time; keeps what it was sent."""

    reply: str
    sent: list[dict[str, Any]] = []  # noqa: RUF012 - pydantic copies it
    model_name: str = "scripted"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _call(self, prompt, stop=None, run_manager=None, **kwargs):
        self.sent.append({"prompt": prompt, "stop": stop, **kwargs})
        return self.reply

    def _stream(self, prompt, stop=None, run_manager=None, **kwargs):
        text = self._call(prompt, stop, **kwargs)
        for start in range(0, len(text), 3):
            yield GenerationChunk(text=text[start : start + 3])


class TellingLLM(BaseLLM):
    """Does not stream; says why it ended and how many tokens there were."""

    @property
    def _llm_type(self) -> str:
        return "telling"

    def _generate(self, prompts, stop=None, run_manager=None, *, n=1, **kwargs):
        told = {"finish_reason": "length"}
        made = [Generation(text=f"reply {i}", generation_info=told) for i in range(n)]
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        return LLMResult(generations=[made], llm_output={"token_usage": usage})


def _model(reply: str = "Level 3.", template: Any = "qwen", **options) -> TemplateChatModel:
    return TemplateChatModel(llm=ScriptedLLM(reply=reply, sent=[]), template=template, **options)


def _sent(model: TemplateChatModel) -> dict[str, Any]:
    return model.llm.sent[-1]


def test_what_the_template_reads_goes_to_it_and_the_rest_to_the_model():
    model = _model()
    model.invoke([("human", "Hi")])
    assert _sent(model)["prompt"] == ChatTemplate.from_builtin("qwen").render(["Hi"])
    model.bind(enable_thinking=False, temperature=0.5).invoke("Hi", top_k=3)
    assert _sent(model)["prompt"].endswith("<think>\n\n</think>\n\n")
    assert (_sent(model)["temperature"], _sent(model)["top_k"]) == (0.5, 3)
    assert "enable_thinking" not in _sent(model)


def test_what_the_template_or_the_model_cannot_take_is_refused_before_anything_is_sent():
    model = _model(template=ChatTemplate("{{ raise_exception('no') }}"))
    with pytest.raises(ChatTemplateError, match="no"):
        model.invoke("Hi")
    assert model.llm.sent == []
    model = _model()
    for kind in ("image", "audio", "file"):
        block = {"type": kind, "base64": "cG5n", "mime_type": "image/png"}
        with pytest.raises(ConfigError, match=f"message 0 has {kind}"):
            model.invoke([HumanMessage([{"type": "text", "text": "See:"}, block])])
    assert model.llm.sent == []
    with ConversationMemory.open(":memory:") as memory:  # what was shown to another model
        memory.add_messages([HumanMessage([block]), AIMessage("A file.")], thread_id="t")
        memory.wrap(model).invoke("Thanks", {"configurable": {"thread_id": "t"}})
    assert "<|im_start|>user\n[image, " in _sent(model)["prompt"]


@pytest.mark.parametrize(
    ("wrong", "tools", "choice", "told"),
    [
        ({"llm": FakeListChatModel(responses=[])}, [], None, "instance of BaseLLM"),
        ({"template": "qwem"}, [], None, "no built-in template 'qwem'.*from_file"),
        ({"reply_format": "qwem"}, [], None, "no reply format 'qwem'"),
        ({}, [look], "smell", r"'smell'.*\['look'\]"),
        ({}, [], "any", "there are no tools"),
        ({"reply_format": "plain"}, [look], "any", "'plain'"),
        ({"reply_format": "harmony"}, [look], "any", "'harmony'"),
        ({"template": ChatTemplate("{{ messages }}")}, [look], None, "shows no tools"),
    ],
)
def test_what_cannot_work_is_refused_at_once(wrong, tools, choice, told):
    given = {"llm": ScriptedLLM(reply=""), "template": "qwen", **wrong}
    with pytest.raises(ValueError, match=told):
        TemplateChatModel(**given).bind_tools(tools, tool_choice=choice)


REPLY = f"<think>\nHm.\n</think>\n\nI look.\n{CALL}<|im_end|>\nMore."


def test_a_reply_is_read_by_the_format_that_the_template_tells():
    reply = _model(REPLY).bind_tools([look]).invoke("Hi")
    assert reply.content == "I look."
    assert reply.additional_kwargs["reasoning_content"] == "Hm."
    assert [(call["name"], call["args"]) for call in reply.tool_calls] == [
        ("look", {"where": "here"})
    ]
    assert reply.response_metadata["raw_text"] == REPLY.partition("<|im_end|>")[0]
    assert reply.response_metadata["finish_reason"] == "stop"


def _told(message: AIMessage) -> tuple[Any, ...]:
    calls = [(call["name"], call["args"]) for call in message.tool_calls]
    return message.content, message.additional_kwargs, calls, message.usage_metadata


async def test_all_ways_of_calling_give_the_same_reply():
    model = _model(REPLY).bind_tools([look])
    whole = model.invoke("Hi")
    chunks = list(model.stream("Hi"))
    achunks = [chunk async for chunk in model.astream("Hi")]
    assert [chunk.content for chunk in chunks if chunk.content] == ["I ", "loo", "k."]
    assert _told(reduce(add, chunks)) == _told(reduce(add, achunks)) == _told(whole)
    assert _told(await model.ainvoke("Hi")) == _told(whole)
    assert chunks[-1].chunk_position == "last"
    assert _model(CALL).invoke("Hi").content == CALL  # without tools it is text
    assert chunks[-1].usage_metadata == whole.usage_metadata


class WatchedLLM(ScriptedLLM):
    """Writes a first piece and then a second one, by `write`."""

    write: Any

    def _stream(self, prompt, stop=None, run_manager=None, **kwargs):
        yield from (GenerationChunk(text=piece) for piece in self.write())

    async def _astream(self, prompt, stop=None, run_manager=None, **kwargs):
        async for piece in self.write():
            yield GenerationChunk(text=piece)


def test_a_stream_ends_at_the_stop_text_and_the_model_is_not_read_further():
    def write():
        yield from ("Level 3.<|im", "_end|>")
        raise AssertionError("read further")

    model = TemplateChatModel(llm=WatchedLLM(reply="", write=write), template="qwen")
    assert reduce(add, model.stream("Hi")).content == "Level 3."


def test_stop_texts_of_all_origins_are_told_to_the_model_and_kept_here():
    model = _model("one two three four", stop=["four", "three"])
    assert model.invoke("Hi", stop=["two", "three"]).content == "one "
    assert _sent(model)["stop"] == ["two", "three", "four", "<|im_end|>"]
    assert model.invoke("Hi", stop="two").content == "one "
    assert model.invoke("Hi").content == "one two "


async def test_a_model_that_tells_its_tokens_and_its_end_is_believed():
    model = TemplateChatModel(llm=TellingLLM(), template="chatml")
    reply = await model.ainvoke("Hi")
    assert reply.usage_metadata == {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    assert reply.response_metadata["finish_reason"] == "length"
    assert [chunk.content for chunk in model.stream("Hi")] == ["reply 0"]
    assert [chunk.content async for chunk in model.astream("Hi")] == ["reply 0"]


def test_callbacks_see_one_run_and_each_chunk():
    collected = RunCollectorCallbackHandler()
    list(_model().stream("Hi", config={"callbacks": [collected]}))
    [run] = collected.traced_runs
    tokens = [event["kwargs"]["token"] for event in run.events if event["name"] == "new_token"]
    assert (run.child_runs, tokens) == ([], ["Lev", "el ", "3.", ""])


async def test_a_cancelled_stream_lets_go_of_the_model():
    got, closed = asyncio.Event(), asyncio.Event()

    async def write():
        try:
            yield "one "
            got.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    model = TemplateChatModel(llm=WatchedLLM(reply="", write=write), template="qwen")

    async def read():
        return [chunk async for chunk in model.astream("Hi")]

    task = asyncio.create_task(read())
    await got.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await closed.wait()


LOOK = {"type": "function", "function": {"name": "look"}}
THINKING = ChatTemplate(ChatTemplate.from_builtin("qwen").source + "{{- '<think>\n' -}}")


@pytest.mark.parametrize(
    ("template", "choice", "start", "shown"),
    [
        ("qwen", "any", "<|im_start|>assistant\n<tool_call>", "listen look"),
        ("qwen", True, "<|im_start|>assistant\n<tool_call>", "listen look"),
        ("qwen", "look", "<|im_start|>assistant\n<tool_call>", "look"),
        ("qwen", LOOK, "<|im_start|>assistant\n<tool_call>", "look"),
        (THINKING, "required", "<think>\n</think>\n\n<tool_call>", "listen look"),
        ("llama3", "any", '{"name": "', "listen look"),
        ("mistral", "any", "[TOOL_CALLS]", "listen look"),
        ("qwen", "none", "<|im_start|>assistant\n", ""),
    ],
)
def test_a_demanded_call_begins_the_reply_as_the_family_writes_it(template, choice, start, shown):
    model = _model(CALL.removeprefix("<tool_call>"), template=template)
    reply = model.bind_tools([listen, look], tool_choice=choice).invoke("Hi")
    prompt = _sent(model)["prompt"]
    assert prompt.endswith(start)
    assert " ".join(name for name in ("listen", "look") if f'"{name}"' in prompt) == shown
    if start.endswith("<tool_call>"):
        assert reply.tool_calls[0]["name"] == "look"


def test_models_that_write_otherwise_are_told_apart():
    first = _model()
    changed = [
        _model(template="chatml"),
        _model(template=ChatTemplate(first.template.source, name="qwen", bos_token="<s>")),
        _model(stop=["x"]),
        _model(reply_format="plain"),
        TemplateChatModel(llm=ScriptedLLM(reply="", model_name="other"), template="qwen"),
    ]
    params = [model._identifying_params for model in [first, *changed]]
    assert all(params.count(one) == 1 for one in params)
    assert _model()._identifying_params == first._identifying_params
    traced = _model(stop=["x"])._get_ls_params(stop=["y"], temperature=0.5)
    expected = {"ls_stop": ["y"], "ls_model_name": "scripted", "ls_temperature": 0.5}
    assert {name: traced[name] for name in expected} == expected
