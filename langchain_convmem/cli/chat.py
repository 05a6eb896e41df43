"""`convmem chat`: a conversation line by line, on a terminal or through a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click

from langchain_convmem.cli.models import (
    OFFLINE_NOTICE,
    ModelCallError,
    choose_model,
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
    from langchain_convmem.views.lines import Recall

_SHOWN_THREADS = 10


@command(
    "chat",
    "convmem chat --continue",
    "convmem chat --show-recall",
    "convmem chat --model openai:gpt-5-mini --thread garden",
    "convmem chat --prompt tutor.prompt",
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
    help="Provider and model, such as openai:gpt-5.  [default: the offline model]",
)
@click.option("--base-url", metavar="URL", help="The address of the model's server.")
@click.option("--prompt", metavar="FILE", type=click.Path(), help="The prompt file to chat with.")
@click.option("--no-recall", is_flag=True, help="Turn recall off.")
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
    no_recall: bool,
    show_recall: bool,
) -> int:
    """Talk with an assistant that remembers.

    Every message is stored, and recalled in later chats. On a terminal, type /help for the
    commands; Alt-Enter starts a new line, and the arrow keys bring back earlier messages. From a
    pipe, each line is one message. With --json, each answer is one line of JSON.
    """
    from langchain_convmem.offline import OfflineChatModel

    if thread is not None and goes_on:
        refuse_usage("--thread and --continue exclude each other")
    # Before the database, so that a misspelt model or a bad prompt file leaves none there.
    chosen = choose_model(model, base_url=base_url)
    template = _load_prompt(prompt, terminal)
    with open_memory(db, create=not goes_on, profile_tokens=PROFILE_TOKENS) as memory:
        place = _choose_thread(memory, user, thread, goes_on=goes_on)
        if isinstance(chosen, OfflineChatModel):
            terminal.note(OFFLINE_NOTICE)
        title = memory.get_title(place, user_id=user)
        name = f"thread {title}" if title else f"thread {place}: continue it with --thread {place}"
        terminal.note(name)
        chain = memory.wrap(template | translate_errors(chosen))
        recalls, shows = not no_recall, show_recall and not no_recall
        session = ChatSession(memory, chain, terminal, user, place, recalls, shows)
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


def _load_prompt(path: str | None, terminal: Terminal) -> ChatPromptTemplate:
    """Return the prompt of a file, and say what in the file looks like a slip; or a plain one."""
    from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

    from langchain_convmem.prompts import PromptFile

    if path is None:
        return ChatPromptTemplate([MessagesPlaceholder("history"), MessagesPlaceholder("input")])
    try:
        file = PromptFile.load(path)
    except OSError as error:
        msg = f"the prompt file {path} cannot be read: {error.strerror or error}"
        raise ConfigError(msg) from error
    for finding in file.diagnostics:
        terminal.note_text(str(finding))
    return file.to_chat_prompt()


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

    def take(self, line: str) -> bool:
        """Do what a line asks for; False ends the chat.

        A pipe has nobody to read a complaint and go on, so there every error ends the chat.
        """
        try:
            asked = parse_line(line)
            return asked is None or self._do(*asked)
        except (ModelCallError, ConfigError) as error:
            self.terminal.break_off()
            if not self.terminal.is_interactive:
                raise
            self.terminal.complain(error)
        except KeyboardInterrupt:
            self.terminal.break_off()
            if not self.terminal.is_interactive:
                raise
            self.terminal.note("(stopped; the text so far is kept)")
        return True

    def list_questions(self) -> list[str]:
        """Return what the user said in the thread, for the history keys."""
        turns = self._open_history().turns
        return ["\n".join(turn.contents) for turn in turns if turn.role == "user" and turn.contents]

    def _do(self, name: str, text: str) -> bool:
        if name == "quit":
            return False
        actions: dict[str, Callable[[str], None]] = {
            "say": self._say,
            "help": lambda _: self._print("help", HELP),
            "history": lambda _: self._show_history(),
            "recall": self._recall,
            "why": lambda _: self._explain(),
            "undo": lambda _: self._print("undo", f"undone: {self._take_back()}"),
            "retry": lambda _: self._say(self._take_back()),
            "edit": self._edit,
            "thread": self._go_to_thread,
            "title": self._give_title,
            "forget": self._forget,
            "summary": lambda _: self._show_summary(),
            "profile": lambda _: self._show_profile(),
        }
        actions[name](text)
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
        from langchain_convmem.cli.rendering import describe_recall, format_recall, list_titles

        self._note_problems(found)
        titles = list_titles(self.memory.log, found)
        self._emit(kind, describe_recall(question, found), format_recall(found, titles))

    def _note_problems(self, found: Recall) -> None:
        for problem in () if self.terminal.as_json else found.problems:
            self.terminal.note(problem)

    def _explain(self) -> None:
        """Show what a model gets from other threads for the last question, and why."""
        questions = self.list_questions()
        if not questions:
            raise ConfigError("this thread has no question yet")
        if not self.recalls:
            raise ConfigError("this chat was started with --no-recall")
        found = self.memory.recall(
            questions[-1], user_id=self.user_id, thread_id=self.thread_id, remember=False
        )
        self._print_recall("why", questions[-1], found)

    def _show_history(self) -> None:
        from langchain_convmem.cli.rendering import format_log
        from langchain_convmem.views.live import find_live_entries

        thread = self._open_history()
        self._emit("history", {"text": str(thread)}, format_log(find_live_entries(thread.entries)))

    def _show_profile(self) -> None:
        profile = self.memory.profile(self.user_id)
        text = Styled(profile.to_markdown().rstrip())
        self._emit("profile", {"items": profile.to_json()}, [text])

    def _show_summary(self) -> None:
        summary = self._open_history().last_summary
        text = "no summary yet" if summary is None else "\n".join(summary.contents)
        self._print("summary", text)

    # -- saying something, and undoing it ---------------------------------------------------------

    def _say(self, text: str) -> None:
        recalled = self._look_up(text) if self.shows_recall else None
        pieces = []
        stream = cast("Generator[Any]", self.chain.stream(text, config=self._build_config()))
        # Closed at once when Ctrl-C falls between two pieces: that is what keeps the first ones.
        with closing(stream), self.terminal.render_markdown() as write:
            for piece in stream:
                pieces.append(piece.text)
                if not self.terminal.as_json:
                    write(piece.text)
        if not self.terminal.as_json:
            self.terminal.end_text()
            return
        said = {"thread_id": self.thread_id, "text": text, "reply": "".join(pieces)}
        self.terminal.print_json_line({"kind": "reply", **said, "recall": recalled})

    def _edit(self, text: str) -> None:
        """Replace the last message."""
        self._take_back()
        self._say(text)

    def _take_back(self) -> str:
        """Undo the last exchange, and return the user's message."""
        questions = self.list_questions()
        if not questions:
            raise ConfigError("this thread has no message to undo")
        self._open_history().undo()
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
        from langchain_convmem.cli.rendering import format_threads

        threads = self.memory.threads(user_id=self.user_id)[:_SHOWN_THREADS]
        shown = format_threads(threads, self.terminal.width)
        self._emit("threads", {"threads": threads}, shown)

    def _give_title(self, title: str) -> None:
        self.memory.set_title(self.thread_id, title, user_id=self.user_id)
        self.terminal.note("(titled)")

    def _forget(self, what: str) -> None:
        """Erase the last exchange, or the whole thread, for good."""
        from langchain_convmem.cli.rendering import format_receipt

        if what not in ("last", "thread"):
            raise ConfigError("say what: /forget last (the last exchange) or /forget thread")
        if not self.terminal.is_interactive:
            raise ConfigError("this needs a terminal to confirm; use 'convmem forget --yes'")
        scope: Mapping[str, Any] = {"user_id": self.user_id, "thread_id": self.thread_id}
        name = self.memory.get_title(self.thread_id, user_id=self.user_id) or self.thread_id
        question = f"Permanently erase all of thread {name}?"
        if what == "last":
            ids = self._list_last_entries()
            scope = {**scope, "entry_ids": ids}
            question = f"Permanently erase the last {format_count(len(ids), 'entry', 'entries')}?"
        if self.terminal.ask(question):
            self.terminal.print_line(format_receipt(self.memory.forget(**scope)))
        else:
            self.terminal.note("(nothing was erased)")

    def _list_last_entries(self) -> list[str]:
        """Return the ids of the entries of the last question and of what followed it."""
        turns = self._open_history().turns
        asked = [number for number, turn in enumerate(turns) if turn.role == "user"]
        if not asked:
            raise ConfigError("this thread has no message to erase")
        return [entry.id for turn in turns[asked[-1] :] for entry in turn.entries]

    # -- a turn -----------------------------------------------------------------------------------

    def _build_config(self) -> RunnableConfig:
        switches = {"recall": self.recalls}
        names = {"user_id": self.user_id, "thread_id": self.thread_id}
        return {"configurable": {**names, "memory": switches}}

    def _look_up(self, text: str) -> dict[str, Any] | None:
        """Print in brief what the model is about to be given for the text; as JSON, return it."""
        from langchain_convmem.cli.rendering import describe_recall, format_recall_briefly

        found = self.memory.recall(text, user_id=self.user_id, thread_id=self.thread_id)
        if self.terminal.as_json:
            return describe_recall(text, found)
        if not self.terminal.is_interactive:
            self.terminal.print_line(f"> {text}")  # nobody typed it into this transcript
        self._note_problems(found)
        self.terminal.print_lines(
            line._replace(style="dim") for line in format_recall_briefly(found)
        )
        return None


# -- what a line asks for -------------------------------------------------------------------------

HELP = """\
/recall TEXT     show lines that match TEXT
/why             show what was recalled for your last message, and why
/history         show this thread, turn by turn
/summary         show the summary of this thread's older part
/profile         show what you said about yourself
/retry           get another answer to your last message
/edit TEXT       replace your last message with TEXT
/undo            undo your last message and its answer
/thread [NAME|new] list your latest threads, open one, or start a new one
/title TEXT      give this thread a title
/forget last|thread  erase the last exchange, or this thread, for good
/help            show this list
/quit            end the chat (so does Ctrl-D)
Any other line is a message; one that starts with // loses its first slash.\
"""
_PLAIN = ("why", "history", "summary", "profile", "retry", "undo", "help", "quit")
"""Commands that take nothing."""
_WITH_TEXT = ("recall", "title", "forget", "edit")
"""Commands that need a text."""
_COMMANDS = (*_WITH_TEXT, *_PLAIN, "thread")
# One word after a slash: a path or a fraction at the start of a message is not one.
_COMMAND = re.compile(r"/([A-Za-z]+)(?:\s+(.*))?", re.DOTALL)


def parse_line(line: str) -> tuple[str, str] | None:
    """Return what the line asks for: `say` or a command, and its text; None for a blank line.

    Raises:
        ConfigError: If it looks like a command and is not one, before it is taken for something
            said and remembered; `/recall` alone, without a text, counts as such.
    """
    if not line.strip():
        return None
    if line.startswith("//"):
        return "say", line[1:]
    match = _COMMAND.fullmatch(line.strip())
    if match is None:
        return "say", line
    name, text = match[1].lower(), (match[2] or "").strip()
    if name not in _COMMANDS:
        fault = f"is not a command; expected {', '.join(f'/{known}' for known in _COMMANDS)}"
    elif name in _PLAIN and text:
        fault = "takes no text"
    elif name in _WITH_TEXT and not text:
        fault = "needs a text"
    else:
        return name, text
    raise ConfigError(f"'/{match[1]}' {fault} (see /help, or start with //)")
