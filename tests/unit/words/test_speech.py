# ruff: noqa: RUF001 - letters of the languages themselves
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.words.dates import find_named_days
from langchain_convmem.words.facts import is_personal, is_preference, is_promise
from langchain_convmem.words.speech import (
    Persons,
    find_mark,
    find_persons,
    find_questions,
    find_statements,
    is_courtesy,
    is_follow_up,
)


def cases(text):
    """Return the cases that a text lists, with bars between those of a line."""
    return [one for line in text.strip().splitlines() for one in line.split(" | ")]


ABOUT_THE_ASKER = cases("""
Which pets do I have? | my sister's birthday | Book me a table | remind me to call the bank
What should I cook tonight? | Draft a message to my landlord
Fill in the form for me: spouse's occupation. | Recommend me a thriller for the beach
which city do we live in | Wo wohne ich? | Buche mir einen Tisch | Où est-ce que j'habite ?
¿Dónde vivo? | dove abito? | onde eu moro? | waar woon ik? | где я живу? | أين أسكن؟
onde guardo as chaves? | ¿Dónde aparqué el coche? | cosa mangiamo il venerdì?
onde estacionamos o carro? | o que encomendei ontem? | ¿Cuándo vuelo? | quando torno da Parigi?
我住在哪里？ | 私の犬の名前は？ | 내 강아지 이름이 뭐야? | Which pets did I name (I forgot)?
""")
FIRST_PERSON_OF_THE_REQUEST = cases("""
tell me about cats | explain recursion to me | show me how magnets work
can you help me with a regex | I'd like to know how tides work | I was wondering why cats purr
let me know the capital of Peru | What's an oxymoron? I always mix it up with a paradox
How do I reverse a linked list in Java? | How do you say "my mother means well" in Dutch
how much is a normal tip in the US | What started World War I? | Erkläre mir Rekursion
¿Cuántos gramos tiene un kilo? | ¿Cómo se hace el té, y el café? | perché serve il richiamo?
¿Dónde hubo terremotos? | quando nascono i gattini? | quando isso aconteceu?
Explique-moi la photosynthèse | Explícame la fotosíntesis | spiegami la fotosintesi
объясни мне рекурсию | 告诉我什么是递归
What's wrong with: for i in range(3) print(i) | Debug: if (i == 10) { i++; } | Fix my SQL: SELECT 1
""")
ABOUT_THE_LISTENER = cases("""
Which hotel did you recommend? | the book you told me about
What were the weights in your flour blend? | your recipe for pesto
what was that trick of yours against stains | Was hast du mir empfohlen?
Que m'as-tu conseillé ? | ¿Qué me recomendaste? | cosa mi hai consigliato?
o que você me recomendou? | wat heb je me aangeraden? | что ты мне посоветовал?
你之前推荐了什么？ | 前におすすめしてくれた本は？ | 네가 추천해 준 책이 뭐야?
""")
REQUESTS = cases("""
can you do it | do you know Kant | thank you | what would you suggest | did you know it
""")


@pytest.mark.parametrize(
    ("question", "person", "is_meant"),
    [
        *((one, "asker", True) for one in ABOUT_THE_ASKER),
        *((one, "asker", False) for one in FIRST_PERSON_OF_THE_REQUEST),
        *((one, "listener", True) for one in ABOUT_THE_LISTENER),
        *((one, "listener", False) for one in REQUESTS),
    ],
)
def test_a_question_is_about_the_asker_the_listener_or_neither(question, person, is_meant):
    assert getattr(find_persons(question), person) == is_meant


FOLLOW_UPS = cases("""
and hers? | what about Monday? | why? | the second one | which pub was it? | und ihre? | ?
""")
WHOLE_QUESTIONS = cases("who are we? | Which pets do I have? | capital of Mongolia? | Who is Jill?")


@pytest.mark.parametrize(
    ("message", "expected"),
    [*((one, True) for one in FOLLOW_UPS), *((one, False) for one in WHOLE_QUESTIONS)],
)
def test_a_message_that_cannot_be_understood_alone_is_a_follow_up(message, expected):
    assert is_follow_up(message) == expected


def test_silence_about_the_subject_is_told_where_it_is_usual():
    assert find_persons("犬の名前は何だっけ？").subject_open
    assert not find_persons("私の犬の名前は何？").subject_open
    assert not find_persons("What is the dog called?").subject_open


def test_nothing_is_recognised_in_other_languages():
    assert find_persons("Πού μένω;") == Persons()
    assert find_mark("Μένω στην Αθήνα με την αδελφή μου.") is None
    assert find_statements("Πού μένω; Μένω εδώ.") == [(0, 19)]


STATES = cases("""
I adopted a cat, Miso. | We're on the third floor, there's no lift
my sister Ivana lives in Graz | hey so i park the truck behind my cousins shop
In August we walk Hadrian's Wall.
I've locked myself out, who can let me in? | good morning, I moved to Porto | Ich wohne in Graz.
J'habite à Lyon. | Vivo en Lima con mi hermana. | Abito a Torino.
Moro em Lisboa. | Ik woon in Gent. | Я живу в Казани. | أسكن في عمان | 我住在成都。
松本に住んでいます。 | 저는 부산에 살아요.
""")
INSTRUCTS = cases("""
always answer in metric units | call me Sam | never use emojis | Ab jetzt bitte keine Emojis.
I moved to Porto. When I tell you I'm driving, keep it to three sentences.
""")
ASKS = cases("""
Which pets do I have? | Write a haiku about autumn | can you explain quicksort
can you draft a mail to my landlord? | capital of Mongolia? | thanks, and which room?
If I add butter, what happens? | Schreib ein Gedicht über Schnee | Écris un poème sur la neige
Escribe un poema sobre la nieve | Scrivi una poesia sulla neve | Escreva um poema sobre a neve
Schrijf een gedicht over sneeuw | Напиши стих о снеге | اكتب قصيدة عن الثلج | 写一首关于雪的诗
雪についての詩を書いて | 눈에 대한 시를 써줘 | where r u | do u have the keys
""")
IGNORANT = cases("""
I don't have any information about that. | I'm sorry, you haven't mentioned that. | I don't know
I can't help with that | Nothing in our conversations says where you live.
As an AI I have no access to your files. | Ich weiß nicht, wo du das Auto geparkt hast.
I don't know your sister's name. If you tell me, I'll remember it. | Das weiß ich leider nicht.
Je ne sais pas. | No tengo información sobre eso. | Non lo so. | Je ne sais pas où tu es garé.
Não tenho informações sobre isso. | Dat weet ik niet. | Я не знаю. | لا أعرف | 我不知道。
わかりません。 | 잘 모르겠습니다. | No sé dónde está. | You haven't told me where you live.
""")
COURTESIES = cases("""
thanks!! | ok great, thank you so much | perfect, that's all for now | haha nice
Good morning :) | see you tomorrow! | 🎉👍 | hey, how's it going? | goooood, thankssss | ta!
Vielen Dank! | merci beaucoup | grazie mille | ¿qué tal? | obrigada! | dank je wel
Much obliged to you. | Splendid, that helped | спасибо большое
شكرا جزيلا | 谢谢你 | ありがとうございます | 감사합니다
""")


@pytest.mark.parametrize(
    ("mark", "line"),
    [
        *((None, line) for line in STATES),
        *(("instructs", line) for line in INSTRUCTS),
        *(("asks", line) for line in ASKS),
        *(("ignorant", line) for line in IGNORANT),
        *(("courtesy", line) for line in COURTESIES),
    ],
)
def test_a_line_is_marked_by_what_it_does(mark, line):
    assert find_mark(line) == mark


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ("ignorant", "I don't know the exact date, but your dentist appointment is in May at 10."),
        ("ignorant", "I don't know who painted it. The frame is from 1820 and comes from Delft."),
        *(("courtesy", text) for text in ("thanks, and which room?", "ok why?", "and hers?")),
        ("courtesy", "good morning, I moved to Porto"),
    ],
)
def test_substance_is_neither_ignorance_nor_courtesy(other, text):
    assert find_mark(text) != other
    assert not is_courtesy(text)


def parts(text):
    return [text[start:end] for start, end in find_statements(text)]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        *((line, [line]) for line in STATES),
        *((line, []) for line in (*ASKS, *COURTESIES)),
    ],
)
def test_what_states_something_is_kept_and_of_requests_and_courtesies_nothing(line, kept):
    assert parts(line) == kept


def test_questions_requests_and_thanks_are_left_out_between_statements():
    text = "Good morning! Elsie, who will be ten on 14 June, sings. What can I give her? Thank you."
    assert parts(text) == ["Elsie, who will be ten on 14 June, sings."]


def test_lines_and_marks_of_other_scripts_end_sentences():
    assert parts("- my cat is Miso\n- what can she eat?") == ["- my cat is Miso"]
    assert parts("我住在成都。你能推荐一本书吗？") == ["我住在成都。"]


def test_pasted_text_is_stated_whatever_it_asks():
    code = "```\nwhy = input('why?')\n```"
    assert parts(f"What is wrong here?\n{code}") == [code]
    letter = "Dear Orla,\nWhen may I come to Cork?\nAnnika"
    assert parts(f"Shorten this, please.\n\n{letter}") == [letter]


@given(st.text(st.sampled_from("aI my.,?!\n'\"`>¿。？はİſ\u2019")))
def test_statements_stand_in_order_inside_the_text(text):
    places = [place for span in find_statements(text) for place in span]
    assert places == sorted(places)
    assert all(0 <= place <= len(text) for place in places)
    assert all(text[start:end].strip() == text[start:end] for start, end in find_statements(text))


PREFERENCES = cases("""
Oat milk suits me better than soy. | I'm not a fan of open-plan offices.
The user prefers trains to planes. | Ana likes her coffee black. | I’d rather take the stairs.
My go-to bakery is the one on Mill Lane. | Mir ist ein Fensterplatz lieber.
Rosinen kann ich nicht ausstehen. | Je ne supporte pas les réunions du lundi.
Mon peintre préféré est Vallotton. | No soporto el cilantro.
Il mio gelato preferito è al pistacchio.
""")
PROMISES = cases("""
I owe Ben a reply about the lease. | Make sure I call the vet tomorrow.
I said I'd bring the salad on Sunday. | The user still has to renew the passport.
Don’t let me forget the flowers. | Ich muss noch die Steuer abgeben.
Vergiss nicht, den Arzt anzurufen. | Je dois rendre le livre avant mardi.
N'oublie pas d'arroser les plantes. | Tengo que pagar el alquiler antes del lunes.
Ho promesso a Mia di portare la torta.
""")
NEITHER = cases("""
The train was late again this morning. | It looks like rain. | The search returned 12 results.
I would like to know how the weather will be. | They must have taken the other road.
Der Zug war wieder zu spät. | Il habite à Lyon. | Vive en Madrid. | Il treno è in ritardo.
O comboio chegou tarde. | Hij woont in Utrecht.
""")


@pytest.mark.parametrize(
    ("sentence", "likes", "promises"),
    [
        *((one, True, False) for one in PREFERENCES),
        *((one, False, True) for one in PROMISES),
        *((one, False, False) for one in NEITHER),
    ],
)
def test_preferences_and_promises_are_known_however_they_are_said(sentence, likes, promises):
    assert is_preference(sentence) or not likes
    assert is_promise(sentence) or not promises
    assert likes or promises or not (is_preference(sentence) or is_promise(sentence))


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


DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize("sign", ["\u201e", "\u201c", "\u00ab", "\u300c", " 'a"])
def test_what_is_asked_after_signs_that_nothing_closes_is_found(sign):
    text = f"{sign * 5_000} x.\nWhere do I live?"
    assert find_persons(text).asker
    assert text[slice(*find_questions(text)[-1])].endswith("Where do I live?")


@pytest.mark.parametrize("signs", ["\u201e\u201c", "\u201e\u201d", "\u201c\u201d"])
def test_what_is_quoted_is_about_nobody(signs):
    assert not find_persons(f"What does {signs[0]}I am late{signs[1]} mean?").asker


def test_a_long_quotation_inside_another_sign_is_pasted():
    passage = "\u00ab" + "the tide comes in. " * 5 + "\u00bb"
    found = find_statements(f"I read \u00ab once. {passage}")
    assert len(found) == 2
    waited = "I waited for a while, then for a longer while, and asked again."
    said = ['It calls f({"id": "A2"}).', waited, 'It calls g({"id": "A9"}).']
    assert parts("\n".join(said)) == said


def test_a_day_is_found_before_and_after_many_blanks():
    assert find_named_days(f"monday{' ' * 20_000}tuesday", 0) == [
        (4 * DAY_MS, 5 * DAY_MS),
        (5 * DAY_MS, 6 * DAY_MS),
    ]
