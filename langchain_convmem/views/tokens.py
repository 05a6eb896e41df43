"""How many tokens a text takes, estimated by script and kind, without a vocabulary or a network.

Latin letters of English cost about a quarter of a token each, those of other languages more; every
script has a price of its own, and so have digits, ids, punctuation and code. The prices are upper
ones: what the least economical of seven vocabularies takes, from those of 2023 on.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache


def count_text_tokens(text: str) -> int:
    """Return about how many tokens a text takes, rounded up; rather too many than too few."""
    return _count_kept(text) if len(text) <= _KEPT else _count(text)


# -- Prices: tokens per character ------------------------------------------------------------------
_ENGLISH_LETTER = 0.243
_LATIN_LETTER = 0.39
_CODE_LETTER = 0.32
_CAPITAL = 0.27
"""What a capital costs beside being a letter."""
_BLANK = 0.17
_LINE_BREAK = 1.05
_MARK = 0.82
_DIGIT = 1.0
_BLANK_BEFORE_DIGIT = 0.8
_CODE_CHARACTER = 0.95
"""A character of an id, a hash or of base64."""

_OTHER = 3.25
"""What a character of any other script costs."""
# First and last high byte of the code unit (UTF-16), and its price.
_PRICES: tuple[tuple[int, int, float], ...] = (
    (0x00, 0x00, 1.2),
    (0x01, 0x01, 1.95),
    (0x02, 0x02, 2.0),
    (0x03, 0x03, 1.38),
    (0x04, 0x04, 0.68),
    (0x05, 0x05, 1.27),
    (0x06, 0x06, 1.17),
    (0x07, 0x08, 2.3),
    (0x09, 0x09, 1.5),
    (0x0B, 0x0B, 2.15),
    (0x0E, 0x0E, 1.9),
    (0x10, 0x10, 2.2),
    (0x1E, 0x1E, 3.1),
    (0x1F, 0x1F, 2.6),
    (0x20, 0x20, 1.25),
    (0x21, 0x2F, 2.6),
    (0x30, 0x30, 1.17),
    (0x31, 0x33, 2.5),
    (0x4E, 0x9F, 1.58),
    (0xAC, 0xD7, 2.27),
    (0xD8, 0xDF, 1.95),  # surrogates: an emoji has two of them
    (0xF9, 0xFA, 2.0),
    (0xFB, 0xFE, 2.5),
    (0xFF, 0xFF, 1.3),
)
_PRICE_OF = {high: price for first, last, price in _PRICES for high in range(first, last + 1)}

# Letters that share their high byte with cheaper ones, and what they cost beside its price.
_DEAR = re.compile("[\u0490-\u058f\u0671-\u06ff\u0980-\u09ff\u0e80-\u0eff]+")
_DEAR_PRICES = {0x04: 1.7, 0x05: 1.0, 0x06: 1.2, 0x09: 0.65, 0x0E: 1.35}

# -- What is counted of ASCII text -----------------------------------------------------------------
_CAPITALS = bytes(range(65, 91))
_SMALL = bytes(range(97, 123))
_KINDS_OF_CHARACTERS = (b"0123456789", _CAPITALS, _SMALL, b" \t", b"\n\r")
_DIGIT_KIND, _CAPITAL_KIND, _SMALL_KIND, _BLANK_KIND, _BREAK_KIND = b"0", b"A", b"a", b" ", b"\n"
_TO_KINDS = bytes(
    next((kind[0] for kind in _KINDS_OF_CHARACTERS if character in kind), ord("."))
    for character in range(256)
)
"""Translates each character to the first of its kind; all marks are dots."""
_TO_WORDS = bytes(
    ord(chr(character).lower()) if character in _CAPITALS + _SMALL else ord(" ")
    for character in range(256)
)
"""Translates text to its words in small letters, blanks between them."""
_TO_RUNS = bytes(
    character if chr(character).isalnum() or character in b"+/=_-" else ord(" ")
    for character in range(128)
).ljust(256)
"""Translates text to what ids are made of, blanks between them."""
_LONG_RUN = 8
_NON_ASCII = re.compile("[^\x00-\x7f]+")

_KEPT = 500
"""Weights of texts of at most so many characters are kept for a while."""
_SAMPLE = 600
"""So many characters tell whether a text is English."""
_FEW_ENGLISH, _MANY_ENGLISH = 0.10, 0.26
"""Share of words below which a text is not English, and from which on it is."""
_FEW_ACCENTS, _MANY_ACCENTS = 0.02, 0.07
_MARKS_OF_CODE = 0.12
_ENGLISH = frozenset(
    b"a about after all an and any are as at be been before but by can could d did do does don for "
    b"from had has have he hello her hi his how i if in into is it its just ll m me more my no not "
    b"of ok okay on one or our out please s she so some t than thank thanks that the their then "
    b"there this to up ve was we what when which who will with would yes you your".split()
)


def _count(text: str) -> int:
    plain = text.encode("ascii", "ignore")
    foreign = "" if len(plain) == len(text) else "".join(_NON_ASCII.findall(text))
    weight = _weigh_ascii(plain, len(foreign)) + _weigh_foreign(foreign)
    return math.ceil(weight - 1e-9)  # so much of a sum may be an error of its floats


# Kept, since a line that was recalled, or stands in a thread, is counted turn after turn.
_count_kept = lru_cache(maxsize=4096)(_count)


def _weigh_ascii(plain: bytes, accents: int) -> float:
    """Return what words, marks, digits and ids weigh.

    Args:
        plain: The ASCII characters of a text.
        accents: How many others it has: many of them among few letters mean that it is not English.
    """
    kinds = plain.translate(_TO_KINDS)
    digits, capitals = kinds.count(_DIGIT_KIND), kinds.count(_CAPITAL_KIND)
    blanks, breaks = kinds.count(_BLANK_KIND), kinds.count(_BREAK_KIND)
    letters = capitals + kinds.count(_SMALL_KIND)
    marks = len(plain) - digits - letters - blanks - breaks
    price = _find_letter_price(plain, letters, marks, accents)
    weight = letters * price + capitals * _CAPITAL + blanks * _BLANK
    weight += marks * _MARK + breaks * _LINE_BREAK + digits * _DIGIT
    if digits:
        weight += kinds.count(_BLANK_KIND + _DIGIT_KIND) * _BLANK_BEFORE_DIGIT
    if digits or capitals:
        runs = plain.translate(_TO_RUNS).split()
        weight += sum([_weigh_excess(run, price) for run in runs if len(run) >= _LONG_RUN])
    return weight


def _find_letter_price(plain: bytes, letters: int, marks: int, accents: int) -> float:
    """Return what a letter costs: least in English, more in code, most in other languages."""
    words = plain[:_SAMPLE].translate(_TO_WORDS).split()
    share = sum(map(_ENGLISH.__contains__, words)) / len(words) if words else 0.0
    english = _scale(share, _FEW_ENGLISH, _MANY_ENGLISH)
    if 0 < accents < letters:
        english = min(english, 1 - _scale(accents / letters, _FEW_ACCENTS, _MANY_ACCENTS))
    price = _LATIN_LETTER + (_ENGLISH_LETTER - _LATIN_LETTER) * english
    is_code = not accents and marks > _MARKS_OF_CODE * len(plain)
    return min(price, _CODE_LETTER) if is_code else price


def _scale(value: float, low: float, high: float) -> float:
    """Return where a value lies between two others, from 0 to 1."""
    return min(max((value - low) / (high - low), 0.0), 1.0)


def _weigh_excess(run: bytes, letter: float) -> float:
    """Return what a long run weighs beyond its characters, if it is an id or the like."""
    if run.isalpha() and run[1:].islower():  # a long word, as most of them are
        return 0.0
    kinds = run.translate(_TO_KINDS)
    digits, capitals = kinds.count(_DIGIT_KIND), kinds.count(_CAPITAL_KIND)
    small = kinds.count(_SMALL_KIND)
    letters = capitals + small
    is_mixed = 8 * digits >= len(run) and letters > 0
    if not is_mixed and not (capitals > 2 and small > 2 and 5 * capitals > len(run)):  # noqa: PLR2004
        return 0.0
    marks = len(run) - digits - letters
    counted = letters * letter + capitals * _CAPITAL + digits * _DIGIT + marks * _MARK
    return max(len(run) * _CODE_CHARACTER - counted, 0.0)


def _weigh_foreign(foreign: str) -> float:
    """Return what the characters beyond ASCII weigh."""
    highs = foreign.encode("utf-16-le", "surrogatepass")[1::2]
    weight = sum(_PRICE_OF.get(high, _OTHER) * highs.count(high) for high in set(highs))
    dear = _DEAR.findall(foreign)
    return weight + sum(_DEAR_PRICES[ord(run[0]) >> 8] * len(run) for run in dear)
