"""What a question asks for: a price, a date, a code, somebody, a taste, a task. Pure.

The words tell it in a dozen languages. Other questions ask for nothing that has a form.
"""

# ruff: noqa: E501 - words in the letters they are written in

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

_WORDS = {
    "price": """
how much|prices?|costs?|worth|sums?|spend|spent|pays?|paid|expensive|cheap|fees?|afford
wie ?viel|kosten|kostet|preis|teuer|bezahl\\w*|combien|prix|co\u00fbte?|cher|payer|cu\u00e1nto|precio|cuesta|caro|pagar
quanto|prezzo|costa|pre\u00e7o|hoeveel|prijs|kost|\u0441\u043a\u043e\u043b\u044c\u043a\u043e|\u0446\u0435\u043d\u0430|\u0441\u0442\u043e\u0438\u0442|ile|cena|kosztuje|ne kadar|fiyat\\w*|\u0643\u0645|\u0633\u0639\u0631|\u0915\u093f\u0924\u0928\u093e|\u0915\u0940\u092e\u0924
""",
    "date": """
what (?:day|date|time)|(?:which|what) (?:day|evening|morning|afternoon|night|week|weekend|month|year)|dates?|deadline|how soon
wann|welche[nrms]? (?:tag|abend|woche|monat|jahr)|datum|um wie ?viel uhr|quand|quel jour|quelle date|cu\u00e1ndo|qu\u00e9 d\u00eda|fecha
quando|che giorno|que dia|wanneer|welke dag|\u043a\u043e\u0433\u0434\u0430|\u0434\u0430\u0442\u0430|kiedy|kt\u00f3rego|ne zaman|tarih\\w*|\u0645\u062a\u0649|\u062a\u0627\u0631\u064a\u062e|\u0915\u092c|\u0924\u093e\u0930\u0940\u0916
""",
    "id": """
codes?|combination|secret|pin|pass(?:word|code)s?|numbers?|keys?|log ?in|serial|type|unlocks?|opens?|enter|connect|get in(?:to)?|lets? (?:me|us) in(?:to)?|reach|e-?mail|phone|address|url|iban
(?:kenn|pass)wort|nummer|zugang|mot de passe|num\u00e9ro|contrase\u00f1a|c\u00f3digo|n\u00famero|codice|numero|senha|wachtwoord|\u043f\u0430\u0440\u043e\u043b\u044c|\u043d\u043e\u043c\u0435\u0440\\w*|\u043a\u043e\u0434
has\u0142o|numer\\w*|kod\\w*|\u015fifre\\w*|numara\\w*|\u0631\u0642\u0645|\u0631\u0645\u0632|\u092a\u093e\u0938\u0935\u0930\u094d\u0921|\u0928\u0902\u092c\u0930
""",
    "name": """
whom|whose|names?|called|which (?:doctor|person|colleague|friend|man|woman|one of)|wer|wen|wem|hei\u00dft|name|qui|appelle|qui\u00e9n|llama|chi|chiama|quem|chama|wiens
\u043a\u0442\u043e|\u043a\u043e\u0433\u043e|\u043a\u043e\u043c\u0443|\u0437\u043e\u0432\u0443\u0442|kto|komu|kim|ad\u0131|\u0645\u0646|\u0627\u0633\u0645|\u0915\u094c\u0928|\u0928\u093e\u092e
""",
    "preference": """
likes?|prefer\\w*|favou?rites?|enjoys?|loves?|hates?|rather|choice|taste|allerg\\w*|mag|liebling\\w*|bevorzug\\w*|am liebsten|aime\\w*|pr\u00e9f\u00e8re\\w*|gusta\\w*|prefier\\w*
piace|preferi\\w*|gost[ao]|prefir\\w*|hou|voorkeur|\u043b\u044e\u0431\\w*|\u043d\u0440\u0430\u0432\\w*|\u043f\u0440\u0435\u0434\u043f\u043e\u0447\\w*|lubi\\w*|wol\u0119|sev\\w+|\u0623\u062d\u0628|\u0623\u0641\u0636\u0644|\u092a\u0938\u0902\u0926
""",
    "promise": """
must|should|shall|promise[ds]?|pledge\\w*|dut(?:y|ies)|remind\\w*|ha(?:ve|s) to|needs? to|prepare\\w*|am i to|are we to|want(?:ed)? to do|to do|tasks?|left|plan\\w*|still|owe|agreed?|done
muss|soll|versproch\\w*|erinner\\w*|dois|promis\\w*|rappel\\w*|debo|tengo que|promet\\w*|devo|promess\\w*|ricord\\w*|moet|beloof\\w*
\u0434\u043e\u043b\u0436\\w*|\u043e\u0431\u0435\u0449\\w*|\u043d\u0430\u043f\u043e\u043c\u043d\\w*|musz\u0119|obieca\\w*|przypom\\w*|yapmal\u0131\\w*|hat\u0131rlat\\w*|\u064a\u062c\u0628|\u0648\u0639\u062f\\w*|\u091a\u093e\u0939\u093f\u090f|\u0935\u093e\u0926\u093e
""",
}
_UNSPACED = {
    "price": "\u591a\u5c11|\u4ef7\u683c|\u50f9\u683c|\u94b1|\u9322|\u3044\u304f\u3089|\u5024\u6bb5|\u6599\u91d1|\uc5bc\ub9c8|\uac00\uaca9",
    "date": "\u4ec0\u4e48\u65f6\u5019|\u4ec0\u9ebc\u6642\u5019|\u51e0\u53f7|\u51e0\u70b9|\u54ea\u5929|\u4f55\u65f6|\u3044\u3064|\u4f55\u65e5|\u4f55\u6642|\uc5b8\uc81c|\uba70\uce60",
    "id": "\u5bc6\u7801|\u5bc6\u78bc|\u53f7\u7801|\u865f\u78bc|\u7f16\u53f7|\u5355\u53f7|\u30d1\u30b9\u30ef\u30fc\u30c9|\u756a\u53f7|\ube44\ubc00\ubc88\ud638|\ubc88\ud638",
    "name": "\u8c01|\u8ab0|\u54ea\u4f4d|\u53eb\u4ec0\u4e48|\u3060\u308c|\u540d\u524d|\u540d\u5b57|\ub204\uad6c|\uc774\ub984",
    "preference": "\u559c\u6b22|\u559c\u6b61|\u504f\u597d|\u6700\u7231|\u597d\u304d|\u597d\u307f|\uc88b\uc544",
    "promise": "\u5e94\u8be5|\u7b54\u5e94|\u63d0\u9192|\u8981\u505a|\u7ea6\u5b9a|\u3059\u3079\u304d|\u7d04\u675f|\u3057\u306a\u3051\u308c\u3070|\ud574\uc57c|\uc57d\uc18d",
}
_OPENERS = {"who": "name", "when": "date"}
"""Words that ask where a clause begins with them; elsewhere they join clauses."""
_BEGIN = r"(?:^|[,;:.!?]\s*|\b(?:and|or|so|by|to|from|of|for|since|until|know|remember|remind me|tell me)\s+)\W*"
_MARKS = "?\uff1f\u061f\u037e"


def find_asked_kinds(question: str) -> frozenset[str]:
    """Return what a question may ask for: price, date, id, name, preference, promise.

    Empty for a text that asks for nothing of the kind, or asks nothing.
    """
    folded = unicodedata.normalize("NFKC", question).casefold().replace("\u2019", "'")
    return frozenset(kind for kind, pattern in _list_patterns() if pattern.search(folded.strip()))


def is_question(text: str) -> bool:
    """Return whether a text asks something, as its marks say."""
    return any(mark in text for mark in _MARKS)


@cache
def _list_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(_compile_patterns())


def _compile_patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for kind, words in _WORDS.items():
        spaced = "|".join(words.strip().splitlines())
        yield kind, re.compile(rf"(?<!\w)(?:{spaced})(?!\w)|{_UNSPACED[kind]}")
    for word, kind in _OPENERS.items():
        yield kind, re.compile(rf"{_BEGIN}{word}(?!\w)")
