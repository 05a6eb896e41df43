"""The part of a memory that reads files of other services."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from langchain_convmem.memory.memory_part import MemoryPart
from langchain_convmem.records import ThreadKey
from langchain_convmem.steps import Step, Steps, arun, run

if TYPE_CHECKING:
    from langchain_convmem.moving import ImportedFile, ImportReport

__all__ = ["ImportingMemory"]


class ImportingMemory(MemoryPart):
    """Imports: every file that `convmem import` reads."""

    def import_file(
        self,
        path: str | os.PathLike[str],
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        format: str | None = None,  # noqa: A002 - what it is called everywhere
        progress: Callable[[int, int], None] | None = None,
    ) -> ImportReport:
        """Store the conversations of a file, and return what became of them.

        The file is checked to its last line before the first write, and importing it again doubles
        nothing; a file that has grown adds what is new. The lines are found by the next recall, or
        by `refresh` ahead of it. Survives a crash of the process, not of the machine: import again
        after one.

        Args:
            path: An export of ChatGPT, Claude or convmem, messages of OpenAI's API, a store of
                LangChain or LangGraph, a dialogue; see the page on moving in and out.
            user_id: Whose conversations; None makes each thread one of no user.
            thread_id: The thread's name, if the file holds one conversation only.
            format: The name of the format that the file must have, such as `chatgpt`; None finds
                it out by its content.
            progress: Called with (done, total) entries after each thread.

        Raises:
            ConfigError: If no format has that name.
            ImportFormatError: If the file is of no known format, or not what its format says;
                nothing is written.
            MissingExtraError: If its format needs a package that is not installed.
        """
        return run(self._import_steps(path, user_id, thread_id, format, progress))

    async def aimport_file(
        self,
        path: str | os.PathLike[str],
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        format: str | None = None,  # noqa: A002 - as above
        progress: Callable[[int, int], None] | None = None,
    ) -> ImportReport:
        """Store the conversations of a file; see `import_file`. It is read in a worker thread."""
        return await arun(self._import_steps(path, user_id, thread_id, format, progress))

    def _import_steps(
        self,
        path: str | os.PathLike[str],
        user_id: str | None,
        thread_id: str | None,
        form: str | None,
        progress: Callable[[int, int], None] | None,
    ) -> Steps[ImportReport]:
        from langchain_convmem.moving import ImportedFile, read_threads, store_file_steps

        def read() -> ImportedFile:
            threads = read_threads(path, thread_id=thread_id, format=form)
            return ImportedFile(os.fspath(path), tuple(threads))

        file: ImportedFile = yield Step(read, lambda: asyncio.to_thread(read))
        report = yield from store_file_steps(self.log, file, user_id, self.drafting, progress)
        for thread in report.thread_ids:
            self._note_stored(ThreadKey(user_id, thread).owner)
        return report
