"""Which stretches of time a text names: dates in numbers and words, and times before and after now. Pure.

Dates in numbers and names of months are read in a dozen languages; "yesterday", "in two weeks",
"next Friday" and "the 14th" in English, German, French, Spanish and Italian. A question means what
was before now, a statement what was meant when it was said. All days are those of UTC, as in the
headers of blocks.
"""

# ruff: noqa: RUF001, E501 - names of months in the letters they are written in

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import lru_cache, partial
from typing import Literal, TypeAlias

Span: TypeAlias = tuple[int, int]
"""From when to before when, in milliseconds since the epoch."""
_Days: TypeAlias = tuple[date, date]
_Reader: TypeAlias = "Callable[[re.Match[str], date, Aim], Iterator[_Days]]"
Aim: TypeAlias = Literal["future", "near", "past"]
"""Which of the days of a name is meant: the next one, today included, the nearest or the last."""
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


def _number_names(rows: str, first: int) -> dict[str, int]:
    lines = enumerate(rows.strip().splitlines(), first)
    return {name: number for number, line in lines for name in line.split()}


MONTH_OF = _number_names(_MONTHS, 1)
"""Names of months in a dozen languages, lowercase, and their numbers from 1."""
NAMES_OF_TIMES = frozenset([*MONTH_OF, *_WEEKDAYS.split()])
"""Names of months and weekdays: when something was is known of a line but seldom said in it."""
_MONTH = "|".join(sorted(map(re.escape, MONTH_OF), key=len, reverse=True))
_YEAR = r"(?:,?\s*(?:(?:of|de|del|do)\s+)?(?P<year>(?:19|20)\d\d))"
_OF = r"(?:\s*(?:of|de|del|do|di|d')\s*|\s+)"
_WORD = re.compile(r"[^\W\d_]+")
_DAY_MS = 24 * 3_600_000
_EPOCH = date(1970, 1, 1)


# -- the words for days ---------------------------------------------------------------------------

_NAMES_OF_DAYS = """
monday montag lundi lunes lunedì lunedi
tuesday tue tues dienstag mardi martes martedì martedi
wednesday wed mittwoch mercredi miércoles miercoles mercoledì mercoledi
thursday thu thur thurs donnerstag jeudi jueves giovedì giovedi
friday fri freitag vendredi viernes venerdì venerdi
saturday samstag sonnabend samedi sábado sabado sabato
sunday sonntag dimanche domingo domenica
"""
WEEKDAY_OF = _number_names(_NAMES_OF_DAYS, 0)
"""Weekdays in five languages, lowercase, from Monday as 0; those that recur name no day."""
_RELATIVE_DAYS = """
2: the day after tomorrow, day after tomorrow, übermorgen, après-demain, pasado mañana, dopodomani
1: tomorrow, tomorrow night, tmrw, tmr, morgen, demain, mañana, domani
0: today, tonight, heute, aujourd'hui, hoy, oggi
-1: yesterday, last night, gestern, hier, ayer, ieri
-2: the day before yesterday, vorgestern, avant-hier, anteayer, l'altro ieri
"""
_UNIT_NAMES = """
1: day, days, tag, tage, tagen, jour, jours, día, días, dia, dias, giorno, giorni
7: week, weeks, woche, wochen, semaine, semaines, semana, semanas, settimana, settimane
14: fortnight, fortnights
30: month, months, monat, monate, monaten, mois, mes, meses, mese, mesi
365: year, years, jahr, jahre, jahren, an, ans, année, años, año, anni, anno
"""
_NUMBER_NAMES = """
1: a, an, one, ein, eine, einem, einer, un, une, una
2: two, a couple of, couple of, zwei, deux, dos, due
3: three, a few, few, drei, trois, tres, tre
4: four, vier, quatre, cuatro, quattro
5: five, fünf, cinq, cinco, cinque
6: six, sechs, seis, sei
7: seven, sieben, sept, siete, sette
8: eight, acht, huit, ocho, otto
9: nine, neun
10: ten, zehn, dix, diez, dieci
15: quinze, quince
"""


def _read_table(table: str) -> dict[str, int]:
    rows = (line.split(": ") for line in table.split("\n")[1:-1])
    return {name: int(number) for number, names in rows for name in names.split(", ")}


_DAYS_AWAY, _UNITS, _NUMBER_WORDS = map(_read_table, (_RELATIVE_DAYS, _UNIT_NAMES, _NUMBER_NAMES))
_WEEKENDS = ("weekend", "wochenende")
_NEXT = r"next|coming|nächste[nrs]?|kommende[nrs]?|próxim[oa]|prossim[oa]|que viene|prochain"
_LAST = r"last|past|letzte[nrs]?|vorige[nrs]?|vergangene[nrs]?|pasad[oa]|scors[oa]|passat[oa]"
_MANY_UNITS = "|".join(sorted(_UNITS, key=len, reverse=True))
_MANY_NUMBERS = "|".join(sorted(_NUMBER_WORDS, key=len, reverse=True))
_MANY_WEEKDAYS = "|".join(sorted(WEEKDAY_OF, key=len, reverse=True))
_MANY_DAYS = "|".join(sorted(map(re.escape, _DAYS_AWAY), key=len, reverse=True))
_A_MONTH_AWAY = 31
_MONTHS_AHEAD: Mapping[Aim, int] = {"past": 0, "near": 6, "future": 11}


# -- the days that a text names -------------------------------------------------------------------


def find_named_days(text: str, said_ms: int, *, aim: Aim = "future") -> list[Span]:
    """Return the days that a text names, as stretches, in the order it names them.

    Times of a day, and days that recur ("on Mondays"), name none.

    Args:
        text: A statement; with the aim "past" a question, which may also name a year, a month in
            numbers, and a date whose two first numbers may both be the month: either is meant.
        said_ms: When it was said, milliseconds since the epoch.
        aim: Which day a name without a year stands for.
    """
    return list(_find_named_days(text.lower(), said_ms // _DAY_MS, aim))


@lru_cache(maxsize=16)
def _find_named_days(lowered: str, day: int, aim: Aim) -> tuple[Span, ...]:
    # Kept for a moment: one recall asks when it ranks and when it says why.
    said = {*_WORD.findall(lowered), *("0" if re.search(r"\d", lowered) else ())}
    today = _EPOCH + timedelta(days=day)
    found: list[tuple[int, Span]] = []

    def take(read: _Reader, match: re.Match[str]) -> str:
        found.extend((match.start(), days) for days in _read_days(read, match, today, aim))
        # What one pattern has read means nothing else.
        return " " * len(match[0])

    for pattern, read, signs in (*_ASKED, *_NAMED) if aim == "past" else _NAMED:
        # Most questions name no time, and looking for one costs more than a recall.
        if not signs.isdisjoint(said):
            lowered = pattern.sub(partial(take, read), lowered)
    return tuple([span for _, span in sorted(dict.fromkeys(found))])


def _read_days(read: _Reader, match: re.Match[str], today: date, aim: Aim) -> Iterator[Span]:
    try:
        for first, last in read(match, today, aim):
            since, until = (first - _EPOCH).days, (last - _EPOCH).days + 1
            yield since * _DAY_MS, until * _DAY_MS
    except (ValueError, OverflowError):
        # There is no 31 June, and no year before the first.
        return


# -- dates -------------------------------------------------------------------------------------


def _read_ambiguous_date(match: re.Match[str], _today: date, _aim: Aim) -> Iterator[_Days]:
    year, first, second = (int(match[name]) for name in ("year", "first", "second"))
    for month, day in {(first, second), (second, first)}:
        if month <= 12:  # noqa: PLR2004
            yield _make_day(date(year, month, day))


def _read_year(match: re.Match[str], _today: date, _aim: Aim) -> Iterator[_Days]:
    year = int(match["year"])
    yield date(year, 1, 1), date(year, 12, 31)


def _make_day(day: date) -> _Days:
    return day, day


def _make_month(year: int, month: int) -> _Days:
    following = date(year + month // 12, month % 12 + 1, 1)
    return date(year, month, 1), following - timedelta(days=1)


def _choose_day(day: date, today: date, aim: Aim) -> date:
    """Return a day of some year as the one that is meant."""
    if aim == "near":
        around = [day.replace(year=today.year + step) for step in (-1, 0, 1)]
        return min(around, key=lambda one: abs((one - today).days))
    if aim == "past":
        return day if day <= today else day.replace(year=day.year - 1)
    return day if day >= today else day.replace(year=day.year + 1)


def _read_date(match: re.Match[str], today: date, aim: Aim) -> Iterator[_Days]:
    day = date(int(match["year"] or today.year), _read_month_number(match), int(match["day"]))
    yield _make_day(day if match["year"] else _choose_day(day, today, aim))


def _read_month(match: re.Match[str], today: date, aim: Aim) -> Iterator[_Days]:
    month = _read_month_number(match)
    ahead = (month - today.month) % 12
    year = today.year + (month < today.month) - (ahead > _MONTHS_AHEAD[aim])
    yield _make_month(int(match["year"] or year), month)


def _read_month_number(match: re.Match[str]) -> int:
    return MONTH_OF.get(match["month"]) or int(match["month"])


def _read_day_of_month(match: re.Match[str], today: date, aim: Aim) -> Iterator[_Days]:
    """Yield the day that "the 14th" means: of this month, or of one near it that has such a day."""
    day = int(match["day"])
    found = filter(None, (_find_day_of_month(today, step, day) for step in range(-2, 3)))
    days = [
        one for one in found if aim == "near" or one == today or (one > today) == (aim == "future")
    ]
    yield _make_day(min(days, key=lambda one: abs((one - today).days)))


def _find_day_of_month(today: date, step: int, day: int) -> date | None:
    months = today.year * 12 + today.month - 1 + step
    try:
        return date(months // 12, months % 12 + 1, day)
    except ValueError:
        return None


# -- before and after now ----------------------------------------------------------------------


def _read_day_away(match: re.Match[str], today: date, aim: Aim) -> Iterator[_Days]:
    # In German "hier" is here, and a question says nothing of its language.
    if aim != "past" or match[0] != "hier":
        yield _make_day(today + timedelta(days=_DAYS_AWAY[match[0]]))


def _read_units_away(match: re.Match[str], today: date, aim: Aim) -> Iterator[_Days]:
    count = _NUMBER_WORDS.get(match["count"]) or int(match["count"])
    days = _UNITS[match["unit"]]
    day = today + timedelta(days=count * days * (-1 if match["back"] else 1))
    # "In two weeks" may well be a day or two later, "three weeks ago" three days.
    reach = timedelta(days=days // (2 if aim == "past" else 7))
    yield day - reach, day + reach


def _read_weekday(match: re.Match[str], today: date, aim: Aim) -> Iterator[_Days]:
    away = (WEEKDAY_OF[match["weekday"]] - today.weekday()) % 7
    is_next = match["next"] or match["after_next"]
    is_last = match["last"] or match["after_last"]
    if is_next and not is_last and aim != "near":
        # What is next is not today, and seldom what is called "this Friday".
        away = away or 7
    elif is_last or aim == "past" or (aim == "near" and away > 3):  # noqa: PLR2004 - nearer behind
        away -= 7
    # "The Friday meeting" names no Friday that was.
    if aim != "past" or match["set"] or is_next or is_last:
        yield _make_day(today + timedelta(days=away))


def _read_stretch(match: re.Match[str], today: date, aim: Aim) -> Iterator[_Days]:
    step = 0 if match["this"] else -1 if match["last"] or match["after_last"] else 1
    unit = match["unit"]
    if unit in _WEEKENDS:
        saturday = today + timedelta(days=5 - today.weekday() + 7 * min(step, 0))
        # What was on a weekend, is told on a Monday too.
        reach = timedelta(days=aim == "past")
        yield saturday - reach, saturday + timedelta(days=1) + reach
    elif _UNITS[unit] == 7:  # noqa: PLR2004 - a week
        monday = today - timedelta(days=today.weekday()) + timedelta(days=7 * step)
        yield monday, monday + timedelta(days=6)
    elif _UNITS[unit] < _A_MONTH_AWAY:
        months = today.year * 12 + today.month - 1 + step
        yield _make_month(months // 12, months % 12 + 1)
    else:
        yield date(today.year + step, 1, 1), date(today.year + step, 12, 31)


# -- the patterns ------------------------------------------------------------------------------


# Whatever a pattern with such a part finds holds one of these words.
_SIGNS = {
    _MONTH: frozenset(MONTH_OF),
    _MANY_DAYS: frozenset(_WORD.findall(name)[-1] for name in _DAYS_AWAY),
    _MANY_WEEKDAYS: frozenset(WEEKDAY_OF),
    _MANY_UNITS: frozenset(_UNITS).union(_WEEKENDS),
}


def _rule(read: _Reader, pattern: str) -> tuple[re.Pattern[str], _Reader, frozenset[str]]:
    found = (words for part, words in _SIGNS.items() if part in pattern)
    # Whatever the other patterns find holds a digit, which is looked up as 0.
    return re.compile(rf"(?<!\w){pattern}(?!\w)"), read, next(found, frozenset("0"))


_AMOUNT = rf"(?P<count>\d\d?|{_MANY_NUMBERS})\s+(?P<unit>{_MANY_UNITS})"
# What a question alone is read for.
_ASKED = (
    _rule(_read_ambiguous_date, r"(?P<first>\d\d?)/(?P<second>\d\d?)/(?P<year>\d{4})"),
    _rule(_read_month, r"(?P<year>\d{4})-(?P<month>\d\d?)(?!-)"),
    _rule(_read_year, r"(?:in|during|since|of|im jahr|en|em|nel|i)\s+(?P<year>(?:19|20)\d\d)(?!-)"),
)
_NAMED = (
    _rule(_read_date, r"(?P<year>\d{4})-(?P<month>\d\d?)-(?P<day>\d\d?)"),
    _rule(_read_date, r"(?P<day>\d\d?)\.\s?(?P<month>\d\d?)\.\s?(?P<year>\d{4})"),
    _rule(
        _read_date,
        rf"(?P<day>\d\d?)(?:st|nd|rd|th|\.|er|º|°)?{_OF}(?P<month>{_MONTH})\b{_YEAR}?",
    ),
    _rule(
        _read_date,
        rf"(?P<month>{_MONTH})\.?\s+(?:the\s+)?(?P<day>\d\d?)(?:st|nd|rd|th)?(?!:){_YEAR}?",
    ),
    _rule(_read_month, rf"(?P<month>{_MONTH})\.?{_YEAR}"),
    _rule(
        _read_month,
        r"(?!(?:a|i|this)\s(?:mar(?:ch)?|may)\b)"  # "this may be"
        rf"(?:in|im|en|em|i|during|a|à|ad|until|by|before|from|since|this|next|last|of|bis|ab|seit"
        rf"|desde|hasta|da|entro|fin|mid|late|early|anfang|mitte|ende|début|principios de"
        rf"|finales de|inizio|fine)[ -](?:the )?(?P<month>{_MONTH})(?P<year>)",
    ),
    _rule(
        _read_day_away,  # and not "am Morgen", "por la mañana"
        rf"(?<!am )(?<!jeden )(?<!heute )(?<!gestern )(?<!guten )(?<!la )(?<!cada )(?<!esta )(?:{_MANY_DAYS})",
    ),
    _rule(
        _read_units_away,
        rf"(?:(?P<back>vor|il y a|hace)|in|within|dans|en|dentro de|fra|tra)\s+(?:a\s+)?{_AMOUNT}"
        r"(?!\s+(?:ago|fa)\b)",
    ),
    _rule(_read_units_away, rf"{_AMOUNT}\s+(?:from now|from today|(?P<back>ago|fa))"),
    _rule(
        _read_weekday,
        r"(?<!every )(?<!each )(?<!jeden )(?<!cada )(?<!chaque )(?<!ogni )(?<!los )"
        rf"(?P<set>(?:(?P<next>{_NEXT})|(?P<last>{_LAST})|this|on|am|le|el|il|by|until|bis|diese[nrs]?)\s+)?"
        rf"(?P<weekday>{_MANY_WEEKDAYS})(?!s\b)"
        rf"(?:\s+(?:(?P<after_next>{_NEXT}|prochaine)|(?P<after_last>{_LAST}|dernier|dernière)))?",
    ),
    _rule(
        _read_stretch,
        rf"(?:(?P<last>{_LAST})|(?P<this>this|diese[nrs]?|dieses|am|cette|ce|est[ea]|quest[oa])"
        rf"|{_NEXT}|la|le|el|il)\s+(?P<unit>weekend|wochenende|{_MANY_UNITS})"
        r"\s+(?:prochaine?|que viene|próxim[oa]|prossim[oa]|(?P<after_last>dernière|dernier"
        r"|pasad[oa]|scors[oa]|passat[oa]))",
    ),
    _rule(
        _read_stretch,
        rf"(?:(?P<last>{_LAST})|(?P<this>this|diese[nrs]?|dieses)|{_NEXT})\s+"
        rf"(?P<unit>weekend|wochenende|{_MANY_UNITS})(?P<after_last>(?!))?",
    ),
    _rule(
        _read_day_of_month,
        r"(?:(?:on |by |until |till |is |for )?the |on |by )(?P<day>[1-3]?\d)(?:st|nd|rd|th)"
        r"(?! (?:century|floor|time|grade|edition|birthday|anniversary|place|one|of|year|chapter))",
    ),
    _rule(_read_day_of_month, r"(?:am|bis zum|zum) (?P<day>[1-3]?\d)\.(?! ?\d)"),
    _rule(
        _read_day_of_month,
        r"(?:le|el día|el dia|el|il giorno|il) (?P<day>[1-3]?\d)(?![\d%:.,h€])",
    ),
)
