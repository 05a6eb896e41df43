"""The file of a SQLite log as others see it."""

import contextlib
import sqlite3


def plain(path):
    """Open the file as another program would."""
    return contextlib.closing(sqlite3.connect(path, isolation_level=None))


def damage(path, script):
    """Change the file behind the log's back; `{at}` is an entry's position."""
    with plain(path) as db:
        db.executescript(script.format(at="(place & 4294967295)"))


def read_files(path):
    return {item.name: item.read_bytes() for item in path.parent.iterdir()}
