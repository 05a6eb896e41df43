"""Sentences that say what somebody prefers, has promised or is, in many languages. Pure.

Found by how people say such things, of themselves or of each other; what a sentence means besides
is not read. A word too many costs little: such a sentence is kept where another one is not.
"""

# ruff: noqa: E501, RUF001 - words in the letters they are written in

from __future__ import annotations

import re

_OFTEN = r"(?:really |absolutely |also |always |still |just |much |never |only |mostly |usually |simply |totally |quite |so |very |not |more |no longer )*"
_SELF = r"(?:i(?:'m| am)|we(?:'re| are)|is|(?<!if )you(?:'re| are))"
_TASTE = r"(?:like|love|hate|dislike|enjoy|adore|detest|loathe|prefer|fancy|favou?r)"
_EN_PREFERENCES = rf"""
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
"""
_PREFERENCES = rf"""{_EN_PREFERENCES}
ich (?:\w+ )?(?:mag|liebe|hasse|bevorzuge|esse|trinke|vertrage|genieße|schwärme)|(?:mag|liebt|hasst|bevorzugt|verabscheut)
allergisch|liebling\w*|lieber|am liebsten|nicht (?:ausstehen|leiden)|steh(?:e|t)? (?:\w+ )?auf|(?:schmeckt|gefällt|gefallen|schmecken) mir|vegetarier\w*|veganer\w*|geht nichts über
préf[éè]r\w*|favori\w*|(?:j'|il |elle |n')(?:aime|adore)|(?:je |il |elle )?déteste|supporte (?:pas|plus)|raffole|plutôt \w+ que|allergique|végétarien\w*|végane?|horreur (?:de|des|du)
prefier\w*|preferid\w*|(?:me|le|nos) (?:gusta\w*|encanta\w*|chifla\w*|apasiona\w*)|odi[oa]|detest[oa]|no (?:lo |la )?soport[oa]|alérgic[oa]|vegetarian[oa]|(?:soy|es) más de
preferi\w*|(?:mi|gli|le) (?:piac\w+)|ador[oa]|non (?:lo |la )?sopport[oa]|allergic[oa]|(?:vado|va) matt[oa] per
prefir\w*|(?:eu |não )?gost[oa] (?:de|do|da|mais|muito)|odei[oa]|não suport[oa]
voorkeur|liever|(?:het )?liefst|lieveling\w*|favoriet\w*|houd?t? (?:\w+ )?van|dol op|ik haat|haat|lust (?:\w+ )?(?:geen|niet|graag)|hekel aan
ulubion\w*|wolę|woli|lubi\w*|uwielbi\w*|nienawidz\w*|nie znosz\w*|uczulon\w*|предпоч\w*|люблю|любит|любим\w*|ненави\w*|обожа\w*|нравится|нравятся|аллерги\w*
severim|sevmem|sevdi\w+|sever|sevmez|tercih ed\w+|nefret ed\w+|alerji\w*|föredr\w*|gillar|älskar|foretrekk\w*|foretrækk\w*
"""
_UNSPACED_PREFERENCES = "喜欢|喜歡|讨厌|討厭|过敏|過敏|不吃|最爱|最愛|偏好|好き|嫌い|アレルギー|苦手|好物|좋아|싫어|알레르기|أفضل|أحب|أكره|حساسية|पसंद"

_STILL = r"(?:still |also |really |only |first |just )*"
_PROMISES = rf"""
i'll|i will|we'll|we will|promis(?:e|ed|es|ing)|pledged?|(?:gave|given?) .{{1,30}} (?:my|his|her|their) word|said (?:i|we|he|she|they)(?:'d| would)
remind (?:me|us|him|her|them|you|the user|user)|reminders?|nudge (?:me|us)|(?:don't|do not|must not|mustn't|can't|cannot|never) (?:let (?:me|us) )?forget|remember to
todos?|to-dos?|follow up|get back to you|deadline|due (?:on|by|in)|owes? .{{1,40}}|make sure (?:i|we|to)|see to it
(?:i|user|still) {_STILL}(?:have|has|need|needs|ought) to|(?:i've|i have|i) {_STILL}got to|(?:i|user) {_STILL}(?:must|shall)(?! have)|(?:i'm|i am|user is) {_STILL}(?:supposed|meant|due) to
(?:still )?open for (?:me|us|him|her|the user|user)|(?:i|we|they) agreed (?:that|to [a-z]{{2,}})|undert(?:ake|ook) to|commit(?:s|ted) to
ich (?:\w+ )?(?:werde|muss|soll|darf nicht|schulde)|erinner\w* (?:mich|uns|ihn|sie|daran)|vergiss nicht|nicht vergessen|verspr[oi]ch\w*|zugesagt|frist|sorge dafür
je (?:vais|dois)|rappel\w*[- ](?:moi|nous)|n'oublie\w*|pas oublier|promis|promets|échéance|il (?:me |nous )?faut
voy a|recuérd\w*|no (?:te |me |se )?olvid\w*|prometí|prometo|prometid\w*|tengo que|tenemos que|debo|plazo
ricorda(?:mi|ci|ti|re)|non (?:ti |mi )?dimentic\w*|ho promesso|prometto|promesso|devo|dobbiamo|scadenza
lembr\w*-(?:me|nos)|não (?:te |se )?esqueç\w*|prometi|tenho (?:de|que)|vou|prazo
ik (?:\w+ )?(?:moet|zal)|herinner\w*|vergeet niet|niet vergeten|beloof\w*|beloofd
muszę|obieca\w*|przypomnij|nie zapomnij|обеща\w*|напомн\w*|не забуд\w*|(?:мне|нам) (?:надо|нужно)|(?:я )?долж(?:ен|на)|söz ver\w+|hatırlat\w*|unutma\w*|påminn\w*|glöm inte|jag (?:måste|lovar|lovade)
"""
_UNSPACED_PROMISES = "答应|答應|承诺|承諾|提醒我|别忘|別忘|約束し|忘れないで|なければなら|약속|잊지 마|ذكرني|لا تنس|وعدت|याद दिला|वादा"

_PERSONS = r"""
i|i'(?:m|ve|d|ll)|me|my|mine|we|us|our|ours|you|your|yours|the user(?:'s)?
ich|mich|mir|mein\w*|wir|uns|unser\w*|du|dich|dir|dein\w*|ihr\w*|je|j'\w+|moi|m[aoe]n?|mes|nous|nos|notre|tu|toi|t[ao]n?|tes|vous|vos|votre
yo|mí|mis?|nosotr[oa]s|nuestr[oa]s?|tus?|usted|io|mi[ao]|miei|mie|noi|nostr[aoie]|tu[ao]|tuoi|eu|meus?|minhas?|nós|noss[ao]s?|você|teus?|tuas?|seus?|suas?
ik|mij|mijn|wij|ons|onze|jij|je|jouw|uw|ja|mnie|moj\w*|mój|nasz\w*|twoj\w*|twój|я|меня|мне|мой|моя|мо[её]|мои|мою|мы|нас|наш\w*|ты|тебя|тво\w+|вы|вас|ваш\w*
ben|benim|bana|biz|bizim|senin|sizin|jag|mig|min|mitt|mina|vi|vår\w*|din|ditt|dina
"""
_UNSPACED_PERSONS = "我|咱|你|您|私|僕|俺|あなた|저는|제가|나는|내가|우리|당신|أنا|मैं|मेर|हम|आप"


def _compile(words: str, unspaced: str) -> re.Pattern[str]:
    spaced = "|".join(filter(None, words.splitlines()))
    return re.compile(rf"(?<!\w)(?:{spaced})(?!\w)|{unspaced}", re.IGNORECASE)


_PREFERENCE = _compile(_PREFERENCES, _UNSPACED_PREFERENCES)
_PROMISE = _compile(_PROMISES, _UNSPACED_PROMISES)

_ASIDE = re.compile(
    r"(?<=\w{3}), (?:which|so|but|and|because|although|though|while) .*", re.IGNORECASE
)
"""What a sentence adds to what it tells."""
_PERSON = _compile(_PERSONS, _UNSPACED_PERSONS)


def is_preference(sentence: str) -> bool:
    """Return whether a sentence says what somebody likes, avoids or cannot take."""
    return _PREFERENCE.search(_fold_apostrophes(sentence)) is not None


def is_promise(sentence: str) -> bool:
    """Return whether a sentence says what somebody has promised, has to do or is to be told of."""
    return _PROMISE.search(_fold_apostrophes(sentence)) is not None


def is_personal(sentence: str, speaker: str = "") -> bool:
    """Return whether a sentence tells something of those who talk.

    Neither a question does, nor what a tool says, as `speaker` or the beginning of the line tells.
    """
    is_talk = speaker.casefold() != "tool" and not sentence.casefold().startswith("tool:")
    told = _ASIDE.sub("", _fold_apostrophes(sentence))
    return is_talk and not is_asking(sentence) and _PERSON.search(told) is not None


def is_asking(sentence: str) -> bool:
    """Return whether a sentence ends as a question does."""
    return sentence.rstrip().endswith(("?", "？", "؟"))


def _fold_apostrophes(sentence: str) -> str:
    return sentence.replace("\u2019", "'")
