"""Whether a text is about what it should be, by its words: in any script, in translation too. Pure.

In one language, enough of the words of a text must stand in what it is about. In another one, some
must be known again: names, numbers, ids, words that languages share, and everyday concepts.
"""

# ruff: noqa: RUF001, E501, SIM905 - letters and words of the languages themselves

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

from langchain_convmem.words.languages import (
    FUNCTION_CHARACTERS,
    STOP_WORDS,
    detect_language,
    is_function_word,
)

_FEW = 4
"""Of so few telling words half must be known again."""
_FEW_SAID = 12
"""So few telling words are no subject."""
_LEAST_SHARE = 0.3
_LEAST_SHARE_UNSPACED = 0.2
_LEAST_ANCHORS = 2.0
_LEAST_FOUND = 0.5
"""Of what a text in another language could be known again by."""
_FEW_ANCHORS = 1.5
_MOST_FOUND = 0.8
_FEWEST_ANCHORS = 1.0
_LEAST_KNOWN = 0.4


def is_about(text: str, source: str) -> bool:
    """Return whether a text is about its source, as far as words can tell.

    Args:
        text: A summary.
        source: What it covers.
    """
    mine, theirs = _Words.read(text), _Words.read(source)
    if len(theirs.telling) < _FEW_SAID:
        return True
    if len(mine.telling) < _FEW:
        return 2 * len(mine.telling & theirs.telling) >= max(len(mine.telling), 1) or (
            count_anchors(mine, theirs) >= 1
        )
    if _is_foreign(mine, theirs):
        return _is_known_again(mine, theirs, _Words.read(_DAY_LINE.sub("", source)))
    least = _LEAST_SHARE_UNSPACED if mine.script in _UNSPACED_SCRIPTS else _LEAST_SHARE
    return measure_share(mine, theirs) >= least


def is_in_other_language(text: str, source: str) -> bool:
    """Return whether a text is in no language that its source has, as far as words can tell."""
    return _is_foreign(_Words.read(text), _Words.read(source))


def _is_foreign(mine: _Words, theirs: _Words) -> bool:
    return mine.script != theirs.script or not mine.languages & theirs.languages


_DAY_LINE = re.compile(r"^\(\d{4}-\d\d-\d\d\)$", re.MULTILINE)


def _is_known_again(mine: _Words, theirs: _Words, said: _Words) -> bool:
    """Return whether a text in another language tells of the same.

    Args:
        mine: The text.
        theirs: Its source.
        said: Its source without the days on which it was said.
    """
    found = count_anchors(mine, theirs)
    possible = count_anchors(mine, mine)
    if found >= _LEAST_ANCHORS and found >= _LEAST_FOUND * possible:
        return True
    # Where there is little to be known by, most of the source is enough, or all of the text.
    known = found / max(count_anchors(said, said), 1.0)
    is_most = found >= _FEW_ANCHORS and known >= _MOST_FOUND
    return is_most or (found >= max(possible, _FEWEST_ANCHORS) and known >= _LEAST_KNOWN)


def measure_share(mine: _Words, theirs: _Words) -> float:
    """Return which share of the telling words of a text stands in another."""
    return len(mine.telling & theirs.telling) / max(len(mine.telling), 1)


def count_anchors(mine: _Words, theirs: _Words) -> float:
    """Return how much of a text is known again in another language."""
    numbers = sum(_weigh_number(one) for one in mine.numbers & theirs.numbers)
    names = 0.0
    if mine is not theirs:
        names = sum(_NAME_WEIGHTS[len(one)] for one in mine.names & theirs.names)
    concepts = len(mine.concepts & theirs.concepts)
    return numbers + names + 0.5 * concepts


def _weigh_number(number: str) -> float:
    return min(len(number), 4) / 2 - 0.25 if len(number) > 1 else 0.25


_NAME_WEIGHTS = {3: 0.25, 4: 0.5, 5: 1.0}
"""What a word that is known again counts, by its letters."""
_UNSPACED_SCRIPTS = frozenset({"HAN", "KANA", "THAI", "HANGUL"})


@dataclass(frozen=True, slots=True)
class _Words:
    """What a text says, as sets to compare.

    Attributes:
        script: That most of its letters belong to.
        languages: In which it may be written; the languages of its lines.
        telling: Stems of its words, or pairs of characters where no blanks part words.
        names: Words as other scripts and languages would write them.
        numbers: Without what groups their digits.
        concepts: Everyday things that it mentions, by number.
    """

    script: str
    languages: frozenset[str]
    telling: frozenset[str]
    names: frozenset[str]
    numbers: frozenset[str]
    concepts: frozenset[int]

    @classmethod
    def read(cls, text: str) -> _Words:
        return _read_words(text)


@lru_cache(maxsize=64)
def _read_words(text: str) -> _Words:
    plain = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    plain = "".join(str(unicodedata.digit(one, one)) for one in plain)
    runs = [run.strip("'") for run in _RUN.findall(plain)]
    words = [run for run in runs if not _PAIRED.match(run)]
    script = _find_script(plain)
    languages = _find_languages(plain, script)
    spoken = [one for one in languages if one in STOP_WORDS] or ["english"]
    meta = _get_meta_words()
    content = [
        word
        for word in words
        if len(word) > 1
        and word not in meta
        and not any(is_function_word(word, one) for one in spoken)
    ]
    stems = {_shape(word) for word in content}
    pairs = {
        run[n : n + 2]
        for run in _PAIRED.findall(plain)
        for n in range(len(run) - 1)
        if not set(run[n : n + 2]) <= FUNCTION_CHARACTERS and run[n : n + 2] not in meta
    }
    telling = {stem for stem in stems if len(stem) > 1} | pairs
    names = {_shape(word) for word in content if len(word) > 2}  # noqa: PLR2004
    names |= {_shape(_translate_kana(run)) for run in _KANA.findall(plain) if len(run) > 1}
    numbers = {_strip_number(one) for one in _NUMBER.findall(plain)}
    return _Words(
        script,
        languages,
        frozenset(telling | {one for one in numbers if len(one) > 1}),
        frozenset(name for name in names if len(name) > 2),  # noqa: PLR2004
        frozenset(numbers - {""}),
        frozenset(find_concepts(plain, words)),
    )


_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u3096\u30a1-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3々"
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u0652\u0900-\u0963\u0981-\u0dff"
_RUN = re.compile(rf"[{_UNSPACED}]+|(?:[^\W\d_{_UNSPACED}]|[{_MARKS}])+(?:'[^\W\d_]+)*")
_PAIRED = re.compile(rf"[{_UNSPACED}]+")
_KANA = re.compile(r"[\u30a1-\u30fa\u30fc]+")
_NUMBER = re.compile(r"\d+(?:[.,:' ]?\d+)*")


def _strip_number(number: str) -> str:
    whole = re.sub(r"[.,]\d{1,2}$", "", number)
    return re.sub(r"\D", "", whole).lstrip("0")


def _find_script(text: str) -> str:
    counted = Counter(_name_script(one) for one in text if one.isalpha())
    counted.pop("", None)
    if not counted:
        return ""
    if counted["KANA"] * 8 > counted["HAN"] and counted["KANA"]:
        counted["KANA"] += counted.pop("HAN", 0)
    # A letter of these is worth a word's part elsewhere.
    for name in ("HAN", "KANA", "HANGUL"):
        counted[name] *= 3
    return counted.most_common(1)[0][0]


@lru_cache(maxsize=4096)
def _name_script(letter: str) -> str:
    name = unicodedata.name(letter, "").partition(" ")[0]
    if name in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"):
        return "KANA"
    return "HAN" if name.startswith("CJK") else name


def _find_languages(text: str, script: str) -> frozenset[str]:
    """Return the languages of a text and of its longer lines; a script where it tells the language."""
    if script != "LATIN":
        return frozenset({script})
    lines = [_LATIN_WORD.findall(line) for line in text.splitlines()]
    whole = [word for line in lines for word in line]
    counted = Counter(_detect(line) for line in lines if len(line) >= _LONG_LINE)
    most = sum(counted.values())
    return frozenset(
        {_detect(whole), *(one for one, count in counted.items() if count * 4 >= most)}
    )


_LATIN_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_LONG_LINE = 6
_POLISH = frozenset(
    "się nie jest że na do to co jak ale tak czy już był była było będzie są dla po od za oraz przez które który która mam może".split()
)


def _detect(words: list[str]) -> str:
    if sum(word in _POLISH for word in words) * 8 >= max(len(words), 1):
        return (
            "polish"
            if sum(word in _POLISH - {"do", "to", "na", "po", "za", "co", "od"} for word in words)
            else detect_language(words)
        )
    return detect_language(words)


# -- One spelling for a word in many languages ----------------------------------------------------

_CYRILLIC = dict(
    zip(
        "абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґ",
        "a b v g d e e s s i i k l m n o p r s t u f k s s s s _ i _ e iu ia i i e g".replace(
            "_", ""
        ).split(" "),
        strict=True,
    )
)
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρσςτυφχψω",
        "a v g d e s i t i k l m n ks o p r s s t i f k ps o".split(),
        strict=True,
    )
)
_ARABIC = dict(
    zip(
        "ابتثجحخدذرزسشصضطظعغفقكلمنهويىةءآأإؤئ",
        "a b t t g _ k d d r s s s s d t s a g f k k l m n _ u i a a _ a a i u i".replace(
            "_", ""
        ).split(" "),
        strict=True,
    )
)
_HEBREW = dict(
    zip(
        "אבגדהוזחטיכךלמםנןסעפףצץקרשת",
        "a v g d _ o s _ t i k k l m m n n s a p f s s k r s t".replace("_", "").split(" "),
        strict=True,
    )
)
_LETTERS = str.maketrans(
    {
        **_CYRILLIC,
        **_GREEK,
        **_ARABIC,
        **_HEBREW,
        "ß": "ss",
        "ø": "o",
        "ł": "l",
        "ı": "i",
        "æ": "ae",
        "œ": "oe",
        "đ": "d",
        "'": None,
    }
)
_SPELLINGS = (
    ("sch", "s"), ("tsch", "s"), ("sh", "s"), ("ph", "f"), ("th", "t"), ("ch", "k"), ("ck", "k"), ("x", "ks"),
    ("qu", "k"), ("c", "k"), ("q", "k"), ("y", "i"), ("j", "i"), ("z", "s"), ("w", "v"), ("h", ""),
)  # fmt: skip
_STEM = 5


@lru_cache(maxsize=50_000)
def _shape(word: str) -> str:
    """Return the first letters of a word in one rough Latin spelling."""
    latin = unicodedata.normalize("NFD", word.translate(_LETTERS))
    latin = "".join(
        one for one in latin if not unicodedata.combining(one) or "\u0900" <= one <= "\u0dff"
    )
    for written, said in _SPELLINGS:
        latin = latin.replace(written, said)
    latin = re.sub(r"(.)\1+", r"\1", latin)
    if len(latin) > _STEM:
        return latin[:_STEM]
    return latin[:-1] if len(latin) > 3 and latin[-1] in "aeious" else latin  # noqa: PLR2004


_ROWS = {
    "a": "アカサタナハマヤラワガザダバパ",
    "i": "イキシチニヒミ_リ_ギジヂビピ",
    "u": "ウクスツヌフムユル_グズヅブプ",
    "e": "エケセテネヘメ_レ_ゲゼデベペ",
    "o": "オコソトノホモヨロヲゴゾドボポ",
}


@cache
def _get_kana() -> dict[str, str]:
    heads = ["", "k", "s", "t", "n", "", "m", "i", "r", "v", "g", "s", "d", "b", "p"]
    found = {
        kana: head + vowel
        for vowel, row in _ROWS.items()
        for kana, head in zip(row, heads, strict=True)
    }
    return {
        **found,
        "ン": "n",
        "ッ": "",
        "ー": "",
        "ャ": "a",
        "ュ": "u",
        "ョ": "o",
        "ァ": "a",
        "ィ": "i",
        "ゥ": "u",
        "ェ": "e",
        "ォ": "o",
        "フ": "f",
        "ヴ": "v",
    }


def _translate_kana(kana: str) -> str:
    return "".join(_get_kana().get(one, "") for one in kana)


# -- Words that every summary has -----------------------------------------------------------------

_META = """
user users assistant ai bot agent customer client person human conversation chat summary transcript tool system message
asked asks ask said says say told tell wants want wanted needs need discussed mentioned confirmed suggested recommended
explained agreed decided also still next open later soon new first last two one three will offered noted planned
nutzer nutzerin benutzer benutzerin kunde kundin assistentin gespräch unterhaltung fragt fragte sagte möchte wollte
zusammenfassung erklärte empfahl bestätigte
utilisateur utilisatrice client conversation demande demandé souhaite veut résumé assistante
usuario usuaria asistente cliente conversación pidió preguntó quiere resumen dijo
utente assistente cliente conversazione chiede chiesto vuole riassunto
usuário usuária utilizador assistente conversa pediu perguntou quer resumo
gebruiker assistent klant gesprek vroeg wil samenvatting
пользователь пользователя пользователю пользовательница ассистент ассистента помощник разговор спросил попросил хочет
сказал сообщил клиент просит итог
użytkownik użytkowniczka asystent rozmowa zapytał poprosił chce klient
kullanıcı kullanıcının kullanıcıya asistan konuşma sordu istedi istiyor müşteri
المستخدم المساعد محادثة المحادثة سأل طلب يريد العميل
यूज़र उपयोगकर्ता सहायक बातचीत पूछा
用户 用戶 助手 对话 總結 户希 用户 ユー ーザ ザー アシ シス スタ タン ント ーは 会話 사용 용자 어시 시스 스턴 턴트 대화
ます した です ました ている しま ため した れた する
니다 습니 합니 했습 입니 었습 하고 했다 한다
"""


@cache
def _get_meta_words() -> frozenset[str]:
    polish = _POLISH
    return frozenset(_META.casefold().split()) | polish


# -- Everyday concepts, across languages ----------------------------------------------------------

_CONCEPTS = """
allergy allergic allergie allergisch allergique alergia alérgica alérgico allergia allergico аллергия аллерг alerji 过敏 アレルギー 알레르기 حساسية एलर्जी
doctor physician arzt ärztin médecin médico médica medico dottore врач доктор lekarz doktor 医生 医師 医者 의사 طبيب डॉक्टर
medicine medication pills medikament tabletten médicament medicamento farmaco medicina medicijn лекарство таблетки lek ilaç 药 薬 약 دواء दवा
hospital clinic krankenhaus klinik hôpital clinique hospital clínica ospedale ziekenhuis больница клиника szpital hastane 医院 病院 병원 مستشفى
pain hurts schmerz schmerzen douleur dolor dolore dor pijn боль болит ból ağrı 疼 痛 통증 아프 ألم दर्द
flight plane flug flüge vol vuelo volo voo vlucht рейс самолёт перелёт lot uçuş uçak 航班 飞机 飛行機 便 항공 비행 رحلة طيران उड़ान
train zug bahn train gare tren treno trem trein поезд поезда pociąg pociągiem 火车 高铁 列车 電車 新幹線 기차 열차 قطار ट्रेन
hotel room zimmer chambre habitación camera quarto kamer номер отель гостиница pokój oda otel 酒店 宾馆 ホテル 호텔 فندق होटल
trip travel journey reise urlaub voyage vacances viaje vacaciones viaggio vacanza viagem férias reis vakantie поездка путешествие отпуск podróż wakacje seyahat tatil 旅行 旅 여행 سفر यात्रा
book booking booked reserve reservation buchen gebucht buchung reservieren reserviert réserver réservation réservé reservar reserva reservado prenotare prenotazione prenotato boeken geboekt reserveren забронировать бронь забронировал заброни rezerwacja zarezerwować rezervasyon 预订 预约 訂 予約 예약 حجز बुकिंग
restaurant dinner lunch abendessen mittagessen dîner déjeuner cena comida almuerzo pranzo cena jantar almoço diner ресторан ужин обед restauracja kolacja obiad restoran yemek 餐厅 晚餐 饭 レストラン 夕食 식당 저녁 مطعم عشاء रेस्टोरेंट
recipe cook bake kochen backen rezept recette cuisiner receta cocinar ricetta cucinare receita cozinhar recept koken рецепт готовить приготов przepis gotować tarif pişir 食谱 做菜 レシピ 料理 레시피 요리 وصفة طبخ
vegetarian vegan vegetarisch végétarien vegetariano вегетариан wegetaria vejetaryen 素食 吃素 ベジタリアン 채식 نباتي शाकाहारी
school teacher class schule lehrer klasse école professeur classe escuela profesor clase scuola insegnante maestra escola professora школа учитель класс szkoła nauczyciel okul öğretmen 学校 老师 先生 학교 선생 مدرسة معلم स्कूल
exam test prüfung klausur examen prueba esame prova exame toets экзамен egzamin sınav 考试 试験 試験 시험 امتحان परीक्षा
daughter tochter fille hija figlia filha dochter дочь дочери дочка córka kızı 女儿 娘 딸 ابنة बेटी
son sohn fils hijo figlio filho zoon сын сына syn oğlu 儿子 息子 아들 ابن बेटा
mother mum mom mutter mama mère madre mãe moeder мама мать маме мамы matka anne 妈妈 母亲 母 엄마 어머니 والدة أم माँ
father dad vater papa père padre pai vader папа отец ojciec baba 爸爸 父亲 父 아빠 아버지 والد पिता
wife husband frau mann femme mari esposa marido moglie marito mulher vrouw жена муж жене żona mąż eş 妻子 丈夫 老公 老婆 妻 夫 아내 남편 زوجة زوج पत्नी पति
child children kids kind kinder enfant enfants niño niños bambino bambini criança crianças kinderen ребёнок дети ребенок dziecko dzieci çocuk 孩子 子供 아이 طفل أطفال बच्चे
dog hund chien perro cane cachorro cão hond собака пёс щенок pies köpek 狗 犬 개 강아지 كلب कुत्ता
cat katze chat gato gatta gatto gata kat кошка кот кота kot kedi 猫 고양이 قطة बिल्ली
car vehicle auto wagen voiture coche carro macchina automobile автомобиль машина машину samochód araba 车 汽车 車 자동차 차량 سيارة गाड़ी कार
bike bicycle fahrrad rad vélo bicicleta bici fiets велосипед rower bisiklet 自行车 自転車 자전거 دراجة साइकिल
house apartment flat wohnung haus appartement maison piso casa appartamento huis appartement woning квартира дом квартиру mieszkanie dom ev daire 房子 公寓 房 家 部屋 マンション 아파트 집 شقة بيت घर
rent miete loyer alquiler affitto aluguel huur аренда аренду czynsz kira 租 房租 家賃 월세 إيجار किराया
move moving umzug umziehen déménager déménagement mudanza mudarse trasloco mudança verhuizen verhuizing переезд переехать переезжает przeprowadzka taşın 搬家 引っ越し 引越 이사 انتقال
job work position arbeit stelle beruf travail emploi poste trabajo empleo puesto lavoro posto trabalho emprego vaga werk baan работа работу работает praca pracy iş 工作 仕事 직장 업무 عمل وظيفة नौकरी
interview bewerbung vorstellungsgespräch entretien entrevista colloquio sollicitatie собеседование rozmowa mülakat 面试 面接 면접 مقابلة साक्षात्कार
boss manager chef chefin vorgesetzte patron jefe jefa capo начальник руководитель szef müdür patron 老板 经理 上司 상사 مدير
team project projekt projet proyecto progetto projeto команда проект zespół proje ekip 项目 团队 プロジェクト チーム 프로젝트 팀 مشروع فريق परियोजना
meeting appointment termin treffen besprechung réunion rendez-vous reunión cita riunione appuntamento reunião consulta afspraak vergadering встреча встречу приём совещание spotkanie wizyta toplantı randevu 会议 见面 会議 打ち合わせ 회의 약속 اجتماع موعد मीटिंग
price cost costs preis kosten kostet prix coûte coût precio cuesta costo prezzo costa preço custa prijs kost цена стоит стоимость cena kosztuje fiyat tutuyor 价格 价钱 元 値段 料金 円 가격 비용 원 سعر تكلفة कीमत
pay payment bezahlen zahlung payer paiement pagar pago pagare pagamento betalen betaling оплата оплатить платить zapłacić płatność ödeme 付款 支付 支払 결제 지불 دفع भुगतान
money budget geld budget argent presupuesto dinero soldi denaro dinheiro orçamento деньги бюджет pieniądze budżet para bütçe 钱 预算 予算 お金 예산 돈 ميزانية مال पैसे
invoice bill rechnung facture factura fattura fatura factuur счёт счет faktura fatura 发票 账单 請求 청구 영수증 فاتورة बिल
refund return rückerstattung erstattung remboursement reembolso devolución rimborso terugbetaling возврат вернуть zwrot iade 退款 退货 返金 返品 환불 반품 استرداد रिफंड
order delivery package bestellung lieferung paket commande livraison colis pedido envío entrega paquete ordine consegna spedizione pacco encomenda bestelling levering pakket заказ доставка посылка zamówienie dostawa paczka sipariş teslimat kargo 订单 快递 包裹 注文 配送 주문 배송 طلب توصيل शिपिंग ऑर्डर
broken damaged defect kaputt beschädigt defekt cassé endommagé roto dañado rotto danneggiato quebrado danificado kapot beschadigd сломан повреж неисправ zepsuty uszkodzony bozuk kırık 坏 损坏 破损 壊れ 破損 고장 파손 معطل مكسور
phone handy telefon téléphone teléfono telefono telefone telefoon телефон telefonu 手机 电话 携帯 電話 スマホ 전화 휴대폰 هاتف फ़ोन
computer laptop rechner ordinateur ordenador portátil computadora computer computador ноутбук компьютер komputer bilgisayar 电脑 笔记本 パソコン 노트북 컴퓨터 حاسوب كمبيوتر लैपटॉप
password passwort mot contraseña senha wachtwoord пароль hasło şifre 密码 パスワード 비밀번호 كلمة पासवर्ड
server database datenbank serveur base servidor servidor сервер базу serwer sunucu 服务器 数据库 サーバー データベース 서버 데이터베이스 خادم
garden plant plants garten pflanze jardin plante jardín planta giardino pianta tuin plant сад растение ogród roślina bahçe bitki 花园 植物 庭 정원 식물 حديقة نبات
weather rain snow wetter regen schnee météo pluie neige tiempo lluvia nieve meteo pioggia neve chuva weer погода дождь снег pogoda deszcz hava yağmur 天气 雨 雪 天気 날씨 비 طقس مطر मौसम
wedding married hochzeit heiraten mariage boda matrimonio casamento bruiloft свадьба ślub wesele düğün 婚礼 结婚 結婚 결혼 زفاف शादी
birthday geburtstag anniversaire cumpleaños compleanno aniversário verjaardag рождения urodziny doğum 生日 誕生日 생일 ميلاد जन्मदिन
gift present geschenk cadeau regalo presente подарок prezent hediye 礼物 プレゼント 선물 هدية उपहार
party feier fête fiesta festa feest вечеринка праздник impreza parti 派对 聚会 パーティー 파티 حفلة पार्टी
music piano guitar musik klavier gitarre musique guitare música guitarra musica chitarra pianoforte музыка гитара пианино muzyka gitara müzik 音乐 钢琴 吉他 音楽 ピアノ ギター 음악 피아노 기타 موسيقى संगीत
movie film kino film película cine filme cinema фильм кино sinema 电影 映画 영화 فيلم फ़िल्म
read novel buch roman livre libro novela romanzo livro boek книга книгу роман książka kitap 书 小说 本 小説 책 소설 كتاب किताब
run running marathon laufen lauf courir course correr maratón corsa corrida hardlopen бег бегать марафон biegać koşu 跑步 马拉松 ランニング マラソン 달리기 마라톤 جري दौड़
gym training sport exercise fitness entrenar gimnasio palestra allenamento ginásio treino sportschool тренировка спорт siłownia trening antrenman spor 健身 锻炼 运动 運動 ジム 운동 헬스 رياضة تمرين
sleep schlaf schlafen sommeil dormir sueño dormire sonno sono slapen сон спать sen uyku 睡 睡眠 眠 수면 잠 نوم नींद
language learn course sprache lernen kurs langue apprendre cours idioma aprender curso lingua imparare corso língua taal leren cursus язык учить курс język uczyć dil öğren 语言 学习 课程 言語 勉強 언어 공부 수업 لغة تعلم
visa passport visum pass visa passeport pasaporte passaporto passaporte paspoort виза паспорт wiza paszport vize pasaport 签证 护照 ビザ パスポート 비자 여권 تأشيرة جواز वीज़ा पासपोर्ट
insurance versicherung assurance seguro assicurazione verzekering страховка страхование ubezpieczenie sigorta 保险 保険 보험 تأمين बीमा
bank account konto banque compte banco cuenta banca conto conta rekening банк счёт konto hesap 银行 账户 銀行 口座 은행 계좌 بنك حساب बैंक खाता
tax steuer impôt impuesto tassa imposto belasting налог podatek vergi 税 세금 ضريبة कर
lawyer contract anwalt vertrag avocat contrat abogado contrato avvocato contratto advogado advocaat юрист договор prawnik umowa avukat sözleşme 律师 合同 弁護士 契約 변호사 계약 محامي عقد अनुबंध
monday montag lundi lunes lunedì segunda maandag понедельник poniedziałek pazartesi 周一 星期一 月曜 월요일 الاثنين सोमवार
tuesday dienstag mardi martes martedì terça dinsdag вторник wtorek salı 周二 星期二 火曜 화요일 الثلاثاء मंगलवार
wednesday mittwoch mercredi miércoles mercoledì quarta woensdag среда среду środa çarşamba 周三 星期三 水曜 수요일 الأربعاء बुधवार
thursday donnerstag jeudi jueves giovedì quinta donderdag четверг czwartek perşembe 周四 星期四 木曜 목요일 الخميس गुरुवार
friday freitag vendredi viernes venerdì sexta vrijdag пятница пятницу piątek cuma 周五 星期五 金曜 금요일 الجمعة शुक्रवार
saturday samstag samedi sábado sabato zaterdag суббота субботу sobota cumartesi 周六 星期六 土曜 토요일 السبت शनिवार
sunday sonntag dimanche domingo domenica zondag воскресенье niedziela pazar 周日 星期日 星期天 日曜 일요일 الأحد रविवार
may mai mayo maggio maio mei мая май maja mayıs 五月 5月 5월 مايو मई
june juni juin junio giugno junho июня июнь czerwca czerwiec haziran 六月 6月 6월 يونيو जून
july juli juillet julio luglio julho июля июль lipca lipiec temmuz 七月 7月 7월 يوليو जुलाई
march märz marzo março maart марта март marca marzec mart 三月 3月 3월 مارس मार्च
april avril abril aprile апреля апрель kwietnia nisan 四月 4月 4월 أبريل अप्रैल
september septembre septiembre settembre setembro сентября wrzesień września eylül 九月 9月 9월 سبتمبر सितंबर
october oktober octobre octubre ottobre outubro октября październik października ekim 十月 10月 10월 أكتوبر अक्टूबर
"""


@cache
def _index_concepts() -> tuple[dict[str, int], list[tuple[str, int]]]:
    by_stem: dict[str, int] = {}
    pieces: list[tuple[str, int]] = []
    for number, line in enumerate(_CONCEPTS.casefold().strip().splitlines()):
        for word in unicodedata.normalize("NFKC", line).split():
            if _PAIRED.match(word) or "\u0600" <= word[0] <= "\u06ff" or word[0].isdigit():
                pieces.append((word, number))
            else:
                by_stem.setdefault(_shape(word), number)
    return by_stem, pieces


def find_concepts(text: str, words: Iterable[str]) -> set[int]:
    """Return the everyday things that a casefolded text mentions, by number: in any language."""
    by_stem, pieces = _index_concepts()
    found = {by_stem[stem] for stem in map(_shape, set(words)) if stem in by_stem}
    if not text.isascii():
        found |= {number for piece, number in pieces if piece in text}
    return found
