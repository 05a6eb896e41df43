"""The part of a history that hands out maps and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_convmem.errors import ConfigError
from langchain_convmem.history.thread import LogThread
from langchain_convmem.protocols import ThreadState
from langchain_convmem.records import Entry, StateDocument
from langchain_convmem.steps import Steps, arun, run, step
from langchain_convmem.views.export import ExportCursor, export, turn_maps
from langchain_convmem.views.printing import html_table, text_table
from langchain_convmem.views.turns import turns

__all__ = ["ExportedThread"]

DEFAULT_SINK = "default"


class ExportedThread(LogThread):
    """Turns as maps for a NoSQL log, and as tables for people."""

    def to_maps(
        self, *, incremental: bool = True, exclude_last: bool = True, sink: str = DEFAULT_SINK
    ) -> list[dict[str, Any]]:
        """Return the conversation's turns as maps, to be stored by `id`.

        A map is `{"id", "message": {"role", "contents"}, "metadata"}`; `metadata` has `summaryIds`,
        `attribute` and `aux` where they are set, and `timing` in milliseconds since the epoch.

        An increment never skips or repeats a turn, whoever else exports or writes meanwhile. A turn
        that changed after it was given out (it grew, was edited, or was split by a summary) comes
        again whole under its id. A turn that was given out and then undone, cleared or replaced
        comes once more as it was, with `retracted` in its `attribute`; when an undo is undone, it
        comes again without. Metadata that is added to a turn after it was given out, and what
        `forget` erases, make no increment.

        Args:
            incremental: Only what `sink` has not got yet, and remember that it has it now. Else
                everything that counts, and remember nothing.
            exclude_last: Leave out the last turn, which may still grow. Pass False when a
                conversation is over.
            sink: Who takes the maps; every sink has a cursor of its own.

        Raises:
            ConfigError: If `sink` is empty, or the log cannot keep cursors.
        """
        return run(self._exporting(incremental, exclude_last, sink))

    async def ato_maps(
        self, *, incremental: bool = True, exclude_last: bool = True, sink: str = DEFAULT_SINK
    ) -> list[dict[str, Any]]:
        """Return the conversation's turns as maps; see `to_maps`."""
        return await arun(self._exporting(incremental, exclude_last, sink))

    def _exporting(
        self, incremental: bool, exclude_last: bool, sink: str
    ) -> Steps[list[dict[str, Any]]]:
        if not incremental:
            shown = turns((yield from self._entries()))
            return turn_maps(shown[:-1] if exclude_last else shown)
        if not isinstance(self.log, ThreadState):
            msg = f"{self.log!r} keeps no cursors (ThreadState); export with incremental=False"
            raise ConfigError(msg)
        while True:
            # The cursor first: entries read after it hold all that it counts.
            document = yield from self._cursor(sink)
            before = ExportCursor.of(None if document is None else document.value)
            entries = yield from self._entries()
            maps, after = export(entries, before, exclude_last=exclude_last)
            if after == before:
                return maps
            version = None if document is None else document.version
            written = yield step(
                self.log,
                "set_state",
                self.key,
                _name_of(sink),
                after.to_document(),
                expected=version,
            )
            if written is not None:
                return maps

    def _cursor(self, sink: str) -> Steps[StateDocument | None]:
        found: StateDocument | None = yield step(self.log, "get_state", self.key, _name_of(sink))
        return found

    # -- tables ---------------------------------------------------------------------------------

    def table(self) -> str:
        """Return the conversation as text, one line per turn; `print(history)` shows the same.

        Marks: `*` the first turn that a model gets, `-` the next turn to export to the default
        sink, `^` the live summary.
        """
        return text_table(*run(self._table()))

    async def atable(self) -> str:
        """Return the conversation as text; see `table`."""
        return text_table(*await arun(self._table()))

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """Return the latest turns as a table, for notebooks; what was said is escaped."""
        return html_table(*run(self._table()))

    def _table(self) -> Steps[tuple[Sequence[Entry], ExportCursor | None]]:
        if not isinstance(self.log, ThreadState):
            return (yield from self._entries()), None
        document = yield from self._cursor(DEFAULT_SINK)
        entries = yield from self._entries()
        return entries, ExportCursor.of(None if document is None else document.value)


def _name_of(sink: str) -> str:
    if not isinstance(sink, str) or not sink:
        raise ConfigError(f"sink must be a non-empty string, got {sink!r}")
    return f"export:{sink}"
