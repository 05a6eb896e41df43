"""The version of the installed package, read when it is first asked for."""

from importlib import metadata

__version__ = metadata.version("langchain-convmem")
"""As `pip show langchain-convmem` has it."""
