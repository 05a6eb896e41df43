"""Files to import, written and read in one go."""

import tempfile
from pathlib import Path

from langchain_convmem.transfer import read_threads


def threads_in_file(text, **options):
    """Return the threads of a file with this text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "conversations.json")
        path.write_text(text)
        return read_threads(path, **options)
