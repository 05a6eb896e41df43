"""Greetings, thanks, assent and goodbyes, which ask for nothing and state nothing. Pure."""

# ruff: noqa: RUF001, E501 - phrases in the letters they are written in
from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

__all__ = ["is_courtesy"]

# More words than these are hardly thanks alone.
_MOST_WORDS = 16
# Phrases leave a word open ("have a nice trip"), laughter and letters drawn out are many words.
_MOST_UNKNOWN = 2
# Characters that are looked at before all others.
_FIRST_LOOK = 40

_WORDS = """
thanks thank thx ty tysm tnx cheers ok okay okey okie kk k hi hello hey hiya heya yo howdy bye byebye goodbye
goodnight morning afternoon evening night great cool nice nicely perfect perfectly sure yes yeah yep yup yea ya no nope nah
please pls plz welcome sorry wow lol lmao haha hehe hah ha awesome amazing excellent brilliant lovely wonderful
fantastic super fabulous gorgeous neat sweet superb good fine alright agreed understood noted exactly absolutely
definitely certainly indeed right correct gotcha appreciated helpful useful hooray yay cya ttyl congrats greetings
worked sorted wonderfully beautifully oh ah aha hm hmm mhm oops omg gn gm ace deal
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
"""One of these makes a courtesy of words that may stand beside it."""

_BESIDE = """
a an the and or but very much many for this that these all it its it's that's thats was is are were be been
to you your you're i i'm im we me my us of in at with too just really again now then then here there have had has
not nothing else more will do does did done got get it's works work looks sounds makes sense love like loved liked
one anyway everything already today tonight time help advice answer answers patience best million lot lots ton
tons bunch guys friend buddy mate man dude dear sir everyone what wanted needed job going well still as always
there's dir ihnen dank das ist sehr auch und mir dich euch noch einen eine ein tag wochenende für die
hilfe antwort war sehr weiter bis bald später dann auf zu vous te toi c'est est ça ca pour l'aide votre ton
aide la le une un très tres à a bientôt demain et au je remercie s'il por te si lo la el todo muy tu su ayuda ha sido
es está eso que tengas de y hasta luego mañana pronto che è di per tutto tanto molto va così dell'aiuto il tuo aiuto e un a
presto domani da tudo muito pela pelo ajuda é isso por até logo amanhã de je jullie u wel voor het
heel erg hulp tot later morgen straks большое огромное за помощь тебе вам очень всё все до завтра свидания
جزيلا جزيلاً لك لكم كثيرا على المساعدة يا الله يعطيك العافية وعليكم
"""

_PHRASES = re.compile(
    r"\b(?:how(?:'s|s| is) (?:it going|everything|things|life|your day)|how are (?:you|things)(?: doing)?(?: today)?"
    r"|so (?:much|many|very|good|great|nice|cool|kind|helpful)|what's up|whats up|sup|how do you do|(?:nice|good|great) to (?:meet|see|talk to) you(?: too)?"
    r"|(?:i'll |we'll )?(?:see|talk to|speak to|catch) (?:you|ya|u)(?: (?:later|soon|tomorrow|around|then|next week|again|on \w+day))*"
    r"|talk (?:later|soon|tomorrow)|have a (?:nice|good|great|lovely|wonderful) \w+|(?:enjoy|happy) (?:your |the )?(?:\w+day|weekend|evening|holidays|new year)"
    r"|good (?:morning|afternoon|evening|night|day)|take care|(?<!\bi )sleep well|until (?:next time|tomorrow|later)|(?:later|bye) for now"
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


@cache
def _courtesies() -> frozenset[str]:
    return frozenset(_WORDS.split())


@cache
def _allowed() -> frozenset[str]:
    return _courtesies().union(_BESIDE.split())


@cache
def _vocabulary() -> frozenset[str]:
    """Return every word that may stand in a courtesy, and the parts of those with apostrophes."""
    source = _PHRASES.pattern.replace("\\b", " ").replace("\\w", " ")
    words = [*_allowed(), *_RUN.findall(source)]
    return frozenset(part for word in words for part in word.split("'"))


@lru_cache(maxsize=256)
def is_courtesy(text: str) -> bool:
    """Return whether the text is a greeting, thanks, assent or goodbye, and nothing else."""
    said = unicodedata.normalize("NFC", text).lower().replace("\u2019", "'")
    is_spaced = said.isascii() or not _IS_UNSPACED.search(said)
    # Of most lines the first few words tell that they are none; the last one may be cut.
    if is_spaced and _holds_unknown(_RUN.findall(said, 0, _FIRST_LOOK)[:-1]):
        return False
    words = _RUN.findall(said)
    if not words:
        return _FACE.search(said) is not None
    is_short = len(words) <= _MOST_WORDS
    if is_short and not is_spaced and _UNSPACED.fullmatch(said):
        return True
    if not is_short or _holds_unknown(words):
        return False
    said = _LAUGHTER.sub("haha", said)
    remaining = _PHRASES.sub(" ", said)
    left = [_plain(word) for word in _RUN.findall(_FACE.sub(" ", remaining))]
    # "ok, and you?" asks: only the greetings that are questions do not.
    if not _allowed().issuperset(left) or "?" in remaining or "\u061f" in remaining:
        return False
    return len(remaining) < len(said) or not _courtesies().isdisjoint(left)


def _holds_unknown(words: Sequence[str]) -> bool:
    """Return whether more of the words than a courtesy leaves open are in none."""
    return len({part for word in words for part in word.split("'")} - _vocabulary()) > _MOST_UNKNOWN


def _plain(word: str) -> str:
    """Return the word without letters drawn out: "thankssss", "goooood"."""
    if word in _allowed() or not _DRAWN_OUT.search(word):
        return word
    doubled = _DRAWN_OUT.sub(r"\1\1", word)
    return doubled if doubled in _allowed() else _DRAWN_OUT.sub(r"\1", word)
