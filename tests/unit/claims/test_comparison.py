"""What the check of claims promises: what is changed is found, what is said otherwise is not."""

# ruff: noqa: RUF001 - letters of the languages themselves

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.claims import count_found, find_by_claims, load_cases
from langchain_convmem.claims.comparison import compare_claims
from langchain_convmem.claims.findings import SourceSentence

CORRUPTIONS = load_cases("corruptions")
PARAPHRASES = load_cases("paraphrases")
CASES = [*CORRUPTIONS, *PARAPHRASES]


def _compare(said: str, told: str, speaker: str = "user"):
    return compare_claims([SourceSentence(said, speaker)], told)


# -- the data ------------------------------------------------------------------------------------


def test_there_are_100_of_each_in_thirteen_languages_and_lower_case():
    assert len(CORRUPTIONS) == len(PARAPHRASES) == 100
    assert len({case.language for case in CORRUPTIONS}) == 14
    assert len({case.id for case in CASES}) == 200


def test_at_least_95_corruptions_are_caught():
    assert count_found(CORRUPTIONS, find_by_claims)["all", ""] >= 95


def test_at_most_3_paraphrases_alarm():
    assert count_found(PARAPHRASES, find_by_claims)["all", ""] <= 3


def test_what_was_held_out_is_judged_as_well():
    held_out = [case for case in CORRUPTIONS if case.is_held_out]
    assert count_found(held_out, find_by_claims)["all", ""] >= 0.95 * len(held_out)


def test_nearly_all_fresh_corruptions_are_caught_and_hardly_any_paraphrase_alarms():
    corruptions, paraphrases = load_cases("fresh_corruptions"), load_cases("fresh_paraphrases")
    assert (len(corruptions), len(paraphrases)) == (926, 957)
    assert count_found(corruptions, find_by_claims)["all", ""] >= 0.93 * len(corruptions)
    assert count_found(paraphrases, find_by_claims)["all", ""] <= 0.02 * len(paraphrases)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("apunta mi móvil nuevo: 612345678", "El nuevo móvil del usuario es el 612 34 56 78."),
        ("vi vill ha tjugofem tallrikar till lördag", "Till lördag behövs 25 tallrikar."),
        ("Jag är skyldig Oskar 400 kr.", "Användaren ska betala tillbaka 400 kronor till Oskar."),
        ("사용자는 새우를 못 먹어요", "사용자는 새우를 먹지 못한다."),
        ("火车早上七点一刻出发", "火车7:15出发。"),
        ("se quedan una semana", "Se quedarán 7 días."),
        ("De trein vertrekt om kwart voor acht.", "Vertrek van de trein: 7.45 uur."),
        ("Поезд прибывает без пятнадцати девять утра.", "Прибытие поезда в 8:45."),
        ("Zajęcia są za kwadrans szósta.", "Zajęcia są o 17:45."),
        ("Uçağımız sabah altıyı çeyrek geçe kalkıyor.", "Uçak 06.15'te kalkacak."),
        ("الطائرة تقلع الساعة السابعة والنصف صباحًا.", "تقلع الطائرة في 7:30 صباحًا."),
        ("डॉक्टर की अपॉइंटमेंट शाम साढ़े पाँच बजे है।", "डॉक्टर से 17:30 बजे मिलना है।"),
        ("Репетитор берёт полторы тысячи за час.", "Час с репетитором стоит 1500."),
        ("The roof costs nearer nine grand than seven.", "It costs closer to £9,000 than £7,000."),
        ("it was minus 6 last night", "it was -6 last night"),
    ],
)  # fmt: skip
def test_another_notation_is_no_change(said, told):
    assert _compare(said, told).agrees


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("apunta mi móvil nuevo: 612345678", "El nuevo móvil del usuario es el 612 34 56 79."),
        ("मैं मांस नहीं खाता", "उपयोगकर्ता मांस खाता है।"),
        ("저는 운전을 할 수 있어요", "사용자는 운전을 할 수 없다."),
        ("Ich habe mich gegen das Auto entschieden", "Er hat sich für das Auto entschieden."),
        ("Ich esse kein Fleisch.", "Der Nutzer isst Fleisch."),
        ("Je cours dix kilomètres trois fois par semaine.", "Il court 3 km dix fois par semaine."),
        ("I back it up every night and keep 30 days.", "They back it up every week, 30 days kept."),
        ("我们从上海飞东京。", "他们从东京飞上海。"),
    ],
)  # fmt: skip
def test_another_number_or_a_lost_denial_is_a_change(said, told):
    assert _compare(said, told).changed


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Мне нельзя есть острое.", "Пользователю запрещена острая еда."),
        ("Kardeşim artık sigara içmiyor.", "Kullanıcının kardeşi sigarayı bıraktı."),
        ("House prices went up by a fifth.", "Homes became 20 % more expensive."),
        ("Annem bana araba sürmeyi öğretti.", "Kullanıcı araba sürmeyi annesinden öğrendi."),
        ("Carlos le vendió la moto a Andrés.", "Andrés le compró la moto a Carlos."),
        ("It runs until the end of October.", "It is open till late October."),
    ],
)  # fmt: skip
def test_what_other_words_may_say_is_left_open(said, told):
    assert _compare(said, told).agrees


def test_words_that_change_places_beside_a_preposition_are_left_open():
    report = _compare(
        "mi coche se averió camino de Zaragoza",
        "El automóvil del usuario tuvo una avería de camino a Zaragoza.",
    )
    assert report.agrees
    assert "swap" in {finding.kind for finding in report.unjudged}


def test_a_day_that_is_not_told_is_left_open():
    report = _compare("The parcel comes on Monday and weighs 3 kg.", "The parcel weighs 3 kg.")
    assert report.agrees
    assert [finding.kind for finding in report.unjudged] == ["day"]


def test_a_denial_of_another_thing_is_left_open_rather_than_called_a_change():
    report = _compare(
        "The neighbour fixed the door for free.", "The neighbour fixed it without pay."
    )
    assert report.changed == ()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("We took the blue tiles.", "They took the green tiles."),
        ("Ich nehme den Zug.", "Der Nutzer nimmt den Bus."),
        ("我要靠窗的座位。", "用户要靠过道的座位。"),
        ("we fly out of gatwick", "they fly out of heathrow"),
    ],
)
def test_one_of_several_things_is_not_another(said, told):
    assert [finding.kind for finding in _compare(said, told).changed] == ["word"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("La reunión es el jueves a las 20:30.", "Reunión: jue. 20.30."),
        ("Mijn dochter is vier jaar oud.", "De gebruiker heeft een vierjarige dochter."),
        ("Мою собаку зовут Ракета, ей четыре года", "Четырёхлетняя собака пользователя, Ракета."),
        ("房租涨到三千八", "房租涨到3800元。"),
        ("Mötet är klockan 14 på torsdag.", "Mötet hålls torsdag kl. 14.00."),
        ("면접은 금요일 오후 2시야", "금요일 14시에 면접이 있다."),
        ("Mein Antrag wurde nicht bewilligt.", "Die Bewilligung des Antrags steht aus."),
        ("can you remind me to send Dave 320", "The user wants a reminder to send Dave 320."),
    ],
)
def test_short_forms_and_what_is_asked_for_are_no_change(said, told):
    report = _compare(said, told)
    assert report.changed == report.invented == ()


@pytest.mark.parametrize(
    ("said", "told", "kind"),
    [
        ("The vet is called Ferri.", "The vet is called Ferrari.", "name"),
        ("my physio is called henrik", "the user sees a physio called fredrik", "word"),
        ("Tom is picking up the kids because I'm in court.",
         "The user is picking up the kids because Tom is in court.", "swap"),
        ("Jag äter inte fläsk.", "Användaren äter fläsk.", "polarity"),
        ("수요일에 이사해", "사용자는 목요일에 이사한다.", "day"),
    ],
)  # fmt: skip
def test_what_is_changed_is_named(said, told, kind):
    assert kind in {finding.kind for finding in _compare(said, told).changed}


def test_another_word_in_the_same_place_is_left_open_where_it_may_mean_the_same():
    report = _compare("The invoice was huge for us.", "The invoice was painful for them.")
    assert report.changed == report.invented == ()


def test_in_a_language_that_is_not_listed_numbers_and_codes_alone_are_judged():
    said = "예약 번호는 QX7R2P이고 가격은 58000원입니다."
    assert _compare(said, "Reservation QX7R2P for 58000.").agrees
    assert _compare(said, "Reservation QX7R2P for 85000.").changed


# -- what is found -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "told", "kind"),
    [
        ("I take 5 mg of it.", "The user takes 5 g of it.", "amount"),
        ("It costs 40 euros.", "It costs 40 dollars.", "amount"),
        ("Pick me up at 6 pm.", "The user is to be picked up at 6 am.", "time"),
        ("We meet on 3 May.", "They meet on 4 May.", "date"),
        ("We meet on Monday.", "They meet on Tuesday.", "day"),
        ("My code is QX-4471.", "The user's code is QX-4417.", "id"),
        ("I do not eat pork.", "The user eats pork.", "polarity"),
        ("We accepted the offer.", "They declined the offer.", "opposite"),
        ("Anna owes Ben money.", "Ben owes Anna money.", "role"),
        ("My sister lives in Rome.", "The user's brother lives in Rome.", "person"),
        ("It moved from Tuesday to Friday.", "It moved from Friday to Tuesday.", "swap"),
    ],
)
def test_a_change_is_named_by_its_kind(said, told, kind):
    report = _compare(said, told)
    assert {finding.kind for finding in report.changed} == {kind}
    assert {finding.source for finding in report.changed} == {0}
    assert {finding.sentence for finding in report.changed} == {0}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("The landlord is called Petrov.", "Petrov is the landlord."),
        ("My boss is Anna.", "Anna is my boss."),
    ],
)
def test_who_is_who_may_be_told_the_other_way_round(said, told):
    assert _compare(said, told).changed == ()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Anna was called by Ben.", "Ben was called by Anna."),
        ("My boss is taller than Anna.", "Anna is taller than my boss."),
        ("The landlord called Petrov.", "Petrov called the landlord."),
    ],
)
def test_who_does_what_to_whom_may_not(said, told):
    assert "role" in {finding.kind for finding in _compare(said, told).changed}


def test_what_is_left_out_is_missing_and_knows_its_source():
    lines = [SourceSentence("I live in Rome."), SourceSentence("The rent is 900 euros.")]
    report = compare_claims(lines, "The user lives in Rome.")
    assert [(finding.kind, finding.source) for finding in report.missing] == [("amount", 1)]
    assert report.missing[0].said == "900 euros"
    assert report.changed == report.invented == ()


def test_what_is_added_is_invented():
    report = _compare("I live in Rome.", "The user lives in Rome and pays 900 euros.")
    assert [finding.kind for finding in report.invented] == ["amount"]


def test_a_promise_of_the_assistant_is_not_one_of_the_user():
    report = _compare("I'll send the contract.", "The user will send the contract.", "assistant")
    assert [finding.kind for finding in report.changed] == ["role"]
    assert _compare("I'll send the contract.", "The user will send the contract.").agrees


def test_another_language_is_judged_by_its_values_alone_and_said_to_be_unjudged():
    said = "Ich habe am Bahnhof 40 Euro für die Karte und das Essen bezahlt."
    right = _compare(said, "The user has paid 40 euros at the station for the ticket.")
    assert right.agrees
    assert [finding.kind for finding in right.unjudged] == ["language"]
    wrong = _compare(said, "The user has paid 50 euros at the station for the ticket.")
    assert [finding.kind for finding in wrong.changed] == ["amount"]


@pytest.mark.parametrize("text", ["", " ", ".", "\n"])
def test_an_empty_restatement_misses_everything_and_invents_nothing(text):
    report = _compare("The rent is 900 euros.", text)
    assert [finding.kind for finding in report.missing] == ["amount"]
    assert report.changed == report.invented == ()
    assert compare_claims([], text).agrees


def test_no_text_of_a_message_is_in_the_repr_of_a_report():
    report = _compare("The rent for Ottilie is 900 euros.", "The rent is 800 euros for Zebedee.")
    assert not report.agrees
    for word in ("Ottilie", "Zebedee", "900", "800"):
        assert word not in repr(report)
        assert word not in repr(SourceSentence(f"It is {word}."))


# -- properties ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_text_agrees_with_itself(case):
    lines = [SourceSentence(line.text) for line in case.source]
    report = compare_claims(lines, " ".join(line.text for line in case.source))
    assert report.agrees


ENGLISH = [case.source[0].text for case in CASES if case.language == "en"]


@given(st.permutations(range(12)))
def test_the_order_of_sentences_does_not_matter(order):
    lines = [SourceSentence(text) for text in ENGLISH[:12]]
    assert compare_claims(lines, " ".join(lines[number].text for number in order)).agrees


@given(st.integers(2, 100_000), st.integers(2, 100_000))
def test_any_other_number_is_found(one, two):
    report = _compare(f"We paid {one} euros for it.", f"They paid {two} euros for it.")
    assert report.agrees is (one == two)


UNITS = ["mg", "g", "kg", "ml", "km", "miles", "percent", "euros", "dollars", "hours", "days"]


@given(st.integers(2, 999), st.sampled_from(UNITS), st.sampled_from(UNITS))
def test_any_other_unit_is_found(number, one, two):
    report = _compare(f"It says {number} {one} on the label.", f"The label says {number} {two}.")
    assert report.agrees is (one == two)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("I eat fish.", "The user does not eat fish."),
        ("I eat fish.", "The user never eats fish."),
        ("Ich esse Fisch.", "Der Nutzer isst keinen Fisch."),
        ("Je mange du poisson.", "L'utilisateur ne mange pas de poisson."),
        ("Como pescado.", "El usuario no come pescado."),
        ("Mangio pesce.", "L'utente non mangia pesce."),
        ("Como peixe.", "O usuário não come peixe."),
        ("Ik eet vis.", "De gebruiker eet geen vis."),
        ("Я ем рыбу.", "Пользователь не ест рыбу."),
        ("Jem ryby.", "Użytkownik nie je ryb."),
        ("我吃鱼。", "用户不吃鱼。"),
        ("私は魚を食べます。", "ユーザーは魚を食べません。"),
    ],
)
def test_a_negation_is_found_whether_added_or_lost(said, told):
    assert [finding.kind for finding in _compare(said, told).changed] == ["polarity"]
    assert [finding.kind for finding in _compare(told, said).changed] == ["polarity"]


def test_a_verb_after_a_noun_that_is_a_title_too_is_no_name():
    said = [SourceSentence("Meine Frau kümmert sich um die Kündigung der alten Wohnung.", "user")]
    assert not compare_claims(said, "Die Frau kündigt die alte Wohnung.").changed
    called = [SourceSentence("Ich rufe Frau Kühn an.", "user")]
    assert compare_claims(called, "Der Nutzer ruft Frau Lorenz an.").changed
