"""Exports as people get them from ChatGPT and Claude: a zip, a folder, the JSON in it.

An export is read one conversation at a time, twice: once to check it and once to store it, so that
memory stays bounded however large it is. A conversation that is not as it should be is left out
and named; what is wrong with the archive itself is refused before anything is written. Nothing is
ever unpacked to disk.
"""

from __future__ import annotations

import codecs
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import IO, Any

from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import ImportFormatError
from langchain_convmem.transfer.formats import Reader
from langchain_convmem.transfer.source import (
    MAX_LINE_BYTES,
    Node,
    build_object,
    check_settled,
    open_regular,
    refuse,
)
from langchain_convmem.transfer.threads import (
    FindAttachment,
    ImportedThread,
    Tree,
    build_tree_threads,
    rename_threads,
)

CONVERSATIONS = re.compile(r"conversations(-\d+)?\.json")
"""What services call the files with the conversations; large exports have several."""
MAX_ARCHIVE_BYTES = 16 * 1024**3
"""Size of all that an archive may hold, unpacked."""
MAX_CONVERSATION_CHARS = 128 * 1024**2
"""Characters of JSON of one conversation."""
MAX_MEMBERS = 200_000
MAX_RATIO = 300
"""How many times its packed size a large file may have; text that people wrote has 3 to 20."""
_SMALL_BYTES = 4 * 1024**2
CHUNK_BYTES = 1024**2
_MAX_DEPTH = 4
"""Folders within folders that are looked into."""
_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_OTHER_ARCHIVES = re.compile(r"\.(zip|7z|rar|tar|tgz|tar\.\w+)$", re.IGNORECASE)
_TEXTS = re.compile(
    r"\.(txt|md|csv|tsv|json|log|py|js|ts|html?|xml|ya?ml|rst|tex|sql)$", re.IGNORECASE
)
_FORM = "conversations.json, or conversations-000.json and so on, as exports of ChatGPT and Claude"
_ENCRYPTED = 0x1

Report = Callable[[int, int], None]
"""Called with the bytes done, and all."""


def _ignore_progress(_done: int, _total: int) -> None:
    pass


def is_archive(path: Path) -> bool:
    """Return whether a path is a folder or a zip.

    Raises:
        ImportFormatError: If it is something else than a regular file or a folder.
    """
    if "\0" not in str(path) and path.is_dir():
        return True
    with open_regular(path) as file:
        return file.read(4) in _ZIP_MAGICS


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
        readers: Sequence[Reader],
        *,
        thread_id: str | None = None,
        report: Report = _ignore_progress,
    ) -> None:
        """Check an export to its end; nothing is kept of it but names and counts.

        Args:
            path: A zip, a folder, or a file of JSON.
            readers: The formats that its conversations may have.
            thread_id: The thread's name, if the export holds one conversation only.
            report: Called with the bytes read, and all.

        Raises:
            ImportFormatError: If the archive is damaged, encrypted or unsafe, a file in it is not
                JSON, or it holds no conversation that can be read.
        """
        self.path = str(path)
        self._place = path
        self._readers = tuple(one for one in readers if one.read_tree is not None)
        self._stamp = _read_stamp(path)
        self._is_checked = False
        self._bad: set[tuple[str, int]] = set()
        self._ids: dict[str, None] = {}
        self._unread: list[str] = []
        self.entries = 0
        heads: list[ImportedThread] = []
        for thread in self._read(report):
            heads.append(replace(thread, messages=()))
            self.entries += len(thread)
        if not heads:
            why = self._unread[0] if self._unread else f"holds no conversation; expected {_FORM}"
            refuse(self.path, "", why)
        self._is_checked = True
        named = rename_threads(heads, thread_id, self.path)
        self.thread_ids = tuple(one.thread_id for one in named)
        self.unread = tuple(self._unread)

    def __iter__(self) -> Iterator[ImportedThread]:
        """Yield the threads; raises `ImportFormatError` if the export changed meanwhile."""
        if _read_stamp(self._place) != self._stamp:
            check_settled(self.path, is_settled=False)
        names = iter(self.thread_ids)
        main = ""
        for thread in self._read(_ignore_progress):
            name = next(names)
            main = name if thread.branch_of is None else main
            yield replace(thread, thread_id=name, branch_of=thread.branch_of and main)

    def _read(self, report: Report) -> Iterator[ImportedThread]:
        """Yield the threads; the first time, note what cannot be read."""
        with _open_archive(self._place) as members:
            files = _select_conversations(members, self.path)
            if not self._is_checked:
                self._unread += [f"{one.name} {one.problem}" for one in members if one.problem]
            total, done = sum(one.size for one in files), 0
            find = _AttachmentFinder(members).find
            for file in files:
                place = self.path if file.name == self.path else f"{self.path}: {file.name}"
                with file.open() as stream:
                    items = _JsonItems(stream, place)
                    for number, value in enumerate(items):
                        node = Node(value, place, f"$[{number}]")
                        if (place, number) not in self._bad:
                            yield from self._read_conversation(node, number, find)
                        report(min(done + items.bytes_read, total), total)
                done += file.size
            report(total, total)

    def _read_conversation(
        self, node: Node, number: int, find: FindAttachment
    ) -> list[ImportedThread]:
        """Return the threads of one conversation; one that is not sound is noted as unread."""
        with ErrorTrap(ImportFormatError) as trap:
            read_tree = self._choose_reader(node)
            threads = build_tree_threads(read_tree(node, find), is_checked=self._is_checked)
            if not self._is_checked:
                self._note_ids(node, threads)
            return threads
        self._bad.add((node.path, number))
        self._unread.append(trap.reason.removeprefix(f"{self.path}: "))
        return []

    def _choose_reader(self, node: Node) -> Callable[[Node, FindAttachment], Tree]:
        for reader in self._readers:
            if reader.read_tree is not None and reader.is_conversation(node.value):
                return reader.read_tree
        return node.fail(" or ".join(one.form for one in self._readers))

    def _note_ids(self, node: Node, threads: Sequence[ImportedThread]) -> None:
        taken = [one.thread_id for one in threads if one.thread_id in self._ids]
        if taken:
            refuse(node.path, node.location, f"the conversation {taken[0]!r} is there already")
        self._ids |= dict.fromkeys(one.thread_id for one in threads)


def _read_stamp(path: Path) -> Sequence[tuple[str, int, int]]:
    """Return names, sizes and times of what is read: they change with it."""
    if path.is_dir():
        return [(one.name, one.size, one.changed_ns) for one in _list_folder(path, path, 0)]
    try:
        status = path.stat()
    except OSError as error:
        refuse(str(path), "", f"cannot be read: {error.strerror or error}")
    return [(str(path), status.st_size, status.st_mtime_ns)]


# -- what an archive holds ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Member:
    """A file in an archive.

    Attributes:
        name: With its folders, by slashes.
        size: In bytes, unpacked.
        open: Opens it for reading, for a block.
        problem: Why it is not read, whatever it holds; empty for sound ones.
        changed_ns: When it changed last, in nanoseconds; 0 within a zip.
    """

    name: str
    size: int
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    problem: str = ""
    changed_ns: int = 0


@contextmanager
def _open_archive(path: Path) -> Iterator[list[_Member]]:
    if path.is_dir():
        yield sorted(_list_folder(path, path, 0), key=lambda one: one.name)
        return
    with open_regular(path) as file:
        magic = file.read(4)
        file.seek(0)
        if magic not in _ZIP_MAGICS:
            yield [_Member(str(path), path.stat().st_size, partial(open_regular, path))]
            return
        with ErrorTrap(zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as trap:
            with zipfile.ZipFile(file) as archive:
                yield _list_zip(archive, str(path))
            return
    refuse(str(path), "", f"is a damaged or incomplete zip; download it again ({trap.reason})")


def _list_folder(root: Path, folder: Path, depth: int) -> Iterator[_Member]:
    try:
        entries = [(entry, entry.lstat()) for entry in sorted(folder.iterdir())]
    except OSError as error:
        refuse(str(folder), "", f"cannot be read: {error.strerror or error}")
    for entry, status in entries:
        name, changed_ns = entry.relative_to(root).as_posix(), status.st_mtime_ns
        # Something else may lie there by then, such as a pipe.
        read = partial(open_regular, entry)
        if stat.S_ISLNK(status.st_mode):
            yield _Member(name, 0, read, "is a link; links are not followed", changed_ns)
        elif stat.S_ISDIR(status.st_mode):
            if depth < _MAX_DEPTH:
                yield from _list_folder(root, entry, depth + 1)
        elif stat.S_ISREG(status.st_mode):
            yield _Member(name, status.st_size, read, _find_archive(name), changed_ns)


def _list_zip(archive: zipfile.ZipFile, path: str) -> list[_Member]:
    """Return the files of a zip.

    Raises:
        ImportFormatError: If it is unsafe, encrypted or too large; it names the file.
    """
    infos = [one for one in archive.infolist() if not one.is_dir()]
    if len(infos) > MAX_MEMBERS:
        refuse(path, "", f"holds {len(infos):,} files; the limit is {MAX_MEMBERS:,}")
    total = sum(one.file_size for one in infos)
    if total > MAX_ARCHIVE_BYTES:
        found = f"would unpack to {total:,} bytes; the limit is {MAX_ARCHIVE_BYTES:,}"
        refuse(path, "", found)
    _check_overlap(infos, path)
    for info in infos:
        _check_zip_member(info, path)
    return [
        _Member(
            info.filename,
            info.file_size,
            partial(archive.open, info),
            _find_archive(info.filename),
        )
        for info in infos
    ]


def _find_archive(name: str) -> str:
    found = _OTHER_ARCHIVES.search(name)
    return "is an archive itself; unpack it and import what it holds" if found else ""


def _check_overlap(infos: Sequence[zipfile.ZipInfo], path: str) -> None:
    """Refuse a zip whose files share bytes, by which a small one unpacks to any size."""
    ordered = sorted(infos, key=lambda one: one.header_offset)
    for one, following in pairwise(ordered):
        if one.header_offset + one.compress_size > following.header_offset:
            refuse(path, ascii(following.filename), "shares bytes with another file of the zip")


def _check_zip_member(info: zipfile.ZipInfo, path: str) -> None:
    name = info.filename
    place = ascii(name)
    parts = re.split(r"[/\\]", name)
    if (
        name.startswith(("/", "\\"))
        or ".." in parts
        or ":" in parts[0]
        or "\0" in info.orig_filename
    ):
        refuse(path, place, "has a name that leads out of the archive; such a zip is not read")
    if stat.S_ISLNK(info.external_attr >> 16):
        refuse(path, place, "is a link; a zip with links is not read")
    if info.flag_bits & _ENCRYPTED:
        refuse(path, place, "is encrypted; unpack the zip with its password and import the folder")
    if info.file_size > _SMALL_BYTES and info.file_size > MAX_RATIO * info.compress_size:
        size, packed = f"{info.file_size:,}", f"{info.compress_size:,}"
        refuse(path, place, f"unpacks from {packed} bytes to {size}; such a zip is not read")


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


@dataclass(slots=True)
class _AttachmentFinder:
    """Finds the texts of attached files, which an export keeps beside its conversations."""

    members: Sequence[_Member]
    _by_name: dict[str, _Member] = field(default_factory=dict)

    def find(self, own_id: str, name: str) -> str | None:
        """Return the text of the file with this id; None if it is not there, or is no text."""
        if not own_id or not _TEXTS.search(name):
            return None
        if not self._by_name:
            self._by_name = {PurePosixPath(one.name).name: one for one in self.members}
        suffix = PurePosixPath(name).suffix
        for known in (f"{own_id}-{name}", f"{own_id}{suffix}", own_id, f"{own_id}.dat"):
            member = self._by_name.get(known)
            if member is not None and not member.problem and member.size <= MAX_LINE_BYTES:
                return _read_text(member)
        return None


def _read_text(member: _Member) -> str | None:
    with member.open() as file:
        data = file.read(MAX_LINE_BYTES + 1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


# -- JSON, an item at a time ----------------------------------------------------------------------


class _JsonItems:
    """The items of a JSON list, or the one value that a file is, without reading it whole.

    Attributes:
        bytes_read: How many bytes were read so far.
    """

    def __init__(self, file: IO[bytes], place: str) -> None:
        self._file = file
        self._place = place
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._scan = json.JSONDecoder(strict=False, object_pairs_hook=build_object).raw_decode
        self._text = ""
        self._at = 0
        self._count = 0
        self._is_over = False
        self.bytes_read = 0

    def __iter__(self) -> Iterator[Any]:
        first = self._read_mark()
        if first != "[":
            if first:
                yield self._take()
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

    def _read_mark(self) -> str:
        """Return the next character that is not blank; empty at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in " \t\r\n":
                    return self._text[self._at]
                self._at += 1
            if self._is_over:
                return ""
            self._fill(CHUNK_BYTES)

    def _take(self) -> Any:
        self._read_mark()
        wanted = CHUNK_BYTES
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._is_over or self._is_final(error):
                    self._refuse(f"not valid JSON ({error.msg})")
            except RecursionError:
                self._refuse("JSON nested too deeply; expected flat messages")
            except ValueError as error:  # it says how many digits are too many
                self._refuse(f"not usable as JSON ({error})")
            else:
                if end < len(self._text) or self._is_over:
                    self._at = end
                    return value
            if len(self._text) > MAX_CONVERSATION_CHARS:
                self._refuse(f"is larger than {MAX_CONVERSATION_CHARS:,} characters")
            self._fill(wanted)
            wanted *= 2

    def _is_final(self, error: json.JSONDecodeError) -> bool:
        """Return whether more text would not help: the mistake is not where the text breaks off."""
        is_open_text = error.msg.startswith("Unterminated string")
        return not is_open_text and error.pos < len(self._text) - 64

    def _fill(self, size: int) -> None:
        data = self._file.read(size)
        self.bytes_read += len(data)
        self._is_over = not data
        try:
            more = self._decode(data, self._is_over)
        except UnicodeDecodeError as error:
            self._refuse(f"is not UTF-8 ({error.reason}); save the file as UTF-8 text")
        self._text = self._text[self._at :] + more
        self._at = 0

    def _refuse(self, problem: str) -> None:
        refuse(self._place, f"conversation {self._count + 1}", problem)
