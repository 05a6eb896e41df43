"""Importing does nothing: no heavy modules, no side effects, and every public name is there."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import langchain_convmem

PACKAGE = Path(langchain_convmem.__file__).parent
PROJECT = PACKAGE.parent

HEAVY = {
    "boto3",
    "botocore",
    "click",
    "faiss",
    "langchain",
    "langchain_openai",
    "langgraph",
    "numpy",
    "openai",
    "psycopg",
    "rich",
    "safetensors",
    "snowballstemmer",
    "tokenizers",
    "torch",
    "transformers",
}


def _python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code], check=True, capture_output=True, text=True
    )


def _imported(code: str) -> set[str]:
    """Return the full names of all modules that a fresh interpreter imports for `code`."""
    lines = _python(code, "-X", "importtime").stderr.splitlines()
    return {line.rsplit("|", 1)[1].strip() for line in lines if line.startswith("import time:")}


def _packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def test_the_list_of_heavy_packages_would_notice_one():
    assert _packages(_imported("import numpy")) & HEAVY == {"numpy"}


def test_importing_the_package_loads_nothing_else():
    modules = _imported("import langchain_convmem")
    own = {name for name in modules if name.startswith("langchain_convmem.")}
    assert [name for name in own if not name.endswith("._lazy")] == []
    assert _packages(modules) & (HEAVY | {"langchain_core", "pydantic"}) == set()


def test_no_part_that_needs_no_vectors_and_no_chat_without_recall_loads_anything_heavy():
    code = """
from langchain_core.runnables import RunnableLambda
from langchain_convmem import ChatTemplate, ConversationHistory, ConversationMemory
from langchain_convmem import InMemoryLog, PromptFile, SQLiteLog
memory = ConversationMemory.open(":memory:")
chain = memory.wrap(RunnableLambda(lambda _: "Yes."), recall=False)
chain.invoke("Hello", {"configurable": {"thread_id": "t"}})
"""
    modules = _imported(code)
    assert "langchain_convmem.wrap" in modules
    assert _packages(modules) & HEAVY == set()


_SIDE_EFFECTS = """
import json, logging, os, socket, sys, threading, warnings
from langchain_core import retrievers, embeddings, chat_history, prompts, runnables  # its own doing
import numpy, pydantic

def state():
    known = logging.root.manager.loggerDict.items()
    loggers = {name: logger.level for name, logger in known if hasattr(logger, "level")}
    handlers = [name for name, logger in known if getattr(logger, "handlers", [])]
    return {
        "root": [logging.root.level, len(logging.root.handlers), logging.root.disabled],
        "levels": {name: level for name, level in loggers.items() if level},
        "handlers": handlers,
        "filters": [str(f) for f in warnings.filters],
        "threads": threading.active_count(),
        "hooks": [str(sys.excepthook), str(sys.displayhook)],
    }

read, opened = [], []
environ = type(os.environ)
getitem = environ.__getitem__
environ.__getitem__ = lambda self, key: (read.append(key), getitem(self, key))[1]

class Socket(socket.socket):
    def __init__(self, *args, **kwargs):
        opened.append(args)
        super().__init__(*args, **kwargs)

socket.socket = Socket
before = state()
import langchain_convmem
for name in langchain_convmem.__all__:
    getattr(langchain_convmem, name)
print(json.dumps({"before": before, "after": state(), "read": read, "opened": opened}))
"""


def test_importing_changes_nothing_and_asks_for_nothing():
    found = json.loads(_python(_SIDE_EFFECTS, "-W", "error").stdout)
    assert found["after"] == found["before"]
    assert found["opened"] == []
    assert [name for name in found["read"] if "CONVMEM" in name] == []


LAZY = ["langchain_convmem", "langchain_convmem.testing"]


@pytest.mark.parametrize("name", sorted({*langchain_convmem.__all__} - {"__version__"}))
def test_every_public_name_can_be_imported(name):
    value = getattr(importlib.import_module("langchain_convmem"), name)
    assert value.__name__ == name
    assert value.__module__.startswith("langchain_convmem.")
    assert value.__doc__


def test_the_version_is_that_of_the_distribution():
    assert langchain_convmem.__version__ == importlib.metadata.version("langchain-convmem")


@pytest.mark.parametrize(
    ("code", "package", "extra"),
    [
        ("convmem.ConversationMemoryMiddleware", "langchain", "agents"),
        (
            "convmem.create_memory_graph(convmem.ConversationMemory(log), print)",
            "langgraph",
            "langgraph",
        ),
    ],
)
def test_a_name_of_the_root_whose_extra_is_missing_says_which(code, package, extra):
    lines = f"""
        import sys
        sys.modules[{package!r}] = None
        import langchain_convmem as convmem
        log = convmem.InMemoryLog()
        try:
            {code}
        except convmem.ConvMemError as error:
            print(type(error).__name__, error)
    """
    said = _python(textwrap.dedent(lines)).stdout
    assert said.startswith("MissingExtraError")
    assert f"pip install 'langchain-convmem[{extra}]'" in said


@pytest.mark.parametrize("module_name", LAZY)
def test_the_public_names_are_those_that_load_on_first_use(module_name):
    module = importlib.import_module(module_name)
    assert set(module.__all__) <= set(dir(module))
    assert set(_names_for_type_checkers(Path(module.__file__))) == set(module.__all__)


def _names_for_type_checkers(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    [block] = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return [
        alias.asname or alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


@pytest.mark.parametrize("module_name", [*LAZY, "langchain_convmem.memory"])
def test_a_name_that_does_not_exist_is_an_attribute_error(module_name):
    module = importlib.import_module(module_name)
    with pytest.raises(AttributeError, match=rf"{module_name}.*NoSuchName"):
        _ = module.NoSuchName


def test_imports_go_down_only():
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [str(linter), "--no-cache"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
