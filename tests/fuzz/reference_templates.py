"""What is rendered with, besides: plain Jinja2, set up as Hugging Face does, and real templates."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from langchain_convmem.text.chat_template import BUILTINS, ChatTemplate

NOW = datetime(2025, 7, 26)  # noqa: DTZ001 - templates show no zone
_FOLDER = "trl/chat_templates/"


class _Generation(Extension):
    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("shown"), [], [], body).set_lineno(line)

    def shown(self, caller: Callable[[], str]) -> str:
        return caller()


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def plain_renderer(source: str) -> Callable[..., str]:
    """Return the function that renders a template whole; it takes the variables by name."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = NOW.strftime
    return environment.from_string(source).render


def builtin_templates() -> dict[str, str]:
    """Return our own templates by name."""
    return {name: ChatTemplate.from_builtin(name).source for name in BUILTINS}


def real_templates(cache: Path | None = None) -> dict[str, str]:
    """Return the templates that TRL's wheel carries, by name.

    Args:
        cache: Where to download the wheel to if TRL is not installed; None: nothing then. Its
            dependencies are heavy and not needed: `pip install --no-deps trl` is enough, too.
    """
    spec = find_spec("trl")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "chat_templates"
        return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.jinja"))}
    return {} if cache is None else _of_wheel(_wheel(cache))


def _wheel(cache: Path) -> Path:
    found = sorted(cache.glob("trl-*.whl"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--dest", str(cache), "trl>=1.16"], check=True)
        found = sorted(cache.glob("trl-*.whl"))
    return found[-1]


def _of_wheel(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            Path(name).stem: archive.read(name).decode()
            for name in sorted(archive.namelist())
            if name.startswith(_FOLDER) and name.endswith(".jinja")
        }
