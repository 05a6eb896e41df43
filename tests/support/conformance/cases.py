"""Case files: what every kind of case has in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

INFORMATION = {
    "id",
    "kind",
    "name",
    "note",
    "original_agrees",
    "original_differs_in",
    "source",
    "strength",
    "title",
    "why",
}
"""Keys of a case that say something about it and expect nothing."""


class UnknownKeyError(AssertionError):
    """A case says something that no check knows: it fails, whatever its strength."""


@dataclass(frozen=True)
class Case:
    file: str
    name: str
    strength: str
    fields: Mapping[str, Any]

    @property
    def id(self):
        return f"{self.file}::{self.name}"


def load_cases(folder):
    """Return the cases of every JSON file in a folder, by file name and order."""
    return [case for path in sorted(folder.glob("*.json")) for case in _cases_of(path)]


def _cases_of(path):
    document = json.loads(path.read_text("utf-8"))
    return [
        Case(path.name, str(case.get("name", case.get("id"))), case.get("strength", "must"), case)
        for case in document["cases"]
    ]


def check_keys(what, found, known):
    """Fail on a key that the runner would leave unchecked."""
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise UnknownKeyError(f"{what} has keys that no check knows: {unknown}")


def alternatives(case, known, families=()):
    """Return what the case expects, and every alternative that it accepts.

    An alternative replaces the keys that it names, and with them the keys of the same family,
    which say something about the same thing.
    """
    expect = dict(case.fields["expect"])
    found = [expect]
    for other in case.fields.get("accept", ()):
        replaced = set(other).union(*(family for family in families if family & set(other)))
        kept = {key: value for key, value in expect.items() if key not in replaced}
        found.append({**kept, **other})
    for one in found:
        check_keys("expect", one, known)
    return found


def check_any(options, compare):
    """Fail unless one of the options compares; the message tells of all of them."""
    failures = []
    for option in options:
        try:
            compare(option)
        except UnknownKeyError:
            raise
        except AssertionError as error:
            failures.append(str(error))
        else:
            return
    raise AssertionError("\n-- or --\n".join(failures))


def check_equal(what, found, expected):
    assert found == expected, f"{what}:\n  expected {expected!r}\n  found    {found!r}"
