"""`convmem prompts new`."""

from __future__ import annotations

import argparse
from pathlib import Path

from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError

__all__ = ["run"]

_TEXT = """\
/* A prompt for an assistant. What the model reads stands in sections, settings in those with stars.
   Text like this is a comment. To see what is wrong with a file: convmem prompts check FILE */

__* Meta *__  // about this file; goes with each call into its trace
- version = 0.1
- *MessageSummaryTitle* = What Was Said Before

__* Const *__  // filled in once: {{assistant}}
- assistant = Ada

__* Var *__  // filled in anew for each call, by a function
- today = getDate


__ Role __
You are {{assistant}}, a helpful assistant.

__ Rules __
  - Answer in a few plain sentences, in the language of the user.
  - If you do not know, say so.

__ Now __
Today is {{today}}.
"""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write the file; one that is there already stays as it is.

    Raises:
        ConfigError: If there is such a file, or it cannot be written.
    """
    path = Path(arguments.file)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(_TEXT)
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already; name another file") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
    terminal.line(f"{path}: written; look at it with 'convmem prompts show {path}'")
    return 0
