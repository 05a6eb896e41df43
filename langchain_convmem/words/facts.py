"""What a text states that can be read without understanding it. Pure; takes linear time.

Amounts with their units, numbers, times, dates, ids, links and the names of speakers: that is what
can be listed beside a summary that leaves it out. A text tells a fact if it holds the same in any
notation: 17:00 is 5 pm, 8 May is 2023-05-08, 1,200 euros are 1200 EUR.

Whoever has to choose between sentences also finds here which of them name somebody, promise
something, say what somebody likes, or ask.
"""

# ruff: noqa: E501, RUF001 - words in the letters they are written in

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from langchain_convmem.views.lines import DEFAULT_SPEAKERS
from langchain_convmem.words.dates import MONTH_OF, NAMES_OF_TIMES, WEEKDAY_OF
from langchain_convmem.words.speech import lower_in_place, split_pieces

Kind = Literal[
    "amount", "number", "time", "date", "id", "link", "speaker", "name", "promise", "preference"
]  # fmt: skip
"""What a sentence may hold. Names, promises and preferences only weigh sentences: that a summary
tells them cannot be seen by their letters."""


@dataclass(frozen=True, slots=True)
class FactSource:
    """A text with its place.

    Attributes:
        text: What was said.
        speaker: By whom; empty for what was no dialog line.
        position: Of the entry that says it; 0 for the summary before.
    """

    text: str
    speaker: str = ""
    position: int = 0


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a text states.

    Attributes:
        kind: What it is.
        key: The same for all notations of the same.
        text: As it was said.
        sentence: Where it was said.
        said: Who said it where.
    """

    kind: Kind
    key: str
    text: str
    sentence: str
    said: FactSource


# -- Facts ----------------------------------------------------------------------------------------
def find_facts(texts: Iterable[FactSource]) -> list[Fact]:
    """Return the facts of texts, in order, each key once."""
    found: dict[str, Fact] = {}
    for said in texts:
        for fact in _list_facts(said):
            found.setdefault(fact.key, fact)
    return list(found.values())


def list_points(texts: Sequence[FactSource]) -> Iterator[Fact]:
    """Yield all that makes the sentences of texts worth telling, in order, as often as it is said.

    That is their facts, the names they mention, and whether they promise something or say what
    somebody likes.
    """
    names = _find_names(texts)
    for said in texts:
        for sentence in split_sentences(said.text):
            yield from _read_sentence(sentence, said)
            for word in _WORD.findall(sentence):
                if word[0].isupper() and _strip_ending(word) in names:
                    yield Fact("name", f"name {_strip_ending(word)}", word, sentence, said)
            if is_promise(sentence):
                yield Fact("promise", _fold(sentence), sentence, sentence, said)
            elif is_preference(sentence) and not is_asking(sentence):
                yield Fact("preference", _fold(sentence), sentence, sentence, said)


def find_untold(facts: Sequence[Fact], text: str) -> list[Fact]:
    """Return the facts that a text does not tell, in their order."""
    told = ToldFacts(text)
    return [fact for fact in facts if not told.has_fact(fact)]


class ToldFacts:
    """What a text tells, taken apart once for many facts. Not thread-safe."""

    def __init__(self, text: str = "") -> None:
        """Start with a text."""
        self._keys: set[str] = set()
        self._folded: list[str] = []
        self.add(text)

    def add(self, text: str) -> None:
        """Add a text to what is told."""
        self._folded.append(_fold(text))
        for fact in _list_facts(FactSource(text)):
            self._keys.update(_list_other_keys(fact))

    def has_fact(self, fact: Fact) -> bool:
        """Return whether a fact is told."""
        if fact.kind == "speaker":
            return any(fact.key.removeprefix("speaker ") in text for text in self._folded)
        # An amount without its unit is told; one with another unit is not.
        bare = f"{fact.key.split()[1]} without unit" if fact.kind == "amount" else ""
        return fact.key in self._keys or bare in self._keys


def _list_facts(said: FactSource) -> Iterator[Fact]:
    sentences = split_sentences(said.text)
    if sentences and said.speaker not in ("", "Tool", *DEFAULT_SPEAKERS.values()):
        yield Fact("speaker", f"speaker {_fold(said.speaker)}", said.speaker, sentences[0], said)
    for sentence in sentences:
        yield from _read_sentence(sentence, said)


# -- Reading a sentence ---------------------------------------------------------------------------
_NUMBER = r"(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d+)(?:[.,'\u2019]\d+)*"
_SIGN = r"[%€$£¥₹₽₺₩]"
_YEAR = r"(?:,?\s(?:de )?(?P<year>(?:19|20)\d\d)(?!\d))?"
_MONTH = r"(?P<month>[^\W\d_]{3,})"
# Each begins where a run of its characters does, so that nothing is read again and again.
_LINK = re.compile(r"https?://[^\s<>\"')\]]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_DATES = [
    re.compile(rf"(?<![\d.,:/-]){form}(?![\d:])", re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?)",
        r"(?P<day>\d\d?)[/.](?P<month>\d\d?)[/.](?P<year>(?:\d\d)?\d\d)",
        r"(?:(?P<year>\d{4})[年년]\s?)?(?P<month>\d\d?)[月월]\s?(?P<day>\d\d?)[日号號일]?",
        rf"(?P<day>\d\d?)(?:st|nd|rd|th|er|\.)?\s?(?:of |de |d')?{_MONTH}{_YEAR}",
        rf"(?<!\w){_MONTH}\s(?P<day>\d\d?)(?:st|nd|rd|th)?{_YEAR}(?!\w)",
    )
]
_TIMES = [
    re.compile(rf"(?<![\d.,:]){form}(?![\d:])", re.IGNORECASE)
    for form in (
        r"(?P<hour>\d\d?)(?:[:.](?P<minute>\d\d))?\s?(?P<half>[ap])\.?m\b\.?",
        r"(?P<hour>\d\d?)[:h](?P<minute>\d\d)(?::\d\d)?(?P<half>)",
    )
]
_AMOUNT = re.compile(
    rf"(?P<sign>{_SIGN})?\s?(?<![A-Za-z0-9_.,])(?P<number>[+-]?{_NUMBER})"
    rf"(?:\s?(?P<unit>{_SIGN}|[欧歐]元|ユーロ|유로|[元块円원]|°?[^\W\d_]+))?"
)
_UNIT_NAMES = """
eur € euro euros евро 欧元 歐元 ユーロ 유로 يورو यूरो
usd $ dollar dollars dólares доллар долларов
gbp £ pound pounds quid
jpy yen 円
cny ¥ yuan rmb 元 块
krw ₩ won 원
inr ₹ rupee rupees रुपये
rub ₽ рублей рубля
try ₺ lira
pln zł złotych
% percent pct prozent процентов
kg kilo kilos kilogram kilograms kilogramm
g gram grams gramm
mg milligram milligrams
km kilometre kilometres kilometer kilometers
m metre metres meter meters
cm centimetre centimetres centimeter centimeters
mm millimetre millimetres millimeter millimeters
l litre litres liter liters
ml millilitre millilitres milliliter milliliters
"""
_UNIT_OF = {
    name: row.split()[0] for row in _UNIT_NAMES.strip().splitlines() for name in row.split()
}
_CODE = re.compile(
    r"(?<![\w./#-])(?=[\w/#-]*\d)(?=[\w/#-]*[a-z])[\w#](?:[\w/#-]*\w)", re.IGNORECASE | re.ASCII
)
_BARE_NUMBER = re.compile(rf"(?<![A-Za-z0-9_.,])[+-]?{_NUMBER}(?![A-Za-z0-9_])")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")


def _read_text(match: re.Match[str]) -> str:
    return _fold(match[0]).rstrip(".,;:!?")


def _read_date(match: re.Match[str]) -> str:
    name, day = match["month"].casefold(), int(match["day"])
    month = int(name) if name.isdecimal() else MONTH_OF.get(name, 0)
    if month > 12 >= day:  # noqa: PLR2004 - the month stands first
        month, day = day, month
    if not (1 <= month <= 12 and 1 <= day <= 31):  # noqa: PLR2004
        return ""
    year = match["year"] or ""
    return f"{year if len(year) != 2 else f'20{year}'}-{month}-{day}".lstrip("-")  # noqa: PLR2004


def _read_time(match: re.Match[str]) -> str:
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match["half"].casefold()
    hour = hour % 12 + 12 * (half == "p") if half else hour
    return f"{hour}:{minute:02}" if hour <= 24 and minute < 60 else ""  # noqa: PLR2004


def _read_amount(match: re.Match[str]) -> str:
    said = match["sign"] or match["unit"] or ""
    unit = _UNIT_OF.get(said if len(said) == 1 else said.casefold())  # 4132M is no length
    return f"{_write_number(match['number'])} {unit}" if unit else ""


def _write_number(said: str) -> str:
    """Return a number without what groups its digits, with a point before its fraction."""
    plain = "".join(str(int(one)) if one.isdecimal() else one for one in said).lstrip("+")
    plain = re.sub(r"[ \u00a0\u202f'\u2019]", "", plain)
    groups = re.split(r"[.,]", plain)
    is_grouped = groups[0].strip("-0") != "" and all(len(group) == 3 for group in groups[1:])  # noqa: PLR2004
    if "." in plain and "," in plain:
        is_grouped = False
    elif len(groups) > 2 and not is_grouped:  # noqa: PLR2004 - such as a version
        return plain
    if is_grouped or len(groups) == 1:
        return "".join(groups)
    return f"{''.join(groups[:-1])}.{groups[-1]}".rstrip("0").rstrip(".")


_Reader: TypeAlias = "Callable[[re.Match[str]], str]"
_READERS: tuple[tuple[Kind, re.Pattern[str], _Reader], ...] = (
    ("link", _LINK, _read_text),
    *(("date", pattern, _read_date) for pattern in _DATES),
    *(("time", pattern, _read_time) for pattern in _TIMES),
    ("amount", _AMOUNT, _read_amount),
    ("id", _CODE, _read_text),
    ("number", _BARE_NUMBER, lambda match: _write_number(match[0])),
)


def _read_sentence(sentence: str, said: FactSource) -> list[Fact]:
    """Return the facts in a sentence, by their kinds."""
    found = [
        Fact("date", f"date weekday {WEEKDAY_OF[word.casefold()]}", word, sentence, said)
        for word in _WORD.findall(sentence)
        if len(word) >= _SHORTEST_DAY and word.casefold() in WEEKDAY_OF
    ]
    unread = sentence
    for kind, pattern, read in _READERS:
        for match in pattern.finditer(unread):
            if key := read(match):
                found.append(Fact(kind, f"{kind} {key}", match[0].strip(), sentence, said))
                # What is read as one thing is no other.
                unread = unread[: match.start()] + " " * len(match[0]) + unread[match.end() :]
    return found


def _list_other_keys(fact: Fact) -> Iterator[str]:
    """Yield the keys of what a text tells that holds this fact: a day also without its year."""
    yield fact.key
    said = fact.key.split()[1]
    if fact.kind == "date" and said.count("-") > 1:
        yield f"date {said.partition('-')[2]}"
    elif fact.kind == "amount":
        yield f"number {said}"
    elif fact.kind == "number":
        yield f"{said} without unit"


# -- Sentences ------------------------------------------------------------------------------------
_SHORTEST_DAY = 5
"""Letters of a weekday; shorter ones are other words in some language."""
# A whole sentence, a long one up to a blank in the second half, or as much as a part may have.
_PART = re.compile(r".{1,240}\Z|.{120,239}(?= )|.{240}", re.DOTALL)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text; long ones cut at blanks."""
    places = split_pieces(lower_in_place(text))
    parts = (part for start, end, _ in places for part in _PART.findall(text[start:end]))
    return [bare for part in parts if (bare := part.strip())]


def is_asking(sentence: str) -> bool:
    """Return whether a sentence ends as a question does."""
    return sentence.rstrip().endswith(("?", "？", "؟"))


# -- Names ----------------------------------------------------------------------------------------
_NO_NAMES = frozenset(("i", "i'm", "i've", "i'd", "i'll", "ok", "user", "assistant", "tool"))
_NOUN_SHARE = 0.3
"""Where this share of the words inside sentences is capitalised, capitals say little (German)."""
_ENOUGH_WORDS = 60
"""Fewer words give no share; then a capital counts."""


def _find_names(texts: Sequence[FactSource]) -> frozenset[str]:
    """Return the words that begin with a capital where grammar asks for none, folded."""
    inside = [
        word
        for said in texts
        for sentence in split_sentences(said.text)
        for clause in sentence.split(": ")  # after a colon, too, a capital is grammar
        for word in _WORD.findall(clause)[1:]
        if len(word) > 1
    ]
    upper = [word for word in inside if word[0].isupper()]
    if len(inside) >= _ENOUGH_WORDS and len(upper) > _NOUN_SHARE * len(inside):
        return frozenset()
    speakers = {_strip_ending(word) for said in texts for word in _WORD.findall(said.speaker)}
    return frozenset(map(_strip_ending, upper)) - speakers - _NO_NAMES - NAMES_OF_TIMES


def _strip_ending(word: str) -> str:
    """Return a word, folded, without the ending of what belongs to somebody."""
    return _fold(word).replace("\u2019", "'").removesuffix("'s")


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


# -- Promises and preferences, by how people say such things --------------------------------------
def _compile(words: str) -> re.Pattern[str]:
    lines = filter(None, words.splitlines())
    return re.compile(rf"(?<!\w)(?:{'|'.join(lines)})(?!\w)", re.IGNORECASE)


_OFTEN = r"(?:really |absolutely |also |always |still |just |much |never |only |mostly |usually |simply |totally |quite |so |very |not |more |no longer )*"
_SELF = r"(?:i(?:'m| am)|we(?:'re| are)|is|(?<!if )you(?:'re| are))"
_TASTE = r"(?:like|love|hate|dislike|enjoy|adore|detest|loathe|prefer|fancy|favou?r)"
_PREFERENCE = _compile(rf"""
prefer\w*|favou?rites?|allerg(?:y|ic|ies)|intoleran(?:t|ce)|vegetarians?|vegans?|teetotal\w*|gluten-free
(?:i|we|they|(?<!if )you) {_OFTEN}{_TASTE}|(?:likes|loves|hates|dislikes|enjoys|adores|detests|loathes)
(?:can(?:no|')?t|cannot|couldn't|could not) (?:stand|bear|eat|drink|tolerate|abide)
(?:don't|do not|doesn't|does not) {_OFTEN}(?:{_TASTE}|eat|drink|care for|wear)
(?:i|we|he|she|user) (?:never|only|always) (?:eats?|drinks?|wears?|fl(?:y|ies)|buys?|orders?|takes?|ha(?:s|ve)|choose|picks?|go(?:es)? for|says?|uses?|sits?|sleeps?|gets?|asks? for)
\w+'d (?:rather|sooner)|would (?:rather|sooner)|rather than|fan of|fond of|partial to|(?:mad|crazy|wild) about|soft spot|weakness for|sucker for
{_SELF} {_OFTEN}(?:into|keen on|in love with|sick of|fed up with|an? \w+ person)
nothing beats|of choice|my go-to|(?:my|his|her) (?:thing|cup of tea)|best of all|suits? (?:me|him|her|us)
over .{{1,40}} any day|could .{{1,60}} (?:every day|all day|forever)|makes? (?:me|him|her) (?:sick|gag|happy|ill)
please (?:always|never)|keeps? (?:me|him|her) awake
ich (?:\w+ )?(?:mag|liebe|hasse|bevorzuge|esse|trinke|vertrage|genieße|schwärme)|(?:mag|liebt|hasst|bevorzugt|verabscheut)
allergisch|liebling\w*|lieber|am liebsten|nicht (?:ausstehen|leiden)|steh(?:e|t)? (?:\w+ )?auf|(?:schmeckt|gefällt|gefallen|schmecken) mir|vegetarier\w*|veganer\w*|geht nichts über
préf[éè]r\w*|favori\w*|(?:j'|il |elle |n')(?:aime|adore)|(?:je |il |elle )?déteste|supporte (?:pas|plus)|raffole|plutôt \w+ que|allergique|végétarien\w*|végane?|horreur (?:de|des|du)
prefier\w*|preferid\w*|(?:me|le|nos) (?:gusta\w*|encanta\w*|chifla\w*|apasiona\w*)|odi[oa]|detest[oa]|no (?:lo |la )?soport[oa]|alérgic[oa]|vegetarian[oa]|(?:soy|es) más de
preferi\w*|(?:mi|gli|le) (?:piac\w+)|ador[oa]|non (?:lo |la )?sopport[oa]|allergic[oa]|(?:vado|va) matt[oa] per
""")

_STILL = r"(?:still |also |really |only |first |just )*"
_PROMISE = _compile(rf"""
i'll|i will|we'll|we will|promis(?:e|ed|es|ing)|pledged?|(?:gave|given?) .{{1,30}} (?:my|his|her|their) word|said (?:i|we|he|she|they)(?:'d| would)
remind (?:me|us|him|her|them|you|the user|user)|reminders?|nudge (?:me|us)|(?:don't|do not|must not|mustn't|can't|cannot|never) (?:let (?:me|us) )?forget|remember to
todos?|to-dos?|follow up|get back to you|deadline|due (?:on|by|in)|owes? .{{1,40}}|make sure (?:i|we|to)|see to it
(?:i|user|still) {_STILL}(?:have|has|need|needs|ought) to|(?:i've|i have|i) {_STILL}got to|(?:i|user) {_STILL}(?:must|shall)(?! have)|(?:i'm|i am|user is) {_STILL}(?:supposed|meant|due) to
(?:still )?open for (?:me|us|him|her|the user|user)|(?:i|we|they) agreed (?:that|to [a-z]{{2,}})|undert(?:ake|ook) to|commit(?:s|ted) to
ich (?:\w+ )?(?:werde|muss|soll|darf nicht|schulde)|erinner\w* (?:mich|uns|ihn|sie|daran)|vergiss nicht|nicht vergessen|verspr[oi]ch\w*|zugesagt|frist|sorge dafür
je (?:vais|dois)|rappel\w*[- ](?:moi|nous)|n'oublie\w*|pas oublier|promis|promets|échéance|il (?:me |nous )?faut
voy a|recuérd\w*|no (?:te |me |se )?olvid\w*|prometí|prometo|prometid\w*|tengo que|tenemos que|debo|plazo
ricorda(?:mi|ci|ti|re)|non (?:ti |mi )?dimentic\w*|ho promesso|prometto|promesso|devo|dobbiamo|scadenza
""")

_PERSON = _compile(r"""
i|i'(?:m|ve|d|ll)|me|my|mine|we|us|our|ours|you|your|yours|the user(?:'s)?
ich|mich|mir|mein\w*|wir|uns|unser\w*|du|dich|dir|dein\w*|ihr\w*|je|j'\w+|moi|m[aoe]n?|mes|nous|nos|notre|tu|toi|t[ao]n?|tes|vous|vos|votre
yo|mí|mis?|nosotr[oa]s|nuestr[oa]s?|tus?|usted|io|mi[ao]|miei|mie|noi|nostr[aoie]|tu[ao]|tuoi
""")


_ASIDE = re.compile(
    r"(?<=\w{3}), (?:which|so|but|and|because|although|though|while) .*", re.IGNORECASE
)
"""What a sentence adds to what it tells."""


def is_preference(sentence: str) -> bool:
    """Return whether a sentence says what somebody likes, avoids or cannot take."""
    return _PREFERENCE.search(_fold_apostrophes(sentence)) is not None


def is_promise(sentence: str) -> bool:
    """Return whether a sentence says what somebody has promised, has to do or is to be told of."""
    return _PROMISE.search(_fold_apostrophes(sentence)) is not None


def is_personal(sentence: str) -> bool:
    """Return whether a sentence tells something of those who talk.

    Neither a question does, nor what a tool says, as the beginning of the line tells.
    """
    told = _ASIDE.sub("", _fold_apostrophes(sentence))
    is_talk = not is_asking(sentence) and not sentence.casefold().startswith("tool:")
    return is_talk and _PERSON.search(told) is not None


def _fold_apostrophes(sentence: str) -> str:
    return sentence.replace("\u2019", "'")
