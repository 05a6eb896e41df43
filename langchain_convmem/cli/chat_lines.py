"""What a line typed into a chat asks for. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from langchain_convmem.cli.errors import UnknownCommandError

__all__ = ["HELP", "ChatCommand", "parse_line"]

HELP = """\
/recall TEXT   what was said that fits TEXT
/history       this thread, turn by turn
/help          this list
/quit          end the chat (so does Ctrl-D)
Any other line is a message; one that starts with // loses its first slash.\
"""
_COMMANDS = ("recall", "history", "help", "quit")
# One word behind a slash: a path or a fraction at the start of a message is none.
_COMMAND = re.compile(r"/([A-Za-z]+)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """One line, understood.

    Attributes:
        name: `say`, or one of the commands.
        text: The message, or what stands behind the command.
    """

    name: str
    text: str = ""


def parse_line(line: str) -> ChatCommand | None:
    """Return what the line asks for, or None for a blank one.

    Raises:
        UnknownCommandError: If it looks like a command and is none, before it is taken for
            something said and remembered; `/recall` alone, without a text, counts as such.
    """
    if not line.strip():
        return None
    if line.startswith("//"):
        return ChatCommand("say", line[1:])
    match = _COMMAND.fullmatch(line.strip())
    if match is None:
        return ChatCommand("say", line)
    name, text = match[1].lower(), (match[2] or "").strip()
    if name not in _COMMANDS or (name == "recall") != bool(text):
        known = ", ".join(f"/{command}" for command in _COMMANDS)
        msg = f"{line.strip()!r} is no command; there are {known} (see /help, or start with //)"
        raise UnknownCommandError(msg)
    return ChatCommand(name, text)
