"""Models and embedders: from a name to one, the border to providers, and `reindex`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from langchain_convmem.cli.options import command, memory_options, open_memory
from langchain_convmem.cli.output import Terminal
from langchain_convmem.errors import ConfigError, ConvMemError, MissingExtraError

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.prompt_values import PromptValue
    from langchain_core.runnables import Runnable


T = TypeVar("T")


class ModelCallError(ConvMemError, RuntimeError):
    """The model's provider failed; what it raised is the cause."""


# -- by name --------------------------------------------------------------------------------------

OFFLINE_NOTICE = (
    "offline model: quotes what it remembers, not a language model; use --model PROVIDER:NAME"
)


def choose_model(name: str | None, *, base_url: str | None = None) -> BaseChatModel:
    """Return the model called `name` (any name that LangChain's `init_chat_model` takes).

    Args:
        name: None for the offline model.
        base_url: Where the model's server listens, if not at its provider.

    Raises:
        ConfigError: If the model cannot be made, or a `base_url` comes without a name.
        MissingExtraError: If LangChain is not installed.
    """
    if name is not None:
        init = _import("langchain.chat_models", "init_chat_model", f"--model {name}")
        options = {} if base_url is None else {"base_url": base_url}
        return cast("BaseChatModel", _make(f"the model {name!r}", lambda: init(name, **options)))
    if base_url is not None:
        msg = f"--base-url {base_url} needs --model PROVIDER:NAME, such as openai:gpt-5"
        raise ConfigError(msg)
    from langchain_convmem.offline import OfflineChatModel

    return OfflineChatModel()


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
    init = _import("langchain.embeddings", "init_embeddings", f"--embeddings {name}")
    return cast("Embeddings", _make(f"the embedder {name!r}", lambda: init(name)))


def _import(module: str, name: str, option: str) -> Callable[..., Any]:
    try:
        return cast("Callable[..., Any]", getattr(importlib.import_module(module), name))
    except ImportError as error:
        raise MissingExtraError.build(option, "cli") from error


def _make(what: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except ConfigError:
        raise
    except Exception as error:  # foreign code: each provider has its own way to miss a key
        raise ConfigError(f"{what} cannot be used: {_format_reason(error)}") from error


def translate_errors(model: BaseChatModel) -> Runnable[PromptValue, AIMessage]:
    """Return `model` as a step that streams, whose every failure is a `ModelCallError`.

    Providers share no base class of errors, so here, at the border to their code and around
    nothing but the call, everything they raise is translated. Ctrl-C is not a failure and passes.
    """
    from langchain_core.runnables import RunnableGenerator

    def answer(prompts: Iterator[PromptValue]) -> Iterator[AIMessage]:
        for prompt in prompts:
            try:
                yield from model.stream(prompt)
            except Exception as error:
                msg = f"the model failed: {_format_reason(error)}"
                raise ModelCallError(msg) from error

    return RunnableGenerator(answer, name=type(model).__name__)


def _format_reason(error: Exception) -> str:
    """Return the error as one line; some say nothing but their name."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


# -- reindex --------------------------------------------------------------------------------------


@command(
    "reindex",
    "convmem reindex --embeddings openai:text-embedding-3-small",
    "convmem reindex --all-users",
)
@memory_options
@click.option("--all-users", is_flag=True, help="Embed the lines of all users; --user is ignored.")
@click.option(
    "--embeddings",
    metavar="NAME",
    envvar="CONVMEM_EMBEDDINGS",
    show_envvar=True,
    help="Provider and model, such as openai:text-embedding-3-small.  [default: the built-in one]",
)
def reindex(
    terminal: Terminal, *, db: str, user: str, all_users: bool, embeddings: str | None
) -> int:
    """Embed lines again after you change the embedder.

    Each batch is stored before the next one is sent. After Ctrl-C or a failure, run the same
    command again to continue. Exits with 1 if some lines are not embedded.
    """
    chosen = choose_embeddings(embeddings)
    owner = None if all_users else user
    with open_memory(db, embeddings=chosen) as memory, terminal.show_progress() as add_stage:
        problems = memory.reindex(
            user_id=owner, all_users=all_users, progress=add_stage("embedding")
        )
        name = type(memory.retriever(user_id=user).recall.embeddings).__name__
    for problem in problems:
        terminal.note(problem)
    used = embeddings or name
    whose = "all users" if owner is None else f"user {owner!r}"
    done = [] if problems else [f"every line of {whose} is embedded with {used}"]
    encoded = {"user_id": owner, "embedder": used, "problems": list(problems)}
    return terminal.print_result(encoded, done, code=1 if problems else 0)
