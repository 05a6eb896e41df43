"""A disk of a few megabytes that really gets full, for a process that a test runs on it."""

import shutil
import subprocess
import sys
from functools import cache

import pytest

_MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'


def make_command(size, place, words):
    """Return what runs a command while a disk of this size is at a place, for it alone."""
    return ["unshare", "-rm", "sh", "-c", _MOUNT, "sh", size, str(place), *words]


@cache
def can_mount(place):
    """Return whether this machine lets us do that."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(make_command("1m", place, ["true"]), check=False, capture_output=True)
    return tried.returncode == 0


def run_on_small_disk(source, place, *words, size="16m"):
    """Run Python source whose first argument is a directory on a small disk of its own.

    Returns:
        What it printed; the test is skipped where such a disk cannot be made.
    """
    place.mkdir(exist_ok=True)
    if not can_mount(place):
        pytest.skip("this machine lets nobody mount a disk of his own")
    program = [sys.executable, "-W", "error", "-c", source, str(place), *map(str, words)]
    done = subprocess.run(
        make_command(size, place, program), check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
