"""`convmem chat`: a conversation line by line, on a terminal or through a pipe."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from langchain_convmem.cli.chat_lines import HELP, ChatCommand, parse_line
from langchain_convmem.cli.database import memory_at
from langchain_convmem.cli.errors import ModelCallError, UnknownCommandError
from langchain_convmem.cli.models import bordered, choose_model
from langchain_convmem.cli.plain_text import Styled
from langchain_convmem.cli.rendering import recall_brief, recall_lines
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import new_ulid

if TYPE_CHECKING:
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import Runnable, RunnableConfig

    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.records import Recall

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Chat until the input ends."""
    # Before the database, so that a misspelt model or a bad prompt file leaves none behind.
    model, notice = choose_model(arguments.model, base_url=arguments.base_url)
    prompt = _plain_prompt() if arguments.prompt is None else _prompt_of(arguments.prompt, terminal)
    thread_id = arguments.thread or new_ulid()
    if notice is not None:
        terminal.note(notice)
    terminal.note(f"thread {thread_id}: continue it with --thread {thread_id}")
    with memory_at(arguments.db) as memory:
        chain = memory.wrap(prompt | bordered(model))
        chat = _Chat(memory, chain, terminal, arguments.user, thread_id, arguments)
        for line in terminal.typed("> "):
            if not chat.take(line):
                break
    return 0


def _plain_prompt() -> ChatPromptTemplate:
    from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

    return ChatPromptTemplate([MessagesPlaceholder("history"), MessagesPlaceholder("input")])


def _prompt_of(path: str, terminal: Terminal) -> ChatPromptTemplate:
    """Return the prompt of a file, and say what in the file has no effect or looks like a slip."""
    from langchain_convmem.prompts import PromptFile

    try:
        file = PromptFile.load(path)
    except OSError as error:
        msg = f"the prompt file {path} cannot be read: {error.strerror or error}"
        raise ConfigError(msg) from error
    for finding in file.diagnostics:
        if finding.level != "info":
            terminal.note(str(finding))
    return file.to_chat_prompt()


@dataclass(frozen=True, slots=True)
class _Chat:
    """One thread in conversation."""

    memory: ConversationMemory
    chain: Runnable[Any, Any]
    terminal: Terminal
    user_id: str
    thread_id: str
    options: argparse.Namespace

    def take(self, line: str) -> bool:
        """Do what a line asks for; False ends the chat.

        A pipe has nobody to read a complaint and go on, so there every error ends the chat.
        """
        try:
            command = parse_line(line)
            return command is None or self._do(command)
        except (ModelCallError, UnknownCommandError) as error:
            self.terminal.break_off()
            if not self.terminal.is_interactive:
                raise
            self.terminal.complain(error)
        except KeyboardInterrupt:
            self.terminal.break_off()
            if not self.terminal.is_interactive:
                raise
            self.terminal.note("(stopped; what was said so far is kept)")
        return True

    def _do(self, command: ChatCommand) -> bool:
        if command.name == "quit":
            return False
        if command.name == "help":
            self.terminal.line(HELP)
        elif command.name == "history":
            self.terminal.line(str(self.memory.history(self.thread_id, user_id=self.user_id)))
        elif command.name == "recall":
            found = self.memory.recall(command.text, user_id=self.user_id)
            self._show(found, recall_lines(found))
        else:
            self._say(command.text)
        return True

    def _say(self, text: str) -> None:
        if self.options.show_recall and not self.options.no_recall:
            self._show_recall(text)
        config: RunnableConfig = {
            "configurable": {
                "user_id": self.user_id,
                "thread_id": self.thread_id,
                "memory": {"recall": not self.options.no_recall},
            }
        }
        stream = cast("Generator[Any]", self.chain.stream(text, config=config))
        # Closed at once when Ctrl-C falls between two pieces: that is what keeps the first ones.
        with closing(stream):
            for piece in stream:
                self.terminal.write(piece.text)
        self.terminal.line("")

    def _show_recall(self, text: str) -> None:
        """Print in brief what the model is about to be given for the text."""
        if not self.terminal.is_interactive:
            self.terminal.line(f"> {text}")  # nobody typed it into this transcript
        found = self.memory.recall(text, user_id=self.user_id, thread_id=self.thread_id)
        self._show(found, (line._replace(style="dim") for line in recall_brief(found)))

    def _show(self, found: Recall, lines: Iterable[Styled]) -> None:
        for problem in found.problems:
            self.terminal.note(problem)
        self.terminal.lines(lines)
