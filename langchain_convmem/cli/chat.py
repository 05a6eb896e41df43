"""`convmem chat`: a conversation line by line, on a terminal or through a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click

from langchain_convmem.cli.models import (
    OFFLINE_NOTICE,
    ModelCallError,
    choose_model,
    load_tools,
    run_with_tools,
    translate_errors,
)
from langchain_convmem.cli.options import (
    PROFILE_TOKENS,
    command,
    find_thread,
    memory_options,
    open_memory,
    refuse_usage,
)
from langchain_convmem.cli.output import Styled, Terminal, format_count
from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import Runnable, RunnableConfig

    from langchain_convmem.history import ConversationHistory
    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.records import ThreadKey
    from langchain_convmem.views.shown import Recall

_SHOWN_THREADS = 10


@command(
    "chat",
    "convmem chat --continue",
    "convmem chat --show-recall",
    "convmem chat --model openai:gpt-5-mini --thread garden",
    "convmem chat --prompt tutor.prompt --var subject=algebra --tool lessons:find_lesson",
    "echo 'Where did I park?' | convmem chat --json",
    prints=False,
)
@memory_options
@click.option(
    "--thread", metavar="ID", help="Continue this thread, by its id or title.  [default: a new one]"
)
@click.option("-c", "--continue", "goes_on", is_flag=True, help="Continue the latest thread.")
@click.option(
    "--model",
    metavar="NAME",
    envvar="CONVMEM_MODEL",
    show_envvar=True,
    help="Provider and model, such as openai:gpt-5.  "
    "[default: the one this thread had before, else the offline model]",
)
@click.option("--base-url", metavar="URL", help="The address of the model's server.")
@click.option("--prompt", metavar="FILE", type=click.Path(), help="The prompt file to chat with.")
@click.option(
    "--var",
    "variables",
    metavar="NAME=VALUE",
    multiple=True,
    help="The value of a variable of the prompt file; may be repeated.",
)
@click.option(
    "--tool",
    "tools",
    metavar="MODULE:NAME",
    multiple=True,
    help="A Python function that the model may call; may be repeated.",
)
@click.option("--no-recall", is_flag=True, help="Recall nothing.")
@click.option("--show-recall", is_flag=True, help="Print what was recalled.")
def chat(
    terminal: Terminal,
    *,
    db: str,
    user: str,
    thread: str | None,
    goes_on: bool,
    model: str | None,
    base_url: str | None,
    prompt: str | None,
    variables: tuple[str, ...],
    tools: tuple[str, ...],
    no_recall: bool,
    show_recall: bool,
) -> int:
    """Talk with an assistant that remembers.

    Everything said is stored, and recalled in later chats. On a terminal, type /help for the
    commands; Alt-Enter begins a new line, and arrow keys bring back what you said. From a pipe,
    each line is one message. With --json, each answer is one line of JSON.
    """
    from langchain_convmem.offline import OfflineChatModel
    from langchain_convmem.records import ThreadKey

    if thread is not None and goes_on:
        refuse_usage("--thread and --continue exclude each other")
    # Before the database, so that a misspelt model or a bad prompt file leaves none there.
    named = choose_model(model, base_url=base_url) if model or base_url else None
    template = _make_plain_prompt() if prompt is None else _load_prompt(prompt, terminal)
    template = _fill_variables(template, variables)
    functions = load_tools(tools)
    with open_memory(db, create=not goes_on, profile_tokens=PROFILE_TOKENS) as memory:
        place = _choose_thread(memory, user, thread, goes_on=goes_on)
        before, url = (None, None) if named else read_model(memory, ThreadKey(user, place))
        chosen = named or choose_model(before, base_url=url)
        if isinstance(chosen, OfflineChatModel):
            terminal.note(OFFLINE_NOTICE)
        if before is not None:
            terminal.note(f"model {before}, as before")
        title = memory.get_title(place, user_id=user)
        name = f"thread {title}" if title else f"thread {place}: continue it with --thread {place}"
        terminal.note(name)
        answer = run_with_tools(chosen, functions) if functions else chosen
        chain = memory.wrap(template | translate_errors(answer))
        session = ChatSession(
            memory,
            chain,
            terminal,
            user,
            place,
            recalls=not no_recall,
            shows_recall=show_recall and not no_recall,
            after_turn=lambda at: write_model(memory, ThreadKey(user, at), model, base_url),
        )
        terminal.remember_lines(session.list_questions())
        for line in terminal.read_lines("> "):
            if not session.take(line):
                break
    return 0


def _choose_thread(
    memory: ConversationMemory, user: str, thread: str | None, *, goes_on: bool
) -> str:
    """Return the thread to chat in: the one that was named, the latest, or a new one.

    Raises:
        ConfigError: If there is no latest thread.
    """
    from langchain_convmem.ids import make_ulid
    from langchain_convmem.titles import list_threads

    if goes_on:
        return find_thread(memory.log, user).key.thread_id
    titled = thread and any(info.title == thread for info in list_threads(memory.log, user))
    return find_thread(memory.log, user, thread).key.thread_id if titled else thread or make_ulid()


def read_model(memory: ConversationMemory, key: ThreadKey) -> tuple[str | None, str | None]:
    """Return the model a thread was last talked in with, and its server; None where unknown."""
    found = memory.log.get_state(key, _MODEL)
    value = found.value if found is not None and isinstance(found.value, dict) else {}
    name, url = value.get("model"), value.get("base_url")
    return (name, url) if isinstance(name, str) else (None, None)


def write_model(
    memory: ConversationMemory, key: ThreadKey, model: str | None, base_url: str | None
) -> None:
    """Keep the model of a turn beside the thread; not an address that may hold a password."""
    url = base_url if "@" not in (base_url or "") else None
    if model is None or read_model(memory, key) == (model, url):
        return
    found = memory.log.get_state(key, _MODEL)
    version = None if found is None else found.version
    memory.log.set_state(key, _MODEL, {"model": model, "base_url": url}, expected=version)


_MODEL = "chat"
"""Name of the document that keeps a thread's model."""


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
        terminal.note_text(str(finding))
    return file.to_chat_prompt()


_SLOTS = {"input", "history", "recalled", "summary", "messages"}
"""What a memory fills in a prompt."""


def _fill_variables(template: ChatPromptTemplate, given: Sequence[str]) -> ChatPromptTemplate:
    """Return the prompt with the values of its variables.

    Raises:
        ConfigError: If one has no value, or a value is of no variable.
    """
    values = {}
    for item in given:
        name, mark, value = item.partition("=")
        if not mark:
            raise ConfigError(f"--var takes NAME=VALUE, got {item!r}")
        values[name] = value
    known = [name for name in template.input_variables if name not in _SLOTS]
    for name in values:
        if name not in known:
            there = ", ".join(known) or "none"
            raise ConfigError(f"the prompt has no variable {name!r}; it has {there}")
    lacking = [name for name in known if name not in values]
    if lacking:
        words = " ".join(f"--var {name}=..." for name in lacking)
        raise ConfigError(f"the prompt has variables without a value; add {words}")
    return template.partial(**values) if values else template


# -- one thread -----------------------------------------------------------------------------------


@dataclass(slots=True)
class ChatSession:
    """A person, or a pipe, in one thread at a time."""

    memory: ConversationMemory
    chain: Runnable[Any, Any]
    terminal: Terminal
    user_id: str
    thread_id: str
    recalls: bool
    shows_recall: bool
    after_turn: Callable[[str], None]

    def take(self, line: str) -> bool:
        """Do what a line asks for; False ends the chat.

        A pipe has nobody to read a complaint and go on, so there every error ends the chat.
        """
        try:
            asked = parse_line(line)
            return asked is None or self._do(asked)
        except (ModelCallError, ConfigError) as error:
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

    def list_questions(self) -> list[str]:
        """Return what the user said in the thread, for the history keys."""
        turns = self._open_history().turns
        return ["\n".join(turn.contents) for turn in turns if turn.role == "user" and turn.contents]

    def _do(self, asked: ChatCommand) -> bool:
        if asked.name == "quit":
            return False
        actions: dict[str, Callable[[str], None]] = {
            "say": self._say,
            "help": lambda _: self._print("help", HELP),
            "history": lambda _: self._print("history", str(self._open_history())),
            "recall": self._recall,
            "why": lambda _: self._explain(),
            "undo": lambda _: self._undo(),
            "retry": lambda _: self._say(self._take_back()),
            "edit": self._edit,
            "thread": self._go_to_thread,
            "title": self._give_title,
            "forget": self._forget,
            "summary": lambda _: self._show_summary(),
            "profile": lambda _: self._show_profile(),
        }
        actions[asked.name](asked.text)
        return True

    def _open_history(self) -> ConversationHistory:
        return self.memory.history(self.thread_id, user_id=self.user_id)

    def _print(self, kind: str, text: str) -> None:
        self._emit(kind, {"text": text}, [Styled(text)])

    def _emit(self, kind: str, data: Mapping[str, Any], lines: Iterable[Styled]) -> None:
        if self.terminal.as_json:
            self.terminal.print_json_line({"kind": kind, **data})
        else:
            self.terminal.print_lines(lines)

    # -- what was said, and what is recalled ------------------------------------------------------

    def _recall(self, text: str) -> None:
        self._print_recall("recall", text, self.memory.recall(text, user_id=self.user_id))

    def _print_recall(self, kind: str, question: str, found: Recall) -> None:
        from langchain_convmem.cli.rendering import encode_recall, format_recall
        from langchain_convmem.titles import list_titles

        self._note_problems(found)
        titles = list_titles(self.memory.log, {block.lines[0].key for block in found.blocks})
        self._emit(kind, encode_recall(question, found), format_recall(found, titles))

    def _note_problems(self, found: Recall) -> None:
        for problem in () if self.terminal.as_json else found.problems:
            self.terminal.note(problem)

    def _explain(self) -> None:
        """Show what a model gets from other threads for the last question, and why."""
        questions = self.list_questions()
        if not questions:
            raise ConfigError("nothing was asked in this thread yet")
        if not self.recalls:
            raise ConfigError("this chat recalls nothing: it was begun with --no-recall")
        found = self.memory.recall(
            questions[-1], user_id=self.user_id, thread_id=self.thread_id, remember=False
        )
        self._print_recall("why", questions[-1], found)

    def _show_profile(self) -> None:
        profile = self.memory.profile(self.user_id)
        text = Styled(profile.to_markdown().rstrip())
        self._emit("profile", {"items": profile.to_json()}, [text])

    def _show_summary(self) -> None:
        summary = self._open_history().last_summary
        text = "no summary yet" if summary is None else "\n".join(summary.contents)
        self._print("summary", text)

    # -- saying something, and taking it back -----------------------------------------------------

    def _say(self, text: str) -> None:
        recalled = self._look_up(text) if self.shows_recall else None
        pieces = []
        stream = cast("Generator[Any]", self.chain.stream(text, config=self._build_config()))
        # Closed at once when Ctrl-C falls between two pieces: that is what keeps the first ones.
        with closing(stream), self.terminal.render_markdown() as write:
            for piece in stream:
                if piece.type == "tool":
                    self.terminal.break_off()
                    self.terminal.note(f"(called {piece.name or 'a tool'})")
                    continue
                pieces.append(piece.text)
                if not self.terminal.as_json:
                    write(piece.text)
        self.after_turn(self.thread_id)
        if not self.terminal.as_json:
            self.terminal.end_text()
            return
        said = {"thread_id": self.thread_id, "text": text, "reply": "".join(pieces)}
        self.terminal.print_json_line({"kind": "reply", **said, "recall": recalled})

    def _undo(self) -> None:
        text = self._take_back()
        self._print("undo", f"taken back: {text}")

    def _edit(self, text: str) -> None:
        """Say something else instead of the last message."""
        if text:
            self._take_back()
            self._say(text)
            return
        if not self.terminal.can_edit:
            raise ConfigError("write the new text after it: /edit TEXT")
        self.terminal.prefill(f"/edit {self._find_last_question()}")

    def _take_back(self) -> str:
        """Take back the last exchange, and return what the user had said."""
        text = self._find_last_question()
        self._open_history().undo()
        return text

    def _find_last_question(self) -> str:
        questions = self.list_questions()
        if not questions:
            raise ConfigError("nothing was said in this thread that could be taken back")
        return questions[-1]

    # -- threads ----------------------------------------------------------------------------------

    def _go_to_thread(self, name: str) -> None:
        """List the latest threads; or go to one by its id or title, or to a new one."""
        from langchain_convmem.ids import make_ulid

        if not name:
            self._list_threads()
            return
        if name != "new":
            self.thread_id = find_thread(self.memory.log, self.user_id, name).key.thread_id
        else:
            self.thread_id = make_ulid()
        self.terminal.remember_lines(self.list_questions())
        title = self.memory.get_title(self.thread_id, user_id=self.user_id)
        self.terminal.note(f"thread {title or self.thread_id}")

    def _list_threads(self) -> None:
        from langchain_convmem.cli.rendering import encode_threads, format_threads

        threads = self.memory.threads(user_id=self.user_id)[:_SHOWN_THREADS]
        shown = format_threads(threads, self.terminal.width)
        self._emit("threads", {"threads": encode_threads(threads)}, shown)

    def _give_title(self, title: str) -> None:
        self.memory.set_title(self.thread_id, title, user_id=self.user_id)
        self.terminal.note("(titled)")

    def _forget(self, what: str) -> None:
        """Erase the last exchange, or the whole thread, for good."""
        from langchain_convmem.cli.rendering import format_receipt

        if what not in ("last", "thread"):
            raise ConfigError("say what: /forget last (the last exchange) or /forget thread")
        if not self.terminal.is_interactive:
            raise ConfigError("nobody is there to confirm; use 'convmem forget --yes'")
        scope: Mapping[str, Any] = {"user_id": self.user_id, "thread_id": self.thread_id}
        name = self.memory.get_title(self.thread_id, user_id=self.user_id) or self.thread_id
        question = f"Erase all of thread {name}, for good?"
        if what == "last":
            ids = self._list_last_entries()
            scope = {**scope, "entry_ids": ids}
            question = f"Erase the last {format_count(len(ids), 'entry', 'entries')}, for good?"
        if self.terminal.ask(question):
            self.terminal.print_line(format_receipt(self.memory.forget(**scope)))
        else:
            self.terminal.note("(nothing was erased)")

    def _list_last_entries(self) -> list[str]:
        """Return the ids of the entries of the last question and of what followed it."""
        turns = self._open_history().turns
        asked = [number for number, turn in enumerate(turns) if turn.role == "user"]
        if not asked:
            raise ConfigError("nothing was said in this thread that could be erased")
        return [entry.id for turn in turns[asked[-1] :] for entry in turn.entries]

    # -- a turn -----------------------------------------------------------------------------------

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
        self._note_problems(found)
        self.terminal.print_lines(
            line._replace(style="dim") for line in format_recall_briefly(found)
        )
        return None


# -- what a line asks for -------------------------------------------------------------------------

HELP = """\
/recall TEXT     what was said that fits TEXT
/why             what was recalled for your last message, and why
/history         this thread, turn by turn
/summary         what stands for the older part of this thread
/profile         what is known of you, in your own words
/retry           another answer to your last message
/edit [TEXT]     say TEXT instead of your last message
/undo            take back your last message and its answer
/thread [NAME|new] your latest threads, or go to one of them, or to a new one
/title TEXT      give this thread a title
/forget last|thread  erase the last exchange, or this thread, for good
/help            this list
/quit            end the chat (so does Ctrl-D)
Any other line is a message; one that starts with // loses its first slash.\
"""
_PLAIN = ("why", "history", "summary", "profile", "retry", "undo", "help", "quit")
"""Commands that take nothing."""
_WITH_TEXT = ("recall", "title", "forget")
"""Commands that need a text."""
_COMMANDS = (*_WITH_TEXT, *_PLAIN, "edit", "thread")
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
    is_bare = name in _PLAIN and bool(text)
    if name not in _COMMANDS or is_bare or (name in _WITH_TEXT and not text):
        known = ", ".join(f"/{known}" for known in _COMMANDS)
        msg = f"'/{match[1]}' is not a command; expected {known} (see /help, or start with //)"
        raise UnknownCommandError(msg)
    return ChatCommand(name, text)
