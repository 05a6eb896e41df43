"""Where chat templates come from: files, tokenizer configurations, and our own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from langchain_convmem.errors import ConfigError

__all__ = ["BUILTINS", "Found", "read_builtin", "read_template_file", "read_tokenizer_config"]

BUILTINS: Mapping[str, Mapping[str, str]] = {
    "chatml": {},
    "gemma": {"bos_token": "<bos>"},
    "llama3": {"bos_token": "<|begin_of_text|>"},
    "mistral": {"bos_token": "<s>", "eos_token": "</s>"},
    "qwen": {},
}
"""Our own templates, and the special tokens of each."""

_MAX_TEMPLATE_BYTES = 4_000_000
_MAX_CONFIG_BYTES = 100_000_000
_CONFIG, _TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
_KEY = "chat_template"


class Found(NamedTuple):
    """A template that a tokenizer's configuration names."""

    source: str
    name: str
    tokens: dict[str, str]


def read_template_file(path: Path) -> str:
    """Return a template's text, without a byte order mark."""
    return _text(path, _MAX_TEMPLATE_BYTES)


def _text(path: Path, max_bytes: int) -> str:
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ConfigError(f"{path.name} is larger than {max_bytes} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not UTF-8: {error}") from error


def read_builtin(name: str) -> tuple[str, Mapping[str, str]]:
    """Return one of our own templates and its special tokens."""
    if name not in BUILTINS:
        raise ConfigError(f"there is no built-in template {name!r}; there are {sorted(BUILTINS)}")
    file = files("langchain_convmem.chat_templates") / "builtin" / f"{name}.jinja"
    return file.read_text("utf-8"), BUILTINS[name]


def read_tokenizer_config(config: str | Path | Mapping[str, Any], template: str | None) -> Found:
    """Return a template of a tokenizer's configuration, and the special tokens named there."""
    if isinstance(config, Mapping):
        return _found(config, config.get(_KEY), template, "the tokenizer's chat template")
    path = Path(config)
    path = path / _CONFIG if path.is_dir() else path
    told = _json(path)
    templates = told.get(_KEY)
    beside = path.with_name(_TEMPLATE)
    if templates is None and beside.is_file():
        templates = read_template_file(beside)
    return _found(told, templates, template, path.name)


def _json(path: Path) -> Mapping[str, Any]:
    try:
        told = json.loads(_text(path, _MAX_CONFIG_BYTES))
    except (RecursionError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path.name} is no JSON: {error}") from error
    if not isinstance(told, dict):
        raise ConfigError(f"{path.name} holds a {type(told).__name__}, not a map")
    return told


def _found(config: Mapping[str, Any], templates: Any, wanted: str | None, name: str) -> Found:
    named = _named(templates)
    if not named:
        raise ConfigError(f"{name} has no {_KEY!r}")
    chosen = wanted or ("default" if "default" in named else next(iter(named)))
    if chosen not in named or (wanted is None and "default" not in named and len(named) > 1):
        raise ConfigError(f"{name} has the templates {sorted(named)}, not {chosen!r}; choose one")
    label = name if len(named) == 1 else f"{name} ({chosen})"
    return Found(named[chosen], label, _tokens(config))


def _named(templates: Any) -> dict[str, str]:
    """Return templates by name; a single one is called `default`."""
    if isinstance(templates, str):
        return {"default": templates}
    if isinstance(templates, Mapping):
        pairs = list(templates.items())
    else:
        listed = templates if isinstance(templates, list) else []
        pairs = [(one.get("name"), one.get("template")) for one in listed if isinstance(one, dict)]
    return {name: source for name, source in pairs if isinstance(source, str) and name}


def _tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Return special tokens, which are texts or maps that hold one."""
    held = {
        key: value.get("content") if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key.endswith("_token")
    }
    return {key: value for key, value in held.items() if isinstance(value, str)}
