"""Exports as people get them from ChatGPT and Claude: a zip, a folder, the JSON in it.

An export is read one conversation at a time, twice: once to check it and once to store it, so that
memory stays bounded however large it is. A conversation that is not as it should be is left out
and named; what is wrong with the archive itself is refused before anything is written. Nothing is
ever unpacked to disk.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NoReturn

from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import ImportFormatError
from langchain_convmem.transfer.source import (
    MAX_LINE_BYTES,
    ZIP_MAGICS,
    Node,
    build_object,
    open_regular,
    refuse,
)
from langchain_convmem.transfer.threads import (
    Export,
    FindAttachment,
    ImportedThread,
    build_tree_threads,
    rename_threads,
)

CONVERSATIONS = re.compile(r"conversations(-\d+)?\.json")
"""What services call the files with the conversations; large exports have several."""
MAX_ARCHIVE_BYTES = 16 * 1024**3
"""Size of all that an archive may hold, unpacked."""
MAX_RATIO = 300
"""How many times its packed size a large file may have; text that people wrote has 3 to 20."""
_SMALL_BYTES = 4 * 1024**2
MAX_CONVERSATION_CHARS = 128 * 1024**2
"""Characters of JSON of one conversation."""
CHUNK_BYTES = 1024**2
_OTHER_ARCHIVES = re.compile(r"\.(zip|7z|rar|tar|tgz|tar\.\w+)$", re.IGNORECASE)
_TEXTS = re.compile(
    r"\.(txt|md|csv|tsv|json|log|py|js|ts|html?|xml|ya?ml|rst|tex|sql)$", re.IGNORECASE
)
_FORM = "conversations.json, or conversations-000.json and so on, as exports of ChatGPT and Claude"


class Archive:
    """One export, checked when it is made.

    Iterating over it reads its threads one after the other, as often as asked for.

    Attributes:
        path: As the user named it.
        thread_ids: The threads, in the order of the export.
        entries: How many messages they have.
        unread: One sentence for each part that cannot be read, with its name and why.
    """

    def __init__(
        self,
        path: Path,
        exports: Sequence[Export],
        *,
        thread_id: str | None = None,
        report: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        """Check an export to its end; nothing is kept of it but names and counts.

        Args:
            path: A zip, a folder, or a file of JSON.
            exports: The formats that its conversations may have.
            thread_id: The thread's name, if the export holds one conversation only.
            report: Called with the bytes read, and all.

        Raises:
            ImportFormatError: If the archive is damaged, encrypted or unsafe, a file in it is not
                JSON, or it holds no conversation that can be read.
        """
        self.path = str(path)
        self._place = path
        self._exports = exports
        self._stamp = _read_stamp(path)
        self._is_checked = False
        self._bad: set[tuple[str, int]] = set()
        self._ids: set[str] = set()
        self.unread: list[str] = []
        self.entries = 0
        heads: list[ImportedThread] = []
        for thread in self._read(report):
            heads.append(replace(thread, messages=()))
            self.entries += len(thread)
        if not heads:
            refuse(self.path, "", (*self.unread, "holds no conversation with a message")[0])
        self._is_checked = True
        named = rename_threads(heads, thread_id, self.path)
        self.thread_ids = tuple(one.thread_id for one in named)

    def __iter__(self) -> Iterator[ImportedThread]:
        """Yield the threads; raises `ImportFormatError` if the export changed meanwhile."""
        if _read_stamp(self._place) != self._stamp:
            problem = "changed while it was read; import it when nothing writes to it any more"
            refuse(self.path, "", problem)
        names = iter(self.thread_ids)
        main = ""
        for thread in self._read(lambda _done, _total: None):
            name = next(names)
            main = name if thread.branch_of is None else main
            yield replace(thread, thread_id=name, branch_of=thread.branch_of and main)

    def _read(self, report: Callable[[int, int], None]) -> Iterator[ImportedThread]:
        """Yield the threads; the first time, note what cannot be read."""
        with _open_archive(self._place) as members:
            files = _select_conversations(members, self.path)
            if not self._is_checked:
                self.unread += [f"{one.name} {one.problem}" for one in members if one.problem]
            total, done = sum(one.size for one in files), 0
            find = partial(_find_text, {PurePosixPath(one.name).name: one for one in members})
            for file in files:
                place = self.path if file.name == self.path else f"{self.path}: {file.name}"
                with file.open() as stream:
                    for number, value in enumerate(_JsonItems(stream, place)):
                        node = Node(value, place, f"$[{number}]")
                        if (place, number) not in self._bad:
                            yield from self._read_conversation(node, number, find)
                        report(min(done + stream.tell(), total), total)
                done += file.size
            report(total, total)

    def _read_conversation(
        self, node: Node, number: int, find: FindAttachment
    ) -> list[ImportedThread]:
        """Return the threads of one conversation; one that is not sound is noted as unread."""
        with ErrorTrap(ImportFormatError) as trap:
            fits = (one.read_tree for one in self._exports if _is_one(node.value, one))
            read_tree = next(fits, None)
            if read_tree is None:
                node.fail(" or ".join(one.form for one in self._exports))
            threads = build_tree_threads(read_tree(node, find), is_checked=self._is_checked)
            for one in () if self._is_checked else threads:
                if one.thread_id in self._ids:
                    problem = f"the conversation {one.thread_id!r} is there already"
                    refuse(node.path, node.location, problem)
            self._ids |= {one.thread_id for one in threads}
            return threads
        self._bad.add((node.path, number))
        place = trap.reason.removeprefix(self.path)
        self.unread.append(place.lstrip(":, "))
        return []


def holds_conversations(path: Path, exports: Sequence[Export]) -> bool:
    """Return whether a file is the JSON of an export: a list of conversations, or one."""
    with ErrorTrap(ImportFormatError), open_regular(path) as file:
        first = next(iter(_JsonItems(file, str(path))), None)
        return any(_is_one(first, export) for export in exports)
    return False


def _is_one(value: Any, export: Export) -> bool:
    return isinstance(value, dict) and export.key in value


def _read_stamp(path: Path) -> Sequence[tuple[str, int, int]]:
    """Return names, sizes and times of what is read: they change with it."""
    places = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    found = [(str(place), place.stat()) for place in places if place.exists()]
    return [(name, one.st_size, one.st_mtime_ns) for name, one in found]


# -- what an archive holds ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Member:
    """A file in an archive.

    Attributes:
        name: With its folders, by slashes.
        size: In bytes, unpacked.
        open: Opens it for reading, for a block.
        problem: Why it is not read, whatever it holds; empty for sound ones.
    """

    name: str
    size: int
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    problem: str = ""


@contextmanager
def _open_archive(path: Path) -> Iterator[list[_Member]]:
    if path.is_dir():
        yield list(_list_folder(path))
        return
    with open_regular(path) as file:
        magic = file.read(4)
        file.seek(0)
        if magic not in ZIP_MAGICS:
            yield [_Member(str(path), path.stat().st_size, partial(open_regular, path))]
            return
        with ErrorTrap(zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as trap:
            with zipfile.ZipFile(file) as archive:
                yield _list_zip(archive, str(path))
            return
    refuse(str(path), "", f"is a damaged or incomplete zip; download it again ({trap.reason})")


def _list_folder(folder: Path) -> Iterator[_Member]:
    for place in sorted(folder.rglob("*")):
        status = place.lstat()
        name, is_link = place.relative_to(folder).as_posix(), stat.S_ISLNK(status.st_mode)
        problem = "is a link; links are not followed" if is_link else _find_archive(name)
        if is_link or stat.S_ISREG(status.st_mode):
            # Something else may lie there by then, such as a pipe.
            yield _Member(name, status.st_size, partial(open_regular, place), problem)


def _list_zip(archive: zipfile.ZipFile, path: str) -> list[_Member]:
    """Return the files of a zip.

    Raises:
        ImportFormatError: If it is unsafe, encrypted or too large; it names the file.
    """
    infos = [one for one in archive.infolist() if not one.is_dir()]
    for info in infos:
        problem = _find_danger(info)
        if problem:
            refuse(path, ascii(info.filename), f"{problem}; such a zip is not read")
    packed = os.fstat(archive.fp.fileno()).st_size if archive.fp else 0
    total, limit = sum(one.file_size for one in infos), min(MAX_ARCHIVE_BYTES, MAX_RATIO * packed)
    if total > max(limit, _SMALL_BYTES):
        refuse(path, "", f"would unpack to {total:,} bytes; the limit is {limit:,}")
    return [
        _Member(
            one.filename, one.file_size, partial(archive.open, one), _find_archive(one.filename)
        )
        for one in infos
    ]


def _find_archive(name: str) -> str:
    found = _OTHER_ARCHIVES.search(name)
    return "is an archive itself; unpack it and import what it holds" if found else ""


def _find_danger(info: zipfile.ZipInfo) -> str:
    """Return why a zip with this file is not read; empty where it is sound."""
    parts = re.split(r"[/\\]", info.filename)
    if not parts[0] or ".." in parts or ":" in parts[0] or "\0" in info.orig_filename:
        return "has a name that leads out of the archive"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a link"
    if info.flag_bits & 1:
        return "is encrypted: unpack it with its password and import the folder"
    return ""


def _select_conversations(members: Sequence[_Member], path: str) -> list[_Member]:
    """Return the files with conversations, in the order of their names.

    Raises:
        ImportFormatError: If there is none.
    """
    if len(members) == 1 and members[0].name == path:
        return list(members)
    found = [one for one in members if _is_conversations(one.name) and not one.problem]
    if not found:
        problems = [f"{one.name} {one.problem}" for one in members if one.problem]
        shown = ", ".join(sorted(PurePosixPath(one.name).name for one in members)[:5])
        what = f"holds {shown or 'nothing'}; expected {_FORM}"
        refuse(path, "", "; ".join([what, *problems[:3]]))
    return sorted(found, key=lambda one: one.name)


def _is_conversations(name: str) -> bool:
    pure = PurePosixPath(name)
    return CONVERSATIONS.fullmatch(pure.name) is not None and "__MACOSX" not in pure.parts


def _find_text(members: Mapping[str, _Member], own_id: str, name: str) -> str | None:
    """Return the text of the attached file with this id; None if it is not there, or is no text."""
    if not own_id or not _TEXTS.search(name):
        return None
    suffix = PurePosixPath(name).suffix
    for known in (f"{own_id}-{name}", f"{own_id}{suffix}", own_id, f"{own_id}.dat"):
        member = members.get(known)
        if member is not None and not member.problem and member.size <= MAX_LINE_BYTES:
            with ErrorTrap(UnicodeDecodeError), member.open() as file:
                return file.read(MAX_LINE_BYTES + 1).decode("utf-8-sig")
            return None
    return None


# -- JSON, an item at a time ----------------------------------------------------------------------


class _JsonItems:
    """The items of a JSON list, or the one value that a file is, without reading it whole."""

    def __init__(self, file: IO[bytes], place: str) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._place = place
        self._scan = json.JSONDecoder(strict=False, object_pairs_hook=build_object).raw_decode
        self._text = ""
        self._at = 0
        self._count = 0
        self._is_over = False

    def __iter__(self) -> Iterator[Any]:
        first = self._read_mark()
        if first != "[":
            if first:
                yield self._take()
            if self._read_mark():
                self._refuse("goes on after its end")
            return
        self._at += 1
        while (mark := self._read_mark()) not in ("]", ""):
            if self._count:
                if mark != ",":
                    self._refuse("',' expected between conversations")
                self._at += 1
            yield self._take()
            self._count += 1
        if not mark:
            self._refuse("ends before the list does; the file is not complete")
        self._at += 1
        if self._read_mark():
            self._refuse("goes on after its end")

    def _read_mark(self) -> str:
        """Return the next character that is not blank; empty at the end."""
        while True:
            blank = _BLANKS.match(self._text, self._at)
            self._at = blank.end() if blank else self._at
            if self._at < len(self._text) or self._is_over:
                return self._text[self._at : self._at + 1]
            self._fill(CHUNK_BYTES)

    def _take(self) -> Any:
        self._read_mark()
        wanted = CHUNK_BYTES
        while True:
            try:
                value, end = self._scan(self._text, self._at)
                if end < len(self._text) or self._is_over:
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                # More text helps where the mistake is at the end of what was read so far.
                is_cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - 64
                if self._is_over or not is_cut:
                    self._refuse(f"not valid JSON ({error.msg})")
            except (ValueError, RecursionError) as error:
                self._refuse(f"not usable as JSON ({error})")
            if len(self._text) > MAX_CONVERSATION_CHARS:
                self._refuse(f"is larger than {MAX_CONVERSATION_CHARS:,} characters")
            self._fill(wanted)
            wanted *= 2

    def _fill(self, size: int) -> None:
        data = self._file.read(size)
        self._is_over = not data
        try:
            self._text = self._text[self._at :] + self._decode(data, self._is_over)
        except UnicodeDecodeError as error:
            self._refuse(f"is not UTF-8 ({error.reason}); save the file as UTF-8 text")
        self._at = 0

    def _refuse(self, problem: str) -> NoReturn:
        refuse(self._place, f"conversation {self._count + 1}", problem)


_BLANKS = re.compile(r"[ \t\r\n]*")
