"""The command line `convmem`: parses, prints, exits; nothing else.

What is more than that lives in small modules without printing: `rendering` (values to lines),
`models` (names to chat models), `chat_lines` (what was typed).
"""

from __future__ import annotations

from langchain_convmem.cli.app import main

__all__ = ["main"]
