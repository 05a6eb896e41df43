"""What goes wrong in the command line alone."""

from __future__ import annotations

from langchain_convmem.errors import ConfigError, ConvMemError

__all__ = ["ModelCallError", "UnknownCommandError"]


class ModelCallError(ConvMemError, RuntimeError):
    """The model's provider failed; what it raised is the cause."""


class UnknownCommandError(ConfigError):
    """A line of a chat looks like a command and is none."""
