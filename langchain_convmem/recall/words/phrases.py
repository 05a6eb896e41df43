"""The phrases of all languages that are recognised. Pure data."""

# ruff: noqa: E501 - phrases in the letters they are written in
from __future__ import annotations

from langchain_convmem.recall.words.phrase_kinds import Phrases
from langchain_convmem.recall.words.phrases_english import ENGLISH
from langchain_convmem.recall.words.phrases_germanic import DUTCH, GERMAN
from langchain_convmem.recall.words.phrases_other import ARABIC, CHINESE, JAPANESE, KOREAN, RUSSIAN
from langchain_convmem.recall.words.phrases_romance import FRENCH, ITALIAN, PORTUGUESE, SPANISH

__all__ = ["MARKERS", "PHRASES", "Phrases"]

PHRASES: dict[str, Phrases] = {
    "english": ENGLISH,
    "german": GERMAN,
    "french": FRENCH,
    "spanish": SPANISH,
    "italian": ITALIAN,
    "portuguese": PORTUGUESE,
    "dutch": DUTCH,
    "russian": RUSSIAN,
    "arabic": ARABIC,
    "chinese": CHINESE,
    "japanese": JAPANESE,
    "korean": KOREAN,
}
"""By the language's name as `language_of` tells it; scripts of their own by their language."""

MARKERS: dict[str, str] = {
    "german": "wohne arbeite wohnt heißt heiße erinnere schreib übersetze erkläre empfiehl danke bitte",
    "french": "habite j'habite explique-moi travaille écris traduis rappelle réserve voudrais bonjour merci",
    "spanish": "explícame explicame recomiéndame vivo dime dame hola gracias compré escribe traduce explica recuérdame llamo",
    "italian": "abito lavoro spiegami trovami scrivimi aiutami ricordami prenotami dimmi dammi scrivi traduci spiega consigliami grazie chiamo",
    "portuguese": "moro escreva traduza explique lembre obrigado obrigada olá gosto",
    "dutch": "woon werk schrijf vertaal herinner bedankt dankjewel graag",
}
"""By language: words that tell it where a line has no function word of any, unless English has."""
