"""The phrases of all languages that are recognised. Pure data."""

# ruff: noqa: RUF001, E501 - phrases in the letters they are written in

from __future__ import annotations

from typing import NamedTuple


class Phrases(NamedTuple):
    """What the clauses of one language begin with or hold."""

    first_person: str
    """Anywhere: the person who speaks is meant."""
    own_clause: str
    """Head: a clause that states something about the person who speaks."""
    finite: str
    """Anywhere: a verb that makes a clause of a few words."""
    question: str
    """Head: a question."""
    request: str
    """Head: an imperative, or a question that asks to do something."""
    condition: str
    """Head: a subordinate clause that states nothing by itself."""
    standing: str
    """Head: an instruction for the future, which counts as a statement."""
    opening: str
    """Head: a word before the clause proper begins."""
    ignorant: str
    """Head: a reply that knows nothing or refuses."""
    offer: str
    """Anywhere: a sentence that a reply which knows nothing may add."""
    listener: str
    """Anywhere in a question: what the one who is asked said earlier."""
    advice: str
    """Anywhere in a question: how to do something, or what one should do."""
    unmeant: str = r"(?!)"
    """Anywhere in a question: a first person that belongs to the form of the request alone."""
    favour: str = r"(?!)"
    """Anywhere in a question: a request that concerns the asker's own life."""
    follow_up: str = r"(?!)"
    """The whole of a message that cannot be understood alone."""
    run_on: str = r"(?!)"
    """Anywhere in a long clause without punctuation: a statement after a question or request."""
    drops_subject: bool = False
    """Whether a sentence usually leaves out who does something."""


# -- Phrases of Russian, Arabic, Chinese, Japanese, Korean ----------------------------------------


ARABIC = Phrases(
    first_person=r"""
\b(?:أنا|انا|نحن|احنا|إحنا|لي|لدي|لديّ|عندي|عندنا|معي|بي|مني|منا|إلي|علي|لنا|عنا|أملك|أسكن|أعمل|أعيش|أريد|أحب|نسكن|نعيش|ساكن|ساكنين|أدرس|آخذ|آكل|أشرب|أستطيع|نربي|أدفع|ألعب|كنت|صرت|ناوي|ناوين|أتعامل|أفضلها|أفضل أن|أقول|أستخدم|أختي|أخي|أمي|أبي|زوجتي|زوجي|ابني|بنتي|ابنتي|بيتي|سيارتي|عملي|شركتي|هاتفي|اسمي|عمري|طبيبي|مديري|صديقي|عنواني|وظيفتي|\w{3,}تي|\w{3,}نا)\b
""",
    own_clause=r"""
(?:أنا|انا|نحن|احنا|لدي|عندي|عندنا|\w{2,}تي|أخي|أمي|أبي|زوجي|ابني|بيتي|مديري|أسكن|أعمل|أعيش|أحب|مقاسي|معدتي|ناوين|كنت|صرت|قررت|اشتريت)\b
""",
    finite=r"""
\b(?:هو|هي|هم|كان|كانت|يكون|لديه|عنده|يعمل|يسكن|تعمل|تسكن|يعيش|اسمه|اسمها|قال|قالت)\b|\b[يت]\w{3,}\b
""",
    question=r"""
(?:ما|ماذا|من(?= (?:هو|هي|الذي|كم|أي)\b)|متى|أين|اين|وين|كيف|لماذا|ليش|كم|هل|أي|اي|أية|مين|شو|ايش|أليس)\b(?! رسالة)|(?:في|من|إلى|على|ب|عن|مع|ل)? ?(?:أي|اي|كم|بأي|لأي|بكم|متى|ماذا|من)\b(?=.*؟)|(?:و)(?:ما|كيف|هل|متى|أين|كم|لماذا|ماذا)\b|(?:ما )?الفرق بين\b
""",
    request=r"""
(?:هل )?(?:يمكنك|تقدر|ممكن|بإمكانك|تستطيع)\b|(?!\w{3,}ت\b)(?:اكتب|ترجم|اشرح|احك|قل|أخبرني|اخبرني|أعطني|اعطني|ساعدني|اعمل|أنشئ|صغ|جهز|لخص|اقترح|أوصني|ابحث|جد|احجز|اطلب|اشتر|ذكرني|صحح|احسب|حل|عدد|قارن|صف|اختر|رتب|حضر|ضع|أضف|اختصر|اذكر|أعد|وضح|علمني|دلني|حول|خطط)\w{0,3}\b|(?:من فضلك|لو سمحت|رجاء)\b|(?:أريد|اريد|أود|بدي) (?:أن (?:أعرف|تكتب|أفهم)|خطة|قائمة|نصا)
""",
    condition=r"""
(?:إذا|اذا|لو|عندما|لما|حتى|لأن|لأنها|بدون|مع|في|من|على|التي|الذي|كي|و|أو|خاصة|بعد|قبل)\b
""",
    standing=r"""
(?:و?من الآن فصاعدا|و?من اليوم|دائما|أبدا|لا (?:تستخدم|تكتب|تضع|تنس)|تذكر أن|تذكر|سجل|نادني|ناديني|أي \w+ (?:\w+ )?تكتبها)\b|.{2,60}\b(?:من الآن فصاعدا|دائما)\b
""",
    opening=r"""
(?:مرحبا|أهلا|السلام عليكم|صباح الخير|مساء الخير|شكرا|طيب|حسنا|نعم|لا(?=،)|و(?= )|ممتاز|تمام|آسف|عذرا|للأسف|بالمناسبة|الله يعطيك العافية|لكن|أيضا|يا \w+)\b
""",
    ignorant=r"""
(?:أنا )?(?:لا|ما) (?:أعرف|أعلم|أملك|أتذكر|أستطيع|يمكنني|أجد|تتوفر لدي|توجد لدي|يوجد|توجد|بعرف)\b|ليس(?:ت)? لدي|ليس عندي|لم (?:تذكر|تخبرني|تقل|يذكر|يرد|أجد|أتمكن|نتحدث|نناقش)\b|لا (?:يوجد|توجد) .{0,40}(?:معلومات|محادث|سجل)|لا شيء في|لا فكرة|(?:كوني|بصفتي) (?:نموذج|ذكاء|مساعد)
""",
    offer=r"""
\b(?:أنت|لك|إذا|يمكنك|آسف|عذرا|هل|يسعدني|محادثاتنا|تخبرني)\b
""",
    listener=r"""
\b(?:قلت|اقترحت|نصحتني|نصحت|أوصيت|أوصيتني|أعطيتني|ذكرت|كتبت|أخبرتني|شرحت) ?(?:لي|لنا)?\b(?!.*\bمنك\b)|\b(?:وصفتك|اقتراحك|نصيحتك|جوابك|إجابتك|فكرتك|خطتك|قائمتك|ردك|توصيتك)\b|\b(?:اتفقنا|ناقشنا)\b
""",
    advice=r"""
\bكيف (?:يمكنني|أستطيع|أقدر|يمكن|[أن]\w+)\b|\bهل (?:يجب|يمكنني|أستطيع|ممكن)\b|\bماذا (?:أفعل|أقول|آكل|أسأل|[أ]\w+)\b|\bيجب أن\b
""",
    unmeant=r"""
\b(?:اكتب|ترجم|اشرح|قل|صغ|جهز|لخص|وضح|احك|صحح|اعمل|احسب) (?:لي|لنا)\b|\b(?:هل )?(?:يمكنك|تقدر|ممكن) (?:أن )?(?:ت\w+) لي\b|\b(?:أريد|أود) أن (?:أعرف|أفهم)\b|\bكيف (?:أستطيع|يمكنني|[أ]\w+)\b|\b(?:معنا|هنا|عنا|دنيا|لنا أن|هذه السنا|سنة)\b|\bلا أفهم\b
""",
    favour=r"""
\b(?:احجز|اشتر|ابحث|اقترح|اطلب|اختر|رتب|حضر|خطط) (?:لي|لنا)\b|\bذكرني\b
""",
    follow_up=r"""
(?:و|ولكن|أو|طيب)\w*(?: \w+){1,3}|و\w+|لماذا|ليش|متى|أين|كيف|من|كم|(?:ال)?(?:أول|ثاني|ثالث|أخير|أولى|ثانية|أخيرة)|ماذا عن .{1,30}|مرة أخرى|أقصر
""",
)


CHINESE = Phrases(
    first_person=r"""
我|咱|俺|本人
""",
    own_clause=r"""
(?:我(?!想(?:问|知道|了解))|咱|俺|本人|在.{1,20}(?:当|做|工作|上班|住)|住在|养了|最?(?:爱|喜欢)|一直|身高|新手)
""",
    finite=r"""
是|有|在|叫|了|过|住|做|会|要|着
""",
    question=r"""
.*(?:吗|呢|么|什么|怎么|怎样|咋|啥|哪|谁|几[个点岁号年月天楼只]|几$|周几|多少|多久|多大|多远|多高|为什么|为何|如何|是否|有没有|能不能|可不可以|是不是|会不会|要不要|行不行|好不好|来着|区别)
""",
    request=r"""
(?:帮|请|给我|给咱|替我|麻烦|能不能|能帮|可以帮|可不可以|你?能|写|翻译|解释|列|告诉我|教我|讲|说说|推荐|介绍|总结|改|润色|计算|算|提醒|安排|排|想问|我想问|我想(?:知道|了解)|我需要(?:一)?[个份]|来[个一份]|起|设计|查|找|订|预订|买|做[个一份])
.{0,10}(?:帮我|给我|教我|告诉我)
""",
    condition=r"""
(?:如果|要是|假如|当|因为|虽然|除了|关于|对于|在.{1,10}(?:时|里|中)$)
""",
    standing=r"""
(?:对了 ?)?(?:以后|今后|从现在(?:起|开始)|往后|之后都|永远|总是|每次|一律|记住|记得|记一下|别忘|叫我|称呼我|不要再|别再|你回答.{0,6}(?:别|不要|请|要))
.{0,10}(?:的时候|时)(?:请)?(?:别|不要)
""",
    opening=r"""
(?:你好|您好|嗨|嗯|好的?|那|对了|另外|还有|谢谢|抱歉|对不起|不好意思|但是|可是|不过|很遗憾|顺便)(?=[\s,，。!！])
""",
    ignorant=r"""
.{0,4}(?:不知道|不清楚|不太清楚|不记得|无法(?:回答|得知|确定|帮|提供|访问)|没有(?:相关|任何|这方面|关于|足够).{0,10}(?:信息|记录|资料|内容|记忆)|没有.{0,20}(?:的信息|的记录)|找不到|没找到|查不到|帮不了|不能(?:帮|回答|提供)|没听)|(?:你|您)(?:还)?(?:没有?|从未|未曾?)(?:和我|跟我|向我|告诉|提|说|透露|分享)|(?:我们|之前)的?(?:对话|聊天|谈话).{0,10}(?:没|未)|作为.{0,6}(?:AI|ai|人工智能|语言模型)
""",
    offer=r"""
你|您|如果|抱歉
""",
    listener=r"""
你(?:之前|上次|刚才|当时|曾经?|那时|以前|昨天)?(?:给我|跟我|向我|帮我|建议我?|推荐|说过?|告诉我|提到|提过|写|列|起|算|教我)(?:过|的|了|哪|什么|多少|我)|你(?:之前|上次|刚才|当时|那时).{0,10}(?:建议|推荐|说|给|提|写|列)|你的?(?:建议|推荐|回答|答案|食谱|菜谱|方案|版本|解释)|我们(?:之前)?(?:讨论|商量|说好|聊)过?
""",
    advice=r"""
怎么(?:办|做|弄|样才|才能|[^么]{1,6})|如何|该(?:怎么|不该|选|拿|买|吃|穿|找|做|去|点)|应该|要不要|能不能|可不可以|好不好|可以.{0,10}吗|能.{0,10}吗
""",
    unmeant=r"""
(?:告诉|教|给|帮|替|跟|和|向|为)我(?:讲|说|解释|介绍|写|翻译|列|总结|一[个下份些]|举)?|我(?:想|要)?(?:问|知道|了解)|我总是?(?:搞混|分不清)|我(?:不懂|不明白)|我需要一[个份]
""",
    favour=r"""
(?:帮|给|替|提醒)(?:我|咱).{0,4}(?:订|预订|预约|买|找|推荐|选|安排|排|做饭|点)|提醒我
""",
    follow_up=r"""
(?:那|那么|还有)?.{1,6}呢|为什么|为啥|怎么(?:办|会)|然后呢?|什么时候|哪里|谁|第[一二三四五]个|下一个|另一个|再(?:来一个|短一点|长一点|说一遍)|继续|换一个|再.{1,4}(?:一点|点)
""",
    drops_subject=True,
)


# -- Phrases of German, Dutch ---------------------------------------------------------------------


DUTCH = Phrases(
    first_person=r"""
\b(?:ik|mij|me|mijn|m'n|mezelf|wij|we|ons|onze)\b
""",
    own_clause=r"""
(?:ik|wij|we|mijn|m'n|onze|ons)\b|(?:heb|ben|woon|werk|moet|wil) (?!je\b|jij\b|u\b)\w+
""",
    finite=r"""
\b(?:is|zijn|was|waren|heeft|hebben|had|wordt|werd|kan|moet|wil|zal|gaat|komt|woont|werkt|heet|eet|speelt|kost|staat|ligt|doet)\b
""",
    question=r"""
(?:wat|wie|wiens|wanneer|waar|waarom|waarheen|hoe|hoeveel|welke?|waarmee|waarvoor|waarvan|waaraan)\b|(?:in|op|met|voor|van|bij|aan|naar|tot|sinds|uit|om) (?:wat|wie|welke?|hoeveel|hoe)\b
(?:is|zijn|was|heeft|kan|moet|mag|kun|zou|gaat|wordt|bestaat|klopt|helpt) (?:er|het|de|een|dat|dit|deze|die|ik|we|wij|hij|ze|zij|mijn|onze|je)\b|(?:heb|ben|moet|mag|kan|zal|zou|eet|woon|werk) ik\b|(?:hebben|zijn|moeten|mogen|kunnen) we\b|(?:heb|had|ben|weet|ken) (?:je|jij|u)\b|(?:het )?verschil tussen\b
""",
    request=r"""
(?:kun|kan|wil|zou|kunt|wilt|zal) (?:je|jij|u)\b|(?:schrijf|vertaal|leg|vertel|zeg|toon|laat|geef|help|maak|stel|vat|zoek|vind|raad|bestel|boek|reserveer|koop|herinner|verbeter|corrigeer|bereken|los|noem|vergelijk|beschrijf|kies|bedenk|plan|kook|zet|vul|sorteer|controleer|herschrijf|doe|som)\b(?! (?:is|was)\b)
(?:alsjeblieft|alstublieft|graag)\b|.* (?:alsjeblieft|alstublieft|graag|aub|svp)$|ik (?:wil|zou) (?:graag )?(?:weten|begrijpen|dat je)
""",
    condition=r"""
(?:als|wanneer|dat|die|om|zonder|met|voor|in|bij|op|terwijl|zodat|zodra|en|of|van|naar|tot)\b
""",
    standing=r"""
(?:vanaf nu|voortaan|in het vervolg|altijd|nooit|onthoud|noteer|vergeet niet|noem me|denk eraan|gebruik (?:geen|nooit|altijd)|geen \w+ meer)\b|.{2,60}\b(?:voortaan|vanaf nu)\b|(?:als|wanneer) ik .{3,60}\b(?:antwoord|gebruik|geef|schrijf)\b
""",
    opening=r"""
(?:oké?|ok|zo|dus|hoi|hallo|hey|goede(?:morgen|middag|avond)|en|maar|of|ah|ja|nee(?=,)|dank je|bedankt|prima|goed|sorry|trouwens|helaas|het spijt me|nu|ook|nog|even|nou|top)\b
""",
    ignorant=r"""
(?:dat )?weet ik (?:helaas )?niet|ik weet (?:het|dat|dit)? ?(?:helaas )?niet|ik heb (?:helaas |daar |hier )*(?:geen|niets)|ik (?:kan|kon|mag) .{0,60}(?:niet|geen|niets)|(?:je|jij|u) (?:hebt|heeft) .{0,50}(?:niet|nooit|nog niets|niets) .{0,40}(?:verteld|genoemd|gezegd|vermeld)|(?:daar|hier)(?:over)? (?:heb|weet|is|kan) .{0,60}(?:niets|geen|niet)|(?:niets|nergens) in (?:onze|ons)|in onze gesprekken.{0,60}|als ai\b|geen idee
""",
    offer=r"""
\b(?:je|jij|jouw|u|uw|graag|spijt)\b
""",
    listener=r"""
\b(?:heb|had) (?:je|jij) (?:me |mij |ons |toen )?.{0,50}\b(?:aangeraden|gezegd|voorgesteld|gegeven|genoemd|geschreven|verteld|aanbevolen|uitgelegd)\b|\b(?:je|jij) (?:me |mij |ons )?.{0,30}\b(?:gaf|zei|voorstelde|aanraadde|noemde|schreef|vertelde)\b|\b(?:raadde|zei|gaf|stelde|noemde) (?:je|jij)\b|\b(?:je|jouw|uw) (?:\w+ )?(?:recept|suggesties?|antwoord|advies|aanbeveling|idee|plan|lijst|voorstel|tips?|versie|tekst|uitleg)\b
""",
    advice=r"""
\bhoe (?:kan|moet|zou|kun|maak|doe|krijg) (?:ik|je|we|men)\b|\b(?:moet|kan|mag|zal|zou) (?:ik|we)\b|\bwat (?:moet|kan|doe) ik\b|\bhoe \w+ (?:je|men)\b
""",
    unmeant=r"""
\b(?:vertel|geef|zeg|toon|help|laat|schrijf|maak|leer|leg)(?: het)? (?:me|mij|ons)\b|\b(?:kun|kan|wil|zou|kunt) (?:je|jij|u) (?:me|mij|ons)\b|\bik (?:wil|zou) (?:graag )?(?:weten|begrijpen)|\bik (?:vraag me af|vroeg me af|haal .{0,20} door elkaar|begrijp .{0,10}niet|denk|geloof)\b|\bhoe (?:kan|moet|zou|zeg|schrijf) ik\b|\baan mij\b(?<=uit aan mij)
""",
    favour=r"""
\b(?:boek|bestel|reserveer|koop|zoek|vind|herinner|kies|plan|kook)\b(?: (?:me|mij|ons)\b|.{0,40} voor (?:me|mij|ons)\b)|\braad (?:me|mij|ons)\b
""",
    follow_up=r"""
(?:en|of|maar)\b(?: [\w'-]+){1,4}|waarom(?: niet)?|wanneer|waar|wie|hoe(?: dan)?|hoeveel|welke|de (?:eerste|tweede|derde|laatste|andere|volgende|zelfde)|hetzelfde.{0,20}|(?:in|voor|met|zonder|op) [\w-]+|nog eens|korter|langer
""",
)


# -- Phrases of English ---------------------------------------------------------------------------


# After one of these, "I" and its verb are part of a question or of a subordinate clause.
_EN_NOT_AFTER = "".join(
    rf"(?<!\b{word} )"
    for word in [
        "that",
        "if",
        "when",
        "what",
        "how",
        "where",
        "which",
        "who",
        "whom",
        "why",
        "so",
        "do",
        "does",
        "did",
        "can",
        "could",
        "should",
        "would",
        "will",
        "am",
        "is",
        "are",
        "was",
        "were",
        "have",
        "has",
        "had",
        "than",
        "as",
        "whether",
        "until",
        "before",
        "after",
        "while",
        "and",
        "because",
        "for",
        "to",
        "of",
        "with",
        "in",
        "on",
        "at",
        "by",
        "from",
        "about",
    ]
)


_EN_OBJECT = (
    r"(?:a|an|the|me|us|my|our|your|some|all|this|that|these|those|it|him|her|them|any|every|each|"
    r"down|up|out|in|for|to|with|two|three|four|five|six|ten|more|only|just|something|"
    r"alphabetically|\d+)\b"
)


_EN_PRODUCT = (
    r"(?:\w+ )?(?:\w+ )?(?:list|overview|summary|translation|explanation|example|examples|script|"
    r"function|regex|query|synonym|word|title|name|names|ideas?|tips?|text|toast|poem|haiku|story|"
    r"version|definition|formula|code|snippet|template|outline|plan|trick|slogan|caption)(?! (?:tag|badge|plate))"
)


ENGLISH = Phrases(
    first_person=r"""
\b(?:i|me|my|myself|we|us|our|ours|ourselves|im|ive|id like|id rather)\b(?!\.e\b|/)
\b(?:of|is|was|are|were|to|like|with|than|as|from|and) mine\b
\b(?:mum|mom|mummy|dad|daddy|grandma|grandpa|granny)\b
""",
    own_clause=r"""
(?:i|we)\b(?! (?:was wondering|wonder|mean|guess)\b)
(?:im|ive|weve|were (?:on|in|at|moving|going|having|not))\b
(?:my|our|mine|mum|mom|dad|grandma|grandpa|me and)\b
(?:haven't|havent|got|had|quit|moved|bought|started|finally|gonna|been|booked|signed|ordered|lost|found|tweaked|broke)\b(?! (?:you|it)\b)
""",
    finite=r"""
'(?:s|re|ve|ll|d|m|t)\b
\b(?:is|are|was|were|am|has|have|had|will|won't|can|cannot|cant|does|did|do|must|should|would|wont|said|says|goes|went|got|gets|comes|came|takes|took|lives?|works?|wants?|wanted|needs?|likes?|called|moved|plays?|eats?|ate|drinks?|hates?|loves?|turns?|turned|starts?|started|changed|makes?|made|gave|gives|keeps?|kept|knows?|knew|stands?|costs?|broke|bought|told|asked|runs?|used to|quit|left|sits?|stays?|belongs?|refuses?|dies|died|sets?|meets?|teach(?:es)?|just)\b
""",
    question=r"""
(?:what|which|who|whom|whose|why|how)(?:'s|'re|'d|'ll|'ve|s|re)?\b(?! (?:a|an) )(?!ever\b)
(?:when|where)(?:'s|s|'re|'d|'ll| (?:do|does|did|is|are|was|were|can|could|should|will|would|have|has|had|am|must|might|may|exactly|on|in|abouts?|else))\b
(?:to|for|with|by|in|on|at|from|of|since|until|under|about|into) (?:what|which|whom|whose|how|when)\b
(?:by|in|on|at) the .{0,30}\bwhat\b
(?:is|are|was|were|does|did|has|am|isn't|aren't|wasn't|doesn't|didn't|hasn't|ain't)\b
(?:do|can|could|would|should|shall|might|must|have|had|can't|couldn't|wouldn't|shouldn't|don't|haven't|hadn't) (?:i|you|he|she|it|we|they|there|the|any|anyone|anybody|someone|people|these|those|his|her|their|all|both)\b
(?:can|could|would|should|do|have|had|shall|must) (?:my|our|a|an|this|that|\w+s)\b
(?:will|may) (?:i|he|she|it|we|they|there|the|any|my|our|this|that|these|those|a|an)\b
any (?:idea|ideas|chance|tips?|suggestions?|recommendations?|thoughts|way)\b
(?:difference|differences) between\b
remind me (?:what|which|who|whose|where|when|how|why|of)\b
(?:one|a) (?:quick )?question\b|quick question\b
""",
    request=rf"""
(?:can|could|would|will|won't|can't|may|might) (?:you|u|ya)\b|mind (?:\w+ing)\b
(?:please|pls|plz|kindly)\b|.* (?:please|pls|plz)$
(?:do )?(?:tell|show|give|gimme|teach|help|send|let|remind|read|walk|bring|get|grant|grab) (?:me|us)\b
let(?:'s| us| me know)\b|gimme\b|lemme know\b
(?:help|eli5|tl;?dr|translate|explain|describe|summari[sz]e|rewrite|rephrase|paraphrase)\b
(?:proofread|correct|fix|shorten|expand|simplify|convert|calculate|compute|solve|prove|compose)\b
(?:write|draft|create|generate|invent|compare|define|differentiate|integrate|factor|evaluate)\b
(?:recommend|suggest|choose|imagine|pretend|continue|repeat|elaborate|clarify|debug|refactor)\b
(?:implement|optimi[sz]e|improve|polish|revise|reword|tighten|format|tidy|add|remove|delete)\b
(?:find|search|google|fetch|buy|reserve|remind|cancel|reschedule|arrange|prepare|cook|bake)\b
(?:brainstorm|analy[sz]e|review|check|discuss|outline|sketch|design|build|devise|mention|spell)\b
(?:say|turn|make|put|pick|play|book|order|plan|list|name|sort|rank|count|state|fill|mark|set) {_EN_OBJECT}
(?:schedule|use|include|cut|keep|change|replace|try|record|save|look|tell|show|give|read|work|quote|cast|act|take|answer|reply|respond|call|send|text|email|phone|ring|ask|go|think|do|center|merge|split|group|test|run|open|close|start|stop) {_EN_OBJECT}
make up\b|come up with\b|figure out\b|look up\b|go on\b|go ahead\b|try again\b|(?:list|name) \w+ \w+
i(?:'d| would|d) (?:like|love|appreciate|be grateful|prefer) (?:to (?:know|understand|learn|hear|see|ask|have)|you to|(?:a|an|some|the|your|any)\b)|i'd be grateful\b
i(?:'m| am|m| was) (?:just |only |really )?(?:wondering|curious|looking for (?:a|an|some))\b|i wonder\b
(?:i|we)(?:'ll|'d| will)? (?:just |only |also |now |really )*(?:want|need|require) (?:you to|to (?:know|understand|learn how)\b|(?:a|an|some|the|\d+) {_EN_PRODUCT})\b
i(?:'m| am) trying to (?:understand|figure)\b
""",
    condition=r"""
(?:if|when|whenever|while|unless|until|whether|assuming|suppose|supposing|given|in case|once|as soon as|every time|each time|any time|anytime)\b
(?:that|than|which|who|whose|where|so that|such as|like|including|without|with|in order|to|for|in|at|on|by|from|about|of|not|or|\w+ing)\b
(?:because|since|as|although|though) (?:it|the|this|that|you|there)\b
""",
    standing=r"""
(?:please |pls )?(?:always|never|from now on|from here on|going forward|in (?:the )?future|for the future|henceforth)\b
.{3,80}\b(?:from now on|going forward|in future|from here on|at all times)\b
(?:please |pls )?(?:call|address) me (?!a |back|when|if|at|on)\w+
(?:please |pls )?(?:remember|note|keep in mind|bear in mind|don't forget|dont forget|take note|write down|make a note|jot down|put down|put it down|for the record|just so|fyi)\b(?! when| how| what| why)
(?:please )?(?:don't|dont|do not|stop|avoid|no more|no longer)\b(?! (?:you|i|we|they|worry))
(?:please )?(?:only|just) (?:ever|use|give|answer|write|reply|speak)\b
(?:any|every|each|all|whatever|anything|everything)\b.{0,40}\byou (?:give|write|suggest|send|make|show|recommend|tell|do|draft)\b
(?:please )?(?:keep|make) (?:your|all|every|any)\b|(?:please )?(?:answer|reply|respond|talk|speak|write)(?: to me)? (?:only |always )?in\b
(?:when|whenever|if|every time|each time|any time|anytime|once) .{3,80}\b(?:keep|answer|use|make|don't|dont|do not|just|reply|stick|be|put|give|return|show|collect|only|never|always|remind|leave) (?!to\b)
.{3,60}\bdon't let me forget\b
""",
    opening=r"""
(?:okay|ok|k|so|hey|hi|hello|hiya|um+|uh+|erm?|hm+|well|and|but|or|also|oh|ah+|ha|yes|no|yeah|yep|yup|nope|now|then|anyway|alright|right|sorry|thanks|thank you|thx|great|perfect|lovely|good|nice|cool|listen|look|btw|by the way|actually|maybe|perhaps|first|second|secondly|firstly|next|finally|again|good (?:morning|afternoon|evening)|excuse me|cause|besides|still|meanwhile|unfortunately|honestly|basically|quick(?:ly)?|in that case|dear \w+|lol|haha|wow|yay|ugh|grr+|hooray|help|just|only|exactly|roughly|approximately)\b(?!')
(?:one|two|three|four|\d{1,2}|[a-e])(?=[.):])
""",
    ignorant=r"""
i(?:'m| am) (?:afraid|sorry)[,.]? (?:but )?(?:i|that|there|you|we|this|nothing|it|no)\b.*
i (?:really |honestly |simply |just |currently )?(?:don't|do not|didn't|did not) (?:actually |currently |really )?(?:know|have (?:any |that |this |the |access|information|details|a record|enough)|see any|find any|recall|remember|think you(?:'ve| have) (?:told|mentioned)|believe you)\b
i have no (?:information|record|idea|way|access|knowledge|memory|details|data|clue|note)
i(?:'m| am) (?:not sure|unable|not able|unaware|not aware|not familiar)\b
i (?:can't|cannot|can not|couldn't|could not|am unable to|won't|will not|haven't|have not) (?:help|find|tell|access|answer|see|recall|remember|assist|say|know|provide|been told|do that|look|determine|share|comply|got|seen|any)
you (?:haven't|have not|never|didn't|did not|hadn't)(?: actually| yet| ever| really)? (?:mention|mentioned|tell|told|said|say|share|shared|give|given|specif\w+|state|stated|provide|provided|discussed|talked)
(?:nothing|none|no\b.{0,30}) (?:in|of|from|about|was|were|has been|have been|we|on).{0,60}(?:conversation|chat|message|messages|mention|mentions|mentioned|record|recorded|says|said|discussed|stored|told|saved|notes?|history|memory)
there(?:'s| is| was| are)(?: no|n't any| not any| nothing).{0,60}(?:conversation|chat|message|mention|record|information|history|memory|notes?|saved|stored|that i|i can|about)
(?:as|being) an? (?:ai|artificial|large language|language model|assistant)\b.{0,60}(?:can't|cannot|don't|do not|no|unable|not able)\b
that(?:'s| is| was) (?:not something|something) (?:i|you|we) (?:can't|cannot|don't|do not|haven't|have|know|never|can|didn't).*
(?:no|not) (?:idea|clue|information|record|memory)\b.{0,40}|(?:we|that) (?:haven't|have not|hasn't|has not|wasn't|was not|didn't|never) (?:discuss|talk|been|come|mention|cover|said|say).*
(?:this|that|it) (?:isn't|is not|wasn't|was not) (?:something|mentioned|in|known|stated|specified|recorded).*
unknown$|dunno\b|beats me\b|no idea\b
""",
    offer=r"""
\b(?:you|your|let me know|feel free|happy to|glad to|i can (?:help|try|still|look|search)|please|sorry|apologi[sz]e)\b
""",
    listener=r"""
\b(?:did|had) you (?:\w+ly |just |ever )?(?!know|ever|hear|see|mean|notice|guess|sleep|realise|realize)\w+
\bhave you (?:\w+ly |just |already )?(?:suggested|recommended|told|given|said|come up|called|mentioned|proposed|written|listed|named|advised|promised|described|explained|sent|shown|set)\b
(?<!when )(?<!if )\byou(?:'ve|'d| had| have)? (?:\w+ly |just |once |first |also )?(?:suggested|recommended|told|gave|given|said|came up|come up|called|mentioned|proposed|wrote|written|listed|named|advised|promised|described|explained|sent|showed|shown|set out|set up|found|chose|picked|put|made|worked out|calculated|drafted|quoted|prescribed|answered|warned|translated|used|invented|planned|taught)\b
\byour (?:[\w-]+ ){0,2}(?:recipe|suggestions?|answers?|reply|replies|recommendations?|advice|version|draft|plan|list|idea|ideas|tips?|proposal|explanation|message|trick|example|estimate|calculation|translation|summary|title|poem|script|code|instructions|choice|pick)\b
^(?:what|which|who|how|where|when)\b.{0,60}\b(?:was|were|did)\b.{0,60}\byour (?!body|brain|heart|skin|eyes|name|favou?rite)\w+
\b(?:trick|idea|recipe|suggestion|advice|tip|plan|list|answer)s? of yours\b|\byours\b
\bwe(?:'d| had| have|'ve)? (?:discussed|agreed|settled|talked|worked out|came up|come up)\b(?!.*\bwith (?:my|the|our)\b)
\b(?:you and i|our (?:agreement|last (?:chat|conversation|session)|conversation|chat))\b
""",
    advice=r"""
\bhow (?:\w+ly )?(?:do|can|should|could|would|might|must|does) (?:i|we|you|one|somebody|someone)\b(?! (?:know|feel))
\bhow to\b|\bshould (?:i|we)\b|\bshall (?:i|we)\b|^(?:can|could|may|must) (?:i|we)\b
\b(?:what|which|where|when|who|whom)\b.{0,40}\b(?:should|can|could|must|shall|may|might) (?:i|we)\b
\b(?:do|does|will|would) (?:i|we) (?:have|need|want) to\b|\bdo i need\b
\bwhat(?:'s| is| would be) the (?:best|right|safest|easiest|quickest|simplest) (?:way|thing)\b
\bwhat (?:do|to) (?:i )?do\b|\bis it (?:ok|okay|safe|better|worth|a good idea)\b|\bwhat now\b
\b(?:any|some) (?:advice|tips|ideas|suggestions)\b|\bam i (?:allowed|supposed)\b
""",
    unmeant=rf"""
\b(?:tell|show|give|teach|help|let|walk|send|bear with|correct|forgive|excuse|pardon|quiz|test|remind|ask)(?:ing)? (?:me|us)\b(?! a table| a flight| a room)(?<!remind me)(?<!remind us)
\b(?:explain|describe|clarify|translate|summari[sz]e|say|spell|define|prove|read)\b.{{0,60}}? (?:to|for) (?:me|us)\b
\b(?:write|make|draft|create|compose|generate|get|build|list|sort|calculate|solve|name|compare|convert|check|rewrite) (?:me|us)\b(?! (?:happy|sad|feel|look|sick|tired|sleepy|laugh|fit))
\b(?:write|create|generate|solve|calculate|convert|check|compare|list|sort|code)\b(?!.*\bform\b).{{0,60}}? for (?:me|us)\b
\b(?:i(?:'d| would|d) (?:just |really |also )?(?:like|love|appreciate|be (?:grateful|interested|curious))|i (?:was|am) (?:just )?(?:wondering|curious|interested)|i(?:'m|m) (?:just )?(?:wondering|curious|interested)|i wonder(?:ed)?)\b
\bi(?: just| really| only)? (?:want|need|wanted|needed) (?:you to|to (?:know|understand|learn|use|find out)|(?:a|an|some|the|\d+) {_EN_PRODUCT})\b
\bi (?:always|often|keep|sometimes|constantly|never) (?:mix|mixing|forget|confuse|confusing|forgetting|read|reading|get|see|seeing|hear|hearing|wonder|wondered|remember|understand|know)\b
\bi (?:don't|dont|do not|can't|cannot|didn't|never) (?:\w+ )?(?:understand|get|see|know|remember|figure)\b|\bi (?:mean|guess|think|thought|believe|suppose|see|understand|get it|forgot|read|heard)\b|\bi(?:'ve|ve| have) (?:read|heard|seen|always|never understood)\b
\b(?:i'm|im|i am) (?:confused|trying to (?:understand|learn|figure)|learning|comparing|reading)\b|\bas far as i know\b|\bif i (?:may|understand)\b
\bhow (?:\w+ly )?(?:do|can|should|could|would|might|to|did) (?:i|we)\b(?! (?:feel|know|like|take|have|get to|get into|usually|normally|spell my|look|travel|pay|meet))
\bwhen (?:do|should|must|can|am|would) (?:i|we) (?:use|allowed|say|write|put)\b
^(?:can|could|may|might) (?:i|we) (?:have|get|ask|see) (?:a|an|some|the|you|that|another)\b|\b(?:may|can) i ask\b|\bi have (?:a|another|one) (?:quick )?question\b
\b(?:why|how|what) (?:do|did|can|don't) we (?!pay|do|use|have|buy|drive|own|call our|eat|get|owe|live|book|take|need|keep|charge|agree)|\bwhat we (?:call|know)\b|\blet us\b|\bshall we say\b|\bas we know\b
\b(?:war|type|part|class|phase|chapter|act|volume|elizabeth|charles|james|william|napoleon|nicholas|scene|layer|vitamin|stage|level) i\b|\bi['"’]s\b|\b(?:excuse|pardon|trust|believe|dear) me\b
""",
    favour=r"""
\b(?:book|order|buy|reserve|find|recommend|suggest|plan|cook|pick|remind|schedule|choose|fill|get|rent|bring|play|call|wake|warn|sign|arrange|prepare|bake)\b(?: (?:me|us)\b|.{0,60} for (?:me|us)\b)
\bremind me\b
""",
    follow_up=r"""
(?:and|but|or|so|ok|okay|also|then|plus)\b(?:[ ,]+[\w'-]+){1,4}
(?:and |but |ok |so )?(?:what|how) about\b.{0,40}
(?:and |but |so |ok )?(?:why|how|when|where|who|which|what|really|seriously|since when|until when|how (?:so|come|many|much|long|often|far|old)|why not|which (?:one|ones|of them)|like what|such as|what (?:for|else|then|now|next|time|day|kind)|who else|where else|by whom|with whom|from where)
(?:no |i mean |and |ok )*(?:the|that|this|those|these) (?:\w+ )?(?:first|second|third|fourth|last|next|other|previous|latter|former|same|one|ones|two|three)(?: (?:one|ones|two|three|option|please|thing|part|line|point))?
(?:and |but |the )*(?:same|again|more|another|another one|one more|shorter|longer|go on|continue|next|all of them|both|neither|none of them|simpler|louder|shorter still|half|less formal|more formal|once more|try again|like that|explain)(?: (?:please|pls|one|for \w+|but \w+|in \w+|with \w+|again))?
(?:in|for|with|on|at|from|to|without|by|of|as|about) [\w'-]+(?: [\w'-]+)?
""",
    run_on=rf"""
 (?=(?:it's|its|he's|hes|she's|shes|there's|theres|i'm|im|i've|ive|we're|we've|they're|theyre|(?:he|she|they|i|we) (?!(?:is|are|do|does|did)\b)[a-z]+|my [\w']+(?:'s (?:a|an|the|been|got|on|in|not|\w+ing)| is| has))\b){_EN_NOT_AFTER}
 (?:and|because|cause|cuz|but) (?:it's|he's|she's|there's|i'm|im|i've|ive|we're|we've|they're|(?:he|she|they|i|we) (?:is|are|was|were|has|have|had|said|\w+ed|got|want|wants|needs?))\b
 that (?:i'm|i've|we're|we've|my \w+) [\w']+
^(?:my|our|i|we|i'm|i've|so my|he's|she's|it's)\b.{(6,)}
""",
)


# -- Phrases of French, Spanish, Italian, Portuguese ----------------------------------------------


FRENCH = Phrases(
    first_person=r"""
\b(?:je|j'|moi|me|m'|mon|ma|mes|nous|notre|nos)(?:\b|(?<='))|-(?:je|moi|nous)\b
""",
    own_clause=r"""
(?:je|j'|nous|mon|ma|mes|notre|nos|moi)(?:\b|(?<='))
""",
    finite=r"""
\b(?:est|sont|était|a|ont|avait|sera|va|vont|peut|doit|veut|fait|c'est|habite|travaille|mange|aime|attend|répète|coûte)\b
""",
    question=r"""
(?:que|qu'|qui|quoi|quand|comment|pourquoi|combien|où|d'où|quel|quelle|quels|quelles|lequel|laquelle|lesquels|lesquelles|est-ce|qu'est-ce)(?:\b|(?<='))
(?:à|de|d'|en|dans|sur|pour|par|avec|chez|depuis|jusqu'à|sous|entre|vers) ?(?:quel|quelle|quels|quelles|qui|quoi|quand|combien|où)\b
[\w']+-(?:je|tu|il|elle|on|nous|vous|ils|elles|ce|t-il|t-elle|t-on)\b|y a-t-il\b|(?:la )?différence entre\b
""",
    request=r"""
(?:peux-tu|pouvez-vous|pourriez-vous|pourrais-tu|voulez-vous|veux-tu|tu peux|vous pouvez|tu pourrais)\b
(?:écri(?:s|vez|re)|tradui(?:s|sez|re)|expli(?:que|quez|quer)|racont(?:e|ez)|di(?:s|tes)|montre[zr]?|donne[zr]?|aide[zr]?|fai(?:s|tes)|cré(?:e|ez|er)|rédige[zr]?|résume[zr]?|trouve[zr]?|cherche[zr]?|recommande[zr]?|conseille[zr]?|propose[zr]?|suggère|suggérez|réserve[zr]?|commande[zr]?|rappelle[zr]?|rappelez|corrige[zr]?|reformule[zr]?|calcule[zr]?|liste[zr]?|compare[zr]?|décri(?:s|vez)|choisi(?:s|ssez)|prépare[zr]?|invente[zr]?|cite[zr]?|indique[zr]?|comptez|mets|mettez|planifie[zr]?|remplis(?:sez)?|organise[zr]?|continue[zr]?|parle[zr]?)(?:-moi|-nous|-le|-la|-les)?\b
(?:s'il (?:te|vous) pla[iî]t|svp|stp)\b|.* (?:s'il (?:te|vous) pla[iî]t|svp|stp)$|(?:je voudrais|j'aimerais|je souhaite(?:rais)?) (?:savoir|comprendre|que (?:tu|vous)|une? (?:liste|idée|texte))|je me demand
""",
    condition=r"""
(?:si|s'il|quand|lorsque|que|qui|dont|pour|sans|avec|dans|en|à|de|afin|comme|et|ou|par|sur)\b
""",
    standing=r"""
(?:dorénavant|désormais|à partir de maintenant|à l'avenir|toujours|jamais|ne .{2,30} (?:jamais|plus)|évite[zr]?|appelle-moi|appelez-moi|retiens|retenez|note[zr]?|n'oublie[zr]? pas|souviens-toi|souvenez-vous)\b
.{2,60}\b(?:désormais|dorénavant|à l'avenir)\b|(?:quand|lorsque|si) je .{3,60}\b(?:réponds|répondez|donne|donnez|écris|écrivez|utilise|utilisez)\b
""",
    opening=r"""
(?:ok|bon|bien|alors|salut|bonjour|bonsoir|et|mais|ou|ah|oh|oui|non|merci|parfait|super|donc|au fait|tiens|désolée?|malheureusement|euh|d'accord|je suis désolée?|maintenant|aussi|pardon|enfin|encore)\b
""",
    ignorant=r"""
je (?:ne )?(?:le )?(?:sais|connais) pas|je n'(?:en sais rien|ai (?:aucune|pas|pas d'|pas accès)|y ai pas)|je n'ai .{0,20}(?:aucune|pas)\b|je ne (?:peux|trouve|dispose|vois|me souviens|suis) .{0,20}(?:pas|rien)\b.{0,60}
(?:tu|vous) (?:ne )?(?:m'|n')?.{0,20}(?:pas|jamais|rien)\b.{0,40}(?:mentionné|dit|parlé|précisé|indiqué|donné)|rien dans (?:nos|notre)|aucune (?:information|idée|trace|mention)|en tant qu'(?:ia|assistant|intelligence)|nos (?:conversations|échanges) ne
""",
    offer=r"""
\b(?:tu|vous|te|votre|ton|ta|désolée?|n'hésite[zs]?)\b
""",
    listener=r"""
\b(?:m'as-tu|m'avez-vous|nous as-tu|as-tu|avez-vous|aviez-vous|avais-tu) (?:\w+ ){0,2}(?:dit|conseillé|recommandé|proposé|suggéré|donné|indiqué|écrit|cité|expliqué|parlé)\b
\b(?:tu|vous) (?:m'|nous |l'|me l')?(?:as|avez|avais|aviez) (?:\w+ )?(?:dit|conseillée?s?|recommandée?s?|proposée?s?|suggérée?s?|donnée?s?|indiquée?s?|écrit|citée?s?|expliquée?s?)\b
\b(?:ta|ton|tes|votre|vos) (?:\w+ )?(?:recette|suggestions?|réponses?|conseils?|recommandations?|idées?|plan|liste|proposition|version|texte|explication)\b|\bnous avons (?:discuté|convenu)\b
""",
    advice=r"""
\bcomment (?:faire|puis-je|dois-je|je (?:peux|dois)|on|[\w']+er|[\w']+ir|[\w']+re)\b|\b(?:dois|puis|devrais|pourrais)-je\b|\b(?:est-ce que je|je) (?:dois|peux|devrais|pourrais)\b|\bfaut-il\b|\bque (?:faire|dois-je)\b|\bque faut-il\b
""",
    unmeant=r"""
\b(?:dis|dites|montre[zr]?|donne[zr]?|explique[zr]?|raconte[zr]?|aide[zr]?|fai(?:s|tes)|écri(?:s|vez)|parle[zr]?|cite[zr]?|indique[zr]?|liste[zr]?)-(?:moi|nous)\b|\b(?:peux-tu|pouvez-vous|pourriez-vous|pourrais-tu|tu peux|vous pouvez) (?:me|m'|nous)(?:\b|(?<='))
\b(?:je voudrais|j'aimerais|je souhaite|je me demand\w*|je confonds|je ne comprends|je crois|je pense|je veux) ?(?:savoir|comprendre|toujours|pas|que|si)?\b|\bcomment (?:puis-je|dois-je|je (?:peux|dois))\b|\bexpliquer\b.{0,20}\bmoi\b
""",
    favour=r"""
\b(?:réserve[zr]?|commande[zr]?|achète|achetez|trouve[zr]?|recommande[zr]?|conseille[zr]?|suggère|suggérez|propose[zr]?|rappelle|rappelez|prépare[zr]?|choisi(?:s|ssez))(?:-moi|-nous)\b
""",
    follow_up=r"""
(?:et|ou|mais)\b(?: [\w'-]+){1,4}|(?:et )?pourquoi(?: pas)?|comment(?: ça)?|quand|où|qui|combien|lequel|laquelle|(?:le|la) (?:premi[eè]re?r?|deuxième|seconde?|troisième|derni[eè]re?r?|suivante?|même)|(?:en|pour|avec|sans|dans) [\w-]+|encore|plus (?:court|long|simple)|qu'en est-il de\b.{0,30}
""",
)


# -- Phrases of German, Dutch ---------------------------------------------------------------------


GERMAN = Phrases(
    first_person=r"""
\b(?:ich|mir|mich|meine?[mnrs]?|wir|uns|unsere?[mnrs]?|unsern)\b
""",
    own_clause=r"""
(?:ich|wir|meine?|unsere?|mir|mich|uns)\b
(?:hab|habe|haben|bin|war|wohne|arbeite|brauche?|muss|will|möchte|mag|trainiere|esse?|fahre|spiele) (?!sie\b)
""",
    finite=r"""
\b(?:ist|sind|war|waren|bin|hat|habe|hab|haben|hatte|wird|werden|wurde|kann|muss|soll|will|darf|mag)\b
\b(?:heißt|heisst|wohnt|lebt|arbeitet|geht|kommt|fährt|spielt|isst|macht|liegt|steht|kostet|klingt)\b
""",
    question=r"""
(?:was|wer|wen|wem|wessen|wann|wo|wohin|woher|warum|wieso|weshalb|wie|wieviel|welche[mnrs]?|worauf|womit|wofür|wobei|woran|wovon|wozu)\b
(?:an|in|auf|mit|für|bei|von|zu|aus|nach|seit|bis|ab|um|unter|über|als) (?:was|wem|wen|wann|welche[mnrs]?|wieviel|wie|wo)\b
(?:ist|sind|war|hat|haben|hatte|kann|könnte|muss|soll|sollte|darf|gibt|geht|wird|macht|stimmt|gilt|lohnt|reicht|hilft|heißt) \w+.*\?
(?:kann|darf|soll|sollte|muss|hab|habe|bin|brauche|esse|könnte|mag|trinke|wohne|arbeite) ich\b|(?:können|dürfen|sollen|müssen|haben|sind) wir\b
(?:hattest?|hast|bist|weißt|kennst|warst) du\b|(?:haben|wissen|kennen) sie\b|unterschied zwischen\b
""",
    request=r"""
(?:kannst|könntest|würdest|magst|willst) du\b|(?:können|könnten|würden) sie\b
(?:schreib|übersetz|erklär|erzähl|sag|zeig|gib|hilf|mach|erstell|formulier|nenn|fass|such|find|empfiehl|empfehl|schlag|plan|bestell|buch|reservier|erinner|korrigier|verbesser|kürz|berechne|rechne|lös|liste?|vergleich|beschreib|sortier|prüf|füll|stell|entwirf|verfass|koch|wandle?|bereite?|leg|trag|guck|schau|nimm|lies|rate|spiel|setz|änder|ergänz|streich|bring)(?:e|t|en)?(?: (?:sie|mir|mich|uns|mal|bitte|doch|den|die|das|dem|der|ein|eine|einen|diesen|diese|dieses|folgende\w*|auf|an|meinem|meiner|meinen|meine)\b|\s*$| \w+)
bitte\b|.* bitte$|ich (?:hätte gern|möchte wissen|wüsste gern|würde gerne? wissen|brauche (?:eine?n? )?(?:liste|übersicht|text|idee|tipp))
(?:ein|eine|einen)? ?(?:kurze[rs]?|etwas kürzer|kürzer)\b
""",
    condition=r"""
(?:wenn|falls|ob|dass|sobald|damit|als|während|bis|bevor|nachdem|ohne|um|mit|für|in|bei|im|am|statt|anstatt|und|oder|sowie|wie)\b
""",
    standing=r"""
(?:bitte )?(?:ab (?:jetzt|sofort|heute|nun)|von (?:jetzt|nun) an|künftig|in zukunft|zukünftig|immer|nie|niemals|merk(?:e)? dir|denk(?:e)? (?:dran|daran)|notier|vergiss nicht|nenn mich)\b
.{3,60}\b(?:ab jetzt|in zukunft|künftig)\b
(?:keine|kein) \w+ (?:mehr|in)\b|(?:wenn|sobald|immer wenn|jedes mal wenn) ich .{3,60}\b(?:antworte|schreib|gib|benutze|verwende|mach|nimm)\b
""",
    opening=r"""
(?:ok|okay|so|also|hey|hi|hallo|moin|guten (?:tag|morgen|abend)|und|aber|oder|ach|ja|nein|na|danke|super|gut|toll|sorry|übrigens|kurz|nochmal|noch|mal|eigentlich|jetzt|dann|nun|leider|tut mir leid|entschuldigung|es tut mir leid|ähm?|äh|hm+)\b
""",
    ignorant=r"""
(?:das )?(?:weiß|weiss) ich (?:leider )?(?:nicht|auch nicht)|ich (?:weiß|weiss) (?:es|das|leider)? ?(?:leider )?nicht
ich habe (?:leider |dazu |darüber |hierzu )*(?:keine|keinen) (?:informationen|information|zugriff|zugang|angaben|daten|ahnung|erinnerung|kenntnis|hinweis)
(?:dazu|darüber|hierzu|davon) (?:habe|weiß|hast|finde|liegen|steht) .{0,60}(?:nicht|nichts|keine)|ich (?:kann|konnte|darf) .{0,60}(?:nicht (?:helfen|sagen|beantworten|finden|wissen)|nichts finden|leider nicht)
(?:du hast|sie haben) .{0,50}(?:nicht|nie|noch nichts|nichts) .{0,40}(?:erwähnt|gesagt|erzählt|genannt|verraten|mitgeteilt)|als (?:ki|sprachmodell)\b.{0,60}(?:kein|nicht)|keine ahnung
in unseren? (?:gesprächen?|unterhaltungen?|chats?|nachrichten).{0,60}(?:nichts|nicht|kein)|ich finde .{0,40}(?:nichts|keine)
""",
    offer=r"""
\b(?:du|sie|dir|ihnen|dein|ihre|bitte|gern|gerne|leid)\b
""",
    listener=r"""
\bhast du (?:mir |uns |damals |eben |gerade |mal )*(?!\w*\s*zeit|lust).{0,60}\b(?:empfohlen|gesagt|vorgeschlagen|gegeben|genannt|geschrieben|geraten|erklärt|erwähnt|berechnet|gemacht|erzählt|übersetzt)\b
\bhaben sie (?:mir |uns )?.{0,60}\b(?:empfohlen|gesagt|vorgeschlagen|gegeben|genannt|geschrieben|geraten|erklärt)\b|\bdu (?:mir |uns |damals )?.{0,40}\b(?:hast|hattest)\b
\b(?:dein|deine[mnrs]?|ihre?[mnrs]?) (?:\w+ )?(?:rezept|vorschlag|vorschläge|antwort|tipp|tipps|empfehlung|rat|idee|plan|liste|schreibstil|version|text|erklärung)\b
\b(?:empfahlst|sagtest|schlugst|nanntest|gabst) du\b|\b(?:wir) .{0,30}\b(?:besprochen|ausgemacht|vereinbart)\b
""",
    advice=r"""
\bwie (?:kann|soll|sollte|könnte|muss|krieg|bekomm|mach|schreib)\w* (?:ich|wir|man)\b|\b(?:soll|sollte|kann|darf|muss|könnte) (?:ich|wir)\b|\b(?:muss|soll|darf|kann) man\b|\bwie (?:geht|macht|kriegt|bekommt) man\b
\bwas (?:tun|mache ich|mach ich)\b
""",
    unmeant=r"""
\b(?:sag|zeig|gib|erklär|erzähl|nenn|hilf|schreib|mach|such|lass|verrat|beschreib)(?:e|en sie|st du)? (?:mir|uns)(?: mal| bitte| doch)?\b|\b(?:kannst|könntest|würdest) du (?:mir|uns)\b|\b(?:können|könnten|würden) sie (?:mir|uns)\b
\bich (?:hätte gern|möchte wissen|wüsste gern|würde gern|verwechsle|verwechsel|frage mich|verstehe? .{0,20}nicht|glaube|meine|denke)\b|\bwie (?:kann|soll|sollte|könnte|sage|schreibe) (?:ich|man)\b
\b(?:mach|schreib|gib|erklär) .{0,40} für mich\b
""",
    favour=r"""
\b(?:buch|bestell|reservier|kauf|such|find|empfiehl|schlag|plan|koch|erinner)(?:e|en sie)? (?:mir|mich|uns)\b|\berinner\w* (?:sie )?mich\b
""",
    follow_up=r"""
(?:und|oder|aber)\b(?: [\w'-]+){1,4}|was ist mit\b.{0,30}|warum|wieso|weshalb|wann|wo|wer|wie|welche[rs]?|was noch|wie viele?|seit wann|(?:der|die|das) (?:erste|zweite|dritte|letzte|nächste|andere)n?|(?:in|auf|mit|für|ohne) [\w-]+|nochmal|kürzer|länger|weiter|dasselbe(?: .{0,20})?|warum nicht
""",
)


# -- Phrases of French, Spanish, Italian, Portuguese ----------------------------------------------


ITALIAN = Phrases(
    first_person=r"""
\b(?:io|mi|me|mio|mia|miei|mie|noi|ci|nostr[oaie]|m')(?:\b|(?<='))
\b(?:ho|sono|abito|lavoro|vivo|faccio|vado|voglio|vorrei|posso|devo|prendo|mangio|bevo|uso|suono|insegno|adoro|gioco|guido|studio|pago|preferisco|seguo|chiedo|abbiamo|siamo|viviamo|abitiamo|andiamo|facciamo|possiamo|dobbiamo|ordino|fisso|tengo|porto|avevo|ero|dormo|corro|parlo|cucino)\b
""",
    own_clause=r"""
(?:io|mi|la mia|il mio|i miei|le mie|mia|mio|noi|il nostro|la nostra|a me|l'ho)\b
(?:ho|sono|abito|lavoro|vivo|faccio|vado|voglio|prendo|mangio|bevo|uso|suono|insegno|adoro|gioco|guido|abbiamo|siamo|non (?:bevo|mangio|posso|ho|sono))\b
""",
    finite=r"""
\b(?:è|e'|sono|era|ha|hanno|va|vanno|fa|c'è|vive|lavora|abita|si chiama|può|deve|vuole|costa|dice|sposa|mangia|gioca|funziona)(?:\b|(?<='))
""",
    question=r"""
(?:che|chi|cosa|cos'è|quale|quali|qual|quando|dove|dov'è|dov'|come|perché|perche'?|quanto|quanta|quanti|quante|quant'|com'è|cos')(?:\b|(?<='))
(?:a|di|da|in|con|per|su|fra|tra) (?:che|chi|cosa|quale|quali|quando|dove|quanto|quanti|quante)\b
(?:posso|devo|dovrei|possiamo|c'è|ci sono|esiste|è (?:vero|meglio|possibile|sicuro)|conviene|serve|va bene)\b(?=.*\?)|(?:la )?differenza tra\b
""",
    request=r"""
(?:puoi|potresti|può|potrebbe|mi puoi|mi potresti|mi (?:scrivi|dici|spieghi|dai|aiuti|fai|trovi|consigli|incastri|prepari|traduci|suggerisci|cerchi|correggi))\b
(?:scriv|traduc|spieg|raccont|dimmi|dammi|mostr|aiut|fammi|fai|fa'|cre[ai]|riassum|trov[ai]|cerc[ai]|consigli|suggeris|prenot|compr[ai]|ordina|ricorda|correggi|calcol|elenc|confront|descriv|scegli|prepar|mettimi|metti|inventa|proponi|converti|risolvi|organizz|pianific|riscriv|compila|continua)\w*\b(?! (?:è|ha|era)\b)
per favore\b|.* per (?:favore|piacere)$|(?:vorrei|mi piacerebbe) (?:sapere|capire|che)\b
""",
    condition=r"""
(?:se|quando|che|chi|per|senza|con|in|di|da|dove|come|e|o|a|su|così)\b
""",
    standing=r"""
(?:d'ora in poi|da (?:ora|adesso|oggi) in (?:poi|avanti)|da adesso|in futuro|sempre|mai|niente|basta|non (?:usare|scrivere|mettere|dire|fare|darmi)|chiamami|ricorda(?:ti)? che|ricordati|tieni (?:presente|a mente)|segnati|prendi nota|annota)\b
.{2,60}\b(?:d'ora in poi|in futuro|da ora in poi)\b|quando (?:ti )?.{3,60}\b(?:rispondi|usa|scrivi|dammi)\b
""",
    opening=r"""
(?:ok|okay|bene|allora|ciao|salve|buongiorno|buonasera|e(?!')|ma|o|ah|sì|si(?=,)|no(?=,)|grazie|perfetto|quindi|anche|comunque|a proposito|senti|scusa|mi dispiace|purtroppo|adesso|ora|poi|pero'|però|bella|bello|in più)\b
""",
    ignorant=r"""
non (?:lo )?(?:so|ricordo|conosco)\b|non ho (?:informazioni|accesso|idea|dati|alcuna|nessuna|nessun|trovato|queste|questa)\b|non (?:posso|riesco|trovo|dispongo|sono in grado|risulta|mi risulta)\b.{0,60}
non (?:me lo |mi |ne )?(?:hai|ha|avevi) .{0,60}(?:detto|menzionato|parlato|raccontato|specificato|dato|indicato)|(?:niente|nulla) (?:nelle|nella|di)|nelle nostre conversazioni.{0,60}|in quanto (?:ia|intelligenza)|come (?:ia|intelligenza artificiale|assistente)\b|nessuna idea|boh\b
""",
    offer=r"""
\b(?:tu|ti|tuo|tua|lei|le|se (?:vuoi|mi)|puoi|può|dimmi|dispiace|volentieri)\b
""",
    listener=r"""
\b(?:mi |ci )?(?:hai|avevi) (?:\w+ )?(?:detto|consigliato|suggerito|dato|proposto|scritto|spiegato|citato|raccomandato|indicato|nominato)\b|\b(?:il tuo|la tua|i tuoi|le tue|tuo|tua) (?:\w+ )?(?:ricetta|consigli\w*|suggeriment\w+|rispost\w+|idea|idee|piano|lista|proposta|versione|testo|spiegazione)\b|\babbiamo (?:deciso|discusso|concordato)\b|\b(?:consigliasti|dicesti|suggeristi)\b
""",
    advice=r"""
\bcome (?:posso|devo|faccio|si fa|si \w+|mi \w+o|dovrei|potrei|\w+are|\w+ere|\w+ire)\b|\b(?:devo|dovrei|posso|potrei|conviene)\b|\bcosa (?:faccio|devo|posso|ordino)\b
""",
    unmeant=r"""
\b(?:dimmi|dammi|mostrami|spiegami|raccontami|aiutami|fammi|scrivimi|elencami|traducimi|insegnami|mettimi)\b|\b(?:mi|ci) (?:puoi|potresti|può|potrebbe|scrivi|dici|spieghi|dai|aiuti|fai|traduci)\b|\b(?:puoi|potresti|può|potrebbe) (?:dar|dir|spiegar|aiutar|scriver|mostrar|far)(?:mi|ci)\b
\b(?:vorrei|mi piacerebbe|voglio) (?:sapere|capire)\b|\bmi (?:chiedo|chiedevo|confondo)\b|\bconfondo\b|\bcome (?:posso|faccio|devo|si)\b|\bnon (?:capisco|so)\b|\b(?:credo|penso) che\b|\bci (?:sono|vuole|vogliono)\b
""",
    favour=r"""
\b(?:prenotami|prenotaci|comprami|trovami|trovaci|cercami|consigliami|suggeriscimi|ricordami|ordinami|preparami|sceglimi|mettimi insieme)\b
""",
    follow_up=r"""
(?:e|o|ma|ed)\b(?!')(?: [\w'-]+){1,4}|perch[eé]'?(?: no)?|quando|dove|chi|come(?: mai)?|quanto|quale|(?:il|la|lo|l') ?(?:prim[oa]|second[oa]|terz[oa]|ultim[oa]|altr[oa]|stess[oa]|prossim[oa])|(?:in|per|con|senza) [\w-]+|ancora|di nuovo|più (?:corto|lungo|breve|semplice)
""",
)


# -- Phrases of Russian, Arabic, Chinese, Japanese, Korean ----------------------------------------


JAPANESE = Phrases(
    first_person=r"""
私|わたし|僕|ぼく|俺|おれ|あたし|うち(?:の|は|で|に)|我が家|自分|わが家|私たち
""",
    own_clause=r"""
.*(?:です|ます|ました|でした|ません|だ|た|る|ない|てて|よ|から|けど|ので|んだ|の)$
""",
    finite=r"""
(?:です|ます|ました|でした|ません|ている|てる|てた|だった|ない|した|った|んだ|だから|けど|ので|から|られ)
""",
    question=r"""
.*(?:でしょうか|ますか|ですか|ましたか|ませんか|っけ|かな|だろうか|かしら|のか|んだろう|[たるいなの]か|って何|なに)$
.*(?:何|なん(?:だっけ|だった|だろ|て|の|で(?!す))|どこ|いつ|誰|だれ|どれ|どの|どう|どっち|どちら|どんな|なぜ|なんで(?!す)|いくつ|いくら)(?!か|でも|も).*$
""",
    request=r"""
.*(?:教えて|書いて|作って|考えて|説明して|訳して|翻訳して|直して|まとめて|出して|選んで|探して|調べて|予約して|注文して|見せて|助けて|手伝って|聞かせて|比べて|計算して|挙げて|話して|リストして|して|おすすめして|提案して)(?:ください|下さい|ほしい|欲しい|くれる|くれますか|もらえる|もらえますか|いただけますか|頂けますか|よ|ね)?$
.*(?:ください|下さい|お願いします?|お願いできますか|お願いいたします|おねがい|頼む|くれますか|もらえますか|いただけますか|知りたい(?:です)?)$
""",
    condition=r"""
.*(?:たら|なら|れば|とき|時|場合|ときって|については?|に関して)$
""",
    standing=r"""
.*(?:これから(?:は|も)?|今後(?:は|も)?|いつも|必ず|毎回|絶対に?|二度と|以降).*(?:て|で|ください|下さい|ほしい|お願いします|ね)$
.*(?:と呼んで|って呼んで|覚えて(?:おいて)?|メモして(?:おいて)?|忘れないで).*
.*(?:は使わないで|ないで(?:ください|ほしい|ね)?)$
""",
    opening=r"""
(?:はい|いいえ|うん|ええと|えっと|あの|ねえ|こんにちは|こんばんは|おはよう|ありがとう|すみません|ごめんなさい|申し訳ありません|ちなみに|それと|あと|でも|じゃあ|それで|残念ながら|そういえば|実は)(?=[\s、,。!！])
""",
    ignorant=r"""
.{0,30}(?:わかりません|分かりません|わからない|分からない|知りません|存じません|知らない|覚えていません|覚えてない|記憶にありません|情報(?:は|が)(?:ありません|ない|ございません|見つかりません)|記録(?:は|が)(?:ありません|ない|ございません)|見つかりません|お答えできません|答えられません|お手伝いできません|伺っていません|聞いていません|うかがっていません|お聞きしていません|できかねます)|.{0,30}(?:話して|教えて|言って|おっしゃって|伺って)(?:い)?(?:ません|ない)|(?:ai|人工知能)(?:として|なので|ですので).{0,40}(?:ません|ない)
""",
    offer=r"""
(?:ください|下さい|もし|教えて|よろしければ|すみません|申し訳)
""",
    listener=r"""
(?:(?:すすめて|勧めて|薦めて|おすすめして|教えて|言って|提案して|書いて|話して|答えて)(?:くれた|くれて|もらった|いた|た)|あなたの(?:おすすめ|提案|答え|レシピ|回答)|あなたが|君が|さっきの(?:答え|レシピ|提案)|前に(?:すすめ|勧め|教え|言っ|提案))
""",
    advice=r"""
(?:どう(?:すれば|したら|やって|やれば)|すれば(?:いい|良い|よい)|したら(?:いい|良い)|べき|ほうがいい|方がいい|て(?:も)?(?:いい|大丈夫)|方法|やり方|作り方|仕方|どれ.{0,6}いい|てはいけ|ちゃいけ|何を.{0,8}(?:いい|べき))
""",
    unmeant=r"""
私(?:に|にも)(?:教えて|説明|わかる)|自分で|自分の言葉
""",
    favour=r"""
(?:予約|注文|リマインド)して|私に.{0,10}(?:選んで|探して|おすすめ)
""",
    follow_up=r"""
(?:じゃあ?|それで|で|あと)[、 ]?.{1,8}は|.{1,3}は|なぜ|なんで|どうして|いつ|どこ|誰|どれ|もう一度|もっと(?:短く|長く|詳しく|簡単に)|[一二三1-9](?:つ目|番目)(?:は|の)?|それは|続けて|他には?|ほかには?
""",
    drops_subject=True,
)


KOREAN = Phrases(
    first_person=r"""
(?:^|[\s,])(?:나|내|나는|난|내가|나의|나를|나한테|나도|저|제|저는|전|제가|저의|저를|저한테|저도|우리|우리는|우리가|저희|저희는|저희가|우리의|울)(?=[\s,.?!]|$)|우리집
""",
    own_clause=r"""
(?:나는|난|내가|내|저는|전|제가|제|우리|저희|우리는)\s|.*(?:다|요|어|아|야|음|임|네|거든|니다|는데|지)$
""",
    finite=r"""
(?:다|요|니다|어|아|야|네|는데|거든)(?:$|[\s,.])
""",
    question=r"""
.*(?:까|까요|나요|니|냐|는지|던가|더라|인가요|은가요|을까|ㄹ까|했지|였지|이지|지)$|.*(?:뭐|무엇|무슨|어디|언제|누구|누가|왜|어떻게|어떤|어느|얼마|몇)
""",
    request=r"""
.*(?:해줘|해 줘|줘|줘요|주세요|주십시오|주실래요|줄래|줄래요|주시겠어요|줄 수 있어|주실 수 있나요|부탁해|부탁해요|부탁드려요|부탁합니다|부탁드립니다|하라|하세요|알려줘|써줘|추천해|싶어요|궁금해요?)$
""",
    condition=r"""
.*(?:면|때|때는|경우|경우에|대해|대해서)$
""",
    standing=r"""
.*(?:앞으로(?:는|도)?|이제부터|항상|언제나|절대|다시는|늘|매번|지금부터).*(?:줘|주세요|마|마세요|말아줘|말아 줘|해|하세요|써|라고)(?:요)?$
.*(?:기억해|메모해|잊지 마|라고 불러|적어 ?둬)
""",
    opening=r"""
(?:네|예|응|아니요|안녕하세요|안녕|음|저기|그런데|근데|그리고|그럼|고마워|감사합니다|죄송합니다|죄송하지만|미안|참|아쉽게도|유감스럽게도|또|그래서|하지만)(?=[\s,.!])
""",
    ignorant=r"""
.{0,30}(?:모르겠|몰라요|모릅니다|모르는|알지 못|알 수 없|기억이 없|기억나지 않|정보(?:가|는) 없|정보(?:를|가) (?:가지고|갖고) 있지|기록(?:이|은) 없|찾을 수 없|찾지 못|도와드릴 수 없|도울 수 없|답변드릴 수 없|말씀하신 적(?:이)? 없|말한 적(?:이)? 없|언급(?:하신|한) 적|말씀해 주지 않|언급되지 않)|(?:ai|인공지능)(?:로서|이기 때문에|라서).{0,40}(?:없|못)
""",
    offer=r"""
(?:주시면|주세요|원하시|죄송|말씀)
""",
    listener=r"""
(?:네가|니가|당신이|너가) .{0,30}(?:추천|말|제안|알려|준|했)|(?:추천해|알려|말해|제안해|가르쳐|써|적어) ?(?:줬|준|주셨|주신|줬던|주었)|(?:추천했|제안했|말했|추천한 (?:거|것|게)|제안한)|(?:네|당신의|너의) (?:추천|제안|레시피|답|답변|조언)|아까 (?:말|추천|알려)|우리가 (?:얘기|이야기|논의)
""",
    advice=r"""
(?:어떻게|해야|할까|하면 (?:돼|될|좋)|해도 (?:돼|될|되|괜찮)|는 (?:법|방법)|좋을까|먹어도|괜찮을까|괜찮아)
""",
    unmeant=r"""
(?:나한테|저한테|내게|제게|나에게|저에게)\s?(?:\S+\s){0,4}(?:설명|알려|말해|보여|가르쳐)|(?:내가|제가) (?:알기로|이해|항상 헷갈)
""",
    favour=r"""
(?:예약|주문|구매)해 ?(?:줘|주세요)|(?:우리|나|저|내)\S* .{0,20}(?:추천|골라|찾아)
""",
    follow_up=r"""
(?:그럼|그리고|근데|그래서)\s?\S{1,6}(?:은|는)(?:요)?|\S{1,2}(?:은|는)(?:요)?|왜(?:요)?|언제(?:요)?|어디(?:요)?|누구(?:요)?|어떻게(?:요)?|몇(?:\s?\S{1,3})?|다시|더 (?:짧게|길게|자세히)|(?:첫|두|세) ?번째(?:는)?|계속|다른 거|그건(?:요)?
""",
    drops_subject=True,
)


# -- Phrases of French, Spanish, Italian, Portuguese ----------------------------------------------


PORTUGUESE = Phrases(
    first_person=r"""
\b(?:eu|mim|me|comigo|meu|minha|meus|minhas|nós|nosso|nossa|nossos|nossas|a gente)\b
\b(?:tenho|moro|trabalho|vivo|sou|estou|vou|fui|faço|fiz|quero|preciso|posso|devo|prefiro|uso|tomo|comprei|estudo|jogo|pago|nasci|cresci|tive|gosto|temos|moramos|vivemos|somos|estamos|vamos|podemos|bebo|durmo|dirijo|conduzo|toco)\b
""",
    own_clause=r"""
(?:eu|meu|minha|meus|minhas|o meu|a minha|os meus|as minhas|nós|nosso|nossa|a gente)\b
(?:tenho|moro|trabalho|vivo|sou|estou|vou|faço|quero|preciso|prefiro|uso|tomo|comprei|gosto|temos|moramos|somos|não (?:como|bebo|posso|tenho))\b
""",
    finite=r"""
\b(?:é|são|está|estão|era|foi|tem|têm|há|vai|vão|mora|trabalha|vive|diz|chama-se|se chama|quer|pode|deve|custa|gosta|come|começa)\b
""",
    question=r"""
(?:que|quem|qual|quais|quando|onde|aonde|como|por ?que|porquê|por quê|quanto|quanta|quantos|quantas|o que|será)\b
(?:a|de|em|com|para|por|desde|até|sobre) (?:que|quem|qual|quais|quando|onde|quanto|quantos|quantas)\b|(?:posso|devo|deveria|podemos|há|tem|existe|é (?:verdade|possível|melhor|seguro))\b(?=.*\?)|(?:a )?diferença entre\b
""",
    request=r"""
(?:podes|pode|você pode|poderia|podias|consegue|me ajuda|pode me)\b
(?:escrev|traduz|expli|cont[ae]|dig[ao]|diz|dê|dá-me|dá|mostr|ajud|faça|faz|cri[ea]|redij|redig|resum|encontr|procur|recomend|sug[ei]r|aconselh|reserv|compr[ae]|lembr|corrij|corrig|calcul|list[ae]|compar|descrev|escolh|prepar|monte|monta|invent|proponha|convert|resolv|organiz|planej|reescrev|preench)\w*\b(?! (?:é|está|foi)\b)
por favor\b|.* por favor$|(?:gostaria|queria|quero) (?:de )?(?:saber|entender|que)\b
""",
    condition=r"""
(?:se|quando|que|quem|para|sem|com|em|de|por|onde|como|e|ou|a|no|na)\b
""",
    standing=r"""
(?:a partir de (?:agora|hoje)|de agora em diante|daqui em diante|no futuro|sempre|nunca|jamais|não (?:use|uses|escreva|escrevas|me|responda)|me chame|me chama|chama-me|lembre-se|lembra-te|anote|anota|tenha em mente|não (?:se )?esque[cç])\w*\b
.{2,60}\b(?:a partir de agora|de agora em diante)\b|quando (?:eu )?.{3,60}\b(?:responda|responde|use|usa|escreva)\b
""",
    opening=r"""
(?:ok|bom|bem|então|oi|olá|ola|bom dia|boa (?:tarde|noite)|e|mas|ou|ah|sim|não(?=,)|obrigad[oa]|perfeito|também|aliás|a propósito|desculpe?|infelizmente|sinto muito|lamento|agora|olha)\b
""",
    ignorant=r"""
(?:eu )?não (?:o )?(?:sei|lembro|me lembro|conheço)\b|(?:eu )?não tenho (?:informaç|acesso|ideia|dados|nenhum|registro|registo|essa|como)|(?:eu )?não (?:posso|consigo|encontro|encontrei|disponho|há|consta)\b.{0,60}
(?:você|tu)? ?(?:ainda )?(?:não|nunca) (?:me )?(?:disse|disseste|mencionou|mencionaste|contou|contaste|falou|informou)\b.{0,60}|nada (?:nas|na|em) nossas?|em nossas? convers.{0,60}|nas nossas convers.{0,60}|como (?:ia|uma ia|inteligência artificial|assistente)\b|nenhuma ideia
""",
    offer=r"""
\b(?:você|te|tu|seu|sua|se (?:quiser|me|você)|pode|podes|desculpe|lamento|prazer)\b
""",
    listener=r"""
\b(?:você|tu)? ?(?:me |nos )?(?:disseste|recomendaste|sugeriste|deste|aconselhaste|propuseste|mencionaste|escreveste)\b|\bvocê (?:me |nos |já |tinha )*(?:disse|recomendou|sugeriu|deu|aconselhou|propôs|mencionou|escreveu|explicou|falou|dito|dado|passou)\b|\b(?:sua|seu|tua|teu|suas|seus) (?:\w+ )?(?:receita|sugest\w+|respostas?|conselhos?|recomenda\w+|ideias?|plano|lista|proposta|versão|texto|dica|dicas)\b|\b(?:combinamos|discutimos)\b
""",
    advice=r"""
\bcomo (?:posso|devo|faço|se faz|fazer|eu|\w+ar|\w+er|\w+ir)\b|\b(?:devo|deveria|posso|poderia|tenho que|tenho de|preciso)\b|\bo que (?:faço|devo|posso)\b
""",
    unmeant=r"""
\b(?:diga|diz|dê|dá|mostre|mostra|explique|explica|conte|conta|ajude|ajuda|faça|faz|escreva|escreve|fale|fala)[- ]?(?:me|nos)\b|\bme (?:diga|diz|dê|dá|mostre|explique|explica|conte|conta|ajude|ajuda|fale|fala|escreva)\b|\b(?:pode|podes|poderia|consegue) (?:me |nos )?(?:dar|dizer|explicar|ajudar|escrever|mostrar|fazer|contar)(?:-me|-nos)?\b
\b(?:gostaria|queria|quero) (?:de )?(?:saber|entender)\b|\b(?:sempre )?confundo\b|\bcomo (?:posso|faço|devo|eu)\b|\bnão (?:entendo|sei)\b|\bacho que\b
""",
    favour=r"""
\b(?:reserve|reserva|compre|compra|encontre|encontra|procure|recomende|recomenda|sugira|sugere|lembre|lembra|escolha|prepare|agende|monte)[- ](?:me|nos|para mim|pra mim)\b|\bme (?:recomende|recomenda|sugira|sugere|lembre|lembra|reserve|encontre|indique|indica)\b
""",
    follow_up=r"""
(?:e|ou|mas)\b(?: [\w'-]+){1,4}|por ?qu[eê](?: não)?|porquê|quando|onde|quem|como(?: assim)?|quanto|qual|[oa] (?:primeir[oa]|segund[oa]|terceir[oa]|últim[oa]|outr[oa]|mesm[oa]|próxim[oa])|(?:em|para|com|sem) [\w-]+|de novo|mais (?:curto|longo|simples)
""",
)


# -- Phrases of Russian, Arabic, Chinese, Japanese, Korean ----------------------------------------


RUSSIAN = Phrases(
    first_person=r"""
\b(?:я|меня|мне|мной|мой|моя|моё|мое|мои|моего|моей|моему|моих|моим|мою|мы|нас|нам|нами|наш|наша|наше|наши|нашего|нашей|нашу|наших)\b
\b(?:живу|работаю|люблю|хочу|могу|ем|пью|езжу|учусь|играю|хожу|купила?)\b
""",
    own_clause=r"""
(?:я|мы|мой|моя|моё|мое|мои|наш|наша|наше|наши|у меня|у нас|мне|меня|живу|работаю|люблю)\b
""",
    finite=r"""
\b(?:есть|был|была|было|были|будет|живёт|живет|работает|стоит|идёт|хочет|может|любит|зовут|нет|нельзя|надо|\w+(?:ает|яет|ует|ит|ют|ут|ла|ли))\b
""",
    question=r"""
(?:что|кто|кого|кому|чей|чья|когда|где|куда|откуда|почему|зачем|как|какой|какая|какое|какие|каком|какую|каким|сколько|который|чем)\b|(?:в|на|с|у|из|от|до|по|за|к|о|об|для|под) (?:ч[её]м|чего|кого|ком|как\w+|сколько|которо\w+|чему|чем|кем)\b
(?:есть|можно|нужно|надо|стоит|правда|разве|неужели|могу|должен|должна)\b(?=.*\?)|\w+ ли\b|(?:в чём )?разница между\b
""",
    request=r"""
(?:можешь|можете|мог бы|могла бы|могли бы|не мог(?:ли)? бы) ?(?:ты|вы)?\b|(?:напиши|переведи|объясни|расскажи|скажи|покажи|дай|помоги|сделай|создай|составь|придумай|найди|посоветуй|порекомендуй|предложи|забронируй|закажи|купи|напомни|исправь|сократи|посчитай|вычисли|реши|назови|сравни|опиши|выбери|подбери|перечисли|приведи|проверь|перепиши|заполни|приготовь|запланируй)(?:те)?\b
пожалуйста\b|.* пожалуйста$|(?:я )?(?:хотел|хотела) бы (?:узнать|знать|понять)|мне (?:интересно|нужен список)
""",
    condition=r"""
(?:если|когда|чтобы|что|который\w*|без|с|для|в|на|и|или|хотя|пока|по|как)\b
""",
    standing=r"""
(?:с этого момента|отныне|впредь|теперь всегда|всегда|никогда|запомни(?:те)?|запиши(?:те)?|не забудь(?:те)?|зови(?:те)? меня|называй(?:те)? меня|имей в виду|учти|больше не|не используй|не пиши)\b|.{2,60}\b(?:отныне|впредь|с этого момента)\b
""",
    opening=r"""
(?:ок|окей|привет|здравствуй|здравствуйте|добрый (?:день|вечер)|доброе утро|и|а|но|или|да|нет(?=,)|спасибо|ну|так|кстати|тогда|ещё|еще|хорошо|отлично|извини|извините|к сожалению|простите|прости|сейчас|теперь)\b
""",
    ignorant=r"""
(?:я )?(?:этого |об этом )?не (?:знаю|помню|могу (?:помочь|сказать|ответить|найти)|нашёл|нашел|нашла|располагаю|имею|вижу|в курсе)\b|у меня нет (?:\w+ )?(?:информации|данных|доступа|сведений|записей|воспоминаний)|(?:ты|вы) (?:мне )?(?:ещё |еще |об этом |этого |про это |никогда )*не (?:говорил\w*|упоминал\w*|рассказывал\w*|сообщал\w*|указывал\w*)|в (?:наших|нашем) (?:разговор|бесед|диалог|переписк).{0,60}|нет (?:информации|данных)|как (?:ии|искусственный интеллект|языковая модель)\b|понятия не имею
""",
    offer=r"""
\b(?:ты|вы|тебе|вам|твой|ваш|если|могу помочь|извини\w*|прости\w*|пожалуйста)\b
""",
    listener=r"""
\b(?:ты|вы) (?:мне |нам |тогда |уже )*(?:\w+ )?(?:посоветовал\w*|рекомендовал\w*|порекомендовал\w*|сказал\w*|предложил\w*|дал\w*|говорил\w*|написал\w*|назвал\w*|объяснил\w*|упомянул\w*|советовал\w*|предлагал\w*)\b|\b(?:тво\w+|ваш\w*) (?:\w+ )?(?:рецепт\w*|совет\w*|ответ\w*|предложени\w*|рекомендаци\w*|иде\w+|план\w*|спис\w+|верси\w+|текст\w*)\b|\bмы (?:обсуждали|договорились|решили)\b
""",
    advice=r"""
\bкак (?:мне|нам|можно|лучше|правильно|\w+ть)\b|\bчто (?:мне|нам|делать)\b|\bстоит ли\b|\b(?:мне|нам) (?:стоит|нужно|надо|следует|можно|нельзя)\b|\bможно ли\b|\bдолж(?:ен|на) ли я\b
""",
    unmeant=r"""
\b(?:скажи|расскажи|объясни|покажи|дай|помоги|напиши|сделай|подскажи)(?:те)? (?:мне|нам)\b|\b(?:можешь|можете|мог|могла|могли) (?:бы )?(?:ты |вы )?(?:мне|нам)\b|\bя (?:хотела?|хочу) (?:бы )?(?:узнать|знать|понять)\b|\bмне интересно\b|\bя (?:думаю|всегда путаю|путаю|не понимаю)\b|\bкак мне\b
""",
    favour=r"""
\b(?:забронируй|закажи|купи|найди|посоветуй|порекомендуй|предложи|подбери|выбери|напомни|приготовь)(?:те)? (?:мне|нам)\b
""",
    follow_up=r"""
(?:а|и|или|но)\b(?: [\w-]+){1,4}|почему(?: нет)?|когда|где|кто|как|сколько|зачем|куда|какой|перв\w+|втор\w+|послед\w+|(?:в|на|для|с|без) [\w-]+|ещё раз|короче|длиннее
""",
)


# -- Phrases of French, Spanish, Italian, Portuguese ----------------------------------------------


SPANISH = Phrases(
    first_person=r"""
\b(?:yo|mí|mi|mis|mío|mía|míos|mías|me|conmigo|nos|nosotros|nosotras|nuestr[oa]s?)\b
\b(?:tengo|vivo|trabajo|soy|estoy|voy|fui|hago|hice|quiero|necesito|puedo|debo|prefiero|uso|tomo|como (?:de|en|a)|compré|estudio|llevo|salgo|juego|manejo|pago|nací|crecí|tuve|estuve|pienso|gano|sé|he|hemos|tenemos|vivimos|somos|estamos|vamos|podemos|almorzamos|comemos|queremos|debemos|pagamos|tenía|deje|dejé|pedi|pedí|quité|duermo|bebo|practico|toco|canto|entreno)\b
""",
    own_clause=r"""
(?:yo|mi|mis|me|nuestr[oa]s?|nosotros|a mí|nos)\b
(?:tengo|vivo|trabajo|soy|estoy|voy|hago|quiero|necesito|puedo|prefiero|uso|tomo|compré|llevo|tenemos|vivimos|somos|estamos|ya (?:no )?\w+é)\b
""",
    finite=r"""
\b(?:es|son|está|están|era|fue|tiene|tienen|ha|han|hay|va|van|vive|trabaja|dice|empieza|cumple|abre|se llama|quiere|puede|cuesta|gusta|gustan|come|entro|entró)\b
""",
    question=r"""
¿|(?:qué|que|quién|quien|quiénes|cuál|cuáles|cual|cuando|cuándo|cuánto|cuánta|cuántos|cuántas|cuanto|cuanta|cuantos|cuantas|dónde|donde|adónde|cómo|por qué)\b
como (?:se|hago|puedo|debo|quito|es|le|me|lo|la|funciona|te|está|voy|preparo|digo)\b|por que\b
(?:a|de|en|con|para|por|desde|hasta|sobre|cada) (?:qué|que|quién|quien|cuál|cual|cuándo|cuando|cuánto|cuanto|cuántos|cuantos|cuántas|cuantas|dónde|donde)\b|en dónde\b
(?:puedo|debo|debería|podemos|tengo que|hay|es (?:bueno|malo|seguro|mejor|verdad|posible)|sirve|conviene)\b(?=.*\?)|(?:la )?diferencia entre\b
""",
    request=r"""
(?:puedes|podrías|puede|podría|me puedes|me podrías|me ayudas|quieres)\b
(?:escrib|traduc|traduz|explic|cuent|dime|dame|dinos|denme|muestr|muéstr|enséñ|ayúd|ayud|haz|hazme|hágame|cre[ae]|redact|resum|busc|búsc|encuentr|encuéntr|recomiend|recomiénd|sugi[eé]r|aconsej|aconséj|reserv|resérv|compr[ae]|cómpr|record|recuérd|recuerd|corrig|corríg|calcul|calcúl|list[ae]|compar|describ|escog|eleg|elige|prepár|prepar[ae]|arm[ae]|árm|pon|ponme|pás|planea|planifica|organiz|organíz|conviert|resuelv|invent|mand[ae]|mánd|rellen|ordén|orden[ae]|quiero (?:que|saber|un (?:letrero|texto|resumen|ejemplo)))\w*\b
por favor\b|.* por favor$|(?:quisiera|me gustaría|necesito) (?:saber|que (?:me|tú|usted)|entender|un resumen|una lista|una idea|un ejemplo)\b
""",
    condition=r"""
(?:si|cuando|que|quien|para|sin|con|en|de|por|aunque|donde|como|y|o|a|al)\b
""",
    standing=r"""
(?:de ahora en adelante|a partir de (?:ahora|hoy)|desde ahora|en adelante|siempre|nunca|jamás|no (?:me|uses|vuelvas|pongas|escribas)|ll[aá]m[ae]me|llámame|recuerda que|acuérdate|acuerdate|anota|ten en cuenta|no olvides)\b
.{2,60}\b(?:de ahora en adelante|a partir de ahora|en adelante)\b|(?:cuando|si) (?:te )?.{3,60}\b(?:respóndeme|contéstame|contestame|responde|contesta|usa|dame)\b
""",
    opening=r"""
(?:ok|okay|bueno|buenas|buenos (?:días|dias)|hola|oye|oiga|y|e|pero|o|ah|sí|no(?=,)|gracias|perfecto|pues|entonces|también|tambien|por cierto|ahora|lo siento|perdón|perdon|disculpa|lamentablemente|lamento|este|mira|vale|además)\b
""",
    ignorant=r"""
(?:yo )?no (?:lo )?(?:sé|se|recuerdo|conozco)\b|no (?:tengo|dispongo|encuentro|cuento|puedo|poseo|veo|hay|consta|aparece)\b.{0,30}(?:información|acceso|idea|datos|registro|nada|ayudarte|ayudarle|saber|decirte|responder|ningun|constancia|eso|con)
no me (?:lo )?(?:has|ha|habías|dijiste|contaste|mencionaste).{0,60}|(?:nunca|no) (?:has|ha|lo has|mencionaste|dijiste|me dijiste|me has)\b.{0,60}|nada (?:en|de) (?:nuestr|la convers|las convers)|ni idea\b|como (?:ia|inteligencia artificial|asistente|modelo)\b|en nuestras? (?:conversaci|charla).{0,60}\bno\b
""",
    offer=r"""
\b(?:tú|te|ti|usted|le|tu|su|si (?:me|quieres|quiere)|puedes|puede|gusto|siento|dime|dígame)\b
""",
    listener=r"""
\b(?:me |nos )?(?:dijiste|recomendaste|sugeriste|diste|aconsejaste|propusiste|mencionaste|escribiste|explicaste|contaste|pasaste|calculaste|dijo usted|recomendó usted)\b
\b(?:me |nos )?(?:has|habías|había|ha) (?:dicho|recomendado|sugerido|dado|aconsejado|propuesto|mencionado|escrito)\b|\btus? (?:\w+ )?(?:receta|sugerencias?|respuestas?|consejos?|recomendaci\w+|ideas?|plan|lista|propuesta|versión|texto|explicación)\b|\b(?:quedamos|hablamos|acordamos)\b
""",
    advice=r"""
\b(?:cómo|como) (?:puedo|debo|hago|se hace|debería|podría|quito|preparo|\w+o|\w+ar|\w+er)\b|\b(?:debo|debería|puedo|podría|tengo que|conviene)\b|\bqué (?:hago|debo|puedo|tengo que)\b|\bque (?:hago|debo|puedo)\b
""",
    unmeant=r"""
\b(?:dime|dame|muéstrame|muestrame|enséñame|enseñame|explícame|explicame|cuéntame|cuentame|ayúdame|ayudame|hazme|escríbeme|escribeme|dinos|pásame|tradúceme|traduceme)\b|\b(?:me|nos) (?:puedes|podrías|puede|podría|ayudas|explicas|das|dices|cuentas)\b|\b(?:puedes|podrías|puede|podría) (?:dar|decir|explicar|ayudar|escribir|mostrar|hacer|contar)(?:me|nos)\b
\b(?:me gustaría|quisiera|quiero|necesito) (?:saber|entender|que me)\b|\bme (?:pregunto|confundo|lío)\b|\bsiempre (?:me )?confundo\b|\b(?:cómo|como) (?:puedo|hago|debo|se)\b|\bno (?:entiendo|sé|comprendo)\b|\bcreo que\b|\bpara mí\b(?=.*\b(?:explica|traduce))
""",
    favour=r"""
\b(?:resérvame|reservame|cómprame|comprame|búscame|buscame|encuéntrame|recomiéndame|recomiendame|sugiéreme|sugiereme|recuérdame|recuerdame|ármame|armame|prepárame|pídeme|agéndame|ponme|elígeme)\b
""",
    follow_up=r"""
(?:y|o|pero|e)\b(?: [\w'-]+){1,4}|por ?qu[eé](?: no)?|cuándo|cuando|dónde|quién|cómo|cuánto|cuál|(?:el|la|lo) (?:primer[oa]?|segund[oa]|tercer[oa]?|últim[oa]|otr[oa]|mism[oa]|siguiente)|(?:en|para|con|sin) [\w-]+|otra vez|más (?:corto|largo|simple)|qué (?:tal|hay de) .{0,30}
""",
)


# -- The phrases of all languages that are recognised ---------------------------------------------


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
