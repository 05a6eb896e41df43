"""Which language words are written in, and their stems in it. Pure.

A distinctive script identifies a word's language. Latin letters do not: the function words of
a line decide, line by line, so that the answer depends on nothing else. A line that gives no sign
is taken for English, whose stemmer does little harm to words of other languages.
"""

# ruff: noqa: RUF001 - words in the letters they are written in

from __future__ import annotations

import threading
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import chain

import snowballstemmer

ENGLISH = "english"
_OTHER_SCRIPTS = {"CYRILLIC": "russian", "ARABIC": "arabic"}
STOP_WORDS = {
    "english": """
a an the and or but nor if then than so as because while of at by for from with without about into
over under to in on up down out off between through during before after above below again
i me my mine myself you your yours yourself he him his himself she her hers herself it its itself
we us our ours ourselves they them their theirs themselves this that these those there here
am is are was were be been being do does did doing done have has had having
can could may might must shall should will would
what which who whom whose when where why how not no any some such same too very just only
i'm i've i'd i'll you're you've you'd you'll he'd he'll she'd she'll it'll we're we've we'd we'll
they're they've they'd they'll isn't aren't wasn't weren't don't doesn't didn't haven't hasn't
hadn't can't couldn't won't wouldn't shouldn't
""",
    "german": """
der die das den dem des ein eine einen einem einer eines und oder aber doch denn wenn dass daß als
wie so auch nur noch schon nicht kein keine keinen keinem keiner ja nein zu zum zur im in am an auf
aus bei beim bis durch für gegen mit nach ohne seit über um unter vom von vor während wegen zwischen
ich du er sie es wir ihr mich mir dich dir ihn ihm ihnen uns euch sich mein meine meinen meinem
meiner dein deine deinen deinem deiner sein seine seinen seinem seiner ihre ihren ihrem ihrer unser
unsere unseren unserem eure dieser diese dieses diesen diesem jener jene man hier da dort
bin bist ist sind seid war warst waren wart gewesen wird werden wurde wurden worden hat habe hast
haben habt hatte hatten kann kannst können konnte muss musst müssen soll sollen sollte will willst
wollen wollte darf dürfen mag möchte würde
was wer wen wem wessen wann wo wohin woher warum wieso weshalb welche welcher welches welchen
welchem wieviel viel etwas sehr mal ob weil damit dann
""",
    "french": """
le la les l un une des du de d et ou mais donc or ni car si que qu qui quoi dont où quand comment
pourquoi combien quel quelle quels quelles à a au aux en dans sur sous par pour avec sans chez entre
vers depuis avant après pendant contre je j tu il elle on nous vous ils elles me m te t se s lui
leur leurs moi toi soi eux y ce c cet cette ces ça cela ceci mon ma mes ton ta tes son sa ses notre
nos votre vos ne n pas plus non oui très aussi comme tout tous toute toutes même là ici
suis es est sommes êtes sont étais était étaient été être sera serait ai as avons avez ont avais
avait avaient eu avoir fait faire peux peut peuvent dois doit veux veut
c'est j'ai qu'est n'est d'un d'une est-ce
""",
    "spanish": """
el la los las lo un una unos unas y e o u pero sino si que qué quien quién quienes cual cuál cuáles
cuando cuándo donde dónde adónde como cómo cuánto cuánta cuántos cuántas por porque para con sin
sobre entre desde hasta hacia de del a al en yo tú usted él ella nosotros ustedes ellos ellas me te
se nos os le les mí ti mi mis tu tus su sus nuestro nuestra nuestros nuestras este esta esto estos
estas ese esa eso esos esas aquel aquella no sí muy más también ya aquí allí todo toda todos
soy eres es somos son era eran fue fueron fui ser sido estoy está estás están estaba estuve estar he
has ha hemos han había haber hay tengo tiene tienes puedo puede quiero quiere
""",
    "italian": """
il lo la i gli le l un uno una e ed o ma se che chi cosa cui quale quali quando dove come perché
quanto quanta quanti quante di del dello della dei degli delle d a al allo alla ai agli alle da dal
dallo dalla dai dagli dalle in nel nello nella nei negli nelle con su sul sullo sulla sui sulle per
tra fra io tu lui lei noi voi loro mi ti si ci vi ne mio mia miei mie tuo tua tuoi tue suo sua suoi
sue nostro nostra nostri vostro questo questa questi queste quello quella quelli quelle non sì più
anche molto già qui lì tutto tutti
sono sei è siamo siete era erano ero stato stata essere ho hai ha abbiamo avete hanno aveva avevo
avere posso può voglio vuole devo deve c'è dov'è cos'è
""",
    "portuguese": """
o a os as um uma uns umas e ou mas se que quê quem qual quais quando onde aonde como porquê porque
por quanto quanta quantos quantas para pra com sem sobre entre desde até de do da dos das dum duma a
ao à aos às em no na nos nas num numa pelo pela pelos pelas eu tu você ele ela nós vocês eles elas
me te se lhe lhes mim ti meu minha meus minhas teu tua teus tuas seu sua seus suas nosso nossa este
esta isto estes estas esse essa isso esses essas aquele aquela aquilo não sim muito mais também já
aqui ali lá todo toda todos
sou és é somos são era eram foi foram fui ser sido estou está estás estão estava estive estar tenho
tem tens temos têm tinha ter há havia posso pode quero quer vou vai
""",
    "dutch": """
de het een en of maar want als dan dat die dit deze daar hier er van in op aan uit bij met zonder
voor na naar tot om over onder tussen door tegen sinds te ik jij je u hij zij ze wij we jullie mij
me jou hem haar ons hun hen zich mijn jouw uw zijn onze niet geen wel nog al ook maar zo heel veel
iets niets ja nee
ben bent is waren was geweest word wordt worden werd heb hebt heeft hebben had hadden kan kun kunt
kunnen kon moet moeten mag wil willen wilde zal zullen zou
wat wie wiens wanneer waar waarom waarheen hoe hoeveel welke welk
""",
    "turkish": """
ve veya ya ama fakat çünkü eğer ki ile için gibi kadar göre sonra önce daha çok az en da de mi mı mu
mü bir bu şu o bunu şunu onu bunun onun bana sana ona bize size onlara beni seni bizi sizi onları
ben sen biz siz onlar benim senin bizim sizin onların burada orada değil yok var evet hayır her hiç
bile ise idi oldu olan olarak olur olduğu
ne neyi neden niçin niye nasıl nerede nereye nereden nere kim kimi kimin kime hangi hangisi kaç
""",
    "russian": """
и а но или да не ни бы же ли то что чтобы как так если когда где куда откуда почему зачем сколько
кто кого кому кем чего чему чем какой какая какое какие который которая которые чей в во на с со к
ко у о об от до по за из под над при про без для через между после перед я ты он она оно мы вы они
меня мне мной тебя тебе его ему им её ее ей нас нам вас вам их мой моя моё мое мои твой твоя твоё
твои наш наша наши ваш ваша ваши свой своя свои себя себе это этот эта эти этого тот та те там тут
здесь уже ещё еще только очень тоже есть был была было были быть будет нет
""",
    "arabic": """
في من إلى الى على عن مع بعد قبل بين حتى منذ عند و أو او ثم لكن أن ان إن لا لم لن ما ماذا هل كيف متى
أين اين لماذا كم من أي اي الذي التي الذين هذا هذه ذلك تلك هناك هنا هو هي هم أنا انا أنت انت نحن
كان كانت كانوا يكون تكون قد كل بعض غير لي لك له لها لنا
""",
}
"""By the name of the language's Snowball stemmer; words between blanks."""
FUNCTION_CHARACTERS = frozenset(
    "的了吗嗎呢吧啊在是我你您他她它们們这這那哪里裡裏什么麼怎谁誰几幾多少有和与與不也都就把被到给給对對会會要想说說去"
    "来來很为為什何時时候得着著过過个個上下"
    "はがをにでとのもへやかねよさしすたてだなるれらりいうえおあくけこせそちつぬひふほまみめむゆろわんっ"
    "은는이가을를에의도로서게요까니다습있어디나지하고한"
)
"""Characters that mostly hold a sentence together where words are not set apart by blanks."""
LATIN = tuple(name for name in STOP_WORDS if name not in _OTHER_SCRIPTS.values())
"""The languages that only their words distinguish, English first."""
# "l'amico", "d'un ami": what follows the apostrophe is the word.
_ELIDING = ("french", "italian")
# More words than these say no more about a language.
_MOST_VOTES = 200
# Of running text function words are two in five; of anything else at most one in so many.
_LEAST_SHARE = 10
_stemmers = threading.local()


@cache
def get_function_words(language: str) -> frozenset[str]:
    """Return the casefolded words of a language that say nothing about the topic."""
    return frozenset(unicodedata.normalize("NFKC", STOP_WORDS[language]).casefold().split())


@cache
def _find_languages_of() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for language in LATIN:
        for word in get_function_words(language):
            # A lone letter may be anything: an initial, a variable, half of "e-mail".
            if len(word) > 1 or language == ENGLISH:
                found.setdefault(word, []).append(language)
    return found


def detect_language(words: Sequence[str]) -> str:
    """Return the Latin-script language with the most function words among casefolded `words`.

    Ties go to the language that stands first in `LATIN`: English, so without a sign it is English.
    """
    return list_languages(words)[0]


def list_languages(words: Sequence[str]) -> list[str]:
    """Return the Latin-script languages that tie for the most function words among `words`."""
    known, asked = _find_languages_of(), words[:_MOST_VOTES]
    votes = Counter(chain.from_iterable([known[word] for word in asked if word in known]))
    most = max(votes.values(), default=0)
    # A word or two in a page of code are no sign.
    is_noise = 0 < most * _LEAST_SHARE < len(asked)
    return [ENGLISH] if is_noise else [name for name in LATIN if votes.get(name, 0) == most]


@lru_cache(maxsize=10_000)
def is_function_word(word: str, language: str) -> bool:
    """Return whether a casefolded word says nothing about the topic of a text.

    Args:
        word: The word.
        language: Of the text; words in other scripts than Latin identify themselves.
    """
    forms = {word, _strip_elision(word.removesuffix("'s"), language)}
    # Words in other scripts than Latin identify themselves.
    others = _OTHER_SCRIPTS.values()
    return any(not forms.isdisjoint(get_function_words(one)) for one in (language, *others))


@lru_cache(maxsize=100_000)
def stem(word: str, language: str) -> str:
    """Return the stem of a casefolded word.

    Args:
        word: Of one script.
        language: Of the line, if its script is Latin; other scripts identify themselves.
    """
    word = _strip_elision(word, language)
    if word.isascii():
        return word if word.isdigit() else _stem_with_snowball(word, language)
    name = unicodedata.name(word[0], "").partition(" ")[0]
    if name != "LATIN":
        language = _OTHER_SCRIPTS.get(name, "")
        return _stem_with_snowball(word, language) if language else word
    return _strip_accents(_stem_with_snowball(word, language))


def _strip_elision(word: str, language: str) -> str:
    """Return the word alone where an apostrophe joins it to an article or to a case."""
    if language in _ELIDING:
        return word.rpartition("'")[2]
    return word.partition("'")[0] if language == "turkish" else word


def _strip_accents(word: str) -> str:
    """Return the word as people type it in a hurry."""
    letters = unicodedata.normalize("NFD", word).replace("\u0131", "i").replace("\u00f8", "o")
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _stem_with_snowball(word: str, language: str) -> str:
    # A Snowball stemmer keeps the word it works on, so each thread has its own.
    stemmer = _stemmers.__dict__.get(language)
    if stemmer is None:
        stemmer = _stemmers.__dict__[language] = snowballstemmer.stemmer(language)
    return str(stemmer.stemWord(word))
