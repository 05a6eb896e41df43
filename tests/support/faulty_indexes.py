"""A line index of few lines, copies of it with one defect each, and the tests that must find it."""

from __future__ import annotations

import numpy as np

from langchain_convmem.errors import DimensionMismatchError

FAULTS = []


def killed_by(*tests):
    """Declare which tests of the contract find the fault."""

    def note(fault):
        FAULTS.extend((fault, test) for test in tests)
        return fault

    return note


class PlainIndex:
    """Compares everything in float64; the defects are in copies of single steps of it."""

    def __init__(self, dim):
        self.dim = dim
        self.rows = np.empty((0, dim))
        self.removed = set()

    def __len__(self):
        return len(self.rows)

    def check(self, got):
        if got != self.dim:
            raise DimensionMismatchError(f"{self.dim}, not {got}", expected=self.dim, got=got)

    def add(self, vectors):
        self.check(vectors.shape[1])
        self.rows = np.concatenate([self.rows, vectors.astype(np.float64)])

    def replace(self, number, vector):
        self.check(len(vector))
        self.rows[number] = vector

    def remove(self, numbers):
        self.removed.update(int(number) for number in numbers)

    def cosines(self, query):
        lengths = self.lengths() * np.linalg.norm(query.astype(np.float64))
        products = self.rows @ query.astype(np.float64)
        return np.divide(products, lengths, out=np.zeros(len(self)), where=lengths > 0)

    def lengths(self):
        return np.linalg.norm(self.rows, axis=1)

    def searchable(self, query):
        mask = self.rows.any(axis=1) & bool(query.any())
        mask[list(self.removed)] = False
        return mask

    def order(self, cosines):
        return np.argsort(-np.round(cosines, 9), kind="stable")

    def search(self, query, k, *, allowed=None):
        self.check(len(query))
        cosines = self.cosines(query)
        mask = self.searchable(query)
        numbers = np.flatnonzero(mask if allowed is None else mask & allowed)
        numbers = numbers[self.order(cosines[numbers])[:k]]
        return numbers, cosines[numbers].astype(np.float32)

    def similarities(self, query, numbers=None):
        self.check(len(query))
        cosines = self.cosines(query).astype(np.float32)
        return cosines if numbers is None else cosines[numbers]


# -- comparing ----------------------------------------------------------------------------------


@killed_by("test_every_vector_finds_itself_at_similarity_one")
class TakesTheInnerProduct(PlainIndex):
    def lengths(self):
        return np.ones(len(self))


@killed_by("test_a_query_of_any_length_gives_the_same_answer")
class ForgetsTheLengthOfTheQuestion(PlainIndex):
    def cosines(self, query):
        return super().cosines(query) * np.linalg.norm(query)


@killed_by("test_the_direction_counts_and_not_only_the_axis")
class TakesTheAngleToTheAxis(PlainIndex):
    def cosines(self, query):
        return np.abs(super().cosines(query))


@killed_by("test_the_nearest_come_first_with_their_cosine")
class GivesDistances(PlainIndex):
    def search(self, query, k, *, allowed=None):
        numbers, similarities = super().search(query, k, allowed=allowed)
        return numbers, 1 - similarities


@killed_by("test_the_nearest_come_first_with_their_cosine")
class RoundsToTwoDigits(PlainIndex):
    def cosines(self, query):
        return np.round(super().cosines(query), 2)


@killed_by("test_the_nearest_come_first_with_their_cosine")
class GivesTheFarthestFirst(PlainIndex):
    def order(self, cosines):
        return super().order(-cosines)


@killed_by("test_the_nearest_come_first_with_their_cosine")
class OrdersOnlyTheSet(PlainIndex):
    def search(self, query, k, *, allowed=None):
        numbers, _ = super().search(query, k, allowed=allowed)
        numbers = np.sort(numbers)
        return numbers, self.cosines(query)[numbers].astype(np.float32)


@killed_by("test_equal_vectors_come_in_ascending_number")
class GivesTheLastOfEqualsFirst(PlainIndex):
    def order(self, cosines):
        return np.lexsort((-np.arange(len(cosines)), -np.round(cosines, 9)))


@killed_by("test_of_equal_vectors_at_the_end_the_lowest_numbers_come_back")
class CutsBeforeItBreaksTies(PlainIndex):
    def search(self, query, k, *, allowed=None):
        cosines = self.cosines(query)
        best = np.argsort(np.round(cosines, 9), kind="stable")[::-1][:k]
        best = best[np.lexsort((best, -np.round(cosines[best], 9)))]
        return best, cosines[best].astype(np.float32)


@killed_by("test_a_k_beyond_the_count_returns_all")
class LeavesTheLastOneOut(PlainIndex):
    def search(self, query, k, *, allowed=None):
        return super().search(query, min(k, len(self) - 1), allowed=allowed)


@killed_by("test_a_k_beyond_the_count_returns_all")
class FillsUpWithMinusOne(PlainIndex):
    def search(self, query, k, *, allowed=None):
        numbers, similarities = super().search(query, k, allowed=allowed)
        missing = (0, k - len(numbers))
        return np.pad(numbers, missing, constant_values=-1), np.pad(similarities, missing)


@killed_by("test_a_k_of_zero_returns_nothing")
class GivesAtLeastOne(PlainIndex):
    def search(self, query, k, *, allowed=None):
        return super().search(query, max(k, 1), allowed=allowed)


@killed_by("test_a_zero_vector_is_similar_to_nothing")
class FindsZeroVectors(PlainIndex):
    def searchable(self, query):
        mask = np.full(len(self), bool(query.any()))
        mask[list(self.removed)] = False
        return mask


@killed_by("test_a_zero_query_finds_nothing")
class FindsAllForAZeroQuestion(PlainIndex):
    def searchable(self, query):
        return super().searchable(np.ones_like(query))


@killed_by("test_similarities_follow_the_numbers_asked_for")
class SortsTheNumbersAskedFor(PlainIndex):
    def similarities(self, query, numbers=None):
        return super().similarities(query, None if numbers is None else np.unique(numbers))


@killed_by("test_similarities_of_no_numbers_are_none")
class TakesNoNumbersForAll(PlainIndex):
    def similarities(self, query, numbers=None):
        return super().similarities(
            query, numbers if numbers is not None and len(numbers) else None
        )


@killed_by("test_numbers_and_similarities_have_the_types_they_promise")
class AnswersInDoublePrecision(PlainIndex):
    def similarities(self, query, numbers=None):
        return super().similarities(query, numbers).astype(np.float64)


@killed_by("test_asking_changes_neither_the_question_nor_the_filter")
class NormalizesTheQuestionInPlace(PlainIndex):
    def search(self, query, k, *, allowed=None):
        query /= np.linalg.norm(query) or 1
        return super().search(query, k, allowed=allowed)


@killed_by("test_asking_changes_neither_the_question_nor_the_filter")
class CrossesOutWhatItFound(PlainIndex):
    def search(self, query, k, *, allowed=None):
        numbers, similarities = super().search(query, k, allowed=allowed)
        if allowed is not None:
            allowed[numbers] = False
        return numbers, similarities


@killed_by("test_changing_an_answer_changes_no_later_one")
class HandsOutItsCache(PlainIndex):
    def __init__(self, dim):
        super().__init__(dim)
        self.answers = {}

    def similarities(self, query, numbers=None):
        key = query.tobytes()
        if numbers is not None or len(query) != self.dim:
            return super().similarities(query, numbers)
        return self.answers.setdefault(key, super().similarities(query))


# -- filters ------------------------------------------------------------------------------------


@killed_by("test_only_allowed_numbers_are_searched")
class FiltersWhatItFound(PlainIndex):
    def search(self, query, k, *, allowed=None):
        numbers, similarities = super().search(query, k)
        kept = slice(None) if allowed is None else allowed[numbers]
        return numbers[kept], similarities[kept]


@killed_by(
    "test_only_allowed_numbers_are_searched", "test_a_filter_that_allows_nothing_finds_nothing"
)
class IgnoresFilters(PlainIndex):
    def search(self, query, k, *, allowed=None):
        return super().search(query, k)


@killed_by("test_a_filter_that_allows_nothing_finds_nothing")
class TakesAnEmptyFilterForNone(PlainIndex):
    def search(self, query, k, *, allowed=None):
        return super().search(
            query, k, allowed=None if allowed is None or not allowed.any() else allowed
        )


@killed_by("test_only_allowed_numbers_are_searched")
class NumbersWithinTheFilter(PlainIndex):
    def search(self, query, k, *, allowed=None):
        numbers, similarities = super().search(query, k, allowed=allowed)
        if allowed is not None:
            numbers = np.searchsorted(np.flatnonzero(allowed), numbers)
        return numbers, similarities


@killed_by("test_a_filter_of_one_search_does_not_hold_for_the_next")
class KeepsTheLastFilter(PlainIndex):
    last = None

    def search(self, query, k, *, allowed=None):
        if allowed is not None:
            self.last = allowed
        return super().search(query, k, allowed=self.last)


@killed_by("test_filters_hold_among_vectors_added_and_replaced_behind_removed_ones")
class FiltersFindRemovedOnes(PlainIndex):
    def searchable(self, query):
        return self.rows.any(axis=1) & bool(query.any())

    def search(self, query, k, *, allowed=None):
        if allowed is None:
            allowed = super().searchable(query)
            allowed[list(self.removed)] = False
        return super().search(query, k, allowed=allowed)


# -- changes ------------------------------------------------------------------------------------


@killed_by("test_adding_in_parts_equals_adding_at_once")
class KeepsOnlyTheLastPart(PlainIndex):
    def add(self, vectors):
        self.check(vectors.shape[1])
        kept = np.zeros_like(self.rows)
        self.rows = np.concatenate([kept, vectors.astype(np.float64)])


@killed_by("test_a_vector_added_after_a_search_is_found")
class FreezesAtTheFirstSearch(PlainIndex):
    frozen = None

    def searchable(self, query):
        self.frozen = self.frozen or len(self)
        mask = super().searchable(query)
        mask[self.frozen :] = False
        return mask


@killed_by("test_changing_the_array_that_was_added_changes_nothing")
class KeepsTheCallersArray(PlainIndex):
    def add(self, vectors):
        self.check(vectors.shape[1])
        self.rows = np.concatenate([self.rows, vectors]) if len(self) else vectors


@killed_by("test_removed_numbers_are_never_found_and_others_keep_theirs")
class ForgetsRemovals(PlainIndex):
    def remove(self, numbers):
        pass


@killed_by("test_removed_numbers_are_never_found_and_others_keep_theirs")
class ClosesTheGap(PlainIndex):
    def remove(self, numbers):
        self.rows = np.delete(self.rows, list(numbers), axis=0)


@killed_by("test_numbers_continue_behind_removed_ones")
class ReusesTheLastNumber(PlainIndex):
    def add(self, vectors):
        while len(self) - 1 in self.removed:
            self.removed.discard(len(self) - 1)
            self.rows = self.rows[:-1]
        super().add(vectors)


@killed_by("test_a_replaced_vector_is_found_by_its_new_value_alone")
class AppendsWhatReplaces(PlainIndex):
    def replace(self, number, vector):
        self.check(len(vector))
        self.remove([number])
        self.add(vector[None, :])


@killed_by("test_the_similarity_of_a_replaced_vector_is_that_of_its_new_value")
class KeepsTheOldLength(PlainIndex):
    def __init__(self, dim):
        super().__init__(dim)
        self.known = np.empty(0)

    def add(self, vectors):
        super().add(vectors)
        self.known = np.append(self.known, np.linalg.norm(vectors.astype(np.float64), axis=1))

    def lengths(self):
        return self.known


@killed_by("test_a_pending_zero_vector_can_be_replaced")
class TakesZeroForRemoved(PlainIndex):
    def add(self, vectors):
        super().add(vectors)
        self.remove(np.flatnonzero(~self.rows.any(axis=1)))


@killed_by("test_replacing_a_removed_number_does_not_bring_it_back")
class RevivesWhatItReplaces(PlainIndex):
    def replace(self, number, vector):
        super().replace(number, vector)
        self.removed.discard(number)


# -- errors -------------------------------------------------------------------------------------


@killed_by("test_a_wrong_dimension_is_refused_naming_both_numbers")
class FitsWhatDoesNotFit(PlainIndex):
    def search(self, query, k, *, allowed=None):
        return super().search(np.resize(query, self.dim), k, allowed=allowed)


@killed_by("test_a_wrong_dimension_is_refused_naming_both_numbers")
class NamesTheNumbersTheWrongWayRound(PlainIndex):
    def check(self, got):
        if got != self.dim:
            raise DimensionMismatchError(f"{got}, {self.dim}", expected=got, got=self.dim)


@killed_by("test_an_empty_index_answers_with_nothing")
class AnswersWithNoneWhenEmpty(PlainIndex):
    def search(self, query, k, *, allowed=None):
        return (
            super().search(query, k, allowed=allowed)
            if len(self)
            else (np.array([-1]), np.zeros(1))
        )
