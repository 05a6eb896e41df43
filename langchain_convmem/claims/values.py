"""Values that a sentence names: amounts with units, clock times, dates, days, ids. Pure.

Each is taken out of the text and replaced by one private character, so that what is read later
knows where it stood.
"""

# ruff: noqa: E501, RUF001, SIM905 - words in the letters they are written in

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import Literal, TypeAlias

from langchain_convmem.claims.lexicon import OTHER, Lexicon, get_lexicon
from langchain_convmem.claims.numbers import read_digits, replace_number_words
from langchain_convmem.words.dates import MONTH_OF

ValueKind: TypeAlias = Literal["id", "amount", "time", "date", "day"]
_PRIVATE = 0xE000
_DIGIT = re.compile(r"\d")
_HOURS_OR_CLOCK = re.compile(r"([01]?\d|2[0-4])\s?h(?:eures?|oras?)?()")
_BARE_CLOCK = re.compile(r"([01]?\d|2[0-4])(?:\.([0-5]\d))?")


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a sentence names.

    Attributes:
        kind: What it is.
        unit: Of an amount, normalised; empty where none is named.
        readings: What it may mean; two values agree if they share one.
        text: As it was said.
        bare: What its number may mean without its unit.
    """

    kind: ValueKind
    unit: str
    readings: frozenset[float | str | tuple[int, int, int]]
    text: str = field(repr=False, compare=False)
    bare: frozenset[float] = field(default=frozenset(), repr=False)

    @property
    def keys(self) -> frozenset[str]:
        """What values that may match it have in common with it."""
        if self.kind == "date":
            return _list_date_keys(self.readings)
        keys = frozenset(f"{self.kind} {reading}" for reading in self.readings | self.bare)
        return keys | self._clock_keys

    @property
    def _clock_keys(self) -> frozenset[str]:
        """What a bare "8.15" or "8" has in common with the clock times that it may mean."""
        pattern = {"": _BARE_CLOCK, "minute": _HOURS_OR_CLOCK}.get(self.unit)
        match = pattern.fullmatch(self.text) if self.kind == "amount" and pattern else None
        if match is None:
            return frozenset()
        minutes = int(match[1]) * 60 + int((match[2] if match.lastindex == 2 else 0) or 0)  # noqa: PLR2004
        return frozenset(f"time {float(one % 1440)}" for one in (minutes, minutes + 720))

    def matches(self, other: Value) -> bool:
        """Return whether both may mean the same."""
        if {self.kind, other.kind} == {"amount", "time"}:
            return not self.keys.isdisjoint(other.keys)
        if self.kind != other.kind:
            return False
        if self.kind == "date":
            return any(_matches_date(one, two) for one in self.readings for two in other.readings)
        if self.unit != other.unit and self.unit and other.unit and not _is_pound(self, other):
            return False
        if self.kind == "amount" and bool(self.unit) != bool(other.unit):
            return not self.bare.isdisjoint(other.bare)
        return not self.readings.isdisjoint(other.readings)


def _list_date_keys(readings: Iterable[object]) -> frozenset[str]:
    dates = [reading for reading in readings if isinstance(reading, tuple)]
    return frozenset(f"month {month}" for _, month, _ in dates)


def _is_pound(one: Value, two: Value) -> bool:
    return {one.unit, two.unit} in ({"pound", "GBP"}, {"pound", "lb"})


def _matches_date(one: object, two: object) -> bool:
    assert isinstance(one, tuple)  # noqa: S101
    assert isinstance(two, tuple)  # noqa: S101
    return all(not a or not b or a == b for a, b in zip(one, two, strict=True)) and bool(
        (one[1] and two[1]) or (one[0] and two[0])
    )


# -- units ----------------------------------------------------------------------------------------
_UNITS = """
EUR 1 €|eur|euro|euros|евро|ユーロ|欧元|يورو|avro
USD 1 $|us\\$|usd|dollar|dollars|bucks?|dólar|dólares|dolar|dollari|dollaro|доллар\\w*|ドル|美元|دولار\\w*|dolarów
GBP 1 £|gbp|quid|英镑|ポンド|фунт\\w*
pound 1 pounds?|pfund|livres?|libras?|sterline|sterlina
CNY 1 元|块钱?|塊|cny|rmb|yuan|人民币
JPY 1 ¥|円|jpy|yen|日元
RUB 1 ₽|руб\\.|руб|rub|рубл\\w*|rubles?|roubles?
PLN 1 zł|pln|złotych|złote|złoty
TRY 1 ₺|try|tl|lira\\w*
BRL 1 r\\$|brl|reais|real
CHF 1 chf|franken|francs?|franchi
AED 1 aed|درهم\\w*|dirhams?
SAR 1 sar|ريال\\w*|riyals?
INR 1 ₹|inr|rupees?|रुपये|रुपए|रुपया|रु\\.?
KRW 1 ₩|krw|원
SEK 1 sek|kr|kronor|kr\\.
cent 1 cents?|cents?|centimes?|céntimos?|centesimi|pence
g 0.000001 µg|mcg|мкг|микрограмм\\w*|μg|micrograms?|mikrogramm
g 0.001 mg|milligrams?|milligramm|milligrammes?|miligramos?|milligrammi|miligramas?|мг|毫克|ミリグラム|миллиграмм\\w*
g 1 g|gr|grams?|gramm|grammes?|gramos?|grammi|grammo|gramas?|gram|гр?|грамм\\w*|克|グラム|그램|ग्राम|غرام\\w*|جرام\\w*
g 1000 kg|kilo|kilos|kilograms?|kilogramm|kilogrammes?|kilogramos?|kili|chili|chilo|quilos?|кг|킬로(?:그램)?(?!미터)|किलो(?:ग्राम)?(?![\u0900-\u097f])|kilogram\\w*|килограмм\\w*|公斤|千克|キロ(?!メ)|キログラム|كيلو\\w*
g 500 斤
g 100 ett[io]
g 1000000 ton[ay]|tonnes?|tonnen?|tons?|toneladas?|тонн\\w*|吨
lb 1 lbs?|磅
oz 1 oz|ounces?
l 0.001 ml|millilit(?:er|re)s?|millilitres?|mililitros?|millilitri|мл|毫升|ミリリットル
l 0.01 cl|zl
l 1 l(?!')|lit(?:er|re)s?|litros?|litri|litro|л|литр\\w*|升|リットル|리터|लीटर|لتر\\w*|litr\\w*
m2 1 m²|m2|qm|sqm|square met(?:er|re)s?|quadratmetern?|mètres? carrés?|metros? [cq]uadrados?|metr[io] quadr(?:at)?[io]|vierkante meter|mq|m[²2]|кв\\.? ?м\\w*|квадратн\\w+ метр\\w*|metr\\w+ kwadratow\\w+|metrekare|متر\\w* مربع\\w*|平方米|平米|平方メートル|㎡|제곱미터|वर्ग मीटर
m 0.001 mm|millimet(?:er|re)s?|мм|毫米
m 0.01 cm|centimet(?:er|re)s?|zentimeter|centímetros?|centimetri|см|сантиметр\\w*|厘米|センチ
m 1 m|met(?:er|re)s?|mètres?|metros?|metri|metro|м|метр\\w*|米|メートル|미터|मीटर|متر\\w*|metr\\w*|metre
m 1000 km|kilomet(?:er|re)s?|kilomètres?|kilómetros?|quilómetros?|quilômetros?|chilometri|км|километр\\w*|公里|千米|キロメートル|كم|كيلومتر\\w*|킬로미터|किमी|कि\\.मी\\.|किलोमीटर|kilometr\\w*|kilometre
mile 1 mi|miles?|meilen?|英里|マイル
foot 1 ft|feet|foot
inch 1 inch|inches|zoll
percent 1 %|percent|per cent|prozent|pour ?cent|por ?cento?|per cento|procent|процент\\w*|yüzde|パーセント
celsius 1 °c|°|degrees?|grad|degrés|grados|gradi|graus|graden|градус\\w*|度
fahrenheit 1 °f
minute 1 min|mins|minutes?|minuten|minuti|minuto|minutos?|minuten|минут\\w*|分钟|分間|dakika|minut\\w*|دقيقة|دقائق|دقيقتين|분(?!기)|मिनट
minute 60 h|hrs?|hours?|stunden?|heures?|horas?|ore|ora|uur|timm(?:e|ar)|час\\w*|小时|時間|saat|godzin\\w*|ساعة|ساعات|ساعتين|시간|घंट\\w*
minute 1440 days?|tage?|tagen|jours?|días?|giorni|giorno|dias?|dagen|dag|dagar|дн\\w*|день|天|日間|gün|dni|dzień|يوم\\w*|أيام|일간|दिन\\w*
minute 10080 weeks?|wochen?|semaines?|semanas?|settiman[ae]|weken|veck(?:a|or)|недел\\w*|周(?!岁)|星期|週間|hafta|tygodni\\w*|أسبوع\\w*|أسابيع|주(?:일|간)|हफ़्त\\w*|हफ्त\\w*|सप्ताह
month 1 months?|monate?|monaten|mois|mes|meses|mesi|mese|mês|maand|maanden|månad|månader|месяц\\w*|个月|か月|ヶ月|カ月|ay|miesi[ąę]c\\w*|شهر\\w*|أشهر|개월|달|महीन\\w*
month 12 years?|yrs?|jahren?|jahre|ans|années?|an|años?|anni|anno|anos?|jaar|jaren|лет|год\\w*|年間?|yıl|år|lata?|سنة|سنوات|عام\\w*|أعوام|년|साल\\w*|वर्ष
byte 1 gb|gigabytes?
mbyte 1 mb|megabytes?
kw 1 kw|kilowatts?
kwh 1 kwh
"""
_TIMES = {
    "k": 1e3, "grand": 1e3, "thousand": 1e3, "tausend": 1e3, "mille": 1e3, "mila": 1e3, "mil": 1e3, "duizend": 1e3,
    "тыс.": 1e3, "тыс": 1e3, "тысяч": 1e3, "тысячи": 1e3, "тысяча": 1e3, "tys.": 1e3, "tys": 1e3,
    "bin": 1e3, "ألف": 1e3, "천": 1e3, "만": 1e4, "억": 1e8, "हज़ार": 1e3, "हजार": 1e3, "लाख": 1e5, "tusen": 1e3, "千": 1e3, "万": 1e4, "萬": 1e4, "億": 1e8, "亿": 1e8, "million": 1e6,
    "millions": 1e6, "mio.": 1e6, "mio": 1e6, "millionen": 1e6, "millón": 1e6, "millones": 1e6,
    "milioni": 1e6, "milione": 1e6, "milhões": 1e6, "miljoen": 1e6, "млн": 1e6, "миллион": 1e6,
    "миллиона": 1e6, "миллионов": 1e6, "milyon": 1e6, "mln": 1e6, "bn": 1e9, "billion": 1e9,
    "milliarden": 1e9, "milliards": 1e9, "dozen": 12, "dutzend": 12,
}  # fmt: skip
_PREFIXED = r"€|us\$|r\$|\$|£|¥|₽|₺|₹|₩|eur|usd|gbp|chf|pln"
_DIGITS = r"(?<![A-Za-z0-9_.,])[+-]?(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'\u2019]\d+)*)"


_NUMBER = re.compile(_DIGITS)
_PREFIX = re.compile(rf"(?<![^\W\d_])(?:{_PREFIXED})\s?$", re.IGNORECASE)
_LONGEST_PREFIX = 5
_LONGEST_UNIT = 24


@cache
def _load_units() -> tuple[re.Pattern[str], list[tuple[str, float]]]:
    rows = [line.split(" ", 2) for line in _UNITS.strip().splitlines()]
    groups = [f"(?P<u{number}>{_escape(said)})" for number, (_, _, said) in enumerate(rows)]
    times = "|".join(sorted(map(re.escape, _TIMES), key=len, reverse=True))
    pattern = re.compile(
        rf"(?:(?:\s?(?P<times>{times}))(?![a-zA-Z\u0400-\u04ff\u0600-\u06ff]))?"
        rf"(?:[\s-]?(?:{'|'.join(groups)})(?![a-zA-Z\u00c0-\u024f\u0400-\u04ff\u0600-\u06ff]|(?<=m)[23]))?",
        re.IGNORECASE,
    )
    return pattern, [(unit, float(scale)) for unit, scale, _ in rows]


@lru_cache(maxsize=10_000)
def _find_unit(tail: str) -> tuple[str, float, int]:
    """Return the unit that what follows a number begins with, its scale and its length."""
    pattern, rows = _load_units()
    match = pattern.match(tail)
    if match is None:
        return "", 1.0, 0
    number = next(
        (int(name[1:]) for name, said in match.groupdict().items() if said and name != "times"),
        None,
    )
    unit, scale = rows[number] if number is not None else ("", 1.0)
    return unit, scale * _TIMES.get((match["times"] or "").lower(), 1.0), match.end()


def _escape(said: str) -> str:
    return said.replace("$", r"\$").replace(r"\\$", r"\$")


@cache
def _load_prefixes() -> dict[str, str]:
    prefixes = {"€": "EUR", "$": "USD", "us$": "USD", "r$": "BRL", "£": "GBP", "¥": "", "₽": "RUB"}
    return (
        prefixes
        | {"₺": "TRY", "₹": "INR", "₩": "KRW"}
        | {code: code.upper() for code in ("eur", "usd", "gbp", "chf", "pln")}
    )


# -- taking out -----------------------------------------------------------------------------------
class ValueReader:
    """Takes the values out of one sentence, in an order in which none hides another."""

    def __init__(self, text: str, lexicon: Lexicon) -> None:
        """Take a normalised sentence.

        Args:
            text: The sentence.
            lexicon: Of its language.
        """
        self.values: list[Value] = []
        self._lexicon = lexicon
        self._language = lexicon.language
        self.text = text
        self._read()

    def _read(self) -> None:
        self._take(_ID, _read_id)
        self._take(self._lexicon.days, self._read_day)
        self.text = _QUARTERS.sub(_write_quarters, self.text)
        self.text = _MINUS.sub("-", self.text)
        if self._language == "arabic":
            self.text = _ARABIC_DAY.sub(_write_arabic_day, self.text)
        self.text = _ONE_AND_A_HALF.sub("1.5", _PERCENT.sub(" %", self.text))
        self.text = replace_number_words(
            _PART_OF_HOUR.sub(_write_minutes, self.text), self._language
        )
        self.text = _VAGUE.sub("", _FIRST_OF.sub("1 ", self.text))
        self.text = _MINUS.sub("-", self.text)
        self.text = _write_halves(self.text, self._language)
        if _DIGIT.search(self.text) or _HALF.search(self.text):
            for pattern, read in _DATES:
                self._take(pattern, read)
            for clock, read_clock in _load_clocks(self._language):
                self._take(clock, partial(read_clock, self))
            self.text = _HALF.sub("0.5 ", self.text)
            self._take_amounts()
        else:
            self._take(*_DATES[-1])
            for clock, read_clock in _load_clocks(self._language)[-3:]:
                self._take(clock, partial(read_clock, self))

    def _take(
        self, pattern: re.Pattern[str], read: Callable[[re.Match[str]], Value | None]
    ) -> None:
        def replace(match: re.Match[str]) -> str:
            value = read(match)
            if value is None:
                return match[0]
            self.values.append(value)
            return f" {chr(_PRIVATE + len(self.values) - 1)} "

        self.text = pattern.sub(replace, self.text)

    def _read_day(self, match: re.Match[str]) -> Value:
        return Value("day", "", frozenset([self._lexicon.get_day(match)]), match[0])

    def _take_amounts(self) -> None:
        pieces: list[str] = []
        end = 0
        first, steps = len(self.values), {1.0}
        for match in _NUMBER.finditer(self.text):
            if match.start() < end:
                continue
            before = _PREFIX.search(
                self.text[max(end, match.start() - _LONGEST_PREFIX) : match.start()]
            )
            start = match.start() - (len(before[0]) if before else 0)
            unit, scale, length = _find_unit(self.text[match.end() : match.end() + _LONGEST_UNIT])
            if before:
                unit = _load_prefixes()[before[0].strip().lower()]
            said = self.text[start : match.end() + length]
            pieces += [self.text[end:start], f" {chr(_PRIVATE + len(self.values))} "]
            self.values.append(self._make_amount(match[0], unit, scale, said))
            steps.add(scale if not unit or unit.isupper() else 1.0)
            end = match.end() + length
        self.text = "".join([*pieces, self.text[end:]])
        for place in range(first, len(self.values) if max(steps) >= _THOUSAND else 0):
            self.values[place] = _add_steps(self.values[place], steps)

    def _make_amount(self, number: str, unit: str, scale: float, said: str) -> Value:
        sign = -1 if number.startswith("-") else 1
        readings = read_digits(number.lstrip("+-"), self._language)
        # A multiplier is part of the number, a unit is not.
        bare = scale if not unit or unit.isupper() else 1.0
        return Value(
            "amount",
            unit,
            frozenset(round(sign * one * scale, 9) for one in readings),
            said,
            frozenset(round(sign * one * bare, 9) for one in readings),
        )

    def read_clock(self, match: re.Match[str], hour: int, minute: int) -> Value | None:
        """Return the clock time of a match, by what stands before and after it."""
        if hour > 24 or minute > 59:  # noqa: PLR2004
            return None
        near = self.text[max(0, match.start() - 22) : match.end() + 22]
        part = match.groupdict().get("part") or ""
        is_evening = _find_part(self._lexicon.evening, part) or (
            not part and _find_part(self._lexicon.evening, near)
        )
        is_morning = _find_part(self._lexicon.morning, part) or (
            not part and not is_evening and _find_part(self._lexicon.morning, near)
        )
        start = hour % 24 * 60 + minute
        if hour > 12:  # noqa: PLR2004
            readings = [start]
        elif is_evening:
            readings = [hour % 12 * 60 + 720 + minute]
        elif is_morning:
            readings = [hour % 12 * 60 + minute]
        else:
            readings = [start, (start + 720) % 1440]
        return Value("time", "", frozenset(map(float, readings)), match[0])


_THOUSAND = 1000


def _add_steps(value: Value, steps: Collection[float]) -> Value:
    """Return a small bare number that may also count thousands: "nine grand, not seven"."""
    if value.unit or max(value.bare) >= _THOUSAND:
        return value
    bare = frozenset(one * step for one in value.bare for step in steps)
    return replace(value, readings=value.readings | bare, bare=bare)


_QUARTERS = re.compile("(?<=[点點])([一三])刻")
"""七点一刻 is a quarter past seven."""


def _write_quarters(match: re.Match[str]) -> str:
    return {"一": "15分", "三": "45分"}[match[1]]


def _write_minutes(match: re.Match[str]) -> str:
    minutes = {"three": 45, "half": 30, "quarter": 15, "east": 30}
    return f"{minutes[match.lastgroup or 'half']} min"


def _find_part(said: str, text: str) -> bool:
    return bool(said and text and _compile_part(said).search(text))


@cache
def _compile_part(said: str) -> re.Pattern[str]:
    spaced = said.isascii() or not re.search("[\u3040-\u9fff]", said)
    return re.compile(rf"(?<![^\W\d])(?:{said})(?!\w)" if spaced else said, re.IGNORECASE)


# -- ids ------------------------------------------------------------------------------------------
_ID = re.compile(
    r"(?P<url>https?://[^\s<>\"')\]]+)|(?P<mail>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<iban>(?a:\b)[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,4})?(?a:\b))"
    r"|(?P<phone>(?<![\w.,])(?:\+\d[\d ()/\-]{6,}\d|0\d[\d ()\-]{6,}\d)(?!\w))"
    r"|(?P<code>(?a:(?<![\w.,:/-])(?=[\w/#-]*\d)(?=[\w/#-]*[a-zA-Z])#?\w(?:[\w/#-]*\w)(?![\w:])))"
    r"|(?P<dashed>(?<![\w.,/-])\d{2,}(?:-\d{2,})+(?![\w-]))|(?P<tag>#\d+)",
)
_NO_CODE = re.compile(
    r"\d+[a-zµ]{1,4}|\d{1,2}h\d{2}|[+-]?\d+k(?:g|m)?|\d+(?:st|nd|rd|th|er|ère|e|ème|de|ste)"
    r"|[12]\d{3}s|\d+(?:-[a-z]+)+|[a-z]+-\d|[a-z]+\$\d+|\d*[ck]?m[23]",
    re.IGNORECASE,
)
_ISO = re.compile(r"\d{4}-\d\d?-\d\d?|\d\d?-\d\d?-\d{4}|\d{1,2}-\d{1,2}|\d{4}-\d{4}")
_LONG_PHONE = 8


def _read_id(match: re.Match[str]) -> Value | None:
    said = match[0]
    if match["code"] and _NO_CODE.fullmatch(said):
        return None
    if match["dashed"] and _ISO.fullmatch(said):
        return None
    if match["phone"] and sum(map(str.isdigit, said)) < _LONG_PHONE:
        return None
    if match["iban"] and not re.search(r"\d{4}", said):
        return None
    key = re.sub(r"\W" if not (match["url"] or match["mail"]) else r"\s", "", said).lower()
    return Value("id", "", frozenset([key]), said)


# -- dates ----------------------------------------------------------------------------------------
_EXTRA_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "stycznia styczeń يناير", "lutego luty فبراير", "marca marzec مارس",
            "kwietnia kwiecień أبريل ابريل", "maja مايو", "czerwca czerwiec يونيو",
            "lipca lipiec يوليو", "sierpnia sierpień أغسطس", "września wrzesień سبتمبر",
            "października październik أكتوبر", "listopada listopad نوفمبر", "grudnia grudzień ديسمبر",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
_SHORT_MONTHS = {
    "mrt": 3, "sty": 1, "kwi": 4, "wrz": 9, "paź": 10, "gru": 12, "янв": 1, "фев": 2, "мар": 3, "апр": 4,
    "июн": 6, "июл": 7, "авг": 8, "сен": 9, "сент": 9, "окт": 10, "ноя": 11, "дек": 12, "ene": 1,
    "abr": 4, "ago": 8, "dic": 12, "gen": 1, "giu": 6, "lug": 7, "ott": 10, "fev": 2, "dez": 12,
    "janv": 1, "févr": 2, "avr": 4, "juil": 7, "déc": 12, "okt": 10, "जनवरी": 1, "फरवरी": 2, "मार्च": 3,
    "अप्रैल": 4, "जून": 6, "जुलाई": 7, "अगस्त": 8, "सितंबर": 9, "अक्टूबर": 10, "नवंबर": 11, "दिसंबर": 12,
}  # fmt: skip
_RUSSIAN = {
    "январе": 1, "феврале": 2, "марте": 3, "апреле": 4, "мае": 5, "июне": 6, "июле": 7,
    "августе": 8, "сентябре": 9, "октябре": 10, "ноябре": 11, "декабре": 12,
}  # fmt: skip
_MONTHS = MONTH_OF | _EXTRA_MONTHS | _SHORT_MONTHS | _RUSSIAN
_MONTH = r"[^\W\d_]{3,}"
"""Looked up afterwards, which takes a tenth of the time of an alternation of them all."""
_HALF = re.compile(
    r"\b(?:half an?|a half|eine? halbe[nrs]?|une? demi-?e?|medi[oa]|mezz[oa]|mei[oa]|een halve)\s"
    r"(?!past\b|hour\b)",
    re.IGNORECASE,
)
_FIRST_OF = re.compile(
    r"\b(?:primo|primero|primeiro|premier|1(?:er|º|°|o))\s(?=(?:de |di )?[^\W\d_]{3,})"
    r"|\b(?:ersten?|first of)\s(?=(?:[jfmasond][^\W\d_]{2,}))",
    re.IGNORECASE,
)
_PERCENT = re.compile(
    r"(?<=\w) (?:per cent|pour ?cent|por ?ciento|por ?cento|per ?cento)(?!\w)", re.IGNORECASE
)
_AND_A_HALF = {
    language: tuple(re.compile(said, re.IGNORECASE) for said in patterns)
    for language, patterns in {
        "english": (
            r"(?<!\w)(\d+) and a half(?: (hours?|years?|weeks?|months?|miles?|kilos?|pounds?))?",
            r"(?<!\w)(an?|\d+|one) (hours?|years?|weeks?|months?|miles?|kilos?|pounds?) and a half",
        ),
        "german": (r"(?<!\w)(\d+) ?einhalb (\w+)",),
        "french": (r"(?<![àh] )(?<!\w)(\d+) et demi(?!\w)", r"(?<![àh] )(?<!vers )(?<!\w)(\d+|une?) (heures?|ans?|mois|kilos?|litres?|semaines?|jours?) et demie?"),
        "spanish": (r"(?<!las )(?<!la )(?<!\w)(\d+) y medio(?!\w)", r"(?<!las )(?<!la )(?<!\w)(\d+|una?) (horas?|años?|mes(?:es)?|kilos?|litros?|semanas?|días?) y medi[oa]"),
        "italian": (r"(?<!le )(?<!\w)(\d+) e mezzo(?!\w)", r"(?<!le )(?<!\w)(\d+|una?) (or[ae]|ann[oi]|mes[ei]|chil[oi]|litr[oi]|settiman[ae]|giorn[oi]) e mezz[oa]"),
        "portuguese": (r"(?<!às )(?<!\w)(\d+) e meio(?!\w)", r"(?<!às )(?<!\w)(\d+|uma?) (horas?|anos?|mes(?:es)?|mês|quilos?|litros?|semanas?|dias?) e mei[oa]"),
        "russian": (r"(?<!\w)(\d+) с половиной (\w+)",),
        "polish": (r"(?<!\w)(\d+) i pół (\w+)",),
        "swedish": (r"(?<!\w)(\d+) och en halv(?:t)? (\w+)",),
        "turkish": (r"(?<!saat )(?<!sabah )(?<!akşam )(?<!gece )(?<!\w)(\d+|bir) buçuk (saat|yıl|ay|hafta|gün|kilo|litre|lira|milyon|bin)",),
        "chinese": (r"(\d+|一)个?半(小时|钟头|月|星期)", r"(\d+)(年|天|斤|公里|米)半"),
        "japanese": (r"(\d+)(時間|年|日|か月|ヶ月)半",),
        "other": (r"(?<!\w)(한|\d+) ?(시간|년|개월|달) ?반(?!\w)",),
    }.items()
}  # fmt: skip
_ONE_AND_A_HALF = re.compile(
    r"(?<!\w)(?:anderthalb|eineinhalb|anderhalve?|полтор[аы]|półtor(?:a|ej)|डेढ़|डेढ)(?!\w)",
    re.IGNORECASE,
)
_HALF_MORE = re.compile(
    r"(?<!\w)(zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|\d+)einhalb(?!\w)", re.IGNORECASE
)
_GERMAN = "zwei drei vier fünf sechs sieben acht neun zehn".split()


def _write_halves(text: str, language: str) -> str:
    """Return a text with "two and a half" in digits."""
    if language == "german":
        text = _HALF_MORE.sub(_write_half_more, text)
    for pattern in _AND_A_HALF.get(language, ()):
        text = pattern.sub(_write_half, text)
    return text


def _write_half(match: re.Match[str]) -> str:
    whole = match[1] if match[1].isdigit() else "1"
    unit = match[2] if match.lastindex and match.lastindex > 1 else ""
    return f"{whole}.5 {unit or ''}"


def _write_half_more(match: re.Match[str]) -> str:
    said = match[1].lower()
    return f"{said if said.isdigit() else _GERMAN.index(said) + 2}.5"


_ARABIC_DAYS = ("الأول الثاني الثالث الرابع الخامس السادس السابع الثامن التاسع العاشر").split()
_ARABIC_DAY = re.compile(
    rf"(?<!\w)(?:ال)?({'|'.join(_ARABIC_DAYS)}|الحادي)( عشر| والعشرين| والثلاثين)? من(?=\s\w)"
)


def _write_arabic_day(match: re.Match[str]) -> str:
    """Return "the fifth of" in digits."""
    day = 1 if match[1] == "الحادي" else _ARABIC_DAYS.index(match[1]) + 1
    more = {" عشر": 10, " والعشرين": 20, " والثلاثين": 30}
    return str(day + more.get(match[2] or "", 0))


_MINUS = re.compile(
    r"(?<!\w)(?:minus|moins|menos|meno|min|минус|eksi|ناقص|영하|माइनस)\s(?=\d)|(?:零下|マイナス|氷点下)(?=\d)",
    re.IGNORECASE,
)
_VAGUE = re.compile(r"(?<=\d)-?ish\b")
_PART_OF_HOUR = re.compile(
    r"\b(?:(?P<three>three[- ]quarters of an hour|dreiviertelstunde|drei viertelstunden|trois quarts d'heure"
    r"|tres cuartos de hora|tre quarti d'ora|driekwartier)|(?P<half>half an hour|eine?r? halben? stunde"
    r"|une demi-heure|media hora|mezz'ora|meia hora|een half uur|полчаса|pół godziny|yarım saat|نصف ساعة)"
    r"|(?P<quarter>a quarter of an hour|eine?r? viertelstunde|un quart d'heure|un cuarto de hora"
    r"|un quarto d'ora|een kwartier))\b|(?P<east>半小时|半个小时|半時間|30分間)",
    re.IGNORECASE,
)
_YEAR = r"(?:,?\s*(?:(?:of|de|del|do|года)\s+)?(?P<year>(?:19|20)\d\d)(?!\d))"
_IN = (
    r"in|im|en|em|of|(?:fin(?:ales|al|e|i)?|fim|principios?|mediados|inizio|inizi|metà|meados|début) d(?:e|i|')|since|during|last|next|by|until|till|from|ab|bis|ende|anfang|fin|début|в|с|до|w|do|od"
    r"|à partir de|finales de|principios de|a|di|desde|desde|vanaf|tot|eind|early|late|mid"
)


def is_month(word: str) -> bool:
    """Return whether a lowercase word names a month."""
    return word in _MONTHS


def _make_date(said: str, *days: tuple[int, int, int]) -> Value | None:
    real = [(y, m, d) for y, m, d in days if m <= 12 and d <= 31]  # noqa: PLR2004
    return Value("date", "", frozenset(real), said) if real else None


def _read_iso(match: re.Match[str]) -> Value | None:
    return _make_date(match[0], (int(match[1]), int(match[2]), int(match[3])))


def _read_numeric(match: re.Match[str]) -> Value | None:
    first, second, year = int(match[1]), int(match[3]), int(match[4] or 0)
    if not second:
        return None  # "at 14.00."
    year += 2000 if 0 < year < 100 else 0  # noqa: PLR2004
    both = [(year, second, first)]
    if match[2] == "/":
        both.append((year, first, second))
    return _make_date(match[0], *both)


def _read_named(match: re.Match[str]) -> Value | None:
    groups = match.groupdict()
    month = _MONTHS.get(match["month"].lower())
    if month is None:
        return None
    day, year = int(groups.get("day") or 0), int(groups["year"] or 0)
    return _make_date(match[0], (year, month, day))


def _read_east(match: re.Match[str]) -> Value | None:
    return _make_date(match[0], (int(match[1] or 0), int(match[2]), int(match[3] or 0)))


_DATES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Value | None]], ...] = (
    (re.compile(r"(?<!\d)(\d{4})[-/](\d\d?)[-/](\d\d?)(?!\d)"), _read_iso),
    (re.compile(r"(?<![\d.])(\d\d?)([./-])(\d\d?)(?:\2|\.\s)(\d{4}|\d\d)(?![\d:])"), _read_numeric),
    (re.compile(r"(?<![\d.,])(\d\d?)([.])(\d\d?)\.()(?!\d)"), _read_numeric),
    (
        re.compile(
            r"(?<![\d./])(?=0|[123]\d/0|\d/0|(?<=\b(?:el|le|il|on|by|am|al|au|du|od|do|au|op|às|em) )\d|(?<=\b(?:dal|del|vom|zum|den|til|dia) )\d)(\d\d?)(/)(\d\d?)()(?![\d/])"
        ),
        _read_numeric,
    ),
    (re.compile(r"(?:(\d{4})[年년]\s?)?(\d\d?)[月월]\s?(?:(\d\d?)[日号號일]?)?(?!\d)"), _read_east),
    (
        re.compile(
            rf"(?<![\w.,])(?P<day>\d\d?)(?:st|nd|rd|th|\.|er|º|°)?(?:\s*(?:(?:of|de|del|do|di)\s+|d')|\s+)"
            rf"(?P<month>{_MONTH})\.?(?!\w){_YEAR}?",
            re.IGNORECASE,
        ),
        _read_named,
    ),
    (
        re.compile(
            rf"(?<!\w)(?P<month>{_MONTH})\.?\s+(?P<day>\d\d?)(?:st|nd|rd|th)?(?![\w:]){_YEAR}?",
            re.IGNORECASE,
        ),
        _read_named,
    ),
    (re.compile(rf"(?<!\w)(?P<month>{_MONTH})\.?{_YEAR}", re.IGNORECASE), _read_named),
    (
        re.compile(
            rf"(?<=\b)(?:{_IN})[\s-]+(?:(?:early|mid|late|mitte|ende|anfang)[\s-]+)?(?P<month>{_MONTH})(?P<year>)(?!\w)",
            re.IGNORECASE,
        ),
        _read_named,
    ),
)


# -- clock times ----------------------------------------------------------------------------------
_AT = {
    "english": "at|by|until|till|around|about|before|after|from", "german": "um|ab|gegen|bis",
    "french": "à|vers|dès", "spanish": "a las?|sobre las|desde las", "italian": "alle|all'|dalle|verso le",
    "portuguese": "às|à|pelas|das|para as", "dutch": "om|rond|vanaf", "russian": "в|к|до|после", "polish": "o|od|do",
    "turkish": "saat", "arabic": "الساعة", "swedish": "klockan|kl\\.?",
}  # fmt: skip
_HOURS = {
    "english": "o'clock", "german": "uhr", "french": "heures?|h", "spanish": "horas|h", "italian": "ore",
    "portuguese": "horas|h", "dutch": "uur", "russian": "час(?:ов|а|у)?", "polish": "godzin\\w*",
    "turkish": "'?(?:de|da|te|ta|den|dan|ye|ya|e|a)", "arabic": "",
}  # fmt: skip
_SHIFTED = {
    "english": (
        (r"(?<=at )half (\d+)", 30), (r"half past (\d+)", 30), (r"(?:a )?quarter (?:past|after) (\d+)", 15),
        (r"(?:a )?quarter (?:to|before|of) (\d+)", -15),
    ),
    "german": (
        (r"(?:kurz (?:vor|nach) )?halb (\d+)", -30), (r"viertel nach (\d+)", 15), (r"viertel vor (\d+)", -15),
        (r"(?:dreiviertel|(?:3|drei) viertel) (\d+)", -15), (r"(?<=um )viertel (\d+)", -45),
    ),
    "dutch": ((r"half (\d+)", -30), (r"kwart over (\d+)", 15), (r"kwart voor (\d+)", -15)),
    "french": (
        (r"(\d+) (?:heures?|h) et demie", 30), (r"(\d+) (?:heures?|h) et quart", 15),
        (r"(\d+) (?:heures?|h) moins (?:le )?quart", -15),
    ),
    "spanish": (
        (r"las? (\d+) y media", 30), (r"las? (\d+) y cuarto", 15), (r"las? (\d+) menos cuarto", -15),
        (r"cuarto para las? (\d+)", -15),
    ),
    "italian": (
        (r"(?:le|alle) (\d+) e (?:mezza|mezzo)", 30), (r"(?:le|alle) (\d+) e un quarto", 15),
        (r"(?:le|alle) (\d+) meno un quarto", -15),
    ),
    "portuguese": (
        (r"(?:[àa]s )?(\d+) e meia(?= d[ae]|$|[,.;])", 30), (r"[àa]s (\d+) e meia", 30),
        (r"[àa]s (\d+) e um quarto", 15), (r"um quarto para [àa]s (\d+)", -15),
    ),
    "russian": (
        (r"половин\w+ (\d+)", -30), (r"четверть (\d+)", -45), (r"без четверти (\d+)", -15),
    ),
    "polish": ((r"kwadrans po (\d+)", 15), (r"za kwadrans (\d+)", -15)),
    "swedish": ((r"halv (\d+)", -30), (r"kvart över (\d+)", 15), (r"kvart i (\d+)", -15)),
    "turkish": ((r"(?:saat|sabah|akşam|gece|öğlen|öğleden sonra) (\d+) buçuk\w*", 30), (r"saat (\d+)(?! ?[.:\d])", 0)),
}  # fmt: skip
_MINUTES = {
    "english": (
        ((r"(?:at|by|around|about|until|till|before|after|from) (?P<m>5|10|20|25)(?: minutes)? to (?P<h>\d\d?)(?!\s?[%€$£])"
         r"(?=\s*(?:$|[.,;!?]|am\b|pm\b|in the|on\b|at\b|sharp))"), -1),
    ),
    "german": (
        (r"(?P<m>5|10) vor halb (?P<h>\d\d?)", -31), (r"(?P<m>5|10) nach halb (?P<h>\d\d?)", -29),
        (r"(?:um|ab|gegen|bis) (?P<m>5|10|20)(?: minuten)? vor (?P<h>\d\d?)", -1),
    ),
    "dutch": (
        (r"(?P<m>5|10) voor half (?P<h>\d\d?)", -31), (r"(?P<m>5|10) over half (?P<h>\d\d?)", -29),
        (r"(?P<m>5|10|20) voor (?P<h>\d\d?)", -1),
    ),
    "french": (
        (r"(?P<h>\d\d?) (?:heures?|h) moins (?P<m>5|10|20|25)", -1), (r"(?P<h>\d\d?) heures? (?P<m>\d\d?)(?!\d)(?=\s*(?:$|[.,;!?]|\w+ [a-zà-ÿ]))", 1),
    ),
    "spanish": (
        (r"las? (?P<h>\d\d?) menos (?P<m>5|10|20|25)", -1), (r"las? (?P<h>\d\d?) y (?P<m>5|10|20|25|35|40|50|55)", 1),
    ),
    "italian": (
        (r"(?:le|alle|dalle) (?P<h>\d\d?) meno (?P<m>5|10|20|25)", -1), (r"(?:le|alle|dalle) (?P<h>\d\d?) e (?P<m>5|10|20|25|35|40|45|50)", 1),
    ),
    "portuguese": (
        (r"(?P<m>5|10|15|20) para [àa]s (?P<h>\d\d?)", -1), (r"[àa]s (?P<h>\d\d?) e (?P<m>5|10|15|20|25|40|45|50)", 1),
    ),
    "russian": ((r"без (?P<m>5|10|15|20|25) (?:минут )?(?P<h>\d\d?)", -1),),
    "swedish": ((r"(?P<m>5|10|20) i (?P<h>\d\d?)", -1), (r"(?P<m>5|10|20) över (?P<h>\d\d?)", 1)),
    "chinese": ((r"差(?P<m>\d\d?)分(?:钟)?(?:到)?(?P<h>\d\d?)[点點]", -1), (r"(?P<h>\d\d?)[点點]差(?P<m>\d\d?)分", -1)),
    "japanese": ((r"(?P<h>\d\d?)時(?P<m>\d\d?)分前", -1),),
    "other": ((r"(?P<h>\d\d?)시 (?P<m>\d\d?)분 전", -1),),
}  # fmt: skip
"""Minutes before or after an hour; -31 and -29: of its half."""
_PAST = {"english": "(?:minutes )?past", "german": "(?:minuten )?nach", "dutch": "over"}
_NAMED = re.compile(
    r"(?<!\w)(?:(noon|midday|midi|mediodía|mezzogiorno|meio-dia|полдень)"
    r"|(midnight|mitternacht|minuit|medianoche|mezzanotte|meia-noite|middernacht|полночь))(?!\w)",
    re.IGNORECASE,
)
_AFTER_CLOCK = (
    "on|in|this|and|but|so|then|every|each|for|till|until|with|tomorrow|today|tonight|sharp|am|und|aber|zum|zur|im|bei"
    "|mit|le|à|au|et|dans|avec|el|en|y|con|il|e|nel|con|na|no|com|op|met|bij|в|на|и|с|w|na|z"
)
"""A bare number before these may still be an hour; before other words it counts them."""
_POLISH_HOURS = (
    "pierwszej drugiej trzeciej czwartej piątej szóstej siódmej ósmej dziewiątej dziesiątej "
    "jedenastej dwunastej trzynastej czternastej piętnastej szesnastej siedemnastej osiemnastej "
    "dziewiętnastej dwudziestej"
).split()
_CLOCK_ONLY = {
    "italian": "alle|dalle|dopo le|prima delle|entro le|verso le", "spanish": "a las|desde las|hasta las|antes de las|después de las",
    "portuguese": "às|depois das|antes das|até as",
    "swedish": "klockan|kl\\.?",
}  # fmt: skip
"""Prepositions that a bare number makes a clock time, whatever follows."""
_ARABIC_HOURS = (
    "الواحدة الثانية الثالثة الرابعة الخامسة السادسة السابعة الثامنة التاسعة العاشرة"
).split()
_Reader: TypeAlias = "Callable[[ValueReader, re.Match[str]], Value | None]"


@cache
def _load_clocks(language: str) -> tuple[tuple[re.Pattern[str], _Reader], ...]:
    return tuple(_list_clocks(language))


def _list_clocks(language: str) -> Iterator[tuple[re.Pattern[str], _Reader]]:
    lexicon = get_lexicon(language)
    part = f"(?P<part>{lexicon.morning}|{lexicon.evening})"
    for pattern, sign in _MINUTES.get(language, ()):
        bounded = rf"(?<!\w){pattern}(?!\w)" if lexicon.is_spaced else pattern
        yield re.compile(bounded, re.IGNORECASE), partial(_read_minutes, sign=sign)
    if not lexicon.is_spaced:
        yield (
            re.compile(
                rf"{part}?的?(\d\d?)[点點時时](?!間|间)(?:(半)|(\d\d?)(?:分|(?![\d个個人块岁元名位年月天件本])))?"
            ),
            _read_east_clock,
        )
        yield re.compile(rf"{part}?(\d\d?):(\d\d)"), _read_digital
        return
    if language == OTHER:
        said = rf"(?:{part}\s?)?(?<![\d:])(\d\d?)(?:\s?시(?!간)|\s?बजे)\s?(?:(반)|(\d\d?)\s?분)?"
        yield re.compile(said), _read_east_clock
        yield re.compile(rf"(?:{part}\s?)?(?<![\d:])(\d\d?):(\d\d)(?:\s?बजे)?"), _read_digital
    if language in _PAST:
        past = rf"(?<![\w.,])(5|10|20|25) (?:{_PAST[language]}) (\d\d?)(?!\w)"
        yield re.compile(past, re.IGNORECASE), _read_past
    for pattern, shift in _SHIFTED.get(language, ()):
        yield (
            re.compile(rf"(?<!\w){pattern}(?!\w)", re.IGNORECASE),
            partial(_read_shifted, shift=shift),
        )
    uhr = rf"(?:\s?(?:{_HOURS[language]}))?" if _HOURS.get(language) else ""
    part = rf"(?:[\s,]*{part}(?!\w))"
    mark = r"(?:[:h]|\s?h\s?)" if language == "french" else "[:h]"
    yield (
        re.compile(rf"(?<![\w:.,])(\d\d?){mark}(\d\d)(?::\d\d)?(?!\d){uhr}{part}?", re.IGNORECASE),
        _read_digital,
    )
    at = _AT.get(language, "at")
    yield (
        re.compile(rf"(?<!\w)(?:{at})\s(\d\d?)\.(\d\d)(?!\d|\.\d|%){uhr}{part}?", re.IGNORECASE),
        _read_digital,
    )
    yield re.compile(rf"(?<![\w:.,])(\d\d?)(?:\.(\d\d))?{uhr}{part}", re.IGNORECASE), _read_digital
    if uhr:
        yield (
            re.compile(rf"(?<!\w)(?:{at})\s(\d\d?)(){uhr[:-1]}(?!\w)", re.IGNORECASE),
            _read_digital,
        )
        if language in ("german", "french", "dutch"):
            yield (
                re.compile(rf"(?<![\w:.,])(\d\d?)(?:\.(\d\d))?{uhr[:-1]}(?!\w)", re.IGNORECASE),
                _read_digital,
            )
    units = rf"%|€|\$|£|(?!(?:{_AFTER_CLOCK})(?!\w))[^\W\d_]"
    yield (
        re.compile(
            rf"(?<!\w)(?:{at})\s(\d\d?)()(?![\d.,:/\-]*\d)(?!\s?(?:{units}))", re.IGNORECASE
        ),
        _read_digital,
    )
    yield from _list_own_clocks(language, part)
    yield _NAMED, _read_named_clock


def _list_own_clocks(language: str, part: str) -> Iterator[tuple[re.Pattern[str], _Reader]]:
    """Yield the clock times that only one language writes so."""
    if language in _CLOCK_ONLY:
        said = rf"(?<!\w)(?:{_CLOCK_ONLY[language]})\s(\d\d?)()(?![\d.,:/]|\s?[%€])"
        yield re.compile(said, re.IGNORECASE), _read_digital
    if language == "turkish":
        yield re.compile(rf"(?<!\w){part[7:-7]}\s(\d\d?)(?:[.:](\d\d))?(?![\d.:])"), _read_digital
    if language == "polish":
        hours = "|".join(f"{hour[:-2]}(?:ej|ą)" for hour in _POLISH_HOURS)
        said = rf"(?<!\w)(?:o |na )?(wpół do|kwadrans po|o|od|do|na) ({hours})(?!\w)"
        yield re.compile(said, re.IGNORECASE), _read_polish
        named = "|".join(f"{hour[:-2]}a" for hour in _POLISH_HOURS)
        said = rf"(?<!\w)za (kwadrans|5|10|15|20) ({named})(?!\w)"
        yield re.compile(said, re.IGNORECASE), _read_polish_before
    if language == "arabic":
        hours = "|".join(_ARABIC_HOURS)
        said = (
            rf"الساعة ({hours})(?! عشر)"
            rf"(?:\s(?:و(?P<plus>النصف|نصف|الربع|ربع|الثلث|ثلث)|إلا (?P<minus>ربع\w*|الربع|ثلث\w*|الثلث)))?"
            rf"(?:\s*{part}(?!\w))?"
        )
        yield re.compile(said), _read_arabic


def _read_digital(reader: ValueReader, match: re.Match[str]) -> Value | None:
    hour, minute = _pick_numbers(match.groups())
    return reader.read_clock(match, hour, minute)


def _pick_numbers(groups: Iterable[str | None]) -> tuple[int, int]:
    numbers = [int(group) for group in groups if group and group.isdigit()]
    return numbers[0], numbers[1] if len(numbers) > 1 else 0


def _read_east_clock(reader: ValueReader, match: re.Match[str]) -> Value | None:
    hour, minute = _pick_numbers(match.groups())
    return reader.read_clock(match, hour, 30 if {"半", "반"} & {*match[0]} else minute)


def _read_past(reader: ValueReader, match: re.Match[str]) -> Value | None:
    return reader.read_clock(match, int(match[2]), int(match[1]))


def _read_shifted(reader: ValueReader, match: re.Match[str], shift: int) -> Value | None:
    start = int(match[1]) * 60 + shift
    return reader.read_clock(match, start // 60 or 12, start % 60)


def _read_minutes(reader: ValueReader, match: re.Match[str], sign: int) -> Value | None:
    minutes = int(match["m"])
    shift = {-31: -30 - minutes, -29: -30 + minutes}.get(sign, sign * minutes)
    start = int(match["h"]) * 60 + shift
    return reader.read_clock(match, start // 60 or 12, start % 60)


def _read_polish_before(reader: ValueReader, match: re.Match[str]) -> Value | None:
    hours = [f"{hour[:-2]}a" for hour in _POLISH_HOURS]
    minutes = int(match[1]) if match[1].isdigit() else 15
    return reader.read_clock(match, hours.index(match[2].lower()) or 12, 60 - minutes)


def _read_polish(reader: ValueReader, match: re.Match[str]) -> Value | None:
    hour = _POLISH_HOURS.index(re.sub("ą$", "ej", match[2].lower())) + 1
    if match[1].lower().startswith("wp"):
        return reader.read_clock(match, hour - 1 or 12, 30)
    if match[1].lower().startswith("kw"):
        return reader.read_clock(match, hour, 15)
    return reader.read_clock(match, hour, 0)


def _read_arabic(reader: ValueReader, match: re.Match[str]) -> Value | None:
    parts = {"نصف": 30, "ربع": 15, "ثلث": 20}
    said = match["plus"] or match["minus"] or ""
    minutes = next((count for part, count in parts.items() if part in said), 0)
    start = (_ARABIC_HOURS.index(match[1]) + 1) * 60 + (-minutes if match["minus"] else minutes)
    return reader.read_clock(match, start // 60 or 12, start % 60)


def _read_named_clock(_reader: ValueReader, match: re.Match[str]) -> Value | None:
    return Value("time", "", frozenset([720.0 if match[1] else 0.0]), match[0])


def get_value(character: str, values: list[Value]) -> Value | None:
    """Return the value that a private character stands for; None for any other character."""
    number = ord(character[0]) - _PRIVATE
    return values[number] if 0 <= number < len(values) else None
