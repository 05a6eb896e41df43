"""Anthropic's memory tool over the log: notes in files, of which no version is ever lost.

`ClaudeMemoryMiddleware` gives an agent the tool as `langchain-anthropic` does, with the log in
place of the graph's state: the files are the user's, in every thread and process.

    /memories/...      the files
    claude/memories    the thread that holds them: a message for each version

What an edit replaces stays in the log, out of every view, until somebody forgets it. Recall finds
the lines of files among all others; they bear the trust `tool`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from langchain_convmem.effects import Steps, perform, run_async, run_sync, sync, twin
from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.ids import make_ulid
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.turns.options import read_tool_user, refuse_unnamed_run
from langchain_convmem.views.edits import draft_retraction
from langchain_convmem.views.live import find_live_entries

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory

try:
    from langchain.agents.middleware.types import AgentState
    from langchain_anthropic.middleware import StateClaudeMemoryMiddleware
except ImportError as error:
    raise MissingExtraError.build("Anthropic's memory tool", "anthropic") from error

FILES_THREAD = "claude/memories"
"""The thread that holds a user's files."""
ROOT = "/memories"

_TOOL = "memory"
_MOST_CHARS = 100_000
_LONGEST_PATH = 512
_TRICKS = re.compile(r"[\\~%\x00-\x1f\x7f]|(?:^|/)\.{1,2}(?:/|$)|//")
"""What no path of ours has: other roots, climbing, escapes, and signs that nobody sees."""
_DESCRIPTION = (
    "Reads and edits your files of notes below /memories, which stay from one conversation to the "
    "next. Commands: view, create, str_replace, insert, delete, rename."
)

Command = Literal["view", "create", "str_replace", "insert", "delete", "rename"]


class FileCommand(BaseModel):
    """A call of the memory tool, as Anthropic's models make it."""

    command: Command
    path: str | None = Field(default=None, description="A file or folder below /memories.")
    view_range: list[int] | None = Field(
        default=None, description="First and last line to view, from 1; -1 is the last one."
    )
    file_text: str | None = Field(default=None, description="What to create a file with.")
    old_str: str | None = Field(default=None, description="What to replace; it must stand once.")
    new_str: str | None = Field(default=None, description="What to put in its place.")
    insert_line: int | None = Field(default=None, description="After which line; 0 is the top.")
    insert_text: str | None = Field(default=None, description="What to insert.")
    old_path: str | None = Field(default=None, description="What to rename.")
    new_path: str | None = Field(default=None, description="What to call it.")


@dataclass(frozen=True, slots=True)
class FileVersion:
    """What a file said from some time on.

    Attributes:
        entry_id: Of the entry that holds it; what `restore` takes.
        text: The text.
        time_ms: When it was written, milliseconds since the epoch.
        is_current: Whether it is what the file says now.
    """

    entry_id: str
    text: str
    time_ms: int
    is_current: bool


class CommandError(ValueError):
    """A command that cannot be done; the message is for the model."""


@dataclass(slots=True)
class _Plan:
    """What a command does.

    Attributes:
        reply: What the model is told.
        written: The new text of files, by path.
        gone: Paths of files that are no more.
    """

    reply: str
    written: Mapping[str, str] = field(default_factory=dict)
    gone: Sequence[str] = ()


# -- The files of a user --------------------------------------------------------------------------
class MemoryFiles:
    """A user's files below `/memories`, as entries of the log. Thread-safe; sync and async.

    Two agents that edit one file at the same moment may each build on what stood there before: the
    later edit is what the file says, and `list_versions` has both.
    """

    def __init__(self, memory: ConversationMemory, *, user_id: str) -> None:
        """Look at the files of a user; the caller closes the memory."""
        self._memory = memory
        self._key = ThreadKey(user_id, FILES_THREAD)

    @sync
    def run(self, command: FileCommand) -> Steps[str]:
        """Do what a model asks, and return what it is told; a refusal begins with "Error:"."""
        files = _list_files((yield from self._read_steps()))
        texts = {path: found.text for path, found in files.items()}
        try:
            plan = _COMMANDS[command.command](texts, command)
        except CommandError as refusal:
            return f"Error: {refusal}"
        is_stored = yield from self._write_steps(files, plan)
        return plan.reply if is_stored else f"Error: {_NOT_STORED}"

    arun = twin(run)
    """Async `run`."""

    @sync
    def read_all(self) -> Steps[dict[str, str]]:
        """Return the text of every file, by path."""
        files = _list_files((yield from self._read_steps()))
        return {path: found.text for path, found in sorted(files.items())}

    aread_all = twin(read_all)
    """Async `read_all`."""

    @sync
    def list_versions(self, path: str) -> Steps[list[FileVersion]]:
        """Return all that a file ever said, latest first; nothing of what was forgotten."""
        entries = yield from self._read_steps()
        current = _list_files(entries).get(path)
        return [
            FileVersion(one.entry_id, one.text, one.time_ms, one == current)
            for one in reversed(_list_all(entries))
            if one.path == path
        ]

    alist_versions = twin(list_versions)
    """Async `list_versions`."""

    @sync
    def restore(self, path: str, entry_id: str) -> Steps[None]:
        """Let a file say what it said in an earlier version, also one that was deleted.

        Raises:
            ConfigError: If the file has no such version, or the memory does not store it.
        """
        entries = yield from self._read_steps()
        found = {one.entry_id: one.text for one in _list_all(entries) if one.path == path}
        if entry_id not in found:
            raise ConfigError("this file has no such version; list_versions names them")
        plan = _Plan("", {path: found[entry_id]})
        if not (yield from self._write_steps(_list_files(entries), plan)):
            raise ConfigError(_NOT_STORED)

    arestore = twin(restore)
    """Async `restore`."""

    def _read_steps(self) -> Steps[list[Entry]]:
        log = self._memory.log
        found: list[Entry] = yield from perform(log.entries, log.aentries, self._key)
        return found

    def _write_steps(self, files: Mapping[str, _File], plan: _Plan) -> Steps[bool]:
        """Do what was planned; return whether all of it was stored."""
        memory, key = self._memory, self._key
        changed = [path for path in (*plan.written, *plan.gone) if path in files]
        messages = [
            AIMessage(text, id=f"{path}@{make_ulid()}", additional_kwargs=_make_marks(path))
            for path, text in plan.written.items()
        ]
        if messages:  # first: a crash between the two leaves the newer version to be read
            stored: list[Entry] = yield from perform(
                memory.add_messages,
                memory.aadd_messages,
                messages,
                thread_id=key.thread_id,
                user_id=key.user_id,
            )
            if len(stored) < len(messages):
                return False  # what stood there goes on to stand
        replaced = draft_retraction([files[path].entry_id for path in changed], "undo")
        if replaced:
            yield from perform(memory.log.append, memory.log.aappend, key, replaced)
        return True


_NOT_STORED = "the memory's write hook stores nothing of it"
_PATH = "file_path"
"""In a message: the file that it is a version of."""


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    text: str
    entry_id: str
    time_ms: int


def _make_marks(path: str) -> dict[str, Any]:
    return {"trust": "tool", _PATH: path}


def _read_file(entry: Entry) -> _File:
    message = entry.message
    marks = {} if message is None else message.additional_kwargs
    text = "" if message is None else str(message.content)
    created_ms = entry.metadata.timing.get("creation", 0)
    return _File(str(marks.get(_PATH, "")), text, entry.id, created_ms)


def _list_all(entries: Iterable[Entry]) -> list[_File]:
    """Return every version of every file, in order."""
    found = (_read_file(entry) for entry in entries if entry.message is not None)
    return [one for one in found if one.path]


def _list_files(entries: Sequence[Entry]) -> dict[str, _File]:
    """Return what each file says now; of two versions that both hold, the later one."""
    return {one.path: one for one in _list_all(find_live_entries(entries))}


# -- Commands, as functions of the files ----------------------------------------------------------
def _show(files: Mapping[str, str], asked: FileCommand) -> _Plan:
    path = _check_path(asked.path)
    if path in files:
        return _Plan(_number_lines(path, files[path], asked.view_range))
    below = _list_below(files, path)
    if not below and path != ROOT:
        raise CommandError(f"the path {path} does not exist")
    rows = [f"{len(files[one])}\t{one}" for one in below]
    return _Plan("\n".join([f"Files below {path}, with their characters:", *rows]))


def _create(files: Mapping[str, str], asked: FileCommand) -> _Plan:
    path = _check_file(asked.path)
    if path in files:
        raise CommandError(f"file {path} already exists; edit it by str_replace or insert")
    _check_place(files, path)
    return _Plan(f"File created at: {path}", {path: _check_text(asked.file_text, "file_text")})


def _replace(files: Mapping[str, str], asked: FileCommand) -> _Plan:
    path, text = _find_file(files, asked.path)
    old, new = asked.old_str or "", asked.new_str or ""
    count = text.count(old) if old else 0
    if count != 1:
        lines = [str(number) for number in _list_lines_with(text, old)]
        where = f"it stands {count} times, in lines {', '.join(lines)}" if count else "it is not in"
        raise CommandError(f"old_str must stand once in {path}; {where} the file")
    edited = _check_text(text.replace(old, new), "the file")
    return _Plan(f"The file {path} has been edited.", {path: edited})


def _insert(files: Mapping[str, str], asked: FileCommand) -> _Plan:
    path, text = _find_file(files, asked.path)
    lines = text.splitlines(keepends=True)
    at = asked.insert_line
    if at is None or not 0 <= at <= len(lines):
        raise CommandError(f"insert_line is {at}; {path} has lines 0 to {len(lines)}")
    added = asked.insert_text if asked.insert_text is not None else asked.new_str or ""
    before = "".join(lines[:at])
    start = "\n" if before and not before.endswith("\n") else ""
    end = "" if added.endswith("\n") or at == len(lines) else "\n"
    edited = f"{before}{start}{added}{end}{''.join(lines[at:])}"
    return _Plan(f"The file {path} has been edited.", {path: _check_text(edited, "the file")})


def _delete(files: Mapping[str, str], asked: FileCommand) -> _Plan:
    path = _check_file(asked.path)
    gone = [path] if path in files else _list_below(files, path)
    if not gone:
        raise CommandError(f"the path {path} does not exist")
    return _Plan(f"Deleted {path}", gone=gone)


def _rename(files: Mapping[str, str], asked: FileCommand) -> _Plan:
    old, new = _check_file(asked.old_path or asked.path), _check_file(asked.new_path)
    moved = [old] if old in files else _list_below(files, old)
    if not moved:
        raise CommandError(f"the path {old} does not exist")
    if new in files or _list_below(files, new):
        raise CommandError(f"the destination {new} already exists")
    if f"{new}/".startswith(f"{old}/"):
        raise CommandError("a folder cannot be moved into itself")
    left = {path: text for path, text in files.items() if path not in moved}
    _check_place(left, new)
    written = {_check_file(new + path[len(old) :]): files[path] for path in moved}
    return _Plan(f"Renamed {old} to {new}", written, moved)


_COMMANDS: Mapping[str, Callable[[Mapping[str, str], FileCommand], _Plan]] = {
    "view": _show,
    "create": _create,
    "str_replace": _replace,
    "insert": _insert,
    "delete": _delete,
    "rename": _rename,
}


def _check_path(path: str | None) -> str:
    """Return a path without a slash at its end.

    Raises:
        CommandError: If it does not lead below `/memories`, plainly written.
    """
    plain = (path or "").rstrip("/")
    is_below = plain == ROOT or plain.startswith(f"{ROOT}/")
    if not is_below or len(plain) > _LONGEST_PATH or _TRICKS.search(plain):
        raise CommandError(f"a path begins with {ROOT}/ and is written plainly, without . or ..")
    return plain


def _check_file(path: str | None) -> str:
    plain = _check_path(path)
    if plain == ROOT:
        raise CommandError(f"{ROOT} itself stays as it is; name what is below it")
    return plain


def _check_place(files: Mapping[str, str], path: str) -> None:
    """Refuse a file where there is a folder, or below another file."""
    if _list_below(files, path):
        raise CommandError(f"{path} is a folder")
    above = [one for one in files if path.startswith(f"{one}/")]
    if above:
        raise CommandError(f"{above[0]} is a file and holds no others")


def _find_file(files: Mapping[str, str], path: str | None) -> tuple[str, str]:
    plain = _check_file(path)
    if plain not in files:
        raise CommandError(f"the file {plain} does not exist")
    return plain, files[plain]


def _check_text(text: str | None, what: str) -> str:
    if text is None:
        raise CommandError(f"{what} is missing")
    if len(text) > _MOST_CHARS:
        raise CommandError(f"{what} may have {_MOST_CHARS:,} characters; split it into files")
    return text


def _list_below(files: Mapping[str, str], folder: str) -> list[str]:
    return sorted(path for path in files if path.startswith(f"{folder}/"))


def _list_lines_with(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted) if wanted else -1
    while at >= 0:
        yield text.count("\n", 0, at) + 1
        at = text.find(wanted, at + 1)


def _number_lines(path: str, text: str, bounds: Sequence[int] | None) -> str:
    lines = text.split("\n")
    first, last = 1, len(lines)
    if bounds is not None:
        if len(bounds) != 2:  # noqa: PLR2004 - the first and the last
            raise CommandError("view_range has two numbers: the first and the last line")
        first, last = bounds[0], len(lines) if bounds[1] == -1 else bounds[1]
        if not 1 <= first <= last <= len(lines):
            raise CommandError(f"view_range is {list(bounds)}; {path} has lines 1 to {len(lines)}")
    rows = [f"{number:6}\t{lines[number - 1]}" for number in range(first, last + 1)]
    return "\n".join([f"The content of {path}, with line numbers:", *rows])


# -- The tool, and the middleware -----------------------------------------------------------------
def make_memory_tool(memory: ConversationMemory, *, user_id: str | None = None) -> BaseTool:
    """Return the tool for any model that calls tools; Claude's own form is the middleware's.

    Args:
        memory: Where the files are kept; the caller closes it.
        user_id: Whose files, whatever the run's config says; None is its `user_id`.
    """

    def edit(config: RunnableConfig, **asked: Any) -> str:
        return run_sync(_run_steps(memory, user_id, config, asked))

    async def aedit(config: RunnableConfig, **asked: Any) -> str:
        return await run_async(_run_steps(memory, user_id, config, asked))

    return StructuredTool.from_function(
        edit,
        aedit,
        name=_TOOL,
        description=_DESCRIPTION,
        args_schema=FileCommand,
        infer_schema=False,
    )


def _run_steps(
    memory: ConversationMemory, fixed: str | None, config: RunnableConfig, asked: Mapping[str, Any]
) -> Steps[str]:
    user = read_tool_user(config.get("configurable", {}), fixed)
    if user is None:
        refuse_unnamed_run("the memory tool does not know whose files to read")
    files = MemoryFiles(memory, user_id=user)
    command = FileCommand.model_validate(asked)
    reply: str = yield from perform(files.run, files.arun, command)
    return reply


class ClaudeMemoryMiddleware(StateClaudeMemoryMiddleware):
    """Anthropic's memory tool for `create_agent`, with the files in the memory's log.

    Takes the place of `StateClaudeMemoryMiddleware` and `FilesystemClaudeMemoryMiddleware`.
    """

    state_schema: Any = AgentState  # no files in the state of the graph

    def __init__(
        self,
        memory: ConversationMemory,
        *,
        user_id: str | None = None,
        system_prompt: str | None = None,
    ) -> None:
        """Give an agent the files of a user.

        Args:
            memory: Where the files are kept; the caller closes it.
            user_id: Whose files, whatever the run's config says; None is its `user_id`.
            system_prompt: What the model is told about the tool; None is Anthropic's own text.
        """
        if system_prompt is None:
            super().__init__()
        else:
            super().__init__(system_prompt=system_prompt)
        self.tools = [make_memory_tool(memory, user_id=user_id)]
