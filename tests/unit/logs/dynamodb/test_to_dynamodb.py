import math
from collections import OrderedDict
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem import to_dynamodb

NULL = {"NULL": True}


def converted(value, problems=None):
    report = pytest.fail if problems is None else problems.append
    [fields] = to_dynamodb([{"value": value}], report=report)
    return fields["value"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("汉 \x00 🦊", {"S": "汉 \x00 🦊"}),
        (1.0, {"N": "1.0"}),
        (1e20, {"N": "1E+20"}),
        (Decimal("7.50"), {"N": "7.50"}),
        (10**37, {"N": "1" + "0" * 37}),
        (np.float64(2.5), {"N": "2.5"}),
        (bytearray(b"\x00\xff"), {"B": b"\x00\xff"}),
        ((1, (True,)), {"L": [{"N": "1"}, {"L": [{"BOOL": True}]}]}),
        (OrderedDict(a={"b": None}), {"M": {"a": {"M": {"b": NULL}}}}),
        (frozenset({2, 1.5}), {"NS": ["1.5", "2"]}),
        ({b"b", b"a"}, {"BS": [b"a", b"b"]}),
        ({"a": 1}.keys(), {"SS": ["a"]}),
    ],
)
def test_values_become_the_attribute_of_their_kind(value, expected):
    found = {
        kind: sorted(held) if kind in ("SS", "NS", "BS") else held
        for kind, held in converted(value).items()
    }
    assert found == expected


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Decimal("sNaN"), "Decimal"),
        (10**38 + 1, "int"),
        pytest.param(10**5000, "int", id="huge"),
        ("\ud800", "str"),
        (frozenset(), "frozenset"),
        ({None}, "set"),
        ({2, False}, "set"),
        ({math.nan}, "set"),
        ({"\ud800": 1}, "dict"),
        (object(), "object"),
    ],
)
def test_what_has_no_counterpart_becomes_null_and_its_neighbours_stay(value, why):
    problems = []
    found = converted({"before": 1, "odd": [value], "after": "x"}, problems)
    assert found == {"M": {"before": {"N": "1"}, "odd": {"L": [NULL]}, "after": {"S": "x"}}}
    [problem] = problems
    assert problem.startswith("[0].value.odd[0] ")
    assert why in problem


def test_what_is_nested_deeper_than_the_service_takes_becomes_null():
    circle, problems = [], []
    circle.append(circle)
    assert str(converted(circle, problems)).count("'L'") == 31
    assert len(problems) == 1


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
    [fields] = to_dynamodb([{"value": value}], report=lambda _: None)
    validator = pytest.importorskip("botocore.validate").ParamValidator()
    report = validator.validate({"TableName": "log", "Item": fields}, _put_item_shape())
    assert not report.has_errors(), report.generate_report()


@cache
def _put_item_shape():
    model = pytest.importorskip("botocore.session").get_session().get_service_model("dynamodb")
    return model.operation_model("PutItem").input_shape
