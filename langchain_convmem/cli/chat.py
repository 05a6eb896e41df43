"""`convmem chat`: a conversation line by line, on a terminal or through a pipe."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click

from langchain_convmem.cli.models import ModelCallError, choose_model, translate_errors
from langchain_convmem.cli.options import command, db_option, open_memory, user_option
from langchain_convmem.cli.output import Styled, Terminal
from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import Runnable, RunnableConfig

    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.records import Recall


@command(
    "chat",
    "convmem chat --show-recall",
    "convmem chat --model openai:gpt-5-mini --thread garden",
    "echo 'Where did I park?' | convmem chat --json",
)
@db_option
@user_option
@click.option("--thread", metavar="ID", help="Continue this thread.  [default: a new one]")
@click.option(
    "--model",
    metavar="NAME",
    envvar="CONVMEM_MODEL",
    show_envvar=True,
    help="Provider and model, such as openai:gpt-5.  [default: the offline model]",
)
@click.option("--base-url", metavar="URL", help="The address of the model's server.")
@click.option("--prompt", metavar="FILE", type=click.Path(), help="The prompt file to chat with.")
@click.option("--no-recall", is_flag=True, help="Recall nothing.")
@click.option("--show-recall", is_flag=True, help="Print what was recalled.")
def chat(
    terminal: Terminal,
    *,
    db: str,
    user: str,
    thread: str | None,
    model: str | None,
    base_url: str | None,
    prompt: str | None,
    no_recall: bool,
    show_recall: bool,
) -> int:
    """Talk with an assistant that remembers.

    Everything said is stored, and recalled in later chats. On a terminal, type /help for the
    commands. From a pipe, each line is one message. With --json, each answer is one line of JSON.
    """
    from langchain_convmem.ids import make_ulid

    # Before the database, so that a misspelt model or a bad prompt file leaves none there.
    chosen, notice = choose_model(model, base_url=base_url)
    template = _make_plain_prompt() if prompt is None else _load_prompt(prompt, terminal)
    thread_id = thread or make_ulid()
    if notice is not None:
        terminal.note(notice)
    terminal.note(f"thread {thread_id}: continue it with --thread {thread_id}")
    with open_memory(db, create=True) as memory:
        chain = memory.wrap(template | translate_errors(chosen))
        session = _Chat(
            memory,
            chain,
            terminal,
            user,
            thread_id,
            recalls=not no_recall,
            shows_recall=show_recall and not no_recall,
        )
        for line in terminal.read_lines("> "):
            if not session.take(line):
                break
    return 0


def _make_plain_prompt() -> ChatPromptTemplate:
    from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

    return ChatPromptTemplate([MessagesPlaceholder("history"), MessagesPlaceholder("input")])


def _load_prompt(path: str, terminal: Terminal) -> ChatPromptTemplate:
    """Return the prompt of a file, and say what in the file has no effect or looks like a slip."""
    from langchain_convmem.prompts import PromptFile

    try:
        file = PromptFile.load(path)
    except OSError as error:
        msg = f"the prompt file {path} cannot be read: {error.strerror or error}"
        raise ConfigError(msg) from error
    for finding in file.diagnostics:
        if finding.level != "info":
            terminal.note_text(str(finding))
    return file.to_chat_prompt()


@dataclass(frozen=True, slots=True)
class _Chat:
    """One thread in conversation."""

    memory: ConversationMemory
    chain: Runnable[Any, Any]
    terminal: Terminal
    user_id: str
    thread_id: str
    recalls: bool
    shows_recall: bool

    def take(self, line: str) -> bool:
        """Do what a line asks for; False ends the chat.

        A pipe has nobody to read a complaint and go on, so there every error ends the chat.
        """
        try:
            asked = parse_line(line)
            return asked is None or self._do(asked)
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

    def _do(self, asked: ChatCommand) -> bool:
        if asked.name == "quit":
            return False
        if asked.name == "help":
            self._print("help", HELP)
        elif asked.name == "history":
            history = self.memory.history(self.thread_id, user_id=self.user_id)
            self._print("history", str(history))
        elif asked.name == "recall":
            self._recall(asked.text)
        else:
            self._say(asked.text)
        return True

    def _print(self, kind: str, text: str) -> None:
        if self.terminal.as_json:
            self.terminal.print_json_line({"kind": kind, "text": text})
        else:
            self.terminal.print_text(text)

    def _recall(self, text: str) -> None:
        from langchain_convmem.cli.rendering import encode_recall, format_recall

        found = self.memory.recall(text, user_id=self.user_id)
        if self.terminal.as_json:
            self.terminal.print_json_line({"kind": "recall", **encode_recall(text, found)})
        else:
            self._show(found, format_recall(found))

    def _say(self, text: str) -> None:
        recalled = self._look_up(text) if self.shows_recall else None
        pieces = []
        stream = cast("Generator[Any]", self.chain.stream(text, config=self._build_config()))
        # Closed at once when Ctrl-C falls between two pieces: that is what keeps the first ones.
        with closing(stream):
            for piece in stream:
                pieces.append(piece.text)
                if not self.terminal.as_json:
                    self.terminal.write(piece.text)
        if not self.terminal.as_json:
            self.terminal.print_line("")
            return
        said = {"thread_id": self.thread_id, "text": text, "reply": "".join(pieces)}
        self.terminal.print_json_line({"kind": "reply", **said, "recall": recalled})

    def _build_config(self) -> RunnableConfig:
        switches = {"recall": self.recalls}
        names = {"user_id": self.user_id, "thread_id": self.thread_id}
        return {"configurable": {**names, "memory": switches}}

    def _look_up(self, text: str) -> dict[str, Any] | None:
        """Print in brief what the model is about to be given for the text; as JSON, return it."""
        from langchain_convmem.cli.rendering import encode_recall, format_recall_briefly

        found = self.memory.recall(text, user_id=self.user_id, thread_id=self.thread_id)
        if self.terminal.as_json:
            return encode_recall(text, found)
        if not self.terminal.is_interactive:
            self.terminal.print_line(f"> {text}")  # nobody typed it into this transcript
        self._show(found, (line._replace(style="dim") for line in format_recall_briefly(found)))
        return None

    def _show(self, found: Recall, lines: Iterable[Styled]) -> None:
        for problem in found.problems:
            self.terminal.note(problem)
        self.terminal.print_lines(lines)


# -- what a line asks for -------------------------------------------------------------------------

HELP = """\
/recall TEXT   what was said that fits TEXT
/history       this thread, turn by turn
/help          this list
/quit          end the chat (so does Ctrl-D)
Any other line is a message; one that starts with // loses its first slash.\
"""
_COMMANDS = ("recall", "history", "help", "quit")
# One word after a slash: a path or a fraction at the start of a message is not one.
_COMMAND = re.compile(r"/([A-Za-z]+)(?:\s+(.*))?", re.DOTALL)


class UnknownCommandError(ConfigError):
    """A line of a chat looks like a command and is not one."""


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """One line, understood.

    Attributes:
        name: `say`, or one of the commands.
        text: The message, or what follows the command.
    """

    name: str
    text: str = ""


def parse_line(line: str) -> ChatCommand | None:
    """Return what the line asks for, or None for a blank one.

    Raises:
        UnknownCommandError: If it looks like a command and is not one, before it is taken for
            something said and remembered; `/recall` alone, without a text, counts as such.
    """
    if not line.strip():
        return None
    if line.startswith("//"):
        return ChatCommand("say", line[1:])
    match = _COMMAND.fullmatch(line.strip())
    if match is None:
        return ChatCommand("say", line)
    name, text = match[1].lower(), (match[2] or "").strip()
    if name not in _COMMANDS or (name == "recall") != bool(text):
        known = ", ".join(f"/{known}" for known in _COMMANDS)
        msg = f"'/{match[1]}' is not a command; expected {known} (see /help, or start with //)"
        raise UnknownCommandError(msg)
    return ChatCommand(name, text)
