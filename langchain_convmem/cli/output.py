"""The terminal: where commands read and print, and how text becomes safe to print.

The only file that knows rich and the streams of the process. Light to import.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from langchain_convmem.errors import ConfigError, ConvMemError, MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console

_WIDEST = 120
"""Columns of a line at most: longer ones are hard to read."""

Stage = Callable[[str], Callable[[int, int], None]]
"""Names a stage of a job and gets the function that reports how much of it is done, of all."""


class Styled(NamedTuple):
    """A line and how it looks on a terminal that has styles."""

    text: str
    style: str | None = None


class Terminal:
    """Where a command reads and prints. Text is shown as it is, control characters made visible.

    Attributes:
        is_interactive: Whether a person sits in front of it, rather than a pipe.
        as_json: Whether results are to be printed as JSON.
    """

    def __init__(self, out: Console, err: Console, *, as_json: bool = False) -> None:
        """Print results on `out`, everything else on `err`."""
        self._out = out
        self._err = err
        self._is_mid_line = False
        self._editor: LineEditor | None = None
        self._said_before: list[str] = []
        self.is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
        self.as_json = as_json

    @classmethod
    def open(cls, *, as_json: bool = False, file: IO[str] | None = None) -> Terminal:
        """Return the terminal of the process; with `file`, results go there.

        Raises:
            MissingExtraError: If rich is not installed.
        """
        try:
            from rich.console import Console
        except ImportError as error:
            raise MissingExtraError.build("the command line convmem", "cli") from error
        return cls(Console(file=file), Console(stderr=True), as_json=as_json)

    @property
    def width(self) -> int:
        """How many columns a line of a result may take."""
        return min(self._out.width, _WIDEST) if self._out.is_terminal else _WIDEST

    # -- results ----------------------------------------------------------------------------------

    def print_line(self, text: str, style: str | None = None) -> None:
        """Print a line of the result, or the rest of one; line ends in it are shown as such."""
        self.print_text(escape_line(text), style)

    def print_result(self, value: Any, lines: Iterable[Styled | str], code: int = 0) -> int:
        """Print the whole result, as JSON where that is asked for, else as lines; return `code`.

        Args:
            value: The result: plain data and records.
            lines: See `print_lines`; those of a generator are made only if they are printed.
            code: What the command ends with.
        """
        if self.as_json:
            self.print_json(value)
        else:
            self.print_lines(lines)
        return code

    def print_lines(self, lines: Iterable[Styled | str]) -> None:
        """Print lines of the result: styled ones as they are, plain ones as by `print_line`."""
        for line in lines:
            if isinstance(line, str):
                self.print_line(line)
            else:
                self.print_text(line.text, line.style)

    def print_text(self, text: str, style: str | None = None) -> None:
        """Print text of any number of lines."""
        self._is_mid_line = False
        self._out.out(self._fold(text), style=style, highlight=False)

    def _fold(self, text: str) -> str:
        shown = escape_controls(text)
        if not self._out.is_terminal:
            return shown
        return "\n".join(fold_line(line, self.width) for line in shown.split("\n"))

    def print_json(self, value: Any) -> None:
        """Print the whole result as JSON; records as `make_data` shows them."""
        self._out.out(encode_json(make_data(value)), highlight=False)

    def print_json_line(self, value: Any) -> None:
        """Print one of several results as JSON on a line of its own, at once."""
        self._out.out(encode_json(make_data(value), indent=None), highlight=False)
        self._out.file.flush()

    def print_rows(self, rows: Iterable[str]) -> int:
        """Print rows of JSON or of our own text as UTF-8, whatever the encoding of the process.

        A terminal gets JSON with control characters escaped, which reads back the same.

        Returns:
            How many.
        """
        file = self._out.file
        if isinstance(file, io.TextIOWrapper) and not self._out.is_terminal:
            file.reconfigure(encoding="utf-8")
        count = 0
        for count, row in enumerate(rows, 1):  # noqa: B007 - how many there are
            file.write(f"{_escape_json(row) if self._out.is_terminal else row}\n")
        file.flush()
        return count

    def write(self, text: str) -> None:
        """Print a piece of a line at once."""
        self._is_mid_line = not text.endswith("\n") if text else self._is_mid_line
        self._out.out(escape_controls(text), end="", highlight=False)

    def break_off(self) -> None:
        """End a line that was not finished, so that what comes next starts on its own."""
        if self._is_mid_line:
            self.print_line("")

    @contextlib.contextmanager
    def render_markdown(self) -> Iterator[Callable[[str], None]]:
        """Give out a function that writes pieces of an answer: Markdown on a terminal with styles.

        Each block is shown when it is complete, a list or a table whole. What is left at the end,
        or when the answer breaks off, is shown as well.
        """
        if not self.can_edit or self._out.is_dumb_terminal:
            yield self.write
            return
        blocks = MarkdownBlocks()
        try:
            yield lambda piece: self._print_blocks(blocks.add(piece))
        finally:
            self._print_blocks(blocks.finish())

    def _print_blocks(self, blocks: Iterable[str]) -> None:
        from rich.markdown import Markdown

        for block in blocks:
            self._out.print(Markdown(escape_controls(block), hyperlinks=False))

    def end_text(self) -> None:
        """End an answer, with a line end if it has none yet."""
        if self._is_mid_line or not self.is_interactive:
            self.print_line("")

    # -- everything else --------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Say something that is not a result, in one line."""
        self.note_text(escape_line(text))

    def note_text(self, text: str) -> None:
        """Say something that is not a result, in any number of lines."""
        self._err.out(self._fold(text), style="dim", highlight=False)

    def complain(self, error: Exception) -> None:
        """Say what went wrong, where the command goes on."""
        self._err.out(self._fold(f"convmem: {error}"), style="red", highlight=False)

    @contextlib.contextmanager
    def show_progress(self) -> Iterator[Stage]:
        """Show bars on standard error while the block runs, one per stage, with the time left."""
        from rich import progress

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(compact=True),
        )
        quiet = not self._err.is_terminal
        with progress.Progress(*columns, console=self._err, transient=True, disable=quiet) as bars:

            def add_stage(name: str) -> Callable[[int, int], None]:
                task = bars.add_task(name, total=None)
                return lambda done, total: bars.update(task, completed=done, total=total)

            yield add_stage

    # -- input ------------------------------------------------------------------------------------

    def read_lines(self, prompt: str) -> Iterator[str]:
        """Yield lines of standard input until its end, or until Ctrl-C while waiting for one.

        Args:
            prompt: Shown to a person before each line.

        Raises:
            ConfigError: If the input is not UTF-8.
        """
        if self.is_interactive and not self.can_edit:
            with contextlib.suppress(ImportError):  # absent on some platforms
                import readline  # noqa: F401 - importing it lets input() edit lines
        while True:
            try:
                line = self._read_line(prompt)
                line.encode()
            except UnicodeError as error:
                msg = f"standard input is not UTF-8 text: {error}"
                raise ConfigError(msg) from error
            except EOFError:
                self.print_line("")
                return
            except KeyboardInterrupt:
                if not self.is_interactive:
                    raise
                self.print_line("")
                return
            if not line and not self.is_interactive:
                return
            yield line.rstrip("\r\n")

    @cached_property
    def can_edit(self) -> bool:
        """Whether lines are typed in an editor of ours, which takes pastes and several lines."""
        if not self.is_interactive or not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
            return False
        with contextlib.suppress(ImportError):
            self._editor = LineEditor()
        return self._editor is not None

    def remember_lines(self, lines: Iterable[str]) -> None:
        """Let the arrow keys bring back these lines, the last one first."""
        self._said_before = list(lines)
        if self.can_edit and self._editor is not None:
            self._editor.remember(self._said_before)

    def _read_line(self, prompt: str) -> str:
        if not self.is_interactive:
            return sys.stdin.readline()
        if self.can_edit and self._editor is not None:
            return self._editor.read(prompt)
        return input(prompt)

    def ask(self, question: str) -> bool:
        """Ask a person; anything but a yes is a no."""
        answer = next(self.read_lines(f"{escape_line(question)} [y/N] "), "")
        return is_yes(answer)


def _is_terminal(stream: Any) -> bool:
    try:
        return os.isatty(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return False


class LineEditor:
    """Where a person types: arrow keys bring back earlier lines, Alt-Enter begins a new one.

    A text that is pasted stays as it is, with all its lines, until Enter is pressed. Nothing typed
    is written to disk.
    """

    def __init__(self) -> None:
        """Make an editor on the process's terminal.

        Raises:
            ImportError: If prompt_toolkit is not installed.
        """
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

        keys = KeyBindings()

        @keys.add("escape", "enter")
        def insert_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        self._make_history = InMemoryHistory
        self._session: PromptSession[str] = PromptSession(
            history=InMemoryHistory(), key_bindings=keys
        )

    def remember(self, lines: Iterable[str]) -> None:
        """Let the arrow keys bring back these lines, the last one first."""
        from prompt_toolkit import PromptSession

        keys = self._session.key_bindings
        self._session = PromptSession(history=self._make_history(list(lines)), key_bindings=keys)

    def read(self, prompt: str) -> str:
        """Return what was typed."""
        return self._session.prompt(prompt)


class MarkdownBlocks:
    """Parts Markdown that comes in pieces into blocks, each given out when it is complete."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._text = ""

    def add(self, piece: str) -> list[str]:
        """Add a piece; return the blocks that are complete with it."""
        self._text += piece
        cut = self._find_end()
        done, self._text = self._text[:cut], self._text[cut:]
        return [done] if done.strip() else []

    def finish(self) -> list[str]:
        """Return what is left."""
        rest, self._text = self._text, ""
        return [rest] if rest.strip() else []

    def _find_end(self) -> int:
        """Return where the last complete block ends: after a blank line outside of a code block."""
        end = place = 0
        is_code = False
        for line in self._text.splitlines(keepends=True):
            place += len(line)
            if line.lstrip().startswith(("```", "~~~")):
                is_code = not is_code
            elif not line.strip() and line.endswith("\n") and not is_code:
                end = place
        return end


def fold_line(line: str, width: int) -> str:
    """Return a line as several where it is wider than a terminal: between words, further in."""
    if len(line) <= width:
        return line
    margin = line[: len(line) - len(line.lstrip())] + "  "
    return textwrap.fill(
        line,
        width,
        subsequent_indent=margin,
        expand_tabs=False,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )


def align(texts: Sequence[str], room: int) -> list[str]:
    """Return texts as a column, at most so many columns wide; a longer one ends after a word."""
    from rich.cells import cell_len, set_cell_size

    starts = [set_cell_size(one, room - 2) for one in texts]
    whole = [one.rpartition(" ")[0] or one[:-1] for one in starts]
    pairs = zip(texts, whole, strict=True)
    cut = [one if cell_len(one) <= room else f"{words}..." for one, words in pairs]
    width = max(map(cell_len, cut), default=0)
    return [set_cell_size(one, width) for one in cut]


def is_yes(answer: str) -> bool:
    """Return whether what a person typed agrees."""
    return answer.strip().lower() in {"y", "yes"}


# -- text -----------------------------------------------------------------------------------------


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Return the number with its noun: `1 thread`, `2 threads`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


_ON_TERMINALS = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""What JSON leaves as it is: C1 controls, separators of lines, direction marks, half characters."""
_CONTROLS = re.compile(rf"[\x00-\x08\x0b-\x1f{_ON_TERMINALS}]")
_NOT_IN_JSON = re.compile(f"[{_ON_TERMINALS}]")


def escape_controls(text: str) -> str:
    """Return the text with control characters made visible, line feeds and tabs apart.

    What was said once may come from anywhere; printed as it is, it could command the terminal, or
    let a line seem to say something else. Letters of any script, marks and emoji stay.
    """
    return _CONTROLS.sub(_escape_character, text.replace("\r\n", "\n"))


def escape_line(text: str) -> str:
    """Return what must stay one line, such as a name, with its line ends made visible as well."""
    return escape_controls(text).replace("\n", "\\n")


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < _FIRST_LONG else f"\\u{code:04x}"


_FIRST_LONG = 0x100


def make_data(value: Any) -> Any:
    """Return a value as plain data: records by the names of their fields.

    A thread's key stands as `user_id` and `thread_id` in what has it, and times are ISO 8601.
    """
    from langchain_core.messages import BaseMessage, message_to_dict

    from langchain_convmem.records import ThreadKey
    from langchain_convmem.views.codec import make_plain
    from langchain_convmem.views.lines import format_iso_time

    if isinstance(value, BaseMessage):
        return make_plain(message_to_dict(value))
    if is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, list | tuple):
        return [make_data(item) for item in value]
    if not isinstance(value, Mapping):
        return make_plain(value)
    data: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, ThreadKey):
            data |= make_data(item)
        elif name.endswith("_ms"):
            data[name.removesuffix("_ms")] = None if item is None else format_iso_time(item)
        else:
            data[name] = make_data(item)
    return data


def encode_json(value: Any, *, indent: int | None = 2) -> str:
    """Return the value as JSON that is safe to print and exact to read back."""
    return _escape_json(json.dumps(value, ensure_ascii=False, indent=indent))


def _escape_json(text: str) -> str:
    return _NOT_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


# -- files ----------------------------------------------------------------------------------------


def write_rows(path: Path, rows: Iterable[str]) -> int:
    """Write the file whole or not at all; only its owner may read it.

    Raises:
        ConfigError: If it cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise _describe_failure(path, error) from error
    unfinished = Path(name)
    try:
        count = 0
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            for row in rows:
                file.write(f"{row}\n")
                count += 1
        unfinished.replace(path)
    except OSError as error:
        if isinstance(error, ConvMemError):
            raise
        raise _describe_failure(path, error) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _describe_failure(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{path} cannot be written: {error.strerror or error}")
