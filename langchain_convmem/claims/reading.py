"""The claims of a sentence: who, what, values, polarity, and who owes, sends or does it. Pure."""

# ruff: noqa: E501, RUF001, SIM905 - words in the letters they are written in

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias

from langchain_convmem.claims.lexicon import Lexicon, Sign, get_lexicon, stem_word
from langchain_convmem.claims.values import Value, ValueReader, get_value
from langchain_convmem.priority import give_way
from langchain_convmem.words.languages import FUNCTION_CHARACTERS

Role: TypeAlias = Literal["agent", "other", "open"]
_PERSONS = ("user", "assistant", "kin", "name", "third")
_SURE = ("user", "assistant", "kin")
_TITLES = frozenset(
    "dr doctor mr mrs ms miss frau herr herrn doktor madame monsieur mme señor señora sr sra signor "
    "signora senhor senhora dona don mevrouw meneer pan pani bay bayan o a os as el la le der die das "
    "den het de the an het il lo gli i".split()
)
_SPLIT = r"[,;:()\u2014\u060c\uff0c\u3001\uff1b]"
_CONJUNCTIONS = {
    "english": "and|but|while|because|although|so|since|whereas|whilst|though", "german": "und|aber|weil|sondern",
    "swedish": "och|men|eftersom|medan", "french": "et|mais", "spanish": "y|pero|sino", "italian": "e|ma", "portuguese": "e|mas",
    "dutch": "en|maar", "russian": "и|а|но", "polish": "i|a|ale", "turkish": "ve|ama", "arabic": "و",
}  # fmt: skip
_TOKEN = re.compile(r"[\ue000-\uf8ff]|[^\W\d_\ue000-\uf8ff]+(?:['-][^\W\d_\ue000-\uf8ff]+)*|\x01")
_EAST = re.compile(
    "[\ue000-\uf8ff]|\x01|[A-Za-z\u00c0-\u024f]+|[\u4e00-\u9fff々]+|[\u30a1-\u30ffー]+"
)
_EAST_NAME = re.compile(
    "([\u4e00-\u9fff\u30a1-\u30ffー]{1,6})(?:さん|くん|君|ちゃん|様|氏)(は|が|に|から|へ|を|の|と)?"
    "|([小老阿](?![时時学區区型心孩子说姐妹哥弟朋费组吃声师板婆公家人年是大外鼠])[\u4e00-\u9fff])(?![\u4e00-\u9fff]?[时時])|((?![据由被让请问和跟给去见看找的我你他她是有在到因而])[\u4e00-\u9fff]{1,2})(?:先生|女士|老师|经理|医生)"
)
_PARTICLES = re.compile("^[\\s]*(は|が|に|から|へ|を|の|と)")
_OBLIQUE = {
    "russian": re.compile(r"(?:[уюеи]|ой|ом|ем|ей|ою)$"),
    "polish": re.compile(r"(?:owi|emu|ie|em|ą|ę|ej)$"),
    "turkish": re.compile(r"'(?:[ae]|y[ae]|d[ae]n|t[ae]n|[ıiuü]|[ny][ıiuü])$"),
}
_DIRECTIONS = frozenset({"debtor", "creditor", "lend"})
_AGAINST = frozenset({"accept", "confirm", "like", "can", "safe", "true"})
_CLITICS = frozenset({"third", "not", "passive", "to"})
_SUBJECTS = frozenset(
    "i i'm i'll i've i'd im ive ill you you're you'll you've he she they ich du er je j' j'ai tu il elle "
    "ils elles yo usted él ella ellos io lui lei loro eu você ele ela eles ik jij je hij zij ze я ты вы "
    "он она они ja ty on ona oni ben sen o jestem soy estoy sou estou أنا انا أنت هو هي 我 我们 俺 你 您 他 她 私 僕 あなた 彼 彼女 "
    "ho abbiamo he hemos tenho temos jag du han hon we we're we've we'll wir nous nosotros noi nós wij мы biz نحن".split()
)
"""Pronouns that may be the subject; other forms and possessives never are."""
_FIRST_PERSON = {
    "spanish": frozenset("debo debía pago pagué pagaba presto presté recibo recibí cobro cobré".split()),
    "italian": frozenset("devo dovevo pago pagavo presto prestavo ricevo incasso".split()),
    "portuguese": frozenset("devo devia pago paguei empresto emprestei recebo recebi".split()),
    "polish": frozenset("pożyczyłem pożyczyłam zapłaciłem zapłaciłam dostałem dostałam płacę".split()),
    "turkish": frozenset(["borçluyum", "ödedim", "ödeyeceğim", "ödüyorum", "borç verdim"]),
}  # fmt: skip
"""Verbs of owing and lending whose form says that the speaker does it."""
_SHORT_DEEDS = frozenset("owe owed lent lend borrowed borrow paid pay".split())
_FRAME = re.compile(
    r"\b(?:the (?:user|assistant) (?:has )?(?:said|says|mention(?:ed|s)|told (?:the assistant|the user)"
    r"|explain(?:ed|s)|report(?:ed|s)|not(?:ed|es)|stat(?:ed|es)|add(?:ed|s)|pointed out) that"
    r"|(?:der nutzer|die nutzerin|der assistent) (?:sagte?|erwähnte?|erklärte?|berichtete?),? dass"
    r"|l'(?:utilisateur|utilisatrice|assistant) (?:a )?(?:dit|explique|expliqué|mentionne|mentionné) qu[e']"
    r"|(?:el usuario|la usuaria|el asistente) (?:dijo|dice|mencionó|explicó|explica) que"
    r"|(?:l'utente|l'assistente) (?:dice|ha detto|spiega|menziona) che"
    r"|(?:o usuário|a usuária|o assistente) (?:disse|diz|mencionou|explicou) que"
    r"|de (?:gebruiker|assistent) (?:zegt|zei|vertelt|vertelde|vermeldt) dat"
    r"|(?:пользователь|ассистент) (?:сказал|говорит|сообщил|упомянул|отметил),? что"
    r"|użytkownik (?:powiedział|mówi|wspomniał),? że)(?!\w)",
    re.IGNORECASE,
)
"""Who reports something is not who does it."""
_CONTRACTED_IS = re.compile(
    r"(?<=[a-z])'s (?=(?:[a-z]+ing|[a-z]+ed|been|got|gone|not|an?|the|in|on|at|from|going|coming)\b)",
    re.IGNORECASE,
)
_FREQUENCIES = {
    language: tuple(
        (re.compile(rf"(?i)(?<!\w)(?:{said})(?!\w)"), word)
        for said, _, word in (pair.partition("=") for pair in rows)
    )
    for language, rows in {
        "english": (
            "(?:every|each) (?:single )?(?:night|day|evening|morning)|nightly=daily", "(?:every|each) week=weekly",
            "(?:every|each) month=monthly", "(?:every|each) year=yearly", "annually=yearly",
        ),
        "german": (
            "jeden (?:tag|abend|morgen)|jede nacht=täglich", "jede woche=wöchentlich", "jeden monat=monatlich",
            "jedes jahr|im jahr=jährlich", "im monat|pro monat=monatlich", "pro woche|die woche=wöchentlich",
        ),
        "french": (
            "(?:chaque|tous les) (?:jours?|soirs?|matins?)|chaque nuit|toutes les nuits=quotidien",
            "chaque semaine|toutes les semaines=hebdomadaire", "chaque mois|tous les mois|par mois=mensuel",
            "chaque année|tous les ans|par an=annuel",
        ),
        "spanish": (
            "(?:cada|todos los|todas las) (?:días?|noches?|mañanas?|tardes?)=diario",
            "(?:cada|todas las) semanas?=semanal", "(?:cada mes|todos los meses|al mes)=mensual",
            "(?:cada año|todos los años|al año)=anual",
        ),
        "italian": (
            "(?:ogni|tutti i|tutte le) (?:giorn[oi]|ser[ae]|mattin[ae])=giornaliero", "ogni settimana=settimanale",
            "ogni mese|al mese=mensile", "ogni anno|all'anno=annuale",
        ),
        "portuguese": (
            "(?:cada|todos os|todas as|todo|toda) (?:dias?|noites?|manhãs?)=diário", "toda semana|todas as semanas=semanal",
            "todo mês|todos os meses|por mês=mensal", "todo ano|todos os anos|por ano=anual",
        ),
        "dutch": (
            "elke (?:dag|avond|ochtend|nacht)=dagelijks", "elke week|per week=wekelijks",
            "elke maand|per maand=maandelijks", "elk jaar|per jaar=jaarlijks",
        ),
    }.items()
}  # fmt: skip
"""How often, in several words and in the one that lists of contrasts know."""
_SHORTEST_STEM = 4
_SHARE_OF_STEM = 0.7


@dataclass(frozen=True, slots=True)
class Item:
    """A word, value or sign of a sentence, in its place.

    Attributes:
        kind: "word", "name", "value", or the kind of a sign.
        key: Its stem, or what it names.
        side: Of an opposite.
        text: As it was said.
        value: What it names.
        role: Of a person, where a particle tells it.
    """

    kind: str
    key: str
    side: int = 0
    text: str = field(default="", repr=False)
    value: Value | None = None
    role: Role = "open"


@dataclass(frozen=True)
class Clause:
    """A stretch of a sentence between commas and conjunctions."""

    items: tuple[Item, ...]
    language: str

    @cached_property
    def denials(self) -> int:
        """0 or 1: whether what is said is denied."""
        kinds = [item.kind for item in self.items]
        return ("not" in kinds) ^ ("without" in kinds)

    @cached_property
    def is_instead(self) -> bool:
        """Whether it names what something else stands for."""
        return any(item.kind == "instead" for item in self.items)

    @cached_property
    def is_set_against(self) -> bool:
        """Whether it names what is not so: denied, disliked, or "instead of" it."""
        sides = sum(side for key, side in self.concepts.items() if key in _AGAINST)
        return self.is_instead or bool((self.denials + sides) % 2)

    @cached_property
    def concepts(self) -> dict[str, int]:
        """The opposites that are named, each with its side; the second where both are."""
        found: dict[str, set[int]] = {}
        for item in self.items:
            if item.kind == "concept":
                found.setdefault(item.key, set()).add(item.side)
        return {key: max(sides) for key, sides in found.items()}

    @cached_property
    def content(self) -> frozenset[str]:
        """What it is about: stems, names, relatives, and values by what they name."""
        kinds = ("word", "name", "kin")
        return frozenset(item.key for item in self.items if item.kind in kinds)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The values that it names."""
        return tuple(item.value for item in self.items if item.value is not None)

    @cached_property
    def names(self) -> frozenset[str]:
        """Words with a capital that grammar does not ask for."""
        return frozenset(item.key for item in self.items if item.kind == "name")

    @cached_property
    def directions(self) -> frozenset[str]:
        """Whether it speaks of owing or paying ("debtor"), or of lending or receiving."""
        return frozenset(item.kind for item in self.items if item.kind in _DIRECTIONS)


@dataclass(frozen=True)
class Claim:
    """A sentence, taken apart. Immutable."""

    text: str = field(repr=False)
    language: str
    speaker: str
    clauses: tuple[Clause, ...]

    @cached_property
    def whole(self) -> Clause:
        """All of it as one clause."""
        return Clause(tuple(self.items), self.language)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """All its items, in order."""
        return tuple(item for clause in self.clauses for item in clause.items)

    @property
    def is_question(self) -> bool:
        """Whether it asks, and so says neither that something is nor that it is not."""
        return self.text.rstrip().endswith(("?", "\uff1f", "\u061f"))

    @cached_property
    def is_denied(self) -> int:
        """0 or 1: whether clauses deny an odd number of times."""
        return sum(clause.denials for clause in self.clauses) % 2


@lru_cache(maxsize=4096)
def read_claim(text: str, language: str, speaker: str = "") -> Claim:
    """Return the claims of a sentence.

    Args:
        text: The sentence.
        language: What it is written in.
        speaker: "user", "assistant" or a name; who "I" is. Empty for a restatement.
    """
    give_way()
    lexicon = get_lexicon(language)
    folded = unicodedata.normalize("NFKC", text).replace("\u2019", "'").replace("\u2018", "'")
    if language == "english":
        folded = _CONTRACTED_IS.sub(" is ", folded)
    reader = ValueReader(folded if speaker else _FRAME.sub("", folded), lexicon)
    marked = _compile_split(language).sub(" \x01 ", _write_frequency(reader.text, language))
    read = _read_spaced if lexicon.is_spaced else _read_unspaced
    items = [_resolve(item, speaker) for item in read(marked, lexicon, reader.values)]
    if speaker:
        items = [part for item in items for part in _add_speaker(item, speaker, language)]
    if speaker and language == "english" and _starts_with_deed(items):
        items.insert(0, _make_person(speaker, role="agent"))
    if speaker and language == "japanese" and _has_unsaid_subject(items):
        items.insert(0, _make_person(speaker, role="agent"))
    return Claim(text, language, speaker, tuple(_cut_clauses(items, language)))


def _write_frequency(text: str, language: str) -> str:
    """Return a text with "every night" in one word, which other frequencies contrast with."""
    for pattern, word in _FREQUENCIES.get(language, ()):
        text = pattern.sub(word, text)
    return text


def _add_speaker(item: Item, speaker: str, language: str) -> Iterator[Item]:
    """Yield an item, after the speaker if the form of the verb alone says that it is them."""
    if item.kind in _DIRECTIONS and item.text.lower() in _FIRST_PERSON.get(language, ()):
        yield _make_person(speaker, role="agent")
    yield item


def _starts_with_deed(items: Sequence[Item]) -> bool:
    """Return whether a sentence leaves out who owes or lends: "owe Sam 20"."""
    return bool(items) and items[0].kind in _DIRECTIONS and items[0].text.lower() in _SHORT_DEEDS


def _has_unsaid_subject(items: Sequence[Item]) -> bool:
    is_told = any(item.role == "agent" for item in items)
    return not is_told and any(item.kind in _DIRECTIONS for item in items)


def _make_person(who: str, *, text: str = "", role: Role) -> Item:
    kind = who if who in ("user", "assistant") else "name"
    return Item(kind, who.lower(), text=text, role=role)


@cache
def _compile_split(language: str) -> re.Pattern[str]:
    words = _CONJUNCTIONS.get(language)
    instead = get_lexicon(language).instead
    parts = [_SPLIT, *([rf"\s(?:{words})\s"] if words else [])]
    return re.compile(
        "|".join([*parts, *([rf"\s(?={instead})"] if instead else [])]), re.IGNORECASE
    )


def _cut_clauses(items: Sequence[Item], language: str) -> Iterator[Clause]:
    part: list[Item] = []
    for item in items:
        if item.kind == "split":
            if part:
                yield Clause(tuple(part), language)
            part = []
        else:
            part.append(item)
    if part:
        yield Clause(tuple(part), language)


def _resolve(item: Item, speaker: str) -> Item:
    """Return the item with the person that "I" and "you" mean."""
    if item.kind == "third":
        return replace(item, key="?", role=_judge_pronoun(item))
    if item.kind not in ("i", "you") or not speaker:
        return item
    others = {"user": "assistant", "assistant": "user"}
    who = speaker if item.kind == "i" else others.get(speaker, "")
    if not who:
        return item
    return _make_person(who, text=item.text, role=_judge_pronoun(item))


def _judge_pronoun(item: Item) -> Role:
    if item.role != "open":
        return item.role
    return "open" if item.text.lower() in _SUBJECTS else "other"


# -- words between blanks -------------------------------------------------------------------------
def _read_spaced(text: str, lexicon: Lexicon, values: list[Value]) -> Iterator[Item]:
    signs: list[tuple[Sign, str]] = []

    def keep(match: re.Match[str]) -> str:
        sign = lexicon.get_sign(match)
        if sign.kind == "skip":
            return " "
        signs.append((sign, match[0]))
        return f" {chr(0xF000 + len(signs) - 1)} "

    if lexicon.phrases is not None:
        text = lexicon.phrases.sub(keep, text)
    is_first = True
    for match in _TOKEN.finditer(text):
        word = match[0]
        number = ord(word[0]) - 0xF000
        if 0 <= number < len(signs):
            sign, said = signs[number]
            yield Item(sign.kind, sign.key, sign.side, said)
        elif (value := get_value(word, values)) is not None:
            yield Item("value", value.kind, value=value, text=value.text)
        elif word == "\x01":
            yield Item("split", "")
        else:
            yield from _read_word(word, lexicon, is_first=is_first)
        is_first = False


def _read_word(word: str, lexicon: Lexicon, *, is_first: bool) -> Iterator[Item]:
    for part in _split_word(word, lexicon.language):
        kind, key, side = _classify_word(part.lower(), lexicon.language)
        is_name = part[0].isupper() and len(part) > 1 and kind == "word"
        if kind == "not" and not is_first and part.istitle():  # Ania, in a case of its own
            kind, key = "word", part.lower()
        if kind:
            yield Item("name" if is_name and not is_first else kind, key, side, part)


def _split_word(word: str, language: str) -> list[str]:
    if "'" not in word:
        return [word]
    if language in ("french", "italian"):
        head, _, tail = word.partition("'")
        return [f"{head}'", tail] if tail and head.lower() != "aujourd" else [word]
    return [word]


@lru_cache(maxsize=50_000)
def _classify_word(word: str, language: str) -> tuple[str, str, int]:
    """Return the kind, key and side of a lowercase word; no kind where it carries no claim."""
    lexicon = get_lexicon(language)
    match = lexicon.pattern.fullmatch(word) or (
        lexicon.pattern.fullmatch(word.removesuffix("'s")) if language == "english" else None
    )
    if match is not None:
        sign = lexicon.get_sign(match)
        return ("", "", 0) if sign.kind == "skip" else (sign.kind, sign.key, sign.side)
    bare = word.removesuffix("'s") if language != "turkish" else word.partition("'")[0]
    if bare in lexicon.function_words or bare in _TITLES or bare.endswith("'") or len(bare) < 2:  # noqa: PLR2004
        return "", "", 0
    key = stem_word(bare, language)
    return "word", lexicon.synonyms.get(key, key), 0


# -- words without blanks -------------------------------------------------------------------------
def _read_unspaced(text: str, lexicon: Lexicon, values: list[Value]) -> Iterator[Item]:
    items: list[Item] = []

    def keep(item: Item) -> str:
        items.append(item)
        return f" {chr(0xF000 + len(items) - 1)} "

    def keep_name(match: re.Match[str]) -> str:
        name = match[1] or match[3] or match[4]
        return keep(Item("name", name, text=name, role=_read_particle(match[2] or "")))

    def keep_sign(match: re.Match[str]) -> str:
        sign = lexicon.get_sign(match)
        if sign.kind == "skip":
            return " "
        after = _PARTICLES.search(match.string[match.end() : match.end() + 3])
        role = _read_particle(after[1]) if after else "open"
        return keep(Item(sign.kind, sign.key, sign.side, match[0], role=role))

    text = lexicon.pattern.sub(keep_sign, _EAST_NAME.sub(keep_name, text))
    for match in _EAST.finditer(text):
        run = match[0]
        number = ord(run[0]) - 0xF000
        if 0 <= number < len(items):
            yield items[number]
        elif (value := get_value(run, values)) is not None:
            yield Item("value", value.kind, value=value, text=value.text)
        elif run == "\x01":
            yield Item("split", "")
        else:
            yield from _split_run(run, lexicon.language)


def _read_particle(particle: str) -> Role:
    if particle in ("は", "が"):
        return "agent"
    return "other" if particle in ("に", "から", "へ", "を") else "open"


def _split_run(run: str, language: str) -> Iterator[Item]:
    if language == "japanese" or "a" <= run[0].lower() <= "z":
        yield Item("word", run.lower(), text=run)
        return
    parts = re.split(f"[{''.join(FUNCTION_CHARACTERS)}]", run)
    for part in filter(None, parts):
        if len(part) < 3:  # noqa: PLR2004
            yield Item("word", part, text=part)
        else:
            yield from (
                Item("word", part[at : at + 2], text=part[at : at + 2])
                for at in range(len(part) - 1)
            )


# -- who does it ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Cast:
    """Who is named in a clause, each with the part that grammar gives them."""

    clause: Clause
    roles: dict[str, Role]

    @cached_property
    def agent(self) -> str:
        """Who does it; empty where nobody can be told, "?" for a pronoun."""
        agents = [who for who, role in self.roles.items() if role == "agent"]
        if agents:
            return agents[0]
        kinds = {item.kind for item in self.clause.items}
        if {"passive", "by"} <= kinds and self.clause.language != "german":
            return ""
        return next((who for who, role in self.roles.items() if role == "open"), "")

    @cached_property
    def debtor(self) -> str:
        """Who owes or pays, or has borrowed; empty if that cannot be told."""
        others = [who for who in self.roles if who not in (self.agent, "?")]
        if not others and "?" in self.roles and self.agent != "?":
            others = ["?"]
        if not self.agent:
            return ""
        sure = {item.key or item.kind for item in self.clause.items if item.kind in _SURE}
        is_certain = "lend" in self.clause.directions or self.clause.names.isdisjoint(others)
        if is_certain and len(others) > 1 == len(sure.intersection(others)):
            others = [who for who in others if who in sure]
        other = others[0] if len(others) == 1 else ""
        directions = self.clause.directions
        if "lend" in directions:
            kinds = {item.kind for item in self.clause.items}
            is_agent = not kinds.isdisjoint(("by", "from")) and "passive" not in kinds
        elif "creditor" in directions:
            is_agent = False
        else:
            is_agent = self.roles[self.agent] == "agent" or not self._is_owed
        return self.agent if is_agent else other

    def is_named(self, who: str) -> bool:
        """Return whether somebody is a person or has a name, rather than being any word."""
        return any(
            item.kind in _PERSONS and (item.key or item.kind) == who for item in self.clause.items
        )

    @property
    def _is_owed(self) -> bool:
        """Whether somebody is owed something, rather than owes it."""
        kinds = [item.kind for item in self.clause.items]
        return self.clause.language == "english" and any(
            one == "passive" and two == "debtor" for one, two in pairwise(kinds)
        )


def find_cast(clause: Clause, names: frozenset[str]) -> Cast:
    """Return who is named in a clause.

    Args:
        clause: The clause.
        names: Known ones, which count at the start of a sentence, too.
    """
    clause = _merge_names(clause, names)
    known = [
        item
        for item in clause.items
        if item.kind not in ("word", "third") or item.key in names or not names
    ]
    roles = dict(_find_roles(known, clause.language, names))
    if len(roles) < 2 or not names:  # noqa: PLR2004
        roles = dict(_find_roles(clause.items, clause.language, names))
    return Cast(clause, roles)


def _merge_names(clause: Clause, names: frozenset[str]) -> Clause:
    """Return a clause in which the cases of a name have one key: "Magda", "Magdzie"."""
    if clause.language not in _OBLIQUE or not names:
        return clause
    items = [
        replace(item, key=_find_name(item.key, names)) if item.kind in ("word", "name") else item
        for item in clause.items
    ]
    return Clause(tuple(items), clause.language)


def _find_name(key: str, names: frozenset[str]) -> str:
    """Return the first of the names that a key may be a case of; the key if there is none."""
    alike = [name for name in names if _is_case_of(*sorted((key, name), key=len))]
    return min(alike, default=key)


def _is_case_of(short: str, long: str) -> bool:
    count = max(_SHORTEST_STEM - 1, len(short) - 1)
    return len(long) <= len(short) + 2 and short[:count] == long[:count]


def _find_roles(
    items: Sequence[Item], language: str, names: frozenset[str]
) -> Iterator[tuple[str, Role]]:
    passive = any(item.kind == "passive" for item in items)
    seen: set[str] = set()
    mark = ""
    previous = ""
    for number, item in enumerate(items):
        if item.kind in ("by", "from", "to"):
            mark = item.kind
            continue
        is_person = item.kind in _PERSONS or (item.kind == "word" and item.key in names)
        if not is_person and not _is_next_to_verb(items, number):
            mark, previous = "", item.kind
            continue
        who = item.key or item.kind
        is_surname = item.kind == previous == "name" and item.role == "open" and not mark
        if who not in seen and not is_surname:
            seen.add(who)
            yield who, _judge_role(item, mark, language, passive=passive)
        mark, previous = "", "name" if is_person and item.kind == "word" else item.kind


def _is_next_to_verb(items: Sequence[Item], number: int) -> bool:
    """Return whether a word stands where the verbs of owing and lending have their persons."""
    if items[number].kind != "word":
        return False
    before = [item.kind for item in items[:number] if item.kind not in _CLITICS]
    after = [item.kind for item in items[number + 1 :] if item.kind not in _CLITICS]
    near = before[-1:] + after[:1]
    return not _DIRECTIONS.isdisjoint(near)


def _judge_role(item: Item, mark: str, language: str, *, passive: bool) -> Role:
    if item.role != "open":
        return item.role
    if item.text.lower().endswith("'s") or (item.kind == "user" and item.text.lower() == "nutzers"):
        return "other"
    if mark == "by" and passive:
        return "agent"
    if mark:
        return "other"
    pattern = _OBLIQUE.get(language)
    if language == "turkish" and _is_turkish_object(item):
        pattern = _ANY
    if pattern is not None and item.text and pattern.search(item.text.lower()):
        return "other"
    return "open"


_ANY = re.compile("")


def _is_turkish_object(item: Item) -> bool:
    """Return whether a person stands in a case of Turkish that no subject has."""
    ending = {
        "user": r"(?:n[ıi]n|y[ae]|y[ıi]|d[ae]n)$",
        "kin": r"(?:s[ıiuü]n[ae]|nd[ae]n|m[ae]|md[ae]n|n[ıiuü]n)$",
    }
    pattern = ending.get(item.kind)
    return bool(pattern and re.search(pattern, item.text.lower()))


# -- alike ----------------------------------------------------------------------------------------
@lru_cache(maxsize=100_000)
def is_same_stem(one: str, two: str) -> bool:
    """Return whether two stems are those of one word, as far as their beginnings tell."""
    if one == two:
        return True
    shorter, longer = sorted((one, two), key=len)
    if len(shorter) < _SHORTEST_STEM:
        return False
    need = max(_SHORTEST_STEM, int(len(longer) * _SHARE_OF_STEM + 0.5))
    return longer[:need] == shorter[:need]
