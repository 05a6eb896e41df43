"""`MessageLogContract`: what every message log promises, by value.

A backend subclasses it in its tests and opens its log::

    class TestMyLog(MessageLogContract):
        persistent = True
        several_handles = True

        several_processes = True

        def make_log(self, tmp_path):
            return partial(MyLog, tmp_path / "log")
"""

from __future__ import annotations

import sys

import pytest

_PARTS = tuple(
    f"langchain_convmem.testing.log_contract_{part}"
    for part in (
        "concurrency",
        "erasing",
        "finding",
        "reading",
        "state",
        "transactions",
        "twice",
        "writing",
    )
)

# Before they are imported: failing assertions then show their values in the tests of others too.
pytest.register_assert_rewrite(*(part for part in _PARTS if part not in sys.modules))

from langchain_convmem.testing.log_contract_base import ContractLog, OpenLog  # noqa: E402 - above
from langchain_convmem.testing.log_contract_concurrency import ConcurrencyPart  # noqa: E402 - above
from langchain_convmem.testing.log_contract_erasing import ErasingPart  # noqa: E402 - above
from langchain_convmem.testing.log_contract_finding import FindingPart  # noqa: E402 - above
from langchain_convmem.testing.log_contract_reading import ReadingPart  # noqa: E402 - above
from langchain_convmem.testing.log_contract_state import StatePart  # noqa: E402 - above
from langchain_convmem.testing.log_contract_transactions import TransactionsPart  # noqa: E402 - above
from langchain_convmem.testing.log_contract_twice import TwicePart  # noqa: E402 - above
from langchain_convmem.testing.log_contract_writing import WritingPart  # noqa: E402 - above

__all__ = ["ContractLog", "MessageLogContract", "OpenLog"]


class MessageLogContract(
    WritingPart,
    TwicePart,
    ReadingPart,
    FindingPart,
    StatePart,
    TransactionsPart,
    ErasingPart,
    ConcurrencyPart,
):
    """The tests of a message log; give `make_log` and declare what the log can do.

    What a log does not declare is skipped, and the skip says so. Optional abilities are known by
    their protocols: a log that is an `OwnerListing`, a `LineSource`, a `SegmentCache`, a
    `SegmentBuffer` or a `ThreadTransactions` is tested as one.

    Attributes:
        persistent: Entries outlive the handle: a closed log can be opened again.
        several_handles: Each call of what `make_log` returns opens another handle on the same
            storage, as another process would. Without it, every call returns the same log.
        several_processes: Other processes may write to the storage at the same time; what
            `make_log` returns can be sent to them.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Refuse a backend that rewrites a promise instead of keeping it."""
        super().__init_subclass__(**kwargs)
        redefined = sorted(
            name
            for name in vars(cls)
            if name.startswith("test_") and hasattr(MessageLogContract, name)
        )
        if redefined:
            msg = (
                f"{cls.__name__} overrides the contract tests {', '.join(redefined)}; "
                "mend the log, or declare what it cannot do with a flag"
            )
            raise TypeError(msg)
