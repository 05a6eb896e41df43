import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]


def test_the_page_shows_the_examples_as_they_are():
    page = (PROJECT / "docs" / "how_to" / "own_log.md").read_text()
    names = ("examples/list_log", "examples/redis_log", "tests/integration/test_redis_log")
    sources = [(PROJECT / f"{name}.py").read_text() for name in names]
    shown = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == 2
    # A page shows a method at its margin.
    there = ["".join(source.split()) for source in sources]
    assert [code for code in shown if not any("".join(code.split()) in one for one in there)] == []


def test_the_example_is_at_most_300_lines():
    assert len((PROJECT / "examples" / "redis_log.py").read_text().splitlines()) <= 300
