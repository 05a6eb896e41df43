"""Files that people drop on the page: taken in piece by piece, imported, and reported on."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from langchain_convmem.background import hop
from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import make_ulid
from langchain_convmem.web.live import describe_failure

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory

MOST_BYTES = 2 * 1024**3
"""Size of a file at most."""
_KEPT = 50
_MOST_SKIPPED = 20


@dataclass(eq=False)
class ImportJob:
    """A file on its way into the memory. Belongs to one event loop.

    Attributes:
        user_id: Whose.
        name: What the person calls the file.
        id: Under which its progress is asked for.
        done: Entries that are stored.
        total: Entries in all; 0 while the file is read.
        state: What has become of it.
        report: What was imported, as plain data; or why it was not, under `failure`.
    """

    user_id: str
    name: str
    id: str = field(default_factory=make_ulid)
    done: int = 0
    total: int = 0
    state: str = "reading"
    report: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    task: asyncio.Task[Any] | None = None

    def note(self, done: int, total: int) -> None:
        """Take in how far it is; called from any thread."""
        self.done, self.total, self.state = done, total, "storing"

    def encode(self) -> dict[str, Any]:
        """Return it as plain data, with its rate and the seconds that are left."""
        seconds = max(time.monotonic() - self.started, 0.001)
        rate = self.done / seconds
        left = (self.total - self.done) / rate if rate else None
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state,
            "done": self.done,
            "total": self.total,
            "rate": round(rate),
            "left_s": None if left is None else round(left, 1),
            **self.report,
        }


class ImportJobs:
    """The imports of this server, the latest of them. Belongs to one event loop."""

    def __init__(self, memory: ConversationMemory) -> None:
        """Import into a memory."""
        self._memory = memory
        self._jobs: OrderedDict[str, ImportJob] = OrderedDict()

    def find(self, user_id: str, job_id: str) -> ImportJob | None:
        """Return a user's job; None if it is unknown, or another user's."""
        job = self._jobs.get(job_id)
        return job if job is not None and job.user_id == user_id else None

    async def take(self, user_id: str, name: str, body: AsyncIterator[bytes]) -> ImportJob:
        """Take in a file and begin to import it.

        Args:
            user_id: Whose conversations these become.
            name: The file's name, of which its last part is used.
            body: What it holds.

        Raises:
            ConfigError: If the name is none, or the file is too large; nothing is kept.
        """
        plain = PurePosixPath(name.replace("\\", "/")).name
        if not plain or plain.startswith(".") or "\0" in plain:
            raise ConfigError(f"{name[:80]!r} is not the name of a file")
        folder = tempfile.TemporaryDirectory(prefix="convmem-upload-")
        try:
            path = Path(folder.name) / plain[-120:]
            await _write_file(path, body)
        except BaseException:
            await hop(folder.cleanup)
            raise
        job = ImportJob(user_id, plain)
        self._jobs[job.id] = job
        while len(self._jobs) > _KEPT:
            self._jobs.popitem(last=False)
        job.task = asyncio.create_task(self._import(job, path), name="convmem import")
        job.task.add_done_callback(lambda task: _finish(job, folder, task))
        return job

    async def _import(self, job: ImportJob, path: Path) -> dict[str, Any]:
        report = await self._memory.aimport_file(path, user_id=job.user_id, progress=job.note)
        return {
            "threads": len(report.thread_ids),
            "first_thread": report.thread_ids[0] if report.thread_ids else None,
            "added": report.added,
            "known": report.known,
            "branches": report.branches,
            "skipped": [*report.unread, *report.skipped][:_MOST_SKIPPED],
            "skipped_count": len(report.unread) + len(report.skipped),
        }

    async def aclose(self) -> None:
        """Give up what is under way; importing the file again goes on with it."""
        tasks = [job.task for job in self._jobs.values() if job.task and not job.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _finish(job: ImportJob, folder: Any, task: asyncio.Task[dict[str, Any]]) -> None:
    error = None if task.cancelled() else task.exception()
    folder.cleanup()
    if task.cancelled():
        job.state, job.report = "failed", {"failure": "the server was stopped; import it again"}
    elif error is not None:
        # The message names the file where it was kept for a moment, which means nothing to people.
        text = describe_failure(error).replace(f"{folder.name}/", "")
        job.state, job.report = "failed", {"failure": text}
    else:
        job.state, job.report = "done", task.result()


async def _write_file(path: Path, body: AsyncIterator[bytes]) -> None:
    """Write a file piece by piece, readable by nobody else.

    Raises:
        ConfigError: If it is too large.
    """
    size = 0
    with await hop(partial(_open_private, path)) as file:
        async for piece in body:
            size += len(piece)
            if size > MOST_BYTES:
                raise ConfigError(f"the file is larger than {MOST_BYTES // 1024**3} GB")
            await hop(partial(file.write, piece))


def _open_private(path: Path) -> BinaryIO:
    path.touch(mode=0o600)
    return path.open("wb")
