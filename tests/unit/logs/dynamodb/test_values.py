from __future__ import annotations

import enum
import logging
import math
from collections import OrderedDict
from datetime import date
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.logs.dynamodb.values import to_dynamodb

NULL = {"NULL": True}


class Color(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    THREE = 3


def converted(value, problems=None):
    report = pytest.fail if problems is None else problems.append
    [fields] = to_dynamodb([{"value": value}], report=report)
    return fields["value"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, NULL),
        ("parked", {"S": "parked"}),
        ("", {"S": ""}),
        ("汉 \x00 🦊", {"S": "汉 \x00 🦊"}),
        (True, {"BOOL": True}),
        (False, {"BOOL": False}),
        (0, {"N": "0"}),
        (-12, {"N": "-12"}),
        (1.0, {"N": "1.0"}),
        (1e20, {"N": "1e+20"}),
        (-0.5, {"N": "-0.5"}),
        (Decimal("7.50"), {"N": "7.50"}),
        (10**37, {"N": "1" + "0" * 37}),
        (10**100, {"N": "1" + "0" * 100}),
        (np.float64(2.5), {"N": "2.5"}),
        (b"", {"B": b""}),
        (bytearray(b"\x00\xff"), {"B": b"\x00\xff"}),
        (memoryview(b"ab"), {"B": b"ab"}),
        ([], {"L": []}),
        ((1, (True,)), {"L": [{"N": "1"}, {"L": [{"BOOL": True}]}]}),
        ({}, {"M": {}}),
        (OrderedDict(a={"b": None}), {"M": {"a": {"M": {"b": NULL}}}}),
        ({"b", "a"}, {"SS": ["a", "b"]}),
        (frozenset({2, 1.5}), {"NS": ["1.5", "2"]}),
        ({b"b", b"a"}, {"BS": [b"a", b"b"]}),
        ({"a": 1}.keys(), {"SS": ["a"]}),
        (Color.RED, {"S": "red"}),
        (Level.THREE, {"N": "3"}),
    ],
)
def test_values_become_the_attribute_of_their_kind(value, expected):
    found = converted(value)
    assert found == expected
    assert type(found.get("S", "")) is str


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (Decimal("NaN"), "NaN"),
        (Decimal("sNaN"), "sNaN"),
        (10**38 + 1, "too long"),
        pytest.param(10**5000, "too long", id="huge"),
        (Decimal("1e126"), "1E+126"),
        (1e-140, "1e-140"),
        ("\ud800", "surrogates"),
        (set(), "empty set"),
        (frozenset(), "empty set"),
        ({1, "a"}, "several kinds"),
        ({True, False}, "several kinds"),
        ({None}, "several kinds"),
        ({math.nan}, "several kinds"),
        ({1: "a", "b": "c"}, "no text"),
        ({"\ud800": 1}, "no text"),
        (date(2026, 9, 3), "date"),
        (object(), "object"),
        (1j, "complex"),
    ],
)
def test_what_has_no_counterpart_becomes_null_and_its_neighbours_stay(value, why):
    problems = []
    found = converted({"before": 1, "odd": [value], "after": "x"}, problems)
    assert found == {"M": {"before": {"N": "1"}, "odd": {"L": [NULL]}, "after": {"S": "x"}}}
    [problem] = problems
    assert problem.startswith("[0].value.odd[0] ")
    assert why in problem


def test_numbers_that_are_one_to_the_service_stand_once_in_a_set():
    assert converted({0.1, Decimal("0.1"), Decimal("0.10")}) in (
        {"NS": ["0.1"]},
        {"NS": ["0.10"]},
    )


def test_several_maps_keep_their_order_and_places():
    problems = []
    assert to_dynamodb([{"a": 1}, {}, {"b": object()}], report=problems.append) == [
        {"a": {"N": "1"}},
        {},
        {"b": NULL},
    ]
    assert problems[0].startswith("[2].b ")


def test_an_entry_of_the_whole_map_whose_key_is_no_text_is_left_out():
    problems = []
    assert to_dynamodb([{1: "a", "b": "c"}], report=problems.append) == [{"b": {"S": "c"}}]
    assert "1" in problems[0]


def test_what_lies_too_deep_becomes_null():
    endless = []
    endless.append(endless)
    problems = []
    found = converted(endless, problems)
    depth = 0
    while found != NULL:
        [found] = found["L"]
        depth += 1
    assert depth == 33
    assert len(problems) == 1


def test_problems_are_logged_as_errors_by_default(caplog):
    with caplog.at_level(logging.ERROR):
        to_dynamodb([{"a": {"b": set()}}])
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "[0].a.b" in record.getMessage()


def test_what_is_logged_is_no_format(caplog):
    to_dynamodb([{"100 %s": set()}])
    assert "100 %s" in caplog.records[0].getMessage()


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals().filter(lambda number: not number.is_snan())
    | st.dates()
)
values = st.recursive(
    scalars | st.frozensets(scalars, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values)
def test_whatever_comes_out_is_what_the_driver_takes(value):
    botocore_session = pytest.importorskip("botocore.session")
    [fields] = to_dynamodb([{"value": value}], report=lambda _: None)
    shape = _put_item_shape(botocore_session)
    report = (
        pytest.importorskip("botocore.validate")
        .ParamValidator()
        .validate({"TableName": "log", "Item": fields}, shape)
    )
    assert not report.has_errors(), report.generate_report()


_SHAPES = []


def _put_item_shape(botocore_session):
    if not _SHAPES:
        model = botocore_session.get_session().get_service_model("dynamodb")
        _SHAPES.append(model.operation_model("PutItem").input_shape)
    return _SHAPES[0]
