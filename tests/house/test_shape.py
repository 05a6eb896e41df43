"""One noun, one file: the shape of the package, as `python -m benchmarks.shape` prints it."""

from __future__ import annotations

import pytest

from benchmarks.shape import Shape


@pytest.fixture(scope="module")
def shape() -> Shape:
    return Shape()


def test_the_package_was_read(shape):
    assert len(shape.modules) > 50
    assert shape.imports["memory"] >= {"errors", "effects"}


def test_a_class_name_stands_once(shape):
    assert shape.twice == {}


def test_no_file_imports_itself_by_way_of_others(shape):
    assert shape.circles == []


def test_no_class_is_spread_over_others(shape):
    assert shape.many_bases == []


def test_a_small_module_of_one_importer_is_part_of_it(shape):
    assert shape.small_with_one_importer == []


def test_public_names_can_be_learned(shape):
    assert len(shape.public_names) <= 165  # 140 before hosts outside of LangChain came in
