"""From a model's name to a model, and the border to the code of its provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from langchain_convmem.cli.errors import ModelCallError
from langchain_convmem.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.prompt_values import PromptValue
    from langchain_core.runnables import Runnable

__all__ = ["OFFLINE_NOTICE", "ChosenModel", "bordered", "choose_embeddings", "choose_model"]

T = TypeVar("T")

OFFLINE_NOTICE = (
    "offline model: quotes what it remembers, not a language model; use --model PROVIDER:NAME"
)


class ChosenModel(NamedTuple):
    """A chat model, and what to tell the person about it, if anything."""

    model: BaseChatModel
    notice: str | None


def choose_model(name: str | None, *, base_url: str | None = None) -> ChosenModel:
    """Return the model called `name` (any name that LangChain's `init_chat_model` takes).

    Args:
        name: None for the offline model.
        base_url: Where the model's server listens, if not at its provider.

    Raises:
        ConfigError: If the model cannot be made, or a `base_url` comes without a name.
        MissingExtraError: If LangChain is not installed.
    """
    if name is not None:
        return ChosenModel(_provided_model(name, base_url), None)
    if base_url is not None:
        msg = f"--base-url {base_url} needs --model PROVIDER:NAME, such as openai:gpt-5"
        raise ConfigError(msg)
    from langchain_convmem.offline import OfflineChatModel

    return ChosenModel(OfflineChatModel(), OFFLINE_NOTICE)


def choose_embeddings(name: str | None) -> Embeddings | None:
    """Return the embedder called `name` (any that LangChain's `init_embeddings` takes).

    Args:
        name: None for the embedded one, which is None too.

    Raises:
        ConfigError: If the embedder cannot be made.
        MissingExtraError: If LangChain is not installed.
    """
    if name is None:
        return None
    try:
        from langchain.embeddings import init_embeddings
    except ImportError as error:
        raise MissingExtraError.for_extra(f"--embeddings {name}", "cli") from error
    return _made(f"the embedder {name!r}", lambda: init_embeddings(name))


def _provided_model(name: str, base_url: str | None) -> BaseChatModel:
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise MissingExtraError.for_extra(f"--model {name}", "cli") from error
    options: dict[str, Any] = {} if base_url is None else {"base_url": base_url}
    made = _made(f"the model {name!r}", lambda: init_chat_model(name, **options))
    return cast("BaseChatModel", made)


def _made(what: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except Exception as error:  # foreign code: each provider has its own way to miss a key
        raise ConfigError(f"{what} cannot be used: {_reason(error)}") from error


def bordered(model: BaseChatModel) -> Runnable[PromptValue, AIMessage]:
    """Return `model` as a step that streams, whose every failure is a `ModelCallError`.

    Providers share no base class of errors, so here, at the border to their code and around
    nothing but the call, everything they raise is translated. Ctrl-C is no failure and passes.
    """
    from langchain_core.runnables import RunnableGenerator

    def answer(prompts: Iterator[PromptValue]) -> Iterator[AIMessage]:
        for prompt in prompts:
            try:
                yield from model.stream(prompt)
            except Exception as error:
                msg = f"the model failed: {_reason(error)}"
                raise ModelCallError(msg) from error

    return RunnableGenerator(answer, name=type(model).__name__)


def _reason(error: Exception) -> str:
    """Return the error as one line; some say nothing but their name."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
