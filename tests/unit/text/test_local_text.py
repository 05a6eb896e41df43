import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import ConfigError, ConversationError, MissingExtraError
from langchain_convmem.text.completions import CompletionsSession
from langchain_convmem.text.local import (
    LocalEngine,
    LocalSession,
    Sampling,
    TokenReader,
    decode_ids,
    encode,
)


class ByteTokenizer:
    """A token is a byte; what is no character is written as such tokenizers write it."""

    def __call__(self, text, *, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": list(text.encode())}

    def decode(self, ids, *, skip_special_tokens, clean_up_tokenization_spaces):
        assert (skip_special_tokens, clean_up_tokenization_spaces) == (False, False)
        return bytes(ids).decode(errors="replace")

    def convert_ids_to_tokens(self, ids):
        return [chr(number) for number in ids]


class BlankTokenizer:
    """Puts a blank before any text, as those of older Llama models do; drops it when it decodes."""

    def __call__(self, text, *, add_special_tokens):
        return {"input_ids": [ord(letter) for letter in f"\u2581{text}".replace(" ", "\u2581")]}

    def decode(self, ids, **_options):
        return "".join(map(chr, ids)).replace("\u2581", " ").removeprefix(" ")

    def convert_ids_to_tokens(self, ids):
        return [chr(number) for number in ids]


@given(st.text(max_size=60), st.text(max_size=10))
def test_every_character_is_told_once_and_none_before_it_is_whole(text, before):
    tokenizer = ByteTokenizer()
    reader = TokenReader(tokenizer, list(before.encode()))
    pieces = [reader.feed(token) for token in text.encode()]
    assert all(piece in text for piece in pieces)
    assert "".join(pieces) + reader.finish() == text


def test_only_the_latest_tokens_are_decoded():
    longest = 0

    class Counting(ByteTokenizer):
        def decode(self, ids, **options):
            nonlocal longest
            longest = max(longest, len(ids))
            return super().decode(ids, **options)

    reader = TokenReader(Counting(), list(b"before " * 100))
    text = "".join(random.Random(1).choices("aä車🚗 ", k=500))
    assert "".join(map(reader.feed, text.encode())) == text
    assert longest < 40


def test_a_blank_that_the_tokenizer_puts_before_a_text_comes_only_at_the_beginning():
    tokenizer = BlankTokenizer()
    ids = encode(tokenizer, "one", is_first=True)
    for text in (" two", "three", ""):
        ids += encode(tokenizer, text, is_first=False)
    assert decode_ids(tokenizer, ids) == "one twothree"
    reader = TokenReader(tokenizer, encode(tokenizer, "one", is_first=True))
    assert [reader.feed(ord(letter)) for letter in "\u2581two"] == [" ", "t", "w", "o"]


class OpenEngine:
    def check_open(self):
        pass


def test_a_checkpoint_is_known_by_itself():
    session, other = CompletionsSession(OpenEngine()), CompletionsSession(OpenEngine())
    first = session.checkpoint()
    session.prefill(["a"])
    second = session.checkpoint()
    clone = session.clone()
    session.rewind(first)
    for unknown in (second, other.checkpoint(), 0, None):
        with pytest.raises(ConversationError, match="no such checkpoint"):
            session.rewind(unknown)
    clone.rewind(second)
    assert (session.text, clone.text) == ("", "a")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_k": -1}, "top_k=-1"),
        ({"beams": 3}, "beams=3"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, told):
    with pytest.raises(ConfigError, match=told):
        Sampling.parse(options)


def test_without_its_extra_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'langchain-convmem\[local\]'"):
        LocalEngine("a/model")


@pytest.mark.parametrize(
    ("stop", "limits", "told", "ended"),
    [
        (["<stop>"], {}, "héllo ", ("stop", "<stop>")),
        (["llo <", "zzz"], {}, "hé", ("stop", "llo <")),
        ([], {}, "héllo <stop> 🚗", ("stop", "<|end|>")),
        ([], {"max_tokens": 0}, "", ("length", "")),
        ([], {"max_context": 8}, "héll", ("length", "")),
    ],
)
async def test_a_reply_ends_where_it_should_and_the_session_holds_that(
    monkeypatch, stop, limits, told, ended
):
    script = [*"héllo <stop> 🚗".encode(), 256]
    monkeypatch.setattr(Sampling, "create_chooser", lambda _self: lambda token: token)
    engine = SimpleNamespace(tokenizer=ByteTokenizer(), options={}, max_tokens=99)
    engine.max_context, engine.check_open = limits.get("max_context"), lambda: None
    engine.end_ids = {256: "<|end|>"}
    for is_async in (False, True):
        session = LocalSession(engine, list(b"Q: "))
        session.compute_scores = lambda held=session: script[held.token_count - 3]
        given = {"stop": stop, "max_tokens": limits.get("max_tokens")}
        pieces = [one async for one in session.adecode(**given)] if is_async else []
        assert "".join(pieces or session.decode(**given)) == told
        assert (session.finish_reason, session.stop_text) == ended
        assert session.text == f"Q: {told}"
