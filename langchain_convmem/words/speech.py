"""What kind of utterance a text is: who a question is about, and what a line does. Pure.

A text is split into sentences and clauses; the start of a clause identifies a question, a request
and a statement apart, in the languages that `phrases.json` has. Of any other language nothing is
recognised: no mark, nobody meant, every sentence kept.
"""

# ruff: noqa: RUF001, E501 - letters of the languages themselves

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias

from langchain_convmem.words.languages import get_function_words, list_languages

Mark: TypeAlias = Literal["instructs", "asks", "ignorant", "courtesy"]


class Persons(NamedTuple):
    """Who a question is about when a user asks an assistant.

    Attributes:
        asker: The user is meant: "Which pets do I have?", but not "Tell me about pets".
        listener: What the assistant said earlier is meant: "What did you recommend?".
        subject_open: Nobody is named, in a language that usually leaves out the subject.
    """

    asker: bool = False
    listener: bool = False
    subject_open: bool = False


# -- questions ---------------------------------------------------------------------------------

# Of what opens and is never closed, each opening sign ends the search for the one before it.
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|(?<!\d)\"[^\"]*\"|\u201c[^\u201c\u201d]*\u201d"
    r"|\u201e[^\u201c-\u201e]*[\u201c\u201d]|\u00ab[^\u00ab\u00bb]*\u00bb|\u300c[^\u300c\u300d]*\u300d"
    r"|(?<!\w)'[^'\n]++(?:'\w[^'\n]*+){0,8}'(?!\w)",
    re.DOTALL,
)
_UNSPACED_LANGUAGES = frozenset({"chinese", "japanese", "korean"})
_COUNTRY = re.compile(r"\bUS\b")
_LONGEST_FOLLOW_UP = 6


@lru_cache(maxsize=256)
def find_persons(text: str) -> Persons:
    """Return who a question is about.

    Args:
        text: What a user asks; quoted passages in it are about nobody.
    """
    asked, _, forms = _normalize_question(text)
    if forms is None:
        return Persons()
    # Only where somebody says "I" it matters which phrases do not mean it.
    own = forms.first_person
    means_asker = own.search(asked) and own.search(forms.unmeant.sub(" ", asked))
    asker = bool(means_asker or forms.favour.search(asked))
    listener = bool(forms.listener.search(asked))
    return Persons(asker, listener, forms.drops_subject and not asker and not listener)


@lru_cache(maxsize=16)
def _normalize_question(text: str) -> tuple[str, list[str], Forms | None]:
    """Return a question in lowercase without what it quotes, its words, and its language."""
    return _read_lowered(_COUNTRY.sub("U.S.", _QUOTED.sub(" \u2026 ", text)))


def _read_lowered(text: str) -> tuple[str, list[str], Forms | None]:
    """Return a text in lowercase, its words, and the phrases of its language."""
    lowered = lower_in_place(text)
    words = split_words(lowered)
    return lowered, words, get_forms(list_spoken_languages(lowered, words)[0])


@lru_cache(maxsize=256)
def is_follow_up(text: str) -> bool:
    """Return whether a message is too short to be understood alone: "and hers?"."""
    asked, words, forms = _normalize_question(text)
    if forms is None:
        return False
    message = asked.strip(" \t\r\n?!.,;:…？！。¿¡")
    if not message:
        return "?" in asked or "\uff1f" in asked
    if forms.follow_up.fullmatch(message):
        return True
    known = () if forms.language in _UNSPACED_LANGUAGES else get_function_words(forms.language)
    return (
        "\u2026" not in asked
        and 0 < len(words) <= _LONGEST_FOLLOW_UP
        and all(word in known for word in words)
        and not find_persons(text).asker
    )


def find_questions(text: str) -> list[tuple[int, int]]:
    """Return where the sentences of a message stand that ask or request something, in order.

    Pasted text asks nothing, whatever stands in it.

    Args:
        text: A message. In a language that is not recognised, sentences with a question mark ask.
    """
    lowered, _, forms = _read_lowered(text)
    return [
        (start, end)
        for start, end, is_pasted in split_pieces(lowered)
        if not is_pasted and _is_question(lowered[start:end], forms)
    ]


def _is_question(sentence: str, forms: Forms | None) -> bool:
    if is_courtesy(sentence):
        return False
    if _ENDS_ASKING.search(sentence):
        return True
    return forms is not None and (
        _judge_sentence(sentence, forms) in ("asks", "mixed")
        or any(kind == "request" for kind, _ in _classify_clauses(sentence, forms))
    )


# -- lines -------------------------------------------------------------------------------------

_LONGEST_IGNORANCE = 300
_LONGEST_WITH_OFFERS = 600


def find_mark(text: str) -> Mark | None:
    """Return what a stored line or segment of one does; None for nothing of these.

    "instructs": it holds an instruction for the future, or what is to be kept in mind.
    "asks": it holds questions and requests, and nothing is stated.
    "ignorant": a short reply that knows nothing, or refuses.
    "courtesy": a greeting, thanks, assent or goodbye, and nothing else.

    Args:
        text: The line, whoever said it.
    """
    if is_courtesy(text):
        return "courtesy"
    lowered, _, forms = _read_lowered(text)
    if forms is None:
        return None
    if _is_ignorant(lowered, forms):
        return "ignorant"
    found = {_judge_sentence(lowered[start:end], forms) for start, end, _ in split_pieces(lowered)}
    if "lasts" in found:
        return "instructs"
    return "asks" if found - {""} == {"asks"} else None


def find_statements(text: str) -> list[tuple[int, int]]:
    """Return where the sentences of a text stand that state something, in order.

    A sentence that holds both a statement and a question is kept; so is pasted text.

    Args:
        text: A message. In a language that is not recognised, all its sentences are returned.
    """
    if is_courtesy(text):
        return []
    lowered, _, forms = _read_lowered(text)
    return [
        (start, end)
        for start, end, is_pasted in split_pieces(lowered)
        if is_pasted or forms is None or _is_statement(lowered[start:end], forms)
    ]


def _is_statement(sentence: str, forms: Forms) -> bool:
    return _judge_sentence(sentence, forms) not in ("asks", "") and not is_courtesy(sentence)


def _is_ignorant(lowered: str, forms: Forms) -> bool:
    """Return whether a reply begins with what is not known, and adds nothing of substance."""
    beginning = lowered[:_LONGEST_IGNORANCE]
    if len(lowered) > _LONGEST_WITH_OFFERS or not _has_no_answer(beginning, forms):
        return False
    first, *rest = split_pieces(lowered)
    return not _YET.search(lowered, first.start, first.end) and all(
        _is_filler(lowered[piece.start : piece.end], forms) for piece in rest
    )


# "I don't know the date, but your appointment is in May."
_YET = re.compile(
    r"\b(?:but|however|though|aber|jedoch|mais|pero|ma|mas|maar|но)\b(?! (?:i|i'd|i'm|i'll|if|you can|you could"
    r"|you're welcome|feel|let|please|happy|ich|wenn|du kannst|sie können|je|si|puedo|puedes|posso|se"
    r"|puoi|ik|als|je kunt|я|если)\b)|\u4f46|\u3067\u3059\u304c|\u0644\u0643\u0646"
)


def _has_no_answer(sentence: str, forms: Forms) -> bool:
    begin = forms.opening.match(sentence)
    return forms.ignorant.match(sentence, begin.end() if begin else 0) is not None


def _is_filler(sentence: str, forms: Forms) -> bool:
    adds_nothing = _has_no_answer(sentence, forms) or forms.offer.search(sentence)
    return bool(adds_nothing) or _judge_sentence(sentence, forms) in ("asks", "mixed", "")


# -- clauses -----------------------------------------------------------------------------------

Kind: TypeAlias = Literal["standing", "request", "question", "condition", "own", "says", "fragment"]
_CLAUSE_END = re.compile(
    # What holds things together, too, ends a clause before a blank: "10,000", "17:00", "e-mail".
    r"[,;:](?=\s)|(?<=\s)-(?=\s)|[\uff0c\uff1b\uff1a\u3001\u060c\u061b\u2014\u2013]"
)
_ENDS_ASKING = re.compile(r"[?\uff1f\u061f][\s!?.\"'\u201d\u2019\u00bb)\u300d]*\Z")
_NOUNS = frozenset({"name", "word"})
# What looks like a question and belongs to a noun: "Elsie, who will be ten".
_RELATIVE = re.compile(
    r"(?:who|whom|whose|which|where|qui|dont|que|quien|donde|che|cui|quem|onde|wie|waar|котор\w+)\b"
)
_WHENEVER = re.compile(
    r"(?:when|whenever|every time|each time|any ?time|once|wenn|sobald|quand|lorsque|cuando|quando"
    r"|als|wanneer|когда|عندما|لما)\b"
)
_HYPOTHETICAL = re.compile(
    r"(?:if|when|whenever|while|unless|until|whether|once|wenn|falls|ob|sobald|si|s'il|quand|lorsque"
    r"|cuando|se|quando|als|wanneer|если|когда|чтобы|إذا|لو|عندما)\b"
)
_SUBJECT = re.compile(
    r"(?:\b(?:i|i'm|i've|i'll|we|we're|we've|ich|wir|je|nous|yo|nosotros|io|noi|eu|nós|ik|wij|я|мы|أنا"
    r"|bevo|vado|vorrei|voglio|quiero|tengo|voy|vou|tenho|quero)\b|\bj')"
)
_LONGEST_COURTESY = 25
_SHORTEST_RUN_ON = 12


_Act: TypeAlias = Literal["lasts", "own", "says", "mixed", "asks", ""]


def _judge_sentence(sentence: str, forms: Forms) -> _Act:
    """Return what a sentence does: "own" states in the first person, "mixed" asks after a name.

    "lasts" is an instruction for the future.

    Args:
        sentence: In lowercase.
        forms: The phrases of its language.
    """
    is_question = _ENDS_ASKING.search(sentence) is not None
    clauses = list(_classify_clauses(sentence, forms))
    found: set[str] = set()
    before = ""
    for number, (kind, clause) in enumerate(clauses):
        asked = "asks" in found
        if is_question and number == len(clauses) - 1:
            found.add("asks")
        elif kind in ("question", "request", "standing"):
            found |= _judge_asking(kind, clause, before, found, forms, is_question=is_question)
        elif kind == "condition" and not asked:
            found.add(_judge_condition(clause))
        elif kind == "own" and (not asked or forms.heads["own"].match(clause)):
            found.add("own")
        elif kind == "says" and (not asked or forms.says_early.match(clause)):
            found.add("says")
        elif not asked:
            found.add("name" if " " in clause else "word")
        before = clause if kind == "condition" else ""
    if found & {"lasts", "own", "says"}:
        return "lasts" if "lasts" in found else "own" if "own" in found else "says"
    if "asks" in found:
        return "mixed" if "name" in found else "asks"
    return "own" if "hypothesis" in found else "says" if found else ""


def _judge_asking(
    kind: Kind, clause: str, before: str, found: set[str], forms: Forms, *, is_question: bool
) -> set[str]:
    # "When I ask, answer in French" holds for good.
    lasts = kind == "standing" or (kind == "request" and _WHENEVER.match(before))
    if lasts and not is_question:
        return {"lasts"}
    if kind == "question" and not is_question and found & _NOUNS and _RELATIVE.match(clause):
        return {"asks", "says"}
    # What is dictated runs on without punctuation.
    is_long = clause.count(" ") + 1 >= _SHORTEST_RUN_ON
    run_on = forms.run_on.search(clause) if is_long else None
    if run_on is None:
        return {"asks"}
    return {"asks", "own" if forms.first_person.search(clause, run_on.start()) else "says"}


def _judge_condition(clause: str) -> str:
    is_hypothesis = _HYPOTHETICAL.match(clause) is not None
    if _SUBJECT.search(clause):
        return "hypothesis" if is_hypothesis else "own"
    return "supposed" if is_hypothesis else "word"


def _classify_clauses(sentence: str, forms: Forms) -> Iterator[tuple[Kind, str]]:
    """Yield the clauses of a sentence without what opens and ends them, each with its kind."""
    for part in _CLAUSE_END.split(sentence):
        begin = forms.opening.match(part)
        clause = part[begin.end() if begin else 0 :].rstrip(forms.endings)
        if HAS_WORD.search(clause) and (
            len(clause) >= _LONGEST_COURTESY or not is_courtesy(clause)
        ):
            yield _classify_clause(clause, forms), clause


def _classify_clause(clause: str, forms: Forms) -> Kind:
    for kind in _HEADS:
        if forms.heads[kind].match(clause):
            return kind
    if forms.first_person.search(clause):
        return "own"
    return "says" if forms.finite.search(clause) else "fragment"


# -- the phrases of a language, compiled, and the language of a text ---------------------------


_HEADS: tuple[Kind, ...] = ("standing", "request", "question", "condition", "own")
_ENDINGS = " \t\r\n.!\u2026\u3002\uff01\"'\u201d\u300d)"


@cache
def load_phrases() -> Mapping[str, Mapping[str, Any]]:
    """Return the phrases of every language that is recognised, by its name; read once."""
    data: Mapping[str, Any] = json.loads(
        files(__package__).joinpath("phrases.json").read_text("utf-8")
    )
    return data


class Forms:
    """The phrases of one language, compiled.

    `phrases.json` has lists of alternatives, each a regular expression over text in lowercase.

    Attributes:
        language: Its name.
        heads: What a clause begins with, by its kind: "standing" is an instruction for the future,
            "request" an imperative or a question that asks to do something, "condition" a
            subordinate clause, "own" one about the person who speaks.
        opening: A word before the clause proper begins.
        first_person: Anywhere: the person who speaks is meant.
        finite: Anywhere: a verb that makes a clause of a few words.
        says_early: The same among the first few words.
        ignorant: The beginning of a reply that knows nothing or refuses.
        offer: Anywhere: a sentence that such a reply may add.
        run_on: Anywhere in a long clause without punctuation: a statement after a request.
        listener: Anywhere in a question: what the one who is asked said earlier.
        unmeant: Anywhere in a question: a first person that belongs to the request's form alone.
        favour: Anywhere in a question: a request that concerns the asker's own life.
        follow_up: The whole of a message that cannot be understood alone.
        drops_subject: Whether a sentence usually leaves out who does something.
        endings: What may end a clause without adding information.
    """

    def __init__(self, language: str, phrases: Mapping[str, Any]) -> None:
        """Compile the phrases of a language; what it has none of is found nowhere."""

        def join(name: str) -> str:
            return f"(?:{'|'.join(phrases.get(name, ['(?!)']))})"

        def compile_lines(name: str) -> re.Pattern[str]:
            return re.compile(join(name))

        self.language = language
        self.heads = {kind: compile_lines(kind) for kind in _HEADS}
        # Possessive, since no opening begins with a sign: without one, nothing is tried again.
        self.opening = re.compile(rf"(?:\W*+{join('opening')}(?![\w']))*+\W*+")
        self.first_person, self.finite = compile_lines("first_person"), compile_lines("finite")
        self.says_early = re.compile(rf"(?:[^\s]+ ){{0,4}}?{join('finite')}")
        self.run_on = compile_lines("run_on")
        self.ignorant, self.offer = compile_lines("ignorant"), compile_lines("offer")
        self.listener, self.unmeant = compile_lines("listener"), compile_lines("unmeant")
        self.favour, self.follow_up = compile_lines("favour"), compile_lines("follow_up")
        self.drops_subject = bool(phrases.get("drops_subject"))
        self.endings = _ENDINGS + "?\uff1f" if self.drops_subject else _ENDINGS


@cache
def get_forms(language: str) -> Forms | None:
    """Return the phrases of a language; None if it is not recognised."""
    phrases = load_phrases().get(language)
    return None if phrases is None else Forms(language, phrases)


_SCRIPTS = {
    "latin": re.compile("[a-z\u00df-\u024f]"),
    "japanese": re.compile("[\u3041-\u30ff\uff66-\uff9f]"),
    "chinese": re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"),
    "korean": re.compile("[\uac00-\ud7af\u1100-\u11ff]"),
    "russian": re.compile("[\u0400-\u04ff]"),
    "arabic": re.compile("[\u0600-\u06ff]"),
    "": re.compile("[\u0370-\u03ff\u0590-\u05ff\u0900-\u109f\u1780-\u17ff]"),
}
"""The letters of scripts by a language that is written in them; those of no known one as ""."""
# One character of a script without blanks says about as much as so many letters.
_LETTERS_PER_CHARACTER = 3
_FEW_WORDS = 8


def list_spoken_languages(lowered: str, words: list[str]) -> list[str]:
    """Return what a text may be written in: by its script, or by its function words if Latin."""
    if not lowered.isascii() and (script := _detect_script_language(lowered)) is not None:
        return [script]
    # Few words tell little: "la" and "a" are words of several languages.
    marks = _load_markers() if len(words) <= _FEW_WORDS else []
    return [name for name, sign in marks if sign.search(lowered)] + list_languages(words)


def _detect_script_language(lowered: str) -> str | None:
    """Return the language of the script that most of a text is in; None if that is Latin."""
    counts = {name: len(letters.findall(lowered)) for name, letters in _SCRIPTS.items()}
    if counts["japanese"]:
        counts["japanese"] += counts.pop("chinese")  # kana stand between Han characters
    for name in _UNSPACED_LANGUAGES & counts.keys():
        counts[name] *= _LETTERS_PER_CHARACTER
    most = max(counts, key=counts.__getitem__)
    return None if most == "latin" else most


@cache
def _load_markers() -> list[tuple[str, re.Pattern[str]]]:
    marked = ((name, phrases.get("markers")) for name, phrases in load_phrases().items())
    return [(name, re.compile("|".join(signs))) for name, signs in marked if signs]


def lower_in_place(text: str) -> str:
    """Return the text in lowercase with plain apostrophes, every character in its place."""
    lowered = text.lower().replace("\u2019", "'")
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_ASCII_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


def split_words(lowered: str) -> list[str]:
    """Return the words of a lowercase text, in order."""
    return (_ASCII_WORD if lowered.isascii() else _WORD).findall(lowered)


# -- the sentences of a text, and what is pasted into it ---------------------------------------

# A line that begins like a letter, after the request to work on it, opens the letter itself. A
# sign of inches, or one that ends a quotation, opens none.
_PASTED = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*|(?<![\da-z.!?,;)\]}])\"(?!\s)[^\"]{60,}\""
    r"|\u201c[^\u201c\u201d]{60,}\u201d|\u201e[^\u201c-\u201e]{60,}[\u201c\u201d]"
    r"|\u00ab[^\u00ab\u00bb]{60,}\u00bb|\u300c[^\u300c\u300d]{30,}\u300d|^'(?:[^']|(?<=\w)'(?=\w))+'"
    r"|(?<=\n)(?:dear|sehr geehrte\w*|lieber?|ch[eè]re?s?|madame|monsieur|estimad[oa]s?|querid[oa]s?"
    r"|gentil[ei]|car[oa]|egregi[oa]|prezad[oa]s?|beste|geachte|уважаем\w+)\b[^\n]{1,60},[ \t]*\n.*",
    re.DOTALL | re.MULTILINE,
)
_PASTE_SIGNS = re.compile('[`>"\u201c\u201e\u00ab\u300c\n]')
_BOUNDARY = re.compile(
    "[.!?\u2026\u3002\uff01\uff1f\u061f\n]+[\"'\u201d\u2019\u00bb)\\]*_\u300d\u300f]*"
)
_ENDS_UNSPACED = frozenset("\n\u3002\uff01\uff1f\u061f")
# What stands before a period that ends no sentence: a title, an initial, a number, "e.g.".
_ABBREVIATED = re.compile(
    r"(?:^|[\s(])(?:mr|mrs|ms|dr|prof|st|vs|no|nr|approx|etc|bzw|ca|usw|mme|mlle|m|sr|sra|srta|sig|"
    r"dott|ing|avv|ул|д|г|\d{1,2}|[^\W\d_](?:\.[^\W\d_])*)\.$"
)


class SentenceSpan(NamedTuple):
    """A sentence or a pasted passage, by where it stands."""

    start: int
    end: int
    is_pasted: bool


def split_pieces(lowered: str) -> Iterator[SentenceSpan]:
    """Yield the sentences of a text and what is pasted into it, in order, without blanks."""
    start = 0
    if _PASTE_SIGNS.search(lowered):
        for pasted in _PASTED.finditer(lowered):
            yield from _split_sentences(lowered, start, pasted.start())
            yield from _trim(lowered, pasted.start(), pasted.end(), is_pasted=True)
            start = pasted.end()
    yield from _split_sentences(lowered, start, len(lowered))


def _split_sentences(lowered: str, start: int, end: int) -> Iterator[SentenceSpan]:
    for boundary in _BOUNDARY.finditer(lowered, start, end):
        marks, stop = boundary[0], boundary.end()
        ends = lowered[stop : stop + 1].isspace() or not _ENDS_UNSPACED.isdisjoint(marks)
        if ends and not (
            marks == "." and _ABBREVIATED.search(lowered, max(start, stop - 12), stop)
        ):
            yield from _trim(lowered, start, stop)
            start = stop
    yield from _trim(lowered, start, end)


def _trim(lowered: str, start: int, end: int, *, is_pasted: bool = False) -> Iterator[SentenceSpan]:
    bare = lowered[start:end].lstrip()
    if HAS_WORD.search(bare):
        start = end - len(bare)
        yield SentenceSpan(start, start + len(bare.rstrip()), is_pasted)


HAS_WORD = re.compile(r"\w")


# -- greetings, thanks, assent and goodbyes, which ask for nothing and state nothing -----------

# More words than these are hardly thanks alone.
_MOST_WORDS = 16
_LONGEST = 300
_WORDS = """
thanks thank thx ty tysm tnx ta cheers ok okay okey okie kk k hi hello hey hiya heya yo howdy bye byebye goodbye
goodnight morning afternoon evening night great cool nice nicely perfect perfectly sure yes yeah yep yup yea ya no nope nah
please pls plz welcome sorry wow lol lmao haha hehe hah ha awesome amazing excellent brilliant lovely wonderful
fantastic super fabulous gorgeous neat sweet superb good fine alright agreed understood noted exactly absolutely
definitely certainly indeed right correct gotcha appreciated helpful useful hooray yay cya ttyl congrats greetings
worked sorted splendid marvellous terrific smashing brill outstanding obliged appreciate helped bless charm
phew namaste ahoy magnifique grüß wonderfully beautifully oh ah aha hm hmm mhm oops omg gn gm ace deal
danke dankeschön vielen besten herzlichen bitte hallo hi moin servus tschüss tschüs ciao guten gute morgen
abend nacht schön schönen super gut ok okay genau toll klasse perfekt prima alles klar wunderbar ja nein jo nö
wiedersehen passt stimmt
merci beaucoup bonjour bonsoir salut revoir bonne nuit plaît plait parfait bien coucou super génial
d'accord dac oui non excellente journée soirée bravo impeccable entendu
gracias muchas muchísimas hola adiós adios buenos buenas días dias tardes noches vale perfecto favor genial
claro sí listo estupendo excelente chao saludos órale
grazie mille prego ciao buongiorno buonasera buonanotte perfetto bene ottimo salve arrivederci certo sì
d'accordo capito grande fantastico
obrigado obrigada olá ola oi tchau bom boa dia tarde noite ótimo otimo beleza valeu perfeito certo sim não
dank bedankt dankjewel dankje hoi doei goedemorgen goedemiddag goedenavond goedenacht prima goed hallo dag welterusten
ja nee oké leuk mooi top fijn duidelijk
tack tusen mange takk tak hej hejdå hei god morgon natt fint kiitos moi terve hyvää huomenta
teşekkürler teşekkür ederim merhaba selam günaydın tamam köszönöm szia helló jó reggelt
mulțumesc bună ziua спасибо привет пока здравствуйте здравствуй доброе утро добрый день вечер хорошо ладно
пожалуйста отлично супер ясно понятно да нет ок окей спокойной ночи ευχαριστώ γεια καλημέρα καλησπέρα εντάξει
شكرا شكراً مرحبا أهلا اهلا حسنا حسناً السلام عليكم ممتاز تمام نعم طيب رائع صباح مساء الخير النور عفوا
धन्यवाद शुक्रिया नमस्ते ठीक ขอบคุณ สวัสดี
"""
"""One of these makes a courtesy of words that may stand next to it."""
_BESIDE = """
a an the and or but very much many for this that these all it its it's that's thats was is are were be been to you
your you're i i'm im we me my us of in at with too just really again now then here there have had has not nothing else
more will do does did done got get works work looks sounds makes sense love like loved liked one anyway everything
already saved stuff kind by you've today tonight time help advice answer answers patience best million lot lots ton
tons bunch guys friend buddy mate man dude dear sir everyone what wanted needed job going well still as always there's
dir ihnen dank das ist sehr auch und mir dich euch noch einen eine ein tag wochenende für die
lieben ganz gott hilfe antwort war sehr weiter bis bald später dann auf zu vous te toi c'est est ça ca pour l'aide votre ton
aide la le une un très tres à a bientôt demain et au je remercie s'il por te si lo la el todo muy tu su ayuda ha sido
es está eso que tengas de y hasta luego mañana pronto che è di per tutto tanto molto va così cuore dell'aiuto il tuo aiuto e un a
presto domani da tudo muito pela pelo ajuda é isso por até logo amanhã de je jullie u wel voor het
heel erg hulp tot later morgen straks большое огромное за помощь тебе вам очень всё все до завтра свидания
جزيلا جزيلاً لك لكم كثيرا على المساعدة يا الله يعطيك العافية وعليكم
"""
_PHRASES = re.compile(
    r"\b(?:how(?:'s|s| is) (?:it going|everything|things|life|your day)|how are (?:you|things)(?: doing)?(?: today)?"
    r"|so (?:much|many|very|good|great|nice|cool|kind|helpful)|what's up|whats up|sup|how do you do|(?:nice|good|great) to (?:meet|see|talk to) you(?: too)?"
    r"|(?:i'll |we'll )?(?:see|talk to|speak to|catch) (?:you|ya|u)(?: (?:later|soon|tomorrow|around|then|next week|again|on \w+day))*"
    r"|talk (?:later|soon|tomorrow)|have a (?:nice|good|great|lovely|wonderful) \w+|(?:enjoy|happy) (?:your |the )?(?:\w+day|weekend|evening|holidays|new year)"
    r"|good (?:morning|afternoon|evening|night|day)|take care|(?<!\bi )sleep (?:well|tight)|until (?:next time|tomorrow|later)|(?:later|bye) for now"
    r"|that(?:'s| is|s| will be|'ll be| was| would be) (?:all|it|everything)(?: for (?:now|today|tonight))?|(?:all|nothing else|enough|done|good) for (?:now|today|tonight)"
    r"|no (?:worries|problem|need)|never ?mind|my pleasure|you're (?:very )?welcome|(?:got|makes) (?:it|sense)|(?:will|can) do|fair enough|of course|not at all|i (?:see|agree|understand|appreciate it)"
    r"|(?:it|that)(?:'s| is|s)? (?:works?|worked)(?: now| perfectly| great)?|(?:you(?:'re| are|r)|ur) (?:the|a|an|so) (?:best|star|legend|lifesaver|genius|kind|helpful|great|angel|gem)"
    r"|exactly what (?:was|i|we) (?:wanted|needed|asked for)|well done|good (?:job|work|point|idea)|sounds (?:good|great|perfect|like a plan)"
    r"|wie geht(?:'s| es dir| es ihnen|s)|bis (?:bald|morgen|später|dann)|auf wiedersehen|alles klar|bis zum nächsten mal|(?:einen )?schönen (?:tag|abend)(?: noch)?|das war's|das wäre alles"
    r"|ça va|ca va|comment (?:ça va|allez-vous|vas-tu)|à (?:bientôt|demain|plus)|c'est tout|bonne (?:journée|soirée|nuit)|s'il (?:vous|te) (?:plait|plaît)"
    r"|(?:qué|que) tal|cómo (?:estás|está|te va)|hasta (?:luego|mañana|pronto)|nos vemos|de acuerdo|eso es todo|por favor|de nada"
    r"|come (?:stai|va|sta)|va bene|a (?:presto|domani)|è tutto|per favore|buona (?:giornata|serata|notte)|di niente"
    r"|tudo bem|como (?:vai|está|estás)|até (?:logo|amanhã|breve|já)|é (?:só|tudo)|por favor|de nada|bom fim de semana"
    r"|tack så (?:mycket|hemskt mycket)|tusen tack|mange tak(?:k)?|takk skal du ha|dziękuję(?: bardzo)?|धन्यवाद|शुक्रिया"
    r"|hoe gaat het|tot (?:ziens|morgen|later|straks|snel)|alsjeblieft|alstublieft|dat was (?:het|alles)|graag gedaan|fijne (?:dag|avond)(?: nog)?"
    r"|как дела|до (?:свидания|завтра|встречи)|не за что|всего доброго|хорошего (?:дня|вечера)|это всё"
    r"|كيف (?:حالك|الحال)|مع السلامة|إلى اللقاء|السلام عليكم|وعليكم السلام|صباح (?:الخير|النور)|مساء (?:الخير|النور)|شكرا جزيلا|لا شكر على واجب)(?!\w)[?؟]*"
)
_UNSPACED = re.compile(
    r"(?:(?:非常|太|真是|真|十分)?(?:感谢|谢谢|謝謝|多谢|谢了|谢)(?:你们|你|您|啦|了|大家)*(?:的?帮助|帮忙)?|你好|您好|嗨|哈喽|早上好|早安|早|下午好|晚上好|晚安|再见|拜拜|明天见|回头见|辛苦了|不客气"
    r"|好的?|好滴|好嘞|好呀|行|可以|没问题|明白了?|知道了|收到|了解|懂了|对|嗯+|哈+|太(?:好|棒)了|完美|不错|棒|是的|没事了?|不用了|就这样|吧|啊|呀|哦|啦|了"
    r"|(?:どうも|本当に|ほんとに|大変|いつも)*(?:ありがとう|有難う|感謝)(?:ございます|ございました|です|します|ね|よ)*|おはよう(?:ございます)?|こんにちは|こんばんは|はじめまして|おやすみ(?:なさい)?|さようなら|またね|また明日|じゃあ?ね?|では?また|お疲れ様(?:です|でした)?|お疲れさま(?:です|でした)?"
    r"|はい|うん|ええ|いいえ|いえ|了解(?:です|しました)?|わかりました|分かりました|わかった|分かった|承知しました|なるほど|助かりました?|助かります|すごい|すばらしい|完璧(?:です)?|いいね|OK(?:です)?|オッケー|よろしく(?:お願いします|お願いいたします)?|すみません|大丈夫(?:です)?|どうも|ね|です"
    r"|(?:정말|너무|진짜|매우)?\s*(?:감사합니다|감사해요|고마워요?|고맙습니다|땡큐)|안녕(?:하세요|하십니까|히\s*(?:계세요|가세요))?|좋은\s*(?:아침(?:이에요|입니다)?|밤|하루)(?:\s*(?:되세요|보내세요))?|잘\s*자요?|네|예|응|아니요|아니|알겠습니다|알겠어요|알았어요?|좋아요?|좋습니다|완벽해요|최고예요|수고하세요|수고하셨습니다|내일\s*봐요?|ㅋ+|ㅎ+|오케이|그래요?|됐어요"
    r"|ขอบคุณ(?:ครับ|ค่ะ|มาก)*|สวัสดี(?:ครับ|ค่ะ)?|\W|_)++"
)
_IS_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_FACE = re.compile(
    r"(?:[:;=8][-'^o]?[)(\]\[dpo3/\\|*]|<3|\^_?\^|xd+|[\u2190-\u2bff\U0001f000-\U0001faff])"
)
_LAUGHTER = re.compile(r"\b(?:a?(?:ha|he|hi|ja|je){2,}[hj]?|(?:lo)+l|lmao+)\b")
_DRAWN_OUT = re.compile(r"([^\W\d])\1{2,}")
_RUN = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


_COURTESIES = frozenset(_WORDS.split())
_ALLOWED = _COURTESIES.union(_BESIDE.split())


@lru_cache(maxsize=256)
def is_courtesy(text: str) -> bool:
    """Return whether the text is a greeting, thanks, assent or goodbye, and nothing else."""
    if len(text) > _LONGEST:
        return False
    said = unicodedata.normalize("NFC", text).lower().replace("\u2019", "'")
    words = _RUN.findall(said)
    if not words:
        return _FACE.search(said) is not None
    if len(words) > _MOST_WORDS:
        return False
    if not said.isascii() and _IS_UNSPACED.search(said) and _UNSPACED.fullmatch(said):
        return True
    said = _LAUGHTER.sub("haha", said)
    remaining = _PHRASES.sub(" ", said)
    left = [_reduce_letters(word) for word in _RUN.findall(_FACE.sub(" ", remaining))]
    # "ok, and you?" asks: only the greetings that are questions do not.
    if not _ALLOWED.issuperset(left) or "?" in remaining or "\u061f" in remaining:
        return False
    return len(remaining) < len(said) or not _COURTESIES.isdisjoint(left)


def _reduce_letters(word: str) -> str:
    """Return the word without letters drawn out: "thankssss", "goooood"."""
    if word in _ALLOWED or not _DRAWN_OUT.search(word):
        return word
    doubled = _DRAWN_OUT.sub(r"\1\1", word)
    return doubled if doubled in _ALLOWED else _DRAWN_OUT.sub(r"\1", word)
