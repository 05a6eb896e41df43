"""The terminal: the only file that knows rich and the process's streams."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from langchain_convmem.cli.plain_text import Styled, json_text, safe_text
from langchain_convmem.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Stage", "Terminal"]

Stage = Callable[[str], Callable[[int, int], None]]
"""Names a stage of a job and gets the function that reports how much of it is done, of all."""


class Terminal:
    """Where a command reads and prints. Text is shown as it is, terminal codes made visible.

    Attributes:
        is_interactive: Whether a person sits in front of it, rather than a pipe.
    """

    def __init__(self, out: Console, err: Console) -> None:
        """Print results on `out`, everything else on `err`."""
        self._out = out
        self._err = err
        self._is_mid_line = False
        self.is_interactive = sys.stdin.isatty() and sys.stdout.isatty()

    @classmethod
    def open(cls) -> Terminal:
        """Return the terminal of the process.

        Raises:
            MissingExtraError: If rich is not installed.
        """
        try:
            from rich.console import Console
        except ImportError as error:
            raise MissingExtraError.for_extra("the command line convmem", "cli") from error
        return cls(Console(), Console(stderr=True))

    def line(self, text: str, style: str | None = None) -> None:
        """Print a line of the result, or the rest of one."""
        self._is_mid_line = False
        self._out.out(safe_text(text), style=style, highlight=False)

    def lines(self, lines: Iterable[Styled]) -> None:
        """Print styled lines of the result."""
        for line in lines:
            self.line(line.text, line.style)

    def data(self, value: Any) -> None:
        """Print a result as JSON."""
        self._out.out(json_text(value), highlight=False)

    def raw_rows(self, rows: Iterable[str]) -> int:
        """Print rows that are safe to print as UTF-8, whatever the terminal's encoding.

        Returns:
            How many.
        """
        count = 0
        file = self._out.file
        buffer = getattr(file, "buffer", None)
        for row in rows:
            count += 1
            if buffer is None:
                file.write(f"{row}\n")
            else:
                buffer.write(f"{row}\n".encode())
        file.flush()
        return count

    def write(self, text: str) -> None:
        """Print a piece of a line at once."""
        self._is_mid_line = not text.endswith("\n") if text else self._is_mid_line
        self._out.out(safe_text(text), end="", highlight=False)

    def break_off(self) -> None:
        """End a line that was not finished, so that what comes next starts on its own."""
        if self._is_mid_line:
            self.line("")

    def note(self, text: str) -> None:
        """Say something that is no result."""
        self._err.out(safe_text(text), style="dim", highlight=False)

    def complain(self, error: Exception) -> None:
        """Say what went wrong, where the command goes on."""
        self._err.out(safe_text(f"convmem: {error}"), style="red", highlight=False)

    def typed(self, prompt: str) -> Iterator[str]:
        """Yield lines of standard input until its end, or until Ctrl-C while waiting for one.

        Args:
            prompt: Shown to a person before each line.

        Raises:
            ConfigError: If the input is not UTF-8.
        """
        if self.is_interactive:
            with contextlib.suppress(ImportError):  # absent on some platforms
                import readline  # noqa: F401 - importing it lets input() edit lines
        while True:
            try:
                line = input(prompt) if self.is_interactive else sys.stdin.readline()
                line.encode()
            except UnicodeError as error:
                msg = f"standard input is not UTF-8 text: {error}"
                raise ConfigError(msg) from error
            except EOFError:
                self.line("")
                return
            except KeyboardInterrupt:
                if not self.is_interactive:
                    raise
                self.line("")
                return
            if not line and not self.is_interactive:
                return
            yield line.rstrip("\r\n")

    def agrees(self, question: str) -> bool:
        """Ask a person; anything but a yes is a no."""
        answer = next(self.typed(f"{question} [y/N] "), "")
        return answer.strip().lower() in {"y", "yes"}

    @contextlib.contextmanager
    def progress(self) -> Iterator[Stage]:
        """Show bars on standard error while the block runs, one per stage, with the time left."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
        )
        quiet = not self._err.is_terminal
        with Progress(*columns, console=self._err, transient=True, disable=quiet) as bars:

            def stage(name: str) -> Callable[[int, int], None]:
                task = bars.add_task(name, total=None, rate="")

                def tell(done: int, total: int) -> None:
                    speed = next(one.speed for one in bars.tasks if one.id == task)
                    rate = "" if speed is None else f"{speed:,.0f}/s"
                    bars.update(task, completed=done, total=total, rate=rate)

                return tell

            yield stage
