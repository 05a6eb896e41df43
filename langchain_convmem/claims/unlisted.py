"""Numbers in words, and negations, of languages whose other words nobody lists. Pure."""

# ruff: noqa: SIM905 - words in the letters they are written in

from __future__ import annotations

import re

_SINO = {sign: value for value, sign in enumerate("영일이삼사오육칠팔구")}
_SINO_STEPS = {"십": 10, "백": 100, "천": 1000}
_SINO_MYRIADS = {"만": 10_000, "억": 100_000_000}
_NATIVE_TENS = "열 스물 서른 마흔 쉰 예순 일흔 여든 아흔".split()
_NATIVE_UNITS = "한 두 세 네 다섯 여섯 일곱 여덟 아홉".split()
_COUNTED = (
    r"(?=\s?(?:원|시|명|개|년|달러|유로|엔|페이지|쪽|킬로|그램|미터|분|초|층|번|권|살|마리|잔|장|대|병|"
    r"그릇|사람|시간|주|송이|켤레|벌|박스|상자|인분|점|퍼센트|회|일(?!\w)))"
)
_SINO_NUMBER = re.compile(
    rf"(?<!\w)((?:[영일이삼사오육칠팔구십백천]*[만억]\s)?"
    rf"[영일이삼사오육칠팔구십백천만억]*[십백천만억][영일이삼사오육칠팔구십백천만억]*){_COUNTED}"
)
_NATIVE_NUMBER = re.compile(
    rf"(?<!\w)(?:({'|'.join(_NATIVE_TENS)})({'|'.join(_NATIVE_UNITS)})?|(스무)){_COUNTED}"
)
_SINO_UNIT = re.compile(
    r"(?<!\w)([일이삼사오육칠팔구])\s?(?=킬로|그램|밀리|미터|센티|리터|퍼센트|달러|유로|개월|인분|학년)"
)
_HINDI_WORDS = (
    "दो तीन चार पाँच छह सात आठ नौ दस ग्यारह बारह तेरह चौदह पंद्रह सोलह सत्रह अठारह उन्नीस बीस "
    "इक्कीस बाईस तेईस चौबीस पच्चीस छब्बीस सत्ताईस अट्ठाईस उनतीस तीस इकतीस बत्तीस तैंतीस चौंतीस "
    "पैंतीस छत्तीस सैंतीस अड़तीस उनतालीस चालीस इकतालीस बयालीस तैंतालीस चवालीस पैंतालीस छियालीस "
    "सैंतालीस अड़तालीस उनचास पचास"
).split()
_HINDI = {word: value for value, word in enumerate(_HINDI_WORDS, 2)} | {
    "एक": 1, "पांच": 5, "छः": 6, "छे": 6, "पन्द्रह": 15, "पचपन": 55, "साठ": 60, "पैंसठ": 65,
    "सत्तर": 70, "पचहत्तर": 75, "अस्सी": 80, "पचासी": 85, "नब्बे": 90, "सौ": 100,
    "हज़ार": 1000, "हजार": 1000, "लाख": 100_000,
}  # fmt: skip
_HINDI_WORD = "|".join(sorted(_HINDI, key=len, reverse=True))
_HINDI_NUMBER = re.compile(
    rf"(?<!\S)(?!(?:सौ|हज़ार|हजार|लाख)\s|एक\s(?!सौ|हज़ार|हजार|लाख))"
    rf"(?:{_HINDI_WORD})(?:\s(?:{_HINDI_WORD}))*(?=\s\S)"
)
_HINDI_PARTS = {"साढ़े": 30, "सवा": 15, "पौने": -15}
"""Minutes that are added to the hour named after these."""
_HINDI_PART = re.compile(rf"(?<!\S)({'|'.join(_HINDI_PARTS)})\s({_HINDI_WORD}|\d\d?)(?=\s?बजे)")
_HUNDRED = 100
_DENIALS = re.compile(
    r"(?<!\w)(?:못\w*|안(?=\s)|않\w*|없\w*|아니\w*|싫\w*)|(?<!\S)(?:नहीं|मत)(?!\S)"
)
_WORD = re.compile(r"[^\s.,!?।]+")
_PART = re.compile(r"[,;:]|지만|는데|लेकिन|मगर|क्योंकि")


def replace_unlisted_numbers(text: str) -> str:
    """Return a text with the numbers of Korean and Hindi in digits.

    Args:
        text: A sentence. Korean numbers are read where something is counted.
    """
    text = _SINO_NUMBER.sub(_read_sino, text)
    text = _SINO_UNIT.sub(lambda match: f"{_SINO[match[1]]} ", text)
    text = _NATIVE_NUMBER.sub(_read_native, text)
    text = _HINDI_PART.sub(_read_hindi_part, text)
    return _HINDI_NUMBER.sub(_read_hindi, text)


def is_denied_otherwise(told: str, said: str) -> bool:
    """Return whether one of two plain sentences denies, once, what the other one says.

    Args:
        told: A sentence of one clause; nothing is decided for others.
        said: What it may restate.
    """
    if _PART.search(told.strip(" .")) or _PART.search(said.strip(" .")):
        return False
    counts = [len(_DENIALS.findall(text)) for text in (told, said)]
    if sorted(counts) != [0, 1]:
        return False
    denied, plain = (told, said) if counts[0] else (said, told)
    match = _DENIALS.search(denied)
    assert match is not None  # noqa: S101 - it was counted
    before = _WORD.findall(denied[: match.start()])[-1:]
    after = _WORD.findall(denied[match.end() :])[:1]
    about = {_begin(word) for word in before + after}
    others = {_begin(word) for word in _WORD.findall(plain)[1:]}
    return bool(about & others)


def _begin(word: str) -> str:
    """Return what a word keeps in its forms: a syllable of Korean, three signs of Hindi."""
    return word[:1] if "가" <= word[:1] <= "힣" else word[:3]


def _read_sino(match: re.Match[str]) -> str:
    total = part = digit = 0
    for sign in match[1].replace(" ", ""):
        if sign in _SINO:
            digit = _SINO[sign]
        elif sign in _SINO_STEPS:
            part, digit = part + max(digit, 1) * _SINO_STEPS[sign], 0
        else:
            total, part, digit = total + max(part + digit, 1) * _SINO_MYRIADS[sign], 0, 0
    return str(total + part + digit)


def _read_native(match: re.Match[str]) -> str:
    if match[3]:
        return "20"
    units = _NATIVE_UNITS.index(match[2]) + 1 if match[2] else 0
    return str((_NATIVE_TENS.index(match[1]) + 1) * 10 + units)


def _read_hindi_part(match: re.Match[str]) -> str:
    """Return an hour with its half or quarter as a clock shows it."""
    hour = int(match[2]) if match[2].isdigit() else _HINDI[match[2]]
    minutes = hour * 60 + _HINDI_PARTS[match[1]]
    return f"{minutes // 60}:{minutes % 60:02}"


def _read_hindi(match: re.Match[str]) -> str:
    total = part = 0
    for value in (_HINDI[word] for word in match[0].split()):
        if value > _HUNDRED:
            total, part = total + max(part, 1) * value, 0
        else:
            part = max(part, 1) * value if value == _HUNDRED else part + value
    return str(total + part)
