"""Which stretches of time a question names: dates in numbers and words, and times before now. Pure.

Dates in numbers and names of months are read in a dozen languages, "yesterday" and its like in
English. All days are those of UTC, as in the headers of blocks.
"""

# ruff: noqa: RUF001, E501 - names of months in the letters they are written in

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import lru_cache, partial
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""From when to before when, in milliseconds since the epoch."""
_Days: TypeAlias = "tuple[date, date] | None"
_Reader: TypeAlias = "Callable[[re.Match[str], date], Iterator[_Days]]"
_MONTHS = """
january jan januar janvier enero gennaio janeiro januari tammikuu ocak január ianuarie январь января
february feb februar février febrero febbraio fevereiro februari helmikuu şubat február februarie февраль февраля
march mar märz mars marzo março maart maaliskuu mart március martie март марта
april apr avril abril aprile huhtikuu nisan április aprilie апрель апреля
may mai mayo maggio maio mei maj toukokuu mayıs május май мая
june jun juni juin junio giugno junho kesäkuu haziran június iunie июнь июня
july jul juli juillet julio luglio julho heinäkuu temmuz július iulie июль июля
august aug août agosto augustus augusti elokuu ağustos augusztus августа август
september sep sept septembre septiembre settembre setembro syyskuu eylül szeptember septembrie сентябрь сентября
october oct oktober octobre octubre ottobre outubro lokakuu ekim október octombrie октябрь октября
november nov novembre noviembre novembro marraskuu kasım noiembrie ноябрь ноября
december dec dezember décembre diciembre dicembre dezembro joulukuu aralık decembrie декабрь декабря
"""
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday"
MONTH_OF = {
    name: number
    for number, line in enumerate(_MONTHS.split("\n")[1:-1], 1)
    for name in line.split()
}
"""Names of months in a dozen languages, lowercase, and their numbers from 1."""
_DAY_OF = {name: number for number, name in enumerate(_WEEKDAYS.split())}
NAMES_OF_TIMES = frozenset(MONTH_OF) | frozenset(_DAY_OF)
"""Names of months and weekdays: when something was is known of a line but seldom said in it."""
_MONTH = "|".join(sorted(map(re.escape, MONTH_OF), key=len, reverse=True))
_WEEKDAY = "|".join(_DAY_OF)
_YEAR = r"(?:,?\s*(?:(?:of|de|del|do)\s+)?(?P<year>(?:19|20)\d\d))"
_OF = r"(?:\s*(?:of|de|del|do|di|d')\s*|\s+)"
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}


_COUNTS |= {"seven": 7, "eight": 8, "nine": 9, "ten": 10, "a couple of": 2, "a few": 3}


_COUNT = "|".join(sorted(_COUNTS, key=len, reverse=True))
_WORD = re.compile(r"[^\W\d_]+")
_DATE_SIGN = re.compile(r"\d[-./]")
_YEAR_SIGN = re.compile(r"(?:19|20)\d\d")
_DAY_MS = 24 * 3_600_000
_EPOCH = date(1970, 1, 1)


def find_time_spans(text: str, now_ms: int) -> list[Span]:
    """Return the stretches of time that a question names, in the order it names them.

    A month or day without a year is the latest one that has begun. Of two numbers that may both be
    the month, either is meant.

    Args:
        text: The question.
        now_ms: When it is asked, milliseconds since the epoch.
    """
    return list(_find_time_spans(text.lower(), now_ms // _DAY_MS))


@lru_cache(maxsize=16)
def _find_time_spans(text: str, day: int) -> tuple[Span, ...]:
    # Kept for a moment: one recall asks when it ranks and when it says why.
    today = _EPOCH + timedelta(days=day)
    signs = _find_signs(text) & _SIGNS
    found: dict[Span, None] = {}

    def take(read: _Reader, match: re.Match[str]) -> str:
        found.update(dict.fromkeys(_make_span(*days) for days in _read_days(read, match, today)))
        # What one pattern has read means nothing else.
        return " ; "

    for needed, patterns in _PATTERNS if signs else ():
        for pattern, read in () if signs.isdisjoint(needed) else patterns:
            text = pattern.sub(partial(take, read), text)
    return tuple(found)


def _find_signs(text: str) -> set[str]:
    """Return the words of a text, and the patterns of digits that it shows."""
    signs = set(_WORD.findall(text))
    signs.update(sign.pattern for sign in (_DATE_SIGN, _YEAR_SIGN) if sign.search(text))
    return signs


def _make_span(first: date, last: date) -> Span:
    return (first - _EPOCH).days * _DAY_MS, ((last - _EPOCH).days + 1) * _DAY_MS


def _read_days(read: _Reader, match: re.Match[str], today: date) -> Iterator[tuple[date, date]]:
    try:
        yield from (days for days in read(match, today) if days is not None)
    except (ValueError, OverflowError):
        # There is no 31 June, and no year before the first.
        return


# -- dates -------------------------------------------------------------------------------------


def _read_numeric_date(match: re.Match[str], _today: date) -> Iterator[_Days]:
    year, month, day = (int(match[name]) for name in ("year", "month", "day"))
    yield _make_day(date(year, month, day))


def _read_ambiguous_date(match: re.Match[str], _today: date) -> Iterator[_Days]:
    year, first, second = (int(match[name]) for name in ("year", "first", "second"))
    for month, day in {(first, second), (second, first)}:
        if month <= 12:  # noqa: PLR2004
            yield _make_day(date(year, month, day))


def _read_numeric_month(match: re.Match[str], _today: date) -> Iterator[_Days]:
    yield _make_month(int(match["year"]), int(match["month"]))


def _read_day_and_month(match: re.Match[str], today: date) -> Iterator[_Days]:
    month, day = MONTH_OF[match["month"]], int(match["day"])
    if match["year"]:
        yield _make_day(date(int(match["year"]), month, day))
    else:
        said = date(today.year, month, day)
        yield _make_day(said if said <= today else date(today.year - 1, month, day))


def _read_month(match: re.Match[str], today: date) -> Iterator[_Days]:
    month = MONTH_OF[match["month"]]
    year = int(match["year"]) if match["year"] else today.year - (month > today.month)
    yield _make_month(year, month)


def _read_year(match: re.Match[str], _today: date) -> Iterator[_Days]:
    year = int(match["year"])
    yield date(year, 1, 1), date(year, 12, 31)


def _make_day(day: date) -> _Days:
    return day, day


def _make_month(year: int, month: int) -> _Days:
    following = date(year + month // 12, month % 12 + 1, 1)
    return date(year, month, 1), following - timedelta(days=1)


# -- before now --------------------------------------------------------------------------------


def _read_ago(match: re.Match[str], today: date) -> Iterator[_Days]:
    said = match["count"]
    count = _COUNTS.get(said) or int(said)
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[match["unit"]]
    middle = today - timedelta(days=count * days)
    # "Three weeks ago" may well be four days more.
    reach = timedelta(days=days // 2)
    yield middle - reach, middle + reach


def _read_relative_day(match: re.Match[str], today: date) -> Iterator[_Days]:
    said = match[0]
    back = 2 if said.startswith("the day") else 0 if said in ("today", "tonight") else 1
    yield _make_day(today - timedelta(days=back))


def _read_relative_unit(match: re.Match[str], today: date) -> Iterator[_Days]:
    back = 0 if match["which"] == "this" else 1
    monday = today - timedelta(days=today.weekday() + 7 * back)
    unit = match["unit"]
    if unit == "week":
        yield monday, monday + timedelta(days=6)
    elif unit == "weekend":
        yield monday + timedelta(days=4), monday + timedelta(days=7)
    elif unit == "month":
        months = today.year * 12 + today.month - 1 - back
        yield _make_month(months // 12, months % 12 + 1)
    else:
        yield date(today.year - back, 1, 1), date(today.year - back, 12, 31)


def _read_weekday(match: re.Match[str], today: date) -> Iterator[_Days]:
    back = (today.weekday() - _DAY_OF[match["weekday"]]) % 7
    yield _make_day(today - timedelta(days=back or 7))


def _compile_pattern(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){text}(?!\w)")


_NUMBERS = (
    (_compile_pattern(r"(?P<year>\d{4})-(?P<month>\d\d?)-(?P<day>\d\d?)"), _read_numeric_date),
    (
        _compile_pattern(r"(?P<day>\d\d?)\.\s?(?P<month>\d\d?)\.\s?(?P<year>\d{4})"),
        _read_numeric_date,
    ),
    (_compile_pattern(r"(?P<first>\d\d?)/(?P<second>\d\d?)/(?P<year>\d{4})"), _read_ambiguous_date),
    (_compile_pattern(r"(?P<year>\d{4})-(?P<month>\d\d?)"), _read_numeric_month),
)
_NAMES = (
    (
        _compile_pattern(rf"(?P<day>\d\d?)(?:st|nd|rd|th|\.|er)?{_OF}(?P<month>{_MONTH}){_YEAR}?"),
        _read_day_and_month,
    ),
    (
        _compile_pattern(rf"(?P<month>{_MONTH})\.?\s+(?P<day>\d\d?)(?:st|nd|rd|th)?{_YEAR}?"),
        _read_day_and_month,
    ),
    (_compile_pattern(rf"(?P<month>{_MONTH})\.?{_YEAR}"), _read_month),
    # Alone a month needs a word before it: "may", "mars" and "mart" are words of their own.
    (
        _compile_pattern(
            rf"(?:in|im|en|em|since|during|last|of|i)\s+(?P<month>{_MONTH})(?P<year>)"
        ),
        _read_month,
    ),
)
_YEARS = (
    (
        _compile_pattern(r"(?:in|during|since|of|im jahr|en|em|nel|i)\s+(?P<year>(?:19|20)\d\d)"),
        _read_year,
    ),
)
_AGO = (
    (
        _compile_pattern(rf"(?P<count>\d\d?|{_COUNT})\s+(?P<unit>day|week|month|year)s?\s+ago"),
        _read_ago,
    ),
)
_DAYS_BEFORE = (
    (
        _compile_pattern(r"(?:the day before yesterday|yesterday|last night|today|tonight)"),
        _read_relative_day,
    ),
)
_STRETCHES = (
    (
        _compile_pattern(r"(?P<which>this|last)\s+(?P<unit>weekend|week|month|year)"),
        _read_relative_unit,
    ),
)
_WEEKDAYS_BEFORE = ((_compile_pattern(rf"(?:on|last)\s+(?P<weekday>{_WEEKDAY})"), _read_weekday),)
# Most questions name no time, and looking for one costs more than a recall: what to look for only
# where one of these words, or of these patterns of digits, is there.
_PATTERNS = (
    ({_DATE_SIGN.pattern}, _NUMBERS),
    (set(MONTH_OF), _NAMES),
    ({_YEAR_SIGN.pattern}, _YEARS),
    ({"ago"}, _AGO),
    ({"yesterday", "night", "today", "tonight"}, _DAYS_BEFORE),
    ({"weekend", "week", "month", "year"}, _STRETCHES),
    (set(_DAY_OF), _WEEKDAYS_BEFORE),
)
_SIGNS = frozenset(sign for needed, _ in _PATTERNS for sign in needed)
