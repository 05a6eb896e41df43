import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_convmem.errors import BudgetError, ConfigError, ConversationError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.local import LocalEngine, LocalSession
from langchain_convmem.text.sessions import (
    ClonableSession,
    Media,
    ModelSession,
    RewindableSession,
    TextEngine,
    TokenCountingSession,
)
from tests.support.tiny_model import tiny_model

PROMPT = "<|im_start|>user\nWhere did I park?<|im_end|>\n<|im_start|>assistant\n"
MORE = "<|im_end|>\n<|im_start|>user\nThe car, I mean: 车 🚗<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def engine(model, tokenizer):
    # A token by which the model ends would end these replies anywhere.
    engine = LocalEngine(model, tokenizer, max_tokens=24)
    engine.end_ids = {}
    return engine


def _written(session, **options) -> str:
    return "".join(session.decode(**options))


@pytest.mark.parametrize(
    "protocol", [ModelSession, RewindableSession, ClonableSession, TokenCountingSession]
)
def test_it_follows_all_protocols(engine, protocol):
    assert isinstance(engine, TextEngine)
    assert isinstance(engine.create_session(), protocol)


def test_a_session_with_a_cache_writes_what_one_without_would(engine):
    session = engine.create_session()
    session.prefill([PROMPT])
    first = _written(session)
    session.prefill([MORE])
    twin = LocalSession(engine, session.token_ids)  # it read the same all at once
    assert _written(session) == _written(twin)
    assert session.text.startswith(PROMPT + first + MORE)
    assert session.tokens_read <= session.token_count < twin.tokens_read + 24
    assert len(set(first)) > 5  # a model that repeats one token would prove nothing


def test_a_long_text_is_read_in_steps(engine):
    import torch

    session = engine.create_session()
    session.prefill([PROMPT * 40])
    assert session.tokens_read == session.token_count - 1 > 1024
    with torch.no_grad():
        told = engine.model(torch.tensor([session.token_ids])).logits[0, -1]
    assert torch.allclose(session.compute_scores(), told, atol=1e-4)


def test_a_rewound_session_is_as_it_was(engine):
    session = engine.create_session()
    session.prefill([PROMPT])
    mark = session.checkpoint()
    first = _written(session)
    later = session.checkpoint()
    session.rewind(mark)
    read = session.tokens_read
    assert session.text == PROMPT
    assert _written(session) == first
    assert session.tokens_read <= read + 24  # the last token of the prompt, and those of the reply
    with pytest.raises(ConversationError):
        session.rewind(later)


def test_a_model_whose_cache_cannot_be_cut_reads_again(tokenizer):
    engine = LocalEngine(tiny_model(tokenizer, sliding_window=16), tokenizer, max_tokens=24)
    engine.end_ids = {}
    session = engine.create_session()
    session.prefill([PROMPT])
    mark = session.checkpoint()
    first = _written(session)
    read = session.tokens_read
    session.rewind(mark)
    assert _written(session) == first
    assert session.tokens_read > read + 24


def test_a_clone_goes_on_by_itself(engine):
    session = engine.create_session()
    session.prefill([PROMPT])
    mark = session.checkpoint()
    clone = session.clone()
    clone.prefill(["The car!"])
    _written(clone)
    # What both had read was not read again.
    assert clone.tokens_read == clone.token_count - session.token_count
    assert session.text == PROMPT
    clone.rewind(mark)
    session.rewind(mark)
    assert _written(clone) == _written(session)


def test_the_tokens_by_which_a_model_ends_are_known(model, tokenizer):
    engine = LocalEngine(model, tokenizer)
    assert engine.end_ids == {tokenizer.eos_token_id: "<|im_end|>"}


def test_what_does_not_fit_is_refused_before_it_is_read(model, tokenizer):
    engine = LocalEngine(model, tokenizer, max_context=80)
    engine.end_ids = {}
    session = engine.create_session()
    session.prefill([PROMPT])
    held = session.token_count
    with pytest.raises(BudgetError, match=f"holds {held} of 80"):
        session.prefill(["much " * 80])
    assert session.token_count == held
    _written(session)
    assert (session.token_count, session.finish_reason) == (80, "length")
    with pytest.raises(BudgetError, match="no room"):
        _written(session)


def test_the_same_seed_gives_the_same_reply(engine):
    def reply(**options):
        session = engine.create_session()
        session.prefill([PROMPT])
        return _written(session, **options)

    assert reply(temperature=1.0, seed=1) == reply(temperature=1.0, seed=1)
    assert reply(temperature=1.0, seed=1) != reply(temperature=1.0, seed=2)
    assert reply(temperature=5.0, top_k=1) == reply()
    assert reply(temperature=5.0, top_p=1e-6) == reply()


def test_options_that_cannot_be_are_refused(engine, model):
    with pytest.raises(ConfigError, match="beams=2"):
        next(engine.create_session().decode(beams=2))
    with pytest.raises(ConfigError, match="needs its tokenizer"):
        LocalEngine(model)


def test_sessions_of_one_engine_do_not_disturb_each_other(engine):
    prompts = [PROMPT + "word " * number for number in range(6)]

    def reply(prompt: str) -> str:
        session = engine.create_session()
        session.prefill([prompt])
        return _written(session)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(reply, prompts)) == [reply(prompt) for prompt in prompts]


async def test_a_cancelled_step_is_over_when_the_error_comes(engine):
    session = engine.create_session()
    await session.aprefill([PROMPT])
    mark = session.checkpoint()
    reached = asyncio.Event()

    async def read() -> None:
        async for _ in session.adecode(max_tokens=1000):
            reached.set()

    task = asyncio.create_task(read())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held = session.token_count
    assert engine.lock.acquire(blocking=False)
    engine.lock.release()
    session.rewind(mark)
    assert (held > session.token_count, session.text) == (True, PROMPT)


def test_media_and_the_closed_are_refused(engine):
    session = engine.create_session()
    with pytest.raises(ConfigError, match="no images"):
        session.prefill([Media("image", b"", "image/png")])
    session.close()
    session.close()
    with pytest.raises(ConversationError, match="session"):
        session.prefill(["a"])
    other = engine.create_session()
    engine.close()
    engine.close()
    with pytest.raises(ConversationError, match="engine"):
        other.prefill(["a"])


def test_an_empty_session_begins_with_the_first_token(engine):
    session = engine.create_session()
    assert _written(session, max_tokens=3)
    assert session.text.startswith("<|begin|>")


def test_each_of_thirty_turns_costs_what_is_new_in_it(engine):
    session, state = engine.create_session(), ChatTemplate.from_builtin("chatml").start()
    costs: list[int] = []
    new: list[BaseMessage] = []
    for number in range(30):
        before = session.tokens_read
        question = HumanMessage(f"Where did I park on day {number}? I went to town by train.")
        increment = state.feed([*new, question])
        assert increment.stats.diverged_at is None
        session.prefill([increment.text])
        costs.append(session.tokens_read - before)
        new = [AIMessage("".join(session.decode(max_tokens=8)))]
        state.record_reply(new[0].text)
    # No turn reads more than the longest question, the end of the turn before and one token.
    assert max(costs[1:]) < 1.5 * costs[0]


def test_a_model_is_loaded_from_its_folder_with_its_template(model, tokenizer, tmp_path):
    source = ChatTemplate.from_builtin("chatml").source
    tokenizer.chat_template = source
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    tokenizer.chat_template = None
    engine = LocalEngine(str(tmp_path))
    assert engine.template.source == source
    assert engine.template.special_tokens["eos_token"] == "<|im_end|>"
    session = engine.create_session()
    session.prefill(["Hi"])
    assert _written(session, max_tokens=2)
    assert LocalEngine(model, tokenizer).template is None
    assert LocalEngine(model, tokenizer, template="qwen").template.name == "qwen"
