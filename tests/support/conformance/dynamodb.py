"""Cases of the kind `dynamodb`: plain maps as DynamoDB attribute values."""

import logging
from collections.abc import Mapping
from decimal import Decimal

from conformance.cases import INFORMATION, check_any, check_equal, check_keys
from langchain_convmem.errors import ConvMemError
from langchain_convmem.logs.dynamodb import to_dynamodb

TAGS = {
    "$bytes": bytes.fromhex,
    "$set": lambda members: {decoded(member) for member in members},
    "$map": lambda pairs: {decoded(key): decoded(value) for key, value in pairs},
    "$decimal": Decimal,
    "$float": float,
    "$object": lambda _: object(),
}


def run_dynamodb_case(case):
    check_keys("case", set(case.fields) - {"input", "expect", "accept"}, INFORMATION)
    try:
        found = to_dynamodb(decoded(case.fields["input"]), report=logging.debug)
    except (ConvMemError, TypeError, ValueError):
        found = "raised"
    options = [{"expect": case.fields["expect"]}, *case.fields.get("accept", ())]
    for option in options:
        check_keys("accept", option, {"expect", "raises"})

    def compare(option):
        wanted = "raised" if option.get("raises") else unordered(decoded(option["expect"]))
        check_equal("attribute values", found if found == "raised" else unordered(found), wanted)

    check_any(options, compare)


def decoded(value):
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if len(value) == 1:
        [(tag, inner)] = value.items()
        if tag.startswith("$"):
            check_keys("tags", [tag], TAGS)
            return TAGS[tag](inner)
    return {key: decoded(item) for key, item in value.items()}


def unordered(value):
    """Return attribute values with the members of sets sorted."""
    if isinstance(value, list):
        return [unordered(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: sorted(item) if key in ("SS", "NS", "BS") else unordered(item)
        for key, item in value.items()
    }
