"""Which sentences say what somebody prefers, has promised or is."""

from __future__ import annotations

import pytest

from langchain_convmem.words.facts import is_personal, is_preference, is_promise

PREFERENCES = """
Oat milk suits me better than soy.
I'm not a fan of open-plan offices.
The user prefers trains to planes.
Ana likes her coffee black.
My go-to bakery is the one on Mill Lane.
I\u2019d rather take the stairs.
Mir ist ein Fensterplatz lieber.
Rosinen kann ich nicht ausstehen.
Je ne supporte pas les r\u00e9unions du lundi.
Mon peintre pr\u00e9f\u00e9r\u00e9 est Vallotton.
No soporto el cilantro.
Il mio gelato preferito \u00e8 al pistacchio.
O meu vinho preferido \u00e9 o verde.
Ik ben dol op stroopwafels.
Mijn lievelingskleur is petrol.
Moim ulubionym kolorem jest ochra.
""".strip().splitlines()
PROMISES = """
I owe Ben a reply about the lease.
Make sure I call the vet tomorrow.
I said I'd bring the salad on Sunday.
The user still has to renew the passport.
Don\u2019t let me forget the flowers.
Ich muss noch die Steuer abgeben.
Vergiss nicht, den Arzt anzurufen.
Je dois rendre le livre avant mardi.
N'oublie pas d'arroser les plantes.
Tengo que pagar el alquiler antes del lunes.
Ho promesso a Mia di portare la torta.
Tenho de devolver o livro at\u00e9 sexta.
Ik moet nog de huur betalen.
""".strip().splitlines()
NEITHER = """
The train was late again this morning.
It looks like rain.
I would like to know how the weather will be.
They must have taken the other road.
The search returned 12 results.
Der Zug war wieder zu sp\u00e4t.
Il habite \u00e0 Lyon.
Vive en Madrid.
Il treno \u00e8 in ritardo.
O comboio chegou tarde.
Hij woont in Utrecht.
""".strip().splitlines()


@pytest.mark.parametrize("sentence", PREFERENCES)
def test_a_preference_is_known_however_it_is_said(sentence):
    assert is_preference(sentence)


@pytest.mark.parametrize("sentence", PROMISES)
def test_a_promise_or_a_duty_is_known_however_it_is_said(sentence):
    assert is_promise(sentence)


@pytest.mark.parametrize("sentence", NEITHER)
def test_what_says_neither_is_taken_for_neither(sentence):
    assert not is_preference(sentence)
    assert not is_promise(sentence)


@pytest.mark.parametrize(
    ("sentence", "is_told"),
    [
        ("My dentist is called Nora Lund.", True),
        ("Meine Zahn\u00e4rztin hei\u00dft Nora Lund.", True),
        ("User: The user's dentist is Nora Lund.", True),
        ("Nora Lund, who is my dentist, was late.", True),
        ("User: Nora sold the drill.", False),
        ("Nora sold the drill, which reminded me of our trip.", False),
        ("What is my dentist called?", False),
        ("Tool: Your order is on its way.", False),
    ],
)
def test_what_is_told_of_those_who_talk_is_known(sentence, is_told):
    assert is_personal(sentence) == is_told
