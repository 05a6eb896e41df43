"""A LangGraph store behind a few calls, each in both worlds; the only file that imports langgraph.

What the store raises is passed on as it is: its errors are those of its driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_convmem.effects import Steps, step
from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.integrations.base_store_layout import (
    PAGE,
    Namespace,
    OwnerRecord,
    Place,
    StoredRow,
    ThreadRecord,
    entry_place,
    epoch_place,
    owner_place,
    page_place,
    stored_row,
)
from langchain_convmem.records import Owner, ThreadKey

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

__all__ = ["StoreAccess"]

T = TypeVar("T")
_AT_ONCE = 100
"""Operations per call of the store."""


class StoreAccess:
    """The items of one log. As safe to share between threads as the store is."""

    def __init__(self, store: BaseStore, root: Namespace) -> None:
        """Prepare to use `store` below the namespace `root`.

        Raises:
            MissingExtraError: If langgraph is not installed.
            ConfigError: If `store` is no LangGraph store.
        """
        try:
            from langgraph.store import base
        except ImportError as error:
            raise MissingExtraError.for_extra("BaseStoreLog", "langgraph") from error
        if not isinstance(store, base.BaseStore):
            raise ConfigError(f"expected a LangGraph BaseStore, got {type(store).__name__}")
        self.root = root
        self.store = store
        self._get, self._put, self._search = base.GetOp, base.PutOp, base.SearchOp

    # -- items ----------------------------------------------------------------------------------

    def get(self, places: Sequence[Place]) -> Steps[list[Mapping[str, Any] | None]]:
        """Return the values at the places, in order."""
        found: list[Mapping[str, Any] | None] = []
        for some in _chunks(places):
            operations = [self._get(namespace, key) for namespace, key in some]
            items = yield step(self.store, "batch", operations)
            found.extend(None if item is None else item.value for item in items)
        return found

    def put(self, values: Sequence[tuple[Place, Mapping[str, Any] | None]]) -> Steps[None]:
        """Write the values, in no order; None deletes. They are never embedded for a search."""
        for some in _chunks(values):
            operations = [
                self._put(namespace, key, None if value is None else dict(value), index=False)
                for (namespace, key), value in some
            ]
            yield step(self.store, "batch", operations)

    def listed(self, namespace: Namespace) -> Steps[dict[str, Mapping[str, Any]]]:
        """Return all values of a namespace by key, whatever order the store finds them in."""
        found: dict[str, Mapping[str, Any]] = {}
        offset = 0
        while True:
            operation = self._search(namespace, limit=_AT_ONCE, offset=offset)
            [items] = yield step(self.store, "batch", [operation])
            # A store may take the namespace for the beginning of others.
            found.update((item.key, item.value) for item in items if item.namespace == namespace)
            if not items:
                return found
            offset += len(items)

    # -- records --------------------------------------------------------------------------------

    def owner(self, owner: Owner) -> Steps[OwnerRecord | None]:
        """Return what is known of an owner, if anything."""
        [value] = yield from self.get([owner_place(self.root, owner)])
        return None if value is None else OwnerRecord.read(value)

    def epoch(self) -> Steps[int]:
        """Return the number that the last `forget` raised."""
        [value] = yield from self.get([epoch_place(self.root)])
        return 0 if value is None else int(value["epoch"])

    def keep(self, owner: Owner, record: OwnerRecord | None) -> Steps[None]:
        """Write an owner's record, or delete it: from now on what it says counts."""
        value = None if record is None else record.value()
        yield from self.put([(owner_place(self.root, owner), value)])

    def numbers(self, key: ThreadKey, thread: ThreadRecord, *, skip: int = 0) -> Steps[list[int]]:
        """Return the numbers of a thread's entries, in order.

        Args:
            key: The thread.
            thread: What is known of it.
            skip: Leave out so many of the first ones.
        """
        skip = min(skip, thread.count)
        first = min(skip // PAGE, thread.pages)
        places = [page_place(self.root, key, page) for page in range(first, thread.pages)]
        pages = yield from self.get(places)
        full = [int(number) for page in pages if page is not None for number in page["numbers"]]
        return [*full, *thread.tail][skip - first * PAGE :]

    def rows(
        self, owner: Owner, record: OwnerRecord, numbers: Sequence[int]
    ) -> Steps[list[StoredRow]]:
        """Return the owner's entries with these numbers; what was forgotten is left out."""
        places = [entry_place(self.root, owner, number) for number in numbers]
        values = yield from self.get(places)
        return [
            stored_row(value, number)
            for value, number in zip(values, numbers, strict=True)
            # An entry that was written and never counted may be of an earlier time.
            if value is not None and int(value["position"]) == record.base + number
        ]


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]
