"""Names say what things are and do: functions begin with a verb, one word for one thing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import langchain_convmem

PACKAGE = Path(langchain_convmem.__file__).parent
VERBS = set((Path(__file__).parent / "verbs.txt").read_text("utf-8").split())

NOUNS = {
    # of the public interface: what they return is what they are called
    *("context", "conversation", "entries", "history", "owners", "changes", "line_changes"),
    *("heads", "tombstones"),
    *("last_summary", "model_turns", "pins", "retriever", "segment_fingerprints"),
    *("similarities", "spec", "stats", "summaries", "summary_record", "summary_window", "table"),
    *("threads", "turns", "profile", "timeline"),
    *("adecode", "checkpoint", "conversation_thread", "setup", "twin", "variable_function"),
    # what a node of an imported file holds
    *("items", "member", "names", "optional", "rows", "seconds", "tables", "text", "text_or_blank"),
    "time",
    # the command line, where a function is a command
    *("chat", "command", "convmem", "main", "new", "prompts"),
    # LangGraph's and LangChain's own way to name what they build, and the hooks of an agent
    *("after_agent", "before_agent", "memory_graph", "model_messages", "model_node"),
    *("recall_node", "record_node", "summarize_node", "abatch", "astream", "batch"),
    *("model_post_init", "pretty_repr"),
    # IPython's, Jinja's and a Future's
    *("_repr_html_", "changed", "strftime_now", "done", "result"),
    *("derived", "getattr", "getitem", "unsafe_undefined"),
}
"""Functions that are named by a noun, and why."""

UNUSED = re.compile(r"sitting|everybody|\bmend|behind|\bdear\b|shelf|beside\b")
"""Words that the glossary has another word for."""


def _functions() -> Iterator[tuple[str, str, bool]]:
    """Yield where each function stands, its name, and whether it is awaited; no properties."""
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
                if not any(re.search(r"property|\.setter", text) for text in decorators):
                    awaited = isinstance(node, ast.AsyncFunctionDef)
                    yield f"{where}:{node.lineno}", node.name, awaited


def _begins_with_a_verb(name: str, *, awaited: bool) -> bool:
    word = name.strip("_").partition("_")[0]
    return word in VERBS or (awaited and word[:1] == "a" and word[1:] in VERBS)


def test_functions_begin_with_a_verb():
    wrong = [
        f"{where} {name}"
        for where, name, awaited in _functions()
        if not name.startswith("__")
        and name not in NOUNS
        and not (awaited and name[1:] in NOUNS)
        and not _begins_with_a_verb(name, awaited=awaited)
    ]
    assert wrong == []


def test_the_words_that_the_glossary_leaves_out_are_in_no_name():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node, "name", None) or getattr(node, "arg", None)
            if isinstance(name, str) and UNUSED.search(name.replace("_", " ")):
                wrong.append(f"{path.relative_to(PACKAGE).as_posix()} {name}")
    assert wrong == []


def test_a_list_of_verbs_that_lets_everything_pass_would_be_noticed():
    assert not _begins_with_a_verb("told", awaited=False)
    assert not _begins_with_a_verb("_entries_of", awaited=False)
    assert _begins_with_a_verb("aread_thread", awaited=True)
