"""What every notebook of the cookbook shows a reader, and what their comparison notices."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from typing import Any

import pytest
from notebooks import COOKBOOK, MOST_BYTES, ROOT, compare_notebooks, is_executed, list_notebooks

NAMES = [path.name for path in list_notebooks()]


@cache
def _read(name: str) -> dict[str, Any]:
    return json.loads((COOKBOOK / name).read_text(encoding="utf-8"))


def _code_cells(name: str) -> list[dict[str, Any]]:
    return [cell for cell in _read(name)["cells"] if is_executed(cell)]


def _outputs(name: str) -> list[dict[str, Any]]:
    return [output for cell in _code_cells(name) for output in cell["outputs"]]


def _pictures(name: str) -> list[bytes]:
    found = [output.get("data", {}).get("image/png") for output in _outputs(name)]
    return [base64.b64decode("".join(one)) for one in found if one]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_stored_as_it_was_executed_from_top_to_bottom(name):
    cells = _code_cells(name)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert _outputs(name)
    assert not [one for one in _outputs(name) if one["output_type"] == "error"]
    assert not [one for one in _outputs(name) if one.get("name") == "stderr"]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_asserts_at_its_end_what_it_teaches(name):
    assert "\nassert " in "".join(_read(name)["cells"][-1]["source"])


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_begins_with_what_installs_it_and_shows_a_picture(name):
    first = next(cell for cell in _read(name)["cells"] if cell["cell_type"] == "code")
    source = "".join(first["source"])
    assert re.match(r"%pip install -q '?langchain-convmem", source)
    assert _pictures(name)
    for package in ("matplotlib", "langgraph", "langchain_openai", "langchain_aws", "moto"):
        if any(package in "".join(cell["source"]) for cell in _code_cells(name)):
            assert package.removeprefix("langchain_") in source


@pytest.mark.parametrize("name", NAMES)
def test_what_is_stored_tells_nothing_of_the_machine_that_made_it(name):
    text = json.dumps(_outputs(name))
    assert str(ROOT) not in text
    assert not re.search(r"/(?:home|root|Users|tmp)/", text)


def test_pictures_are_small_enough_for_a_clone():
    sizes = [len(picture) for name in NAMES for picture in _pictures(name)]
    assert max(sizes) <= MOST_BYTES


def test_the_list_of_notebooks_names_each_of_them():
    listed = re.findall(r"\]\((\w+\.ipynb)\)", (COOKBOOK / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == NAMES


def _shows(*texts: str, tags: tuple[str, ...] = (), day: str = "2026-11-25") -> dict[str, Any]:
    outputs = [{"output_type": "stream", "name": "stdout", "text": text} for text in texts]
    cell = {"cell_type": "code", "metadata": {"tags": list(tags)}, "outputs": outputs}
    return {"metadata": {"executed": day}, "cells": [cell]}


def _differ(stored: dict[str, Any], made: dict[str, Any]) -> bool:
    return bool(list(compare_notebooks(stored, made)))


@pytest.mark.parametrize(
    ("stored", "made"),
    [
        ("entry 01M8AEXPCV0WRPYKVPMMC3AK1Z", "entry 01M8AEXRKWBD76GGD2XT7CVZPQ"),
        ("said 2026-11-25, today", "said 2027-01-03, today"),
        ("[2024-03-02, 2 years ago]", "[2024-03-02, 3 years ago]"),
        ("at 12:01:33", "at 23:59:01"),
        ("2026-11-25T12:01:33.001+00:00", "2027-01-03T13:01:33.9+00:00"),
        ("call_b5a30f21295f2762e4e93631", "call_b9fb8f718e36a239d2e6976a"),
        ("http://127.0.0.1:40123/v1", "http://127.0.0.1:50001/v1"),
        ("<object at 0x7f5e8acd3880>", "<object at 0x7f9999999990>"),
        ("creation=1795647527323", "creation=1795649999999"),
        ("relevance 28.52", "relevance 28.60"),
        ("a   12.11 b", "a 12.10 b"),
    ],
)
def test_what_every_run_has_of_its_own_is_no_difference(stored, made):
    assert not _differ(_shows(stored), _shows(made, day="2027-01-03"))


@pytest.mark.parametrize(
    ("stored", "made"),
    [
        ("12 lines", "13 lines"),
        ("relevance 28.52", "relevance 31.00"),
        ("said 2024-03-02", "said 2024-03-03"),
        ("Teresa has it", "Teresa had it"),
        ("(6, 4)", "(6, 4, 1)"),
    ],
)
def test_what_a_reader_would_notice_is_a_difference(stored, made):
    assert _differ(_shows(stored), _shows(made))
    assert _differ(_shows(made), _shows(stored))


def test_a_notebook_becomes_a_page_with_its_texts_and_described_pictures():
    pages = pytest.importorskip("cookbook_pages", reason="mkdocs is not installed")
    made = pages.make_page(COOKBOOK / "17_recall_explained.ipynb")
    page = made["17_recall_explained.md"]
    assert page.startswith("# Recall, explained")
    pictures = re.findall(r"!\[(.+?)\]\((.+?\.png)\)", page)
    assert {name for _, name in pictures} == made.keys() - {"17_recall_explained.md"}
    assert all(alternative and made[name][:4] == b"\x89PNG" for alternative, name in pictures)
    listed = re.findall(r"^### \[.+\]\((\w+)\.md\)", pages.make_list(), re.MULTILINE)
    assert sorted(f"{name}.ipynb" for name in listed) == NAMES
