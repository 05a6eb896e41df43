"""Phrases of German, Dutch. Pure data."""

# ruff: noqa: E501 - phrases in the letters they are written in
from __future__ import annotations

from langchain_convmem.recall.words.phrase_kinds import Phrases

__all__ = ["DUTCH", "GERMAN"]

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
