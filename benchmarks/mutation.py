"""How many faults in a file its tests notice: one fault at a time is put into a function of it.

    python -m benchmarks.mutation                                  # the files of mutation.json
    python -m benchmarks.mutation FILE... --tests FOLDER... [--sample 100] [--seed 1] [--list]

Needs the dependency group `mutation`, and a system that can fork. A fault (a mutant) is a swapped
comparison, operator or `and`, a negated condition, another constant, a result that is not returned,
or a statement that is left out. Mutants are sampled from all that the functions of a file allow;
tables and constants outside of functions stay as they are, and so do the words of errors.

A first run, without faults, notes which tests run through which lines. Each mutant then meets the
tests that run through its statement, the quickest first, in a process of its own, until one fails:
then it is killed, and also if a test takes ten times as long as before. A mutant survives if no
test fails, or none runs through it. Some survivors change nothing that anybody could notice, so no
file reaches 100 %: compare a file with the one whose place it takes.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import json
import math
import os
import pickle
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import pytest

ROOT = Path(__file__).parents[1]
STORED = ROOT / "benchmarks" / "mutation.json"
MARKS = "not (slow or package or postgres or redis or node or local or web or browser)"
"""Which tests count: those of `make test`."""
PLUGINS = ("randomly", "xdist", "cacheprovider")
"""What pytest does without."""

T = TypeVar("T")
Outcome: TypeAlias = Literal["killed", "survived", "does not fit"]
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Put: TypeAlias = Callable[[ast.AST], None]
Change: TypeAlias = tuple[str, Callable[[], None]]

_SWAPS = (
    (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.BitOr, ast.BitAnd),
    (ast.LShift, ast.RShift), (ast.Mult, ast.FloorDiv),
)  # fmt: skip
_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    **dict(_SWAPS),
    **{other: one for one, other in _SWAPS},
    **dict.fromkeys((ast.Div, ast.Mod), ast.Mult),
}
_BLOCKS = ("body", "orelse", "finalbody")
_NOT_MUTATED = {*_BLOCKS, "handlers", "cases", "annotation"}


class Mutant(NamedTuple):
    """A fault that can be put into the tree of a module.

    Attributes:
        function: The function or method that holds it.
        lines: The lines of its statement; of one with a body, those of its head.
        change: What is changed, for people.
        apply: Changes the tree.
    """

    function: Function
    lines: range
    change: str
    apply: Callable[[], None]


@dataclass(slots=True)
class Score:
    """What became of the mutants of a file.

    Attributes:
        killed: How many a test noticed.
        survivors: Those that none did, for people.
        untested: How many of these stand where no test comes.
        broken: How many of the tests fail without any fault, and are left out.
        seconds: How long it took, without the first run of the tests.
    """

    killed: int = 0
    survivors: list[str] = field(default_factory=list)
    untested: int = 0
    broken: int = 0
    seconds: int = 0

    @property
    def mutants(self) -> int:
        """How many were tried."""
        return self.killed + len(self.survivors)

    def add(self, mutant: Mutant, outcome: Outcome, *, is_tested: bool) -> None:
        """Count a mutant, unless its code did not fit."""
        if outcome == "killed":
            self.killed += 1
        elif outcome == "survived":
            self.untested += not is_tested
            self.survivors.append(f"line {mutant.lines.start}: {mutant.change}")


# -- mutants --------------------------------------------------------------------------------------
def find_mutants(module: ast.Module) -> Iterator[Mutant]:
    """Yield every fault that can be put into the functions of a module."""
    for function in _find_functions(module.body):
        for statement, put in _walk_statements(function):
            body = next((getattr(statement, name, None) for name in _BLOCKS), None)
            last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
            lines = range(statement.lineno, max(last, statement.lineno) + 1)
            for change, apply in _find_changes(statement, put):
                yield Mutant(function, lines, change, apply)


def _find_functions(body: Sequence[ast.stmt]) -> Iterator[Function]:
    for node in body:
        if isinstance(node, Function):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _find_functions(node.body)


def _walk_statements(node: ast.AST) -> Iterator[tuple[ast.stmt, Put]]:
    for name in (*_BLOCKS, "handlers", "cases"):
        block: list[ast.AST] = getattr(node, name, [])
        for place, inner in enumerate(block):
            if isinstance(inner, ast.stmt):
                yield inner, partial(block.__setitem__, place)
            yield from _walk_statements(inner)


def _find_changes(statement: ast.stmt, put: Put) -> Iterator[Change]:
    """Yield what can be changed in a statement, not in those of its body."""
    match statement:
        case ast.Expr(ast.Constant()) | ast.FunctionDef() | ast.AsyncFunctionDef():
            return
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("_logger")))) | ast.Assign([ast.Name("msg")]):
            return
        case ast.Return(ast.expr()) if ast.unparse(statement) != "return None":
            yield "return None", partial(setattr, statement, "value", None)
        case ast.If() | ast.While() if not isinstance(statement.test, ast.Compare | ast.UnaryOp):
            yield "condition negated", partial(setattr, statement, "test", _negate(statement.test))
        case ast.Continue():
            yield "continue -> break", partial(put, ast.copy_location(ast.Break(), statement))
    if _can_be_left_out(statement):
        nothing = ast.copy_location(ast.Pass(), statement)
        yield f"left out: {ast.unparse(statement):.60}", partial(put, nothing)
    if not isinstance(statement, ast.Raise):
        yield from _find_inner_changes(statement, _NOT_MUTATED)


def _can_be_left_out(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Delete():
            return True
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            return True
    return False


def _find_inner_changes(
    node: ast.AST, left_alone: Sequence[str] | set[str] = ()
) -> Iterator[Change]:
    for child, put in _find_children(node, left_alone):
        swapped = _SWAPPED.get(type(child))
        if swapped is not None:
            change = f"{type(child).__name__} -> {swapped.__name__}"
            yield change, partial(put, swapped())
        elif isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not):
            yield "not left out", partial(put, child.operand)
        elif isinstance(child, ast.IfExp) and not isinstance(child.test, ast.Compare | ast.UnaryOp):
            yield "condition negated", partial(setattr, child, "test", _negate(child.test))
        elif isinstance(child, ast.Constant):
            other = _find_other(child.value)
            if other is not None:
                constant = ast.copy_location(ast.Constant(other), child)
                yield f"{child.value!r:.30} -> {other!r}", partial(put, constant)
        if not _is_wording(child):
            yield from _find_inner_changes(child)


def _find_children(
    node: ast.AST, left_alone: Sequence[str] | set[str]
) -> Iterator[tuple[ast.AST, Put]]:
    for name, value in ast.iter_fields(node):
        if name in left_alone:
            continue
        if isinstance(value, ast.AST):
            yield value, partial(setattr, node, name)
        for place, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, ast.AST):
                yield item, partial(value.__setitem__, place)


def _negate(condition: ast.expr) -> ast.expr:
    return ast.copy_location(ast.UnaryOp(ast.Not(), condition), condition)


def _find_other(value: object) -> str | bytes | bool | float | None:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return "" if value else "mutant"
        case bytes():
            return b"" if value else b"mutant"
    return None


def _is_wording(node: ast.AST) -> bool:
    """Return whether a node is text for people, an error's words, or a name for a type checker."""
    match node:
        case ast.JoinedStr():
            return True
        case ast.Call(ast.Name(name)):
            return name == "cast" or name.endswith("Error")
    return False


# -- running them ---------------------------------------------------------------------------------
class Trial:
    """Tries the mutants of files where pytest would run the tests that it has collected.

    Attributes:
        scores: What became of them, by file.
    """

    def __init__(self, files: Sequence[Path], sample: int, seed: int, most: int) -> None:
        """Note what to try.

        Args:
            files: The files, relative to the project.
            sample: How many mutants of each are tried, at most.
            seed: Decides which.
            most: How many tests are run on one mutant, at most.
        """
        self.scores: dict[str, Score] = {}
        self._files = files
        self._sample = sample
        self._seed = seed
        self._most = most
        self._has_failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note whether the test fails."""
        self._has_failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the mutants."""
        items = session.items
        paths = {file: _find_path(file) for file in self._files}
        traced = run_in_child(partial(self._trace, items, [*paths.values()]))
        if traced is None:
            return True
        seconds, reached = traced
        for file, path in paths.items():
            begun = time.monotonic()
            score = self._try_file(path, items, seconds, reached[path])
            score.seconds = round(time.monotonic() - begun)
            self.scores[str(file)] = score
        return True

    def _try_file(
        self,
        path: str,
        items: Sequence[pytest.Item],
        seconds: Sequence[float],
        reached: Mapping[int, Sequence[int]],
    ) -> Score:
        score = Score(broken=sum(1 for needed in seconds if needed == math.inf))
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
        mutants = list(find_mutants(tree))
        random.Random(self._seed).shuffle(mutants)
        for mutant in mutants:
            if score.mutants == self._sample:
                break
            numbers = {number for line in mutant.lines for number in reached.get(line, ())}
            sound = [number for number in numbers if seconds[number] < math.inf]
            quickest = sorted(sound, key=seconds.__getitem__)[: self._most]
            chosen = [(items[number], seconds[number]) for number in quickest]
            outcome = run_in_child(partial(self._try, tree, path, mutant, chosen)) or "killed"
            score.add(mutant, outcome, is_tested=bool(chosen))
        return score

    def _trace(
        self, items: Sequence[pytest.Item], paths: Sequence[str]
    ) -> tuple[list[float], dict[str, dict[int, list[int]]]]:
        """Return how long each test takes, infinity if it fails, and which tests reach a line."""
        import coverage

        tracer = coverage.Coverage(data_file=None, include=paths, config_file=False)
        seconds: list[float] = []
        with tracer.collect():
            for item, following in pairwise([*items, None]):
                tracer.switch_context(str(len(seconds)))
                begun = time.perf_counter()
                has_failed = self._fails(item, following)
                seconds.append(math.inf if has_failed else time.perf_counter() - begun)
        data = tracer.get_data()
        return seconds, {
            path: {
                line: [int(name) for name in names if name]
                for line, names in data.contexts_by_lineno(path).items()
            }
            for path in paths
        }

    def _try(
        self,
        tree: ast.Module,
        path: str,
        mutant: Mutant,
        chosen: Sequence[tuple[pytest.Item, float]],
    ) -> Outcome:
        """Return what becomes of a mutant; to be called in a process of its own."""
        mutant.apply()
        if not replace_code(mutant.function, compile(tree, path, "exec")):
            return "does not fit"
        for (item, seconds), (following, _) in pairwise([*chosen, (None, 0.0)]):
            # The processor's time stops what runs on and on, also where other work slows it down.
            signal.setitimer(signal.ITIMER_PROF, 2 + 10 * seconds)
            signal.setitimer(signal.ITIMER_REAL, 60 + 10 * seconds)
            if self._fails(item, following):
                return "killed"
        return "survived"

    def _fails(self, item: Any, following: pytest.Item | None) -> bool:
        self._has_failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return self._has_failed


def _find_path(file: Path) -> str:
    """Return where a file was imported from, as its code objects name it."""
    return str(importlib.import_module(".".join(file.with_suffix("").parts)).__file__)


def replace_code(function: Function, module: CodeType) -> bool:
    """Put the code of a mutated function, as compiled in its module, where the old one is.

    Returns:
        Whether there was such a function, and the new code fits.
    """
    first = min(node.lineno for node in (function, *function.decorator_list))
    place = (module.co_filename, first, function.name)
    code = next(one for one in _walk_code(module) if _get_place(one) == place)
    gc.unfreeze()  # what is frozen is not listed
    found = [
        known
        for known in gc.get_objects()
        if isinstance(known, FunctionType) and _get_place(known.__code__) == place
    ]
    if any(known.__code__.co_freevars != code.co_freevars for known in found):
        return False
    for known in found:
        known.__code__ = code
    return bool(found)


def _walk_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _walk_code(inner)


def _get_place(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_name


def run_in_child(job: Callable[[], T]) -> T | None:
    """Return what a job returns, which runs silently in a process of its own; None if it died."""
    with tempfile.TemporaryFile() as answer:
        child = os.fork()
        if child == 0:
            try:
                os.setpgid(0, 0)
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
                pickle.dump(job(), answer)
                answer.flush()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        with suppress(ProcessLookupError):  # what the job has started goes with it
            os.killpg(child, signal.SIGKILL)
        answer.seek(0)
        with suppress(EOFError):
            answered: T = pickle.load(answer)  # noqa: S301 - our own child wrote it
            return answered
    return None


# -- the command ----------------------------------------------------------------------------------
def try_files(files: Sequence[Path], tests: Sequence[str], **options: int) -> dict[str, Score]:
    """Return what becomes of the mutants of files that have the same tests."""
    trial = Trial(files, **options)
    without = [word for name in PLUGINS for word in ("-p", f"no:{name}")]
    pytest.main(["-q", "-s", "-o", "timeout=0", "-m", MARKS, *without, *tests], plugins=[trial])
    return trial.scores


def main() -> int:
    """Try the mutants of files, print their scores and store them where asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="those of mutation.json without any")
    parser.add_argument("--tests", nargs="+", default=[], help="files and folders of tests")
    parser.add_argument("--sample", type=int, default=100, help="how many mutants of a file")
    parser.add_argument("--seed", type=int, default=1, help="which of them")
    parser.add_argument("--most", type=int, default=300, help="how many tests for a mutant")
    parser.add_argument("--list", action="store_true", help="name those that survive")
    parser.add_argument("--store", action="store_true", help="write the scores to mutation.json")
    options = parser.parse_args()
    stored: dict[str, Any] = json.loads(STORED.read_text()) if STORED.exists() else {}
    jobs: dict[tuple[str, ...], list[Path]] = {}
    if options.files:
        jobs[tuple(options.tests)] = options.files
    else:
        for file, row in stored.items():
            jobs.setdefault(tuple(row["tests"]), []).append(Path(file))
    for tests, files in jobs.items():
        settings = {"sample": options.sample, "seed": options.seed, "most": options.most}
        scores = run_in_child(partial(try_files, files, tests, **settings))
        if not scores:
            parser.exit(1, f"the tests do not run: {' '.join(tests)}\n")
        for file, score in scores.items():
            _report(file, score, stored.get(file), score.survivors if options.list else ())
            stored[file] = {
                "tests": list(tests),
                "mutants": score.mutants,
                "killed": score.killed,
                "untested": score.untested,
            }
        if options.store:
            STORED.write_text(json.dumps(stored, indent=1) + "\n")
    return 0


def _report(
    file: str, score: Score, before: Mapping[str, Any] | None, survivors: Sequence[str]
) -> None:
    known = f" ({before['killed']} of {before['mutants']} before)" if before else ""
    print(
        f"{file}: {score.killed} of {score.mutants} killed{known}; {score.untested} where no test"
        f" comes; {score.broken} tests fail without a fault; {score.seconds} s",
        *survivors,
        sep="\n  ",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
