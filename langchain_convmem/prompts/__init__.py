"""Prompt files: `__ Section __` text to sections, rendered prompts and LangChain chat prompts."""

from __future__ import annotations

from langchain_convmem.prompts.diagnostics import Diagnostic
from langchain_convmem.prompts.prompt_file import PromptFile
from langchain_convmem.prompts.variables import variable_function

__all__ = [
    "Diagnostic",
    "PromptFile",
    "variable_function",
]
