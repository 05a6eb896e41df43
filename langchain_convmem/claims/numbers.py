"""Numbers in words and in digits, as people of a dozen languages write them. Pure."""

# ruff: noqa: E501, RUF001, SIM905 - words in the letters they are written in

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from langchain_convmem.claims.unlisted import replace_unlisted_numbers

_UNITS = {
    "english": "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen",
    "german": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn "
    "vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
    "dutch": "nul één twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien "
    "vijftien zestien zeventien achttien negentien",
    "french": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze "
    "quinze seize dix-sept dix-huit dix-neuf",
    "spanish": "cero un dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce "
    "quince dieciséis diecisiete dieciocho diecinueve",
    "italian": "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici "
    "quattordici quindici sedici diciassette diciotto diciannove",
    "portuguese": "zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze "
    "quinze dezesseis dezessete dezoito dezenove",
    "swedish": "noll etta två tre fyra fem sex sju åtta nio tio elva tolv tretton fjorton femton "
    "sexton sjutton arton nitton",
    "russian": "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать "
    "двенадцать тринадцать четырнадцать пятнадцать шестнадцать семнадцать восемнадцать "
    "девятнадцать",
    "polish": "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć jedenaście "
    "dwanaście trzynaście czternaście piętnaście szesnaście siedemnaście osiemnaście "
    "dziewiętnaście",
    "turkish": "sıfır bir iki üç dört beş altı yedi sekiz dokuz on",
    "arabic": "صفر واحد اثنان ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة",
}
_TENS = {
    "english": "twenty thirty forty fifty sixty seventy eighty ninety",
    "german": "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "dutch": "twintig dertig veertig vijftig zestig zeventig tachtig negentig",
    "french": "vingt trente quarante cinquante soixante septante huitante nonante",
    "spanish": "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "italian": "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
    "portuguese": "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
    "swedish": "tjugo trettio fyrtio femtio sextio sjuttio åttio nittio",
    "russian": "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
    "polish": "dwadzieścia trzydzieści czterdzieści pięćdziesiąt sześćdziesiąt siedemdziesiąt "
    "osiemdziesiąt dziewięćdziesiąt",
    "turkish": "yirmi otuz kırk elli altmış yetmiş seksen doksan",
    "arabic": "عشرون ثلاثون أربعون خمسون ستون سبعون ثمانون تسعون",
}
_MORE = {
    "english": "hundred=100 thousand=1000 million=1000000 dozen=12 twice=2 hundreds=100",
    "german": "zwo=2 hundert=100 tausend=1000 dutzend=12 zweimal=2 dreimal=3 eintausend=1000 "
    "zweit=2 dritt=3 viert=4 fünft=5 sechst=6 siebt=7 acht=8",
    "dutch": "honderd=100 duizend=1000 dozijn=12 tweemaal=2 drieën=3",
    "french": "vingts=20 cent=100 cents=100 mille=1000 une=1 douzaine=12",
    "spanish": "una=1 uno=1 veintiuno=21 veintiún=21 veintiuna=21 veintidós=22 veintitrés=23 "
    "veinticuatro=24 veinticinco=25 veintiséis=26 veintisiete=27 veintiocho=28 veintinueve=29 "
    "cien=100 ciento=100 doscientos=200 doscientas=200 trescientos=300 trescientas=300 "
    "cuatrocientos=400 quinientos=500 quinientas=500 seiscientos=600 setecientos=700 "
    "ochocientos=800 novecientos=900 mil=1000 docena=12",
    "italian": "un=1 una=1 cento=100 duecento=200 trecento=300 quattrocento=400 cinquecento=500 "
    "seicento=600 settecento=700 ottocento=800 novecento=900 mille=1000 mila=1000 duemila=2000 "
    "tremila=3000 diecimila=10000",
    "portuguese": "uma=1 duas=2 dezasseis=16 dezassete=17 dezanove=19 cem=100 cento=100 "
    "duzentos=200 trezentos=300 quatrocentos=400 quinhentos=500 seiscentos=600 setecentos=700 "
    "oitocentos=800 novecentos=900 mil=1000 dúzia=12",
    "swedish": "hundra=100 tusen=1000 dussin=12",
    "russian": "одна=1 одно=1 одного=1 две=2 двух=2 двое=2 трёх=3 трех=3 трое=3 четырёх=4 четырех=4 пяти=5 "
    "шести=6 семи=7 восьми=8 девяти=9 десяти=10 второго=2 третьего=3 четвёртого=4 четвертого=4 пятого=5 шестого=6 "
    "седьмого=7 восьмого=8 девятого=9 десятого=10 одиннадцатого=11 двенадцатого=12 двадцати=20 тридцати=30 сто=100 двести=200 "
    "тринадцатого=13 четырнадцатого=14 пятнадцатого=15 шестнадцатого=16 семнадцатого=17 восемнадцатого=18 "
    "первое=1 второе=2 третье=3 четвёртое=4 четвертое=4 пятое=5 шестое=6 седьмое=7 восьмое=8 девятое=9 десятое=10 "
    "одиннадцатое=11 двенадцатое=12 тринадцатое=13 четырнадцатое=14 пятнадцатое=15 шестнадцатое=16 семнадцатое=17 "
    "восемнадцатое=18 девятнадцатое=19 двадцатое=20 тридцатое=30 "
    "девятнадцатого=19 двадцатого=20 тридцатого=30 пятнадцати=15 сорока=40 пятидесяти=50 первого=1 "
    "триста=300 четыреста=400 пятьсот=500 шестьсот=600 семьсот=700 восемьсот=800 девятьсот=900 "
    "тысяча=1000 тысячи=1000 тысяч=1000",
    "polish": "jedna=1 jedno=1 dwie=2 dwóch=2 dwoje=2 troje=3 trzech=3 czterech=4 pięciu=5 sto=100 "
    "pierwszego=1 drugiego=2 trzeciego=3 czwartego=4 piątego=5 szóstego=6 siódmego=7 ósmego=8 dziewiątego=9 "
    "dziesiątego=10 jedenastego=11 dwunastego=12 trzynastego=13 czternastego=14 piętnastego=15 szesnastego=16 "
    "siedemnastego=17 osiemnastego=18 dziewiętnastego=19 dwudziestego=20 trzydziestego=30 dwudziestu=20 trzydziestu=30 "
    "sześciu=6 siedmiu=7 ośmiu=8 dziewięciu=9 dziesięciu=10 "
    "stówa=100 stówę=100 dwieście=200 trzysta=300 czterysta=400 pięćset=500 sześćset=600 siedemset=700 osiemset=800 "
    "dziewięćset=900 tysiąc=1000 tysiące=1000 tysięcy=1000",
    "turkish": "birde=1 ikide=2 üçte=3 dörtte=4 beşte=5 altıda=6 yedide=7 sekizde=8 "
    "dokuzda=9 onda=10 yüz=100 bin=1000 milyon=1000000",
    "arabic": "ثلاث=3 أربع=4 خمس=5 ست=6 سبع=7 ثماني=8 ثمانمئة=800 ثمانمائة=800 تسع=9 عشر=10 مئة=100 مائة=100 "
    "مئتان=200 مئتين=200 مئتي=200 ألف=1000 آلاف=1000 ألفين=2000 ألفان=2000",
}
_LINKS = frozenset(["and", "y", "e", "et", "и", "و"])
_SMALL = {
    character: value
    for characters in ("零一二三四五六七八九", "〇壱弐参肆伍陸")
    for value, character in enumerate(characters)
} | {"两": 2, "兩": 2}
_STEPS = {"十": 10, "百": 100, "千": 1000}
_MYRIADS = {"万": 10_000, "萬": 10_000, "亿": 100_000_000, "億": 100_000_000}
_HAN = "".join([*_SMALL, *_STEPS, *_MYRIADS])
_COUNTED = (
    "个個名位人口只隻条張张件块塊元円年月日号號点點時分岁歲本冊册枚匹台杯次回天週周間斤公克千米"
    "袋瓶盒片粒颗層层间家辆頭头つ歳階箱束升毫度部番節通足着枝双套支周小美欧英刀毛"
)
_HAN_NUMBER = re.compile(
    rf"(?<=[時时点點])[{_HAN}]+(?=分)|(?<![每第统同唯专惟])[{_HAN}]*[十百千][{_HAN}]*(?![分足])|[{_HAN}]{{2,}}(?![分起些下样直])"
    rf"|(?<![周期曜拜第{_HAN}])[{_HAN}](?=[{_COUNTED}])"
)
_SHORT = re.compile(
    "(?<=[一二三四五六七八九两][百千万])([一二三四五六七八九])(?![十百千万亿零几多个])"
)
"""A last digit that counts the next lower step: 三千八 is 3,800."""
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_KOREAN_NUMBERS = "한 두 세 네 다섯 여섯 일곱 여덟 아홉 열".split()
_KOREAN = re.compile(
    rf"(?<!\w)({'|'.join(_KOREAN_NUMBERS)})(?=\s?(?:살|개|명|마리|시|번|잔|권|달|주|장|대|병|그릇|사람))"
)
_LONG_SINCE = re.compile(
    r"(?i)(?<=[a-z])-(?=(?:year|month|week|day|hour|minute|pound|foot|page|person|storey|bed|seat|night|mile|metre|kilo))"
)
"""The hyphen of "a ten-year warranty"."""
_SUMMED = frozenset({"french", "turkish", "arabic"})
"""Languages that say 97 as "four twenties ten seven", 11 as "ten one" or 15 as "five ten"."""
_RUSSIAN_HALF = re.compile(
    r"(?i)(?<!\w)пол(?=(?:второ|треть|четв[её]рт|пято|шесто|седьмо|восьмо|девято|десято|одиннадцато|двенадцато)го)"
)
_TURKISH_HOURS = {
    "bire": 1, "ikiye": 2, "üçe": 3, "dörde": 4, "beşe": 5, "altıya": 6, "yediye": 7, "sekize": 8, "dokuza": 9,
    "ona": 10, "on bire": 11, "on ikiye": 12, "biri": 1, "ikiyi": 2, "üçü": 3, "dördü": 4, "beşi": 5, "altıyı": 6,
    "yediyi": 7, "sekizi": 8, "dokuzu": 9, "onu": 10, "on biri": 11, "on ikiyi": 12,
}  # fmt: skip
_TURKISH_MINUTES = {"çeyrek": 15, "beş": 5, "on": 10, "yirmi": 20, "yirmi beş": 25}
_TURKISH_CLOCK = re.compile(
    rf"(?i)(?<!\w)({'|'.join(sorted(_TURKISH_HOURS, key=len, reverse=True))})\s"
    rf"(çeyrek|yirmi beş|yirmi|beş|on|\d\d?)\s(var|kala|geç\w*)"
)
_LASTING = {
    "german": re.compile(
        r"(?i)(?<!\w)(\w{3,}?)(jährig|tägig|stündig|wöchig|monatig|köpfig|minütig)(?=\w*)"
    ),
    "russian": re.compile(
        r"(?i)(?<!\w)(\w{3,}?)(летн|дневн|часов|недельн|месячн|минутн)(?=\w{2,3}\b)"
    ),
    "polish": re.compile(r"(?i)(?<!\w)(\w{3,}?)(letni|dniow|godzinn|tygodniow|minutow)(?=\w*)"),
    "swedish": re.compile(r"(?i)(?<!\w)(\w{3,}?)(årig|dagars)(?=\w*)"),
    "dutch": re.compile(r"(?i)(?<!\w)(\w{3,}?)(jarig|daags)(?=\w*)"),
}
"""Words that hold a number and how long: vierjährig, четырёхлетний."""
_MIXED = re.compile(r"(\d+(?:\.\d+)?)[万萬](?=\d)(?:(\d)千)?(?:(\d)百)?(\d{2,4}(?![\d千百万]))?")
_HUNDRED = 100
_HUNDREDS = range(100, 1000, 100)
_THOUSANDS = {"german": "tausend", "dutch": "duizend", "swedish": "tusen", "italian": "mila"}


def replace_number_words(text: str, language: str) -> str:
    """Return a text with its numbers in digits; a lone one, which may be an article, stays.

    Args:
        text: A sentence.
        language: What it is written in.
    """
    if language in ("chinese", "japanese"):
        text = _MIXED.sub(_read_mixed, text)
        text = _SHORT.sub(_write_step, text) if language == "chinese" else text
        return _HAN_NUMBER.sub(lambda match: _read_han(match[0]), text)
    text = _KOREAN.sub(lambda match: f"{_KOREAN_NUMBERS.index(match[1]) + 1}", text)
    text = replace_unlisted_numbers(text) if language == "other" else text
    text = _RUSSIAN_HALF.sub("половина ", text) if language == "russian" else text
    text = _replace_turkish_hours(text) if language == "turkish" else text
    values = _load_values(language)
    text = _split_lasting(text, language)
    text = _LONG_SINCE.sub(" ", text) if language == "english" else text
    return _replace_runs(text, values, is_summed=language in _SUMMED) if values else text


def list_number_words(language: str) -> frozenset[str]:
    """Return the words for single numbers below a hundred; none if nobody listed them."""
    if language not in _UNITS:
        return frozenset()
    return frozenset([*_UNITS[language].split(), *_TENS[language].split()])


def _replace_turkish_hours(text: str) -> str:
    """Return a text with "a quarter to eight" as "saat 7:45"."""

    def write(match: re.Match[str]) -> str:
        minutes = int(match[2]) if match[2].isdigit() else _TURKISH_MINUTES[match[2].lower()]
        sign = 1 if match[3].lower().startswith("geç") else -1
        start = _TURKISH_HOURS[match[1].lower()] * 60 + sign * minutes
        return f"saat {start // 60 or 12}:{start % 60:02}"

    return _TURKISH_CLOCK.sub(write, text)


def is_number_word(word: str, language: str) -> bool:
    """Return whether a lowercase word is a number of a language, such as "centoventi"."""
    return word in _load_values(language)


def _split_lasting(text: str, language: str) -> str:
    """Return a text with the numbers in words such as "vierjährig" set apart."""
    pattern = _LASTING.get(language)
    return pattern.sub(r"\1 \2", text) if pattern else text


def _replace_runs(text: str, values: dict[str, int], *, is_summed: bool) -> str:
    """Return a text with each run of number words in digits.

    Args:
        text: The text.
        values: What each word is worth.
        is_summed: Whether small numbers may follow each other in one number: "on bir" is 11.
    """
    pieces: list[str] = []
    run: list[int] = []
    start = end = 0
    for match in _WORD.finditer(text):
        found = _read_word(match[0].lower(), values)
        gap = text[end : match.start()]
        is_next = is_summed or not run or not found or _may_continue(run, found)
        if found and run and gap.strip() in ("", "-") and is_next:
            run += found
            end = match.end()
        elif run and match[0].lower() in _LINKS and not gap.strip() and run[-1] >= 20:  # noqa: PLR2004
            continue
        elif found and run and gap.strip() in _LINKS and found[0] < run[-1]:
            run += found
            end = match.end()
        else:
            if run:
                pieces.append(_write_number(run, text[start:end], text[:start]))
                run = []
            if found:
                pieces.append(text[end : match.start()])
                run, start, end = found, match.start(), match.end()
    if run:
        pieces.append(_write_number(run, text[start:end], text[:start]))
    return "".join([*pieces, text[end:]])


def _may_continue(run: Sequence[int], found: Sequence[int]) -> bool:
    """Return whether "twenty", "five" are one number; "fifteen", "nine" are two."""
    return run[-1] >= 20 or found[0] >= _HUNDRED or found[0] == 12  # noqa: PLR2004


def _write_step(match: re.Match[str]) -> str:
    lower = {"百": "十", "千": "百", "万": "千"}
    return match[1] + lower[match.string[match.start() - 1]]


def _read_mixed(match: re.Match[str]) -> str:
    """Return digits with a character for ten thousand among them in digits alone."""
    myriads, thousands, hundreds, rest = (float(part or 0) for part in match.groups())
    return f"{myriads * 10_000 + thousands * 1000 + hundreds * 100 + rest:.0f}"


def _write_number(run: list[int], said: str, before: str) -> str:
    value = _sum_run(run)
    # "1.5 million" is one number, which whoever reads digits knows.
    multiplies = run[0] in (12, 1000, 1_000_000) and before.rstrip()[-1:].isdigit()
    return said if value == 1 or multiplies else str(value)


def _sum_run(run: list[int]) -> int:
    total = part = 0
    for value in run:
        if value >= 1000:  # noqa: PLR2004
            total, part = total + max(part, 1) * value, 0
        elif value in (_HUNDRED, 12) and 0 < part < _HUNDRED:
            part *= value
        elif value == 20 and part == 4:  # noqa: PLR2004 - quatre-vingts
            part = 80
        else:
            part += value
    return total + part


def _read_word(word: str, values: dict[str, int]) -> list[int]:
    if word in values:
        return [values[word]]
    parts = word.split("-")
    found = [values[part] for part in parts if part in values]
    linked = len(found) + sum(part in _LINKS for part in parts)
    return found if len(parts) > 1 and found and linked == len(parts) else []


@cache
def _load_values(language: str) -> dict[str, int]:
    if language not in _UNITS:
        return {}
    values = {word: number for number, word in enumerate(_UNITS[language].split())}
    values |= {word: number * 10 for number, word in enumerate(_TENS[language].split(), 2)}
    values |= {
        word: int(number)
        for word, _, number in (pair.partition("=") for pair in _MORE[language].split())
    }
    values |= _join_words(language)
    thousand = _THOUSANDS.get(language)
    return values | _join_thousands(values, thousand) if thousand else values


def _join_words(language: str) -> dict[str, int]:
    """Return the numbers that a language writes in one word."""
    units = ["", *_UNITS[language].split()[1:10]]
    tens = _TENS[language].split()
    if language == "german":
        units[1] = "ein"
        small = _join_tens(units, tens, lambda unit, ten: f"{unit}und{ten}")
        return small | _join_hundreds(units, "hundert", small, language)
    if language == "dutch":
        units[1] = "een"
        small = _join_tens(
            units, tens, lambda unit, ten: f"{unit}{'ën' if unit.endswith('e') else 'en'}{ten}"
        )
        return small | _join_hundreds(units, "honderd", small, language)
    if language == "swedish":
        units[2:4] = ["två", "tre"]
        units[1] = "ett"
        small = _join_tens(units, tens, lambda unit, ten: f"{ten}{unit}")
        return small | _join_hundreds(units, "hundra", small, language)
    if language == "italian":
        units[1] = ""
        small = _join_tens(
            units,
            tens,
            lambda unit, ten: f"{ten[:-1] if unit in ('', 'otto') else ten}{unit or 'uno'}",
        )
        return small | _join_hundreds(units, "cento", small, language)
    if language == "arabic":
        return _join_arabic(units, tens)
    return {}


def _join_thousands(values: dict[str, int], thousand: str) -> dict[str, int]:
    """Return the thousands that a language writes in one word, with their hundreds."""
    small = {word: number for word, number in values.items() if 1 < number < _HUNDRED}
    hundreds = {word: number for word, number in values.items() if number in _HUNDREDS}
    return {
        f"{word}{thousand}{rest}": number * 1000 + more
        for word, number in small.items()
        for rest, more in [("", 0), *(hundreds.items() if number < 20 else ())]  # noqa: PLR2004
    }


def _join_arabic(units: list[str], tens: list[str]) -> dict[str, int]:
    """Return hundreds in one word, tens in their other case, and both after "and" or "for"."""
    hundreds = {
        f"{unit.removesuffix('ة')}{hundred}": number * _HUNDRED
        for number, unit in enumerate(units)
        if number > 2  # noqa: PLR2004
        for hundred in ("مئة", "مائة")
    }
    cases = {
        f"{ten[:-2]}{end}": number * 10
        for number, ten in enumerate(tens, 2)
        for end in ("ون", "ين")
    }
    whole = hundreds | cases | {"مئة": _HUNDRED, "مائة": _HUNDRED, "ألف": 1000}
    counted = {unit: number for number, unit in enumerate(units) if number > 2}  # noqa: PLR2004
    joined = {f"{mark}{word}": number for mark in "بلو" for word, number in whole.items()}
    return whole | joined | {f"ب{word}": number for word, number in counted.items()}


def _join_tens(units: list[str], tens: list[str], join: object) -> dict[str, int]:
    assert callable(join)  # noqa: S101
    return {
        join(units[unit], ten): number * 10 + unit
        for number, ten in enumerate(tens, 2)
        for unit in range(1, 10)
    }


def _join_hundreds(
    units: list[str], hundred: str, small: dict[str, int], language: str
) -> dict[str, int]:
    first = _UNITS[language].split()
    tens = {word: number * 10 for number, word in enumerate(_TENS[language].split(), 2)}
    rest = small | {word: number for number, word in enumerate(first)} | {"": 0} | tens
    link = "en" if language == "dutch" else "und"
    more = {f"{link}{word}": number for word, number in rest.items() if 0 < number < 13}  # noqa: PLR2004
    return {
        f"{said}{hundred}{word}": count * _HUNDRED + number
        for count in range(1, 10)
        for said in ([units[count], ""] if count == 1 and language != "swedish" else [units[count]])
        for word, number in (rest | more).items()
        if said or word
    }


def _read_han(text: str) -> str:
    if all(character in _SMALL for character in text):
        return "".join(str(_SMALL[character]) for character in text)
    total = part = digit = 0
    for character in text:
        if character in _SMALL:
            digit = _SMALL[character]
        elif character in _STEPS:
            part, digit = part + max(digit, 1) * _STEPS[character], 0
        else:
            if not part and not digit:
                return text
            total, part, digit = (total + part + digit) * _MYRIADS[character], 0, 0
    return str(total + part + digit)


def read_digits(text: str, language: str) -> frozenset[float]:
    """Return what a number in digits may mean; more than one value where its mark may be either.

    Args:
        text: Digits with their separators.
        language: Whose comma and full stop are read.
    """
    bare = re.sub(r"[\s'\u2019]", "", text).strip(".,")
    marks = [character for character in bare if character in ".,"]
    if not marks:
        return frozenset([float(bare)])
    last = marks[-1]
    if len(set(marks)) > 1:
        other = "," if last == "." else "."
        return frozenset([float(bare.replace(other, "").replace(last, "."))])
    whole = float(bare.replace(last, ""))
    if len(marks) > 1:
        return frozenset([whole])
    if len(bare.rpartition(last)[2]) != 3 or bare.startswith("0"):  # noqa: PLR2004
        return frozenset([float(bare.replace(last, "."))])
    groups = "," if language in ("english", "chinese", "japanese", "arabic") else "."
    return (
        frozenset([whole]) if last == groups else frozenset([whole, float(bare.replace(last, "."))])
    )
