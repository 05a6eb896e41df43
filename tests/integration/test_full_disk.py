"""A full disk: what cannot be written raises, leaves nothing half, and is written later."""

import json

from small_disks import run_on_small_disk

PREAMBLE = """
import json, os, sqlite3, sys
from contextlib import closing
from pathlib import Path
from langchain_core.messages import HumanMessage
from langchain_convmem import ConvMemError
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import Owner, StoredSegment, ThreadKey
from langchain_convmem.views.codec import make_draft

disk, elsewhere = Path(sys.argv[1]), Path(sys.argv[2])
ana, bo = ThreadKey("ana", "t"), ThreadKey("bo", "t")
log = SQLiteLog(disk / "log.db")

def say(key, text):
    return log.append(key, [make_draft(HumanMessage(text))])

def fill():
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass

def attempt(call):
    try:
        call()
    except ConvMemError as error:
        return [type(error).__name__, str(error)]
    return ["done", ""]

def fold():
    with closing(sqlite3.connect(disk / "log.db")) as db:
        assert db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0

def count(key):
    return len(log.entries(key))

def read_all():
    log_files = [file for file in disk.iterdir() if file.name.startswith("log.db")]
    return b"".join(file.read_bytes() for file in log_files)
"""


def _run(source, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    return json.loads(run_on_small_disk(PREAMBLE + source, tmp_path / "disk", elsewhere))


WRITES = """
first = say(ana, "the first")[0]
say(ana, "x" * 100_000)
fold()
fill()
calls = {
    "append": lambda: say(ana, "y" * 50_000),
    "append of a batch": lambda: log.append(
        ana, [make_draft(HumanMessage("z" * 9000)) for _ in range(9)]
    ),
    "append_planned": lambda: log.append_planned(
        ana, lambda there: [make_draft(HumanMessage("z" * 9000))], after=0
    ),
    "annotate": lambda: log.annotate(ana, first.id, aux={"note": "n" * 9000}),
    "set_state": lambda: log.set_state(ana, "state", "s" * 9000, expected=None),
    "save_segments": lambda: log.save_segments(
        ana.owner, "model", [StoredSegment(first.position, 0, 0, "w " * 9000, None)]
    ),
    "forget": lambda: log.forget(Owner("ana", None)),
}
tried = {name: attempt(call) for name, call in calls.items()}
is_kept = log.entries(ana)[0] == first
full = [count(ana), is_kept, log.get_state(ana, "state"), log.verify().problems]
(disk / "ballast").unlink()
again = {name: attempt(call)[0] for name, call in calls.items()}
print(json.dumps({"tried": tried, "full": full, "again": again, "left": count(ana)}))
"""


def test_every_write_raises_and_leaves_the_log_as_it_was_until_there_is_room(tmp_path):
    found = _run(WRITES, tmp_path)
    for kind, message in found["tried"].values():
        assert kind == "LogUnavailableError"
        assert "is full, and nothing was written; make room" in message
    assert found["full"] == [2, True, None, []]
    assert set(found["again"].values()) == {"done"}
    assert found["left"] == 0


REUSED = """
for number in range(150):
    say(ana if number % 2 else bo, f"the key lies under stone {number:03}")
fold()
for number in range(150):  # leaves a write-ahead file with room in it
    stored = log.get_state(bo, "state")
    log.set_state(bo, "state", number, expected=stored and stored.version)
fill()
tried = attempt(lambda: log.forget(Owner("ana", None)))
found = [count(ana), count(bo), *(name in read_all() for name in (b"stone 033", b"stone 034"))]
print(json.dumps([tried, found]))
"""


def test_forget_needs_no_room_where_the_write_ahead_file_has_some(tmp_path):
    tried, found = _run(REUSED, tmp_path)
    assert tried == ["done", ""]
    assert found == [0, 75, False, True]


ELSEWHERE = """
say(ana, "the secret word")
say(bo, "a harmless word")
fold()
fill()
tried = attempt(lambda: log.forget(Owner("ana", None)))
log.backup(elsewhere / "log.db")
with SQLiteLog(elsewhere / "log.db") as copy:
    copy.forget(Owner("ana", None))
    kept = [len(copy.entries(ana)), len(copy.entries(bo)), copy.verify().problems]
raw = (elsewhere / "log.db").read_bytes()
print(json.dumps([tried[0], count(ana), kept, b"secret" in raw, len(list(elsewhere.iterdir()))]))
"""


def test_a_log_on_a_full_disk_is_backed_up_to_another_one_and_forgets_there(tmp_path):
    assert _run(ELSEWHERE, tmp_path) == ["LogUnavailableError", 1, [0, 1, []], False, 1]


BACKUP = """
say(ana, "x" * 400_000)
fold()
with (disk / "ballast").open("wb") as file:
    file.write(bytes(os.statvfs(disk).f_bavail * 4096 - 200_000))
before = sorted(os.listdir(disk))
tried = attempt(lambda: log.backup(disk / "copy.db"))
print(json.dumps([*tried, sorted(os.listdir(disk)) == before]))
"""


def test_a_backup_onto_a_full_disk_leaves_nothing(tmp_path):
    kind, message, is_clean = _run(BACKUP, tmp_path)
    assert kind == "LogError"
    assert "no copy was made" in message
    assert "is full; nothing is left of it" in message
    assert "log.db" not in message  # which has room enough
    assert is_clean
