"""What a summariser returns that is no summary: refusals, leftovers, echoes, blanks. Pure.

No fact is looked for here: a text passes that a reader would take for the summary of something.
Whether it is about what it covers, `topics` says. Faults are named, never quoted.
"""

# ruff: noqa: RUF001, E501, SIM905 - letters of the languages themselves, a pattern to a line

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.records import SummaryRequest
from langchain_convmem.summarizing.topics import is_about
from langchain_convmem.views.messages import get_block_type


def find_fault(
    text: str, request: SummaryRequest, *, may_quote: bool = False, facts: int | None = None
) -> str:
    """Return why a text cannot be the summary that was asked for; empty if it can.

    Args:
        text: As `clean_answer` returns it.
        request: What the summariser was given.
        may_quote: The summariser is code that may take its words from the transcript.
        facts: How many facts there are to tell; None if that is not known.
    """
    fault = _find_fault_of_form(text, request.transcript) or _find_echo(
        text, request, may_quote=may_quote
    )
    if fault or (facts == 0 and _is_of_small_talk(text)):
        return fault
    return _find_fault_of_size(text, request, facts) or (
        "" if is_about(text, f"{request.previous}\n{request.transcript}") else _ELSEWHERE
    )


_ELSEWHERE = "it is about something else than what it covers"


def _find_fault_of_form(text: str, transcript: str) -> str:
    """Return what is wrong with a text, whatever it should be about."""
    if _is_blank(text, transcript):
        return "it says nothing"
    found = next((fault for is_so, fault in _FAULTS if is_so(text)), "")
    if not found and _is_empty_talk(text) and not _is_small(transcript):
        return "it is a placeholder"
    # A conversation may be code or repeat itself, and so may its summary.
    alike = ((_is_machine_output, "it is an error or code"), (_is_repetitive, "it repeats itself"))
    return found or next(
        (fault for is_so, fault in alike if is_so(text) and not is_so(transcript)), ""
    )


# -- What a provider says of its answer -----------------------------------------------------------

_REFUSED = frozenset(
    """
    content_filter content_filtered refusal refused safety recitation blocklist blocked
    prohibited_content spii image_safety image_prohibited_content image_recitation language
    model_armor guardrail_intervened guardrails guardrail intervened sensitive moderation
    data_inspection_failed error error_toxic toxic policy_violation responsible_ai_policy_violation
    unsafe jailbreak flagged
    """.split()
)
_BROKEN = frozenset(
    """
    tool_calls tool_use function_call malformed_function_call unexpected_tool_call
    malformed_tool_use malformed_model_output malformed_response pause_turn no_image
    insufficient_system_resource network_error failed cancelled canceled error_limit
    """.split()
)
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status", "finishReason")
_NESTED = ("incomplete_details", "prompt_feedback", "promptFeedback", "error")
_NESTED_REASONS = ("reason", "block_reason", "blockReason", "code", "type")
_CALLS = frozenset({"tool_use", "tool_call", "function_call", "server_tool_use", "toolUse"})


def find_refusal_sign(message: BaseMessage) -> str:
    """Return why a provider's own signs say that an answer is none; empty if they do not."""
    words = set(_list_reasons(message.response_metadata))
    words |= set(_list_reasons(message.additional_kwargs))
    blocks = message.content if isinstance(message.content, list) else []
    types = {get_block_type(block) for block in blocks}
    if message.additional_kwargs.get("refusal") or "refusal" in types or words & _REFUSED:
        return "the provider marked it as refused"
    calls = isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls)
    raw = message.additional_kwargs.get("tool_calls") or message.additional_kwargs.get(
        "function_call"
    )
    if calls or raw or types & _CALLS:
        return "it is a call of a tool"
    return "the provider marked it as broken" if words & _BROKEN else ""


def _list_reasons(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words by which providers say how an answer ended, in one spelling."""
    for name in _REASONS:
        yield _fold_reason(metadata.get(name))
    for name in _NESTED:
        inner = metadata.get(name)
        if isinstance(inner, Mapping):
            yield from (_fold_reason(inner.get(key)) for key in _NESTED_REASONS)
    if str(metadata.get("amazon-bedrock-guardrailAction", "")).upper() == "INTERVENED":
        yield "intervened"
    if metadata.get("is_blocked") is True or _has_filtered(metadata):
        yield "blocked"


def _fold_reason(value: Any) -> str:
    name = getattr(value, "name", value)
    return str(name).rpartition(".")[2].strip().casefold() if name else ""


def _has_filtered(metadata: Mapping[str, Any]) -> bool:
    results = metadata.get("content_filter_results")
    rated = metadata.get("safety_ratings")
    marks = list(results.values()) if isinstance(results, Mapping) else []
    marks += rated if isinstance(rated, list) else []
    return any(
        isinstance(mark, Mapping) and (mark.get("filtered") is True or mark.get("blocked") is True)
        for mark in marks
    )


# -- What is taken off ----------------------------------------------------------------------------

_THINKING_NAMES = (
    r"(?:think|thinking|thought|thoughts|reasoning|reason|reflection|scratchpad|analysis|"
    r"inner_monologue|seed:think|antml:thinking)"
)
_THOUGHTS = re.compile(
    rf"<({_THINKING_NAMES})\b[^>]*>.*?</\1\s*>|\[THINK\].*?\[/THINK\]|◁think▷.*?◁/think▷"
    r"|<\|(?:begin_of_thought|START_THINKING)\|>.*?<\|(?:end_of_thought|END_THINKING)\|>"
    r"|<\|channel\|>\s*(?:analysis|commentary)\s*<\|message\|>.*?<\|end\|>",
    re.DOTALL | re.IGNORECASE,
)
_LATE_END = re.compile(
    rf"\A.*(?:</{_THINKING_NAMES}\s*>|\[/THINK\]|◁/think▷)", re.DOTALL | re.IGNORECASE
)
_THINKING = re.compile(
    rf"</?{_THINKING_NAMES}\b[^>\n]{{0,40}}>?|\[/?THINK\]|◁/?think▷"
    r"|<\|(?:begin_of_thought|end_of_thought|START_THINKING|END_THINKING)\|>",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(
    r"<[|｜][^|｜<>\n]{1,40}[|｜]>|\[/?INST\]|<</?SYS>>|</?s>|<(?:start|end)_of_turn>|<eos>|<bos>"
    r"|<\|?/?im_(?:start|end)\|?>|^###?\s*(?:Instruction|Response|Human|Assistant|System)\s*:"
    r"|^(?:Human|System|SYSTEM):\s*\Z",
    re.MULTILINE | re.IGNORECASE,
)
_EDGES = (
    re.compile(
        r"\A(?:\s*<\|(?:begin_of_text|startoftext)\|>)?\s*(?:<\|im_start\|>\s*assistant\b\s*"
        r"|<\|start_header_id\|>\s*assistant\s*<\|end_header_id\|>\s*|<start_of_turn>model\b\s*"
        r"|(?:<\|start\|>assistant)?<\|channel\|>\s*final\s*<\|message\|>|<\|assistant\|>\s*|<s>\s*)"
    ),
    re.compile(
        r"(?:\s*(?:<\|(?:im_end|eot_id|end|endoftext|end_of_text|return|eom_id|end_of_turn)\|>"
        r"|<｜end▁of▁sentence｜>|</s>|<end_of_turn>|<eos>))+\s*\Z"
    ),
)
_FENCED = re.compile(r"\A(`{3,}|~{3,})[ \t]*[\w+-]*[ \t]*\n(.*?)\n?[ \t]*\1\s*\Z", re.DOTALL)
_WRAPPED = re.compile(
    r"\A<(summary|answer|final|output|response|final_answer)>\s*(.*?)\s*</\1>\Z",
    re.DOTALL | re.IGNORECASE,
)


def clean_answer(text: str) -> str:
    """Return a text without what stands around a summary: finished thinking, fences, end tokens."""
    text = _THOUGHTS.sub("", text)
    late = _LATE_END.match(text)
    if late is not None and not re.search(rf"<{_THINKING_NAMES}\b", text, re.IGNORECASE):
        text = text[late.end() :]  # some templates open the thinking for the model
    for edge in _EDGES:
        text = edge.sub("", text)
    text = text.strip()
    for wrap in (_FENCED, _WRAPPED, _FENCED):
        match = wrap.match(text)
        if match is not None and not re.search(r"^(?:`{3,}|~{3,})", match[2], re.MULTILINE):
            text = match[2].strip()
    return text


# -- Blanks and placeholders ----------------------------------------------------------------------

_SMALL_TALK = re.compile(
    r"\b(?:small talk|chit-?chat|chatted|greet\w*|pleasantries|thank(?:s|ed)\b|casual|wished|"
    r"begrüß\w*|smalltalk|plauder\w*|bedank\w*|salutations?|salué\w*|bavard\w*|remerci\w*|"
    r"saludo?s?|saludaron|charla\w*|agradec\w*|saluti|chiacchier\w*|ringrazi\w*|saudaç\w*|"
    r"cumpriment\w*|begroet\w*|kletsten|поздоровал\w*|приветств\w*|поблагодар\w*|болта\w*|"
    r"przywita\w*|pozdrow\w*|selamlaş\w*|sohbet\w*)"
    r"|寒暄|问候|問候|闲聊|閒聊|挨拶|雑談|인사|잡담|تحيات|تحية|دردشة|अभिवादन|नमस्ते",
    re.IGNORECASE,
)


def _is_of_small_talk(text: str) -> bool:
    """Return whether a text says in so many words that little was said."""
    return _count_words(text) > 1 and _SMALL_TALK.search(text) is not None


_LETTERS = re.compile(r"[^\W_]")
_NOTHING = frozenset(
    """
    ok okay okey done finished yes no yep sure certainly thanks none null nil nan na n/a undefined
    true false empty summary tldr tl dr todo tbd xxx test hello hi hey unknown error end
    nothing start continue understood noted got it alright great text content object placeholder
    zusammenfassung résumé resume resumen riassunto resumo samenvatting podsumowanie özet sammanfattning
    streszczenie резюме сводка итог итоги саммари краткое содержание ملخص الملخص סיכום 摘要 总结 總結 概要
    要約 まとめ 요약 सारांश สรุป ringkasan tóm tắt περίληψη shrnutí összefoglaló rezumat
    fertig erledigt verstanden gut klar compris fait voilà hecho vale listo claro fatto va bene
    feito certo klaar goed gotowe dobrze tamam готово хорошо понятно да нет ок 好的 好 完成 明白 知道了 没有
    了解しました はい 承知しました 完了 네 알겠습니다 완료 تم حسنا نعم ठीक है
    """.split()
)
_ANNOUNCED = re.compile(
    r"\A(?:(?:sure|certainly|of course|absolutely|okay|ok|great|got it|understood|gerne|natürlich|klar|bien sûr|"
    r"voici|claro|por supuesto|certo|certamente|natuurlijk|конечно|хорошо|好的|当然|承知しました|わかりました|물론입니다|"
    r"알겠습니다)[\s!,.:，。！、-]*)*"
    r"(?:here(?:'s| is| are)|this is|below is|the following is|hier ist|dies ist|nachfolgend|voici|ceci est|"
    r"aquí (?:está|tienes)|este es|ecco|questo è|questa è|aqui está|este é|hier is|dit is|вот|это|以下是|这是|這是|"
    r"以下は|これは|以下が|다음은|هذا هو|فيما يلي|إليك|oto|to jest|işte|bu)?\s*"
    r"(?:(?:a|an|the|my|your|brief|short|concise|requested|updated|new|eine?|die|der|kurze|le|la|un|une|el|il|o|"
    r"um|een|de|краткое|краткая|一个|的|この|会話の|对话的|對話的|대화의?|대화|这段|本次|konuşmanın|"
    r"ملخص|krótkie)\s*)*"
    r"(?:summary|recap|overview|tl;?dr|zusammenfassung|résumé|resumen|riassunto|resumo|samenvatting|резюме|сводка|"
    r"изложение|содержание|摘要|总结|總結|概要|要約|まとめ|요약|podsumowanie|streszczenie|özeti?|ملخص|الملخص)"
    r"(?:\s*(?:of|for|der|des|du|de|della|del|van|da|do|разговора|диалога|беседы|rozmowy|المحادثة|입니다|です)?\s*"
    r"(?:the|this|our|your|des|la|le|el|dieses|het|esta|questa|a|o|l'|l’)?\s*"
    r"(?:whole|entire|above|gespräche?s|gesprächs?|unterhaltung|conversation|conversación|conversazione|conversa|"
    r"chat|dialogue?|dialogs?|discussion|transcript|gesprek|text|对话|會話|会話|對話)?\s*"
    r"(?:so far|above|below|here|follows|as requested|bisher|gesprächs)?)?[\s.:!…。：！\-—]*\Z",
    re.IGNORECASE,
)
_SLOT = re.compile(
    r"[\[<{(«【〔＜]{1,2}\s*[\w\s,.'’:/-]*?(?:summary|insert|placeholder|your text|text here|fill in|to be (?:added|written)|"
    r"tbd|todo|zusammenfassung|einfügen|résumé|insérer|resumen|insertar|riassunto|inserire|resumo|inserir|"
    r"samenvatting|invoegen|резюме|сводка|вставьте|摘要|总结|總結|要約|요약|ملخص|özet|podsumowanie)"
    r"[\w\s,.'’:/-]*\s*[\]>})»】〕＞]{1,2}",
    re.IGNORECASE,
)
_LOREM = re.compile(
    r"lorem ipsum|dolor sit amet|consectetur adipiscing|\bfoo bar\b|asdf|qwerty|"
    r"the quick brown fox jumps|hello,? world|sample text|dummy text|your summary (?:goes )?here|"
    r"summary (?:goes|to be inserted) here|insert summary",
    re.IGNORECASE,
)
_EMPTY_TALK_WORDS = frozenset(
    """
    a an the this that these those it is was are were be been has have had of in on to for with and or so far
    here there some various several different many topics topic things thing stuff subjects matters issues
    conversation conversations chat dialogue dialog discussion transcript messages message summary summaries
    summarized summarised overview recap user users assistant assistants ai human bot participants speakers they
    both two between about each other discussed discuss discusses talked talk talks spoke speak chatted
    exchanged exchange said asked asks ask answered answers answer questions question replied helped helps help
    provided provide provides gave information details general end above below previous earlier text contains
    contain covers covered cover following key main points point important short brief concise i will now
    would like please as requested your our we you
    """.split()
)


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _is_blank(text: str, transcript: str) -> bool:
    letters = set(_LETTERS.findall(_fold(text)))
    return not letters or (len(letters) == 1 and len(_split_shingles(transcript)) >= _TINY)


def _is_placeholder(text: str) -> bool:
    """Return whether a text only stands where a summary should."""
    words = _list_words(text)
    if not words or all(word in _NOTHING for word in words) or _LOREM.search(text):
        return True
    rest = _SLOT.sub(" ", text)
    return rest != text and (_is_placeholder(rest) or _is_empty_talk(rest))


def _is_empty_talk(text: str) -> bool:
    """Return whether a text announces a summary, or says no more than that there was a talk."""
    if _ANNOUNCED.match(text.strip()):
        return True
    words = _list_words(text)
    return all(word in _EMPTY_TALK_WORDS or word in _NOTHING for word in words)


def _list_words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:[/'\u2019][^\W_]+)*", _fold(text))


_TINY = 8
"""Of so few different runs of words a letter will do."""
_SMALL = 40
"""Of so few different runs of words any words will do."""


def _is_small(transcript: str) -> bool:
    return len(_split_shingles(transcript)) < _SMALL


# -- Calls, errors, code --------------------------------------------------------------------------

_CALL = re.compile(
    r"<(?:tool_call|function_call|tool_use|function_calls|invoke|antml:invoke|tool|function=\w+)\b"
    r"|<[|｜]?(?:tool|python_tag)|\[TOOL_CALLS\]|\[/?TOOL_REQUEST\]|✿FUNCTION✿"
    r"|^\s*Action(?: Input)?:\s*\S|^\s*print\(default_api\.|^\s*functions?\.\w+\(|\bto=functions\.",
    re.IGNORECASE | re.MULTILINE,
)
_CALL_KEYS = (
    {"name", "arguments"},
    {"name", "parameters"},
    {"name", "args"},
    {"name", "input"},
    {"tool", "args"},
    {"tool", "input"},
    {"tool", "arguments"},
    {"tool_name"},
    {"tool_calls"},
    {"function"},
    {"function_call"},
    {"action", "action_input"},
    {"recipient_name"},
    {"error"},
)
_ONE_CALL = re.compile(
    r"\A\[?\s*[A-Za-z_][\w.]*\((?:\s*\w+\s*=.*|\{.*\}|['\"].*)?\)\s*\]?\Z", re.DOTALL
)
_MACHINE = re.compile(
    r"\A\s*(?:<!doctype html|<html|<\?xml|Traceback \(most recent call last\)|(?:[A-Za-z_]+\.)*[A-Z]\w*(?:Error|Exception)[:(]"
    r"|error(?: code)?\s*[:\d]|HTTP/?\s?\d|\[object Object\]|def \w+\(|class \w+[:(]|import [\w.]+\s*(?:\n|\Z)|from [\w.]+ import"
    r"|function \w*\(|#include|SELECT .+ FROM|console\.log|content='|AIMessage\("
    r"|(?:429|500|502|503|504)\b.{0,80}\Z|(?:internal server error|service unavailable|bad gateway|gateway timeout|"
    r"too many requests|rate limit|request timed out|connection (?:reset|refused)|an error occurred|something went wrong|"
    r"an unexpected error|overloaded))",
    re.IGNORECASE,
)


def _is_call(text: str) -> bool:
    if _CALL.search(text) or _ONE_CALL.match(text.strip()):
        return True
    value = _read_json(text)
    values = value if isinstance(value, list) else [value]
    return any(
        isinstance(one, dict) and any(keys <= one.keys() for keys in _CALL_KEYS) for one in values
    )


_ENOUGH_SIGNS = 12
"""In fewer characters the share of letters says little."""


def _read_json(text: str) -> Any:
    bare = text.strip()
    if bare[:1] not in "{[" or bare[-1:] not in "}]":
        return None
    try:
        return json.loads(bare)
    except ValueError:
        keys = re.findall(r"['\"](\w+)['\"]\s*:", bare)
        return dict.fromkeys(keys) if keys else None


def _is_machine_output(text: str) -> bool:
    if _MACHINE.search(text):
        return True
    value = _read_json(text)
    if value is not None and not (isinstance(value, dict) and _holds_prose(value)):
        return True
    if len(text) < _ENOUGH_SIGNS:
        return False
    letters = sum(one.isalpha() or unicodedata.category(one)[0] == "M" for one in text)
    others = sum(one.isalnum() or one.isspace() for one in text) - letters
    return letters < 0.2 * len(text) or letters + others < 0.6 * len(text)


def _holds_prose(value: Mapping[str, Any]) -> bool:
    """Return whether a JSON object says something in sentences."""
    return any(isinstance(one, str | list) and len(str(one)) > 40 for one in value.values())  # noqa: PLR2004


# -- Refusals -------------------------------------------------------------------------------------

_SORRY = r"""
i(?:'| a)?m (?:really |very |so |truly |terribly |deeply )*(?:sorry|afraid|unable|not able|not comfortable|not going to|only an ai)
i (?:do )?(?:sincerely |deeply )?apologi[sz]e
(?:my|our) (?:sincere |sincerest |deepest )?apologies | apologies[,. ] | sorry(?:[,.!]| (?:but|i|about that|for the|i'm|we)\b) | we(?:'| a)re sorry | regrettably,? i | unfortunately,? (?:i|we|this|that|the (?:request|content))
i (?:really |just |simply |also )?(?:(?:can ?not|can't|cant)(?! (?:stand|eat|drink|tolerate|bear|digest|sleep|swim|drive|afford|wait)\b)|won't|will not|couldn't|could not|must (?:respectfully )?(?:decline|refuse)|have to (?:decline|refuse|respectfully)|decline|refuse|am (?:unable|not (?:able|allowed|permitted|programmed|designed|comfortable|in a position))|don't (?:feel|have (?:access|the ability|enough|any|permission|a transcript|the transcript)|see (?:a|any|the)|think i can|know what)|do not (?:have (?:access|the ability|enough|any|permission)|see any|feel comfortable)|need (?:more|the|a) (?:information|context|transcript|text|conversation)|didn't (?:receive|get|find)|did not receive|would need)
i(?:'d| would) (?:prefer|rather) not | i'd be (?:happy|glad) to | i would be (?:happy|glad) to | i(?:'| a)m (?:here|ready|happy|glad|just) (?:to|an? )
as an? (?:ai|artificial|large|language|responsible|automated|virtual) | being an ai | i am an? (?:ai|artificial|large language|language model) | i'm an? (?:ai|artificial|large language|language model)
(?:this|the|your) (?:request|content|conversation|prompt|input|message|response|output|material|transcript) (?:was|is|has been|may|might|could|appears? to|seems? to|goes|violates?|contains?|cannot|can't) (?:\w+ ){0,4}(?:violat|flagg|block|filter|against|inappropriate|harmful|sensitive|polic|guideline|unsafe|be (?:summar|process|complet|displayed)|empty|missing|blank|prohibited)
(?:blocked|filtered|flagged|removed|redacted) (?:by|due to|because|for) | content (?:filtered|blocked|removed|warning) | \[?(?:content|response|text|message) (?:removed|filtered|blocked|redacted|unavailable)
please (?:provide|paste|share|send|give|supply|upload|include) | could you (?:please )?(?:provide|paste|share|send|clarify) | can you (?:please )?(?:provide|paste|share|send|clarify) | what would you like | how (?:can|may) i (?:help|assist) | (?:it )?(?:looks|seems|appears) (?:like|that|as if) (?:you|the (?:transcript|conversation|text|message)|there)
there (?:is|was|isn't|is not|are|aren't|appears to be|seems to be) (?:no|nothing|not|any) (?:\w+ ){0,4}(?:summari[sz]e|conversation|transcript|content|text|messages|dialogue|to report) | no (?:conversation|transcript|content|text|messages?|summary|information) (?:\w+ ){0,3}(?:provided|available|found|given|to summari[sz]e|possible) | nothing to (?:summari[sz]e|report) | (?:summary|content|response|information) (?:is )?(?:not available|unavailable|withheld)
(?:the )?(?:transcript|conversation|text|document) (?:is|was|seems|appears) (?:to be )?(?:empty|missing|blank|not provided|incomplete)
(?:hello|hi|hey)(?: there)?[!,.]+ (?:how|what|i) | (?:sure|certainly|of course|absolutely|great)[!,.]+ (?:please|what|i(?:'ll| will|'d| would| can) (?:need|be|help|summari[sz]e)|could|how|let me|happy|go ahead|just|send) | let me know (?:if|what|how) | let me (?:think|check|look|search|see|start|analy[sz]e|first) | it (?:is|would be) (?:not (?:possible|appropriate|ethical)|inappropriate|unethical|impossible|against) | (?:access|request|permission) denied | that(?:'s| is) (?:not )?something i (?:can't|cannot|am|'m|can)
(?:je (?:suis |vous prie )?(?:vraiment |sincèrement |profondément )?(?:désolée?|navrée?|d'excuser|de m'excuser)) | désolée?\b | navrée?\b | je (?:m'excuse|vous présente mes excuses|regrette|ne (?:peux|puis|suis|saurais|dispose|vois|peux) (?:malheureusement )?(?:pas|en mesure|rien)?|n'ai pas (?:accès|la possibilité)|refuse|dois (?:décliner|refuser)) | malheureusement,? (?:je|il m'est) | en tant (?:qu'|que )(?:ia|intelligence|modèle|assistant) | il (?:m'est|ne m'est pas|n'y a (?:pas|rien|aucun)) (?:impossible|possible|de|à|rien|texte|conversation)? | mes excuses | veuillez (?:fournir|me fournir|coller|préciser|partager) | comment puis-je | aucune? (?:conversation|transcription|texte) | cette demande
(?:es )?tut mir (?:wirklich |sehr |aufrichtig )?leid | (?:bitte )?entschuldig(?:ung|en sie|e|t)\b | ich (?:bitte um (?:entschuldigung|verständnis)|kann (?:das |dies |diese[nrs]? |dir |ihnen |dabei |hierbei |hier |leider |dazu |dafür |ihre |deine )*(?:\w+ ){0,5}?(?:nicht|keine)|darf (?:\w+ ){0,4}nicht|bin (?:leider )?(?:nicht in der lage|eine? ki|ein sprachmodell|nicht befugt|außerstande)|habe (?:leider )?(?:keinen zugriff|keinen zugang|kein)|möchte (?:das|dies|dazu|hierzu) |muss (?:\w+ ){0,3}ablehnen|lehne|weigere) | leider (?:kann|darf|bin|ist es|habe|war) (?:ich|mir|es|nicht|keine) | als (?:ki|künstliche|sprachmodell|großes sprachmodell|virtuelle|ai) | bedaure | bitte (?:geben|fügen|stellen|schicken|teilen|gib|schick|sende) | es (?:gibt|liegt|wurde) (?:hier )?(?:keine?n?|nichts|kein) (?:\w+ ){0,3} | wie kann ich (?:ihnen|dir) | diese anfrage | hierbei kann ich | dabei kann ich
lo (?:siento|lamento)\b | (?:le |te )?pido (?:disculpas|perdón) | (?:mis )?disculpas | disculp[ae]\b | perd[oó]n\b | (?:lamentablemente|desafortunadamente|por desgracia),? (?:yo )?no (?:puedo|podemos|es posible|me es|estoy) | no (?:puedo|podemos|me es posible|me siento|es posible|tengo (?:acceso|la capacidad|permitido|permiso)|estoy (?:en condiciones|autorizad|capacitad|permitid)|dispongo|soy capaz|se (?:ha )?proporcion|hay (?:nada|ninguna?|texto|conversaci|contenido)) | como (?:una? )?(?:ia\b|inteligencia|modelo de) | debo (?:declinar|rechazar|negarme) | me (?:niego|temo que|es imposible) | soy (?:una? )?(?:ia\b|inteligencia artificial|modelo de lenguaje) | por favor,? (?:proporcion|envíe?|envía|comparte|pega|indíq) | ¿?(?:en qué|cómo) puedo | esta solicitud
mi (?:dispiace|spiace|scuso|rifiuto|è impossibile) | (?:sono|siamo) (?:spiacente|desolat|spiacenti) | (?:chiedo )?scus[ai]\b | chiedo scusa | purtroppo,? (?:io )?non (?:posso|sono in|mi è|è possibile|riesco) | spiacente | non (?:posso|sono in grado|mi è possibile|è possibile|ho accesso|ho la possibilità|sono autorizzat|c'è (?:nulla|niente|alcun)|riesco a|dispongo|sono a mio agio) | in (?:quanto|qualità di) (?:ia|ai|intelligenza|modello|assistente) | come (?:ia|ai|intelligenza artificiale|modello linguistico|assistente ai) | devo (?:declinare|rifiutare) | per favore,? (?:fornisc|incolla|invia|condivid) | come posso aiutart?[il]?a?
(?:sinto|lamento) (?:muito)?\b | (?:eu )?(?:sinto|lamento),? | (?:peço )?(?:desculpas?|desculpe|desculpem) | peço (?:imensa )?desculpa | infelizmente,? (?:eu )?não (?:posso|consigo|é possível|podemos|me é|estou) | (?:eu )?não (?:posso|consigo|podemos|me é possível|é possível|tenho (?:acesso|como|permissão|capacidade)|sou capaz|estou (?:autorizad|em condições|apt)|há (?:nada|nenhum|conversa|conteúdo)|fui) | como (?:uma? )?(?:ia\b|inteligência|modelo de|assistente de ia) | devo (?:recusar|declinar) | por favor,? (?:forneça|envie|cole|compartilhe) | como posso (?:ajudar|ajudá) | sou (?:uma? )?(?:ia\b|inteligência artificial|modelo de)
het spijt (?:me|mij|ons) | sorry,? (?:maar|ik|dat|hier) | (?:mijn )?excuses | helaas (?:kan|mag|ben|is het|heb|lukt) (?:ik|het|niet|mij)? | ik (?:kan (?:\w+ ){0,5}?(?:niet|geen)|mag (?:\w+ ){0,5}niet|ben (?:helaas )?(?:niet in staat|een ai|een taalmodel)|heb (?:helaas )?geen toegang|moet (?:\w+ ){0,3}weigeren|weiger) | als (?:een )?(?:ai\b|taalmodel|kunstmatige|ai-) | er is (?:niets|geen) | hoe kan ik | geef (?:alstublieft|me)
(?:mi )?(?:przykro mi|przepraszam|wybacz) | niestety,? (?:nie|jako) | nie (?:mogę|jestem w stanie|mam (?:dostępu|możliwości)|wolno mi|potrafię|ma (?:czego|żadnej|nic)) | jako (?:model|sztuczna|ai\b|asystent) | muszę odmówić | odmawiam | proszę (?:podać|wkleić|o podanie) | w czym mogę
üzgünüm | maalesef | özür dilerim | kusura bakmayın | (?:bu konuda |bunu |bu isteği |size |bu konuşmayı |bu içeriği )+(?:\w+ ){0,3}\w*(?:emem|amam|emiyorum|amıyorum|emeyeceğim|amayacağım) | (?:bir )?yapay zek[aâ] (?:olarak|modeli|dil|asistanı olarak) | ben bir (?:yapay|dil) | (?:yardımcı olamam|yardımcı olamıyorum|özetleyemem|yapamam) | size nasıl yardımcı | lütfen (?:metni|konuşmayı|bana)
(?:мне (?:очень )?жаль | (?:я )?сожалею | прошу прощения | извините | простите | приношу (?:свои )?извинения | к сожалению,? (?:я|не могу|это|мне|данн)|увы, я) | я не (?:могу|в состоянии|имею|вправе|смогу|буду|умею|располагаю|вижу) | не (?:могу|смогу) (?:помочь|выполнить|обобщить|пересказать|составить|предоставить|сделать|с этим) | (?:я )?(?:вынужден|вынуждена|отказываюсь|должен отказать) | как (?:языковая|искусственный|ии\b|модель|ии-|большая) | (?:я|будучи) (?:всего лишь )?(?:языков|искусственн|ии\b) | (?:пожалуйста, )?(?:предоставьте|пришлите|вставьте|уточните) | чем (?:я )?могу | здесь нет | нет (?:текста|разговора|данных|содержания)
мені (?:дуже )?шкода | вибачте | на жаль,? | я не можу | перепрошую | як (?:мовна|штучний|ші)
(?:je mi )?líto | omlouvám se | bohužel | nemohu | jako (?:ai|jazykový) | nedokážu
(?:jag )?(?:är )?(?:ledsen|tyvärr|beklagar) | tyvärr | jag kan (?:\w+ ){0,3}(?:inte|tyvärr) | som en? (?:ai|språkmodell) | förlåt | jag beklager | beklager | jeg (?:kan|er) (?:\w+ ){0,3}(?:ikke|desværre|dessverre) | desværre | dessverre | undskyld | olen pahoillani | valitettavasti | en (?:voi|pysty) | pahoittelen | tekoälynä
sajnálom | elnézést | sajnos | nem (?:tudok|segíthetek|tudom|áll módomban) | îmi pare rău | ne pare rău | din păcate | nu (?:pot|sunt în măsură) | ca (?:model|inteligență) | λυπάμαι | συγγνώμη | δυστυχώς | δεν μπορώ | ζητώ συγγνώμη | ως (?:μοντέλο|τεχνητή|γλωσσικό) | xin lỗi | rất tiếc | tôi (?:không thể|rất tiếc|xin lỗi) | là một (?:mô hình|trí tuệ|ai) | maaf | mohon maaf | saya (?:tidak (?:bisa|dapat)|minta maaf|mohon) | sebagai (?:ai|model|kecerdasan) | samahani | siwezi
"""
_SORRY_UNSPACED = r"""
(?:非常|很|十分|真的|实在|實在)?(?:抱歉|对不起|對不起|不好意思|遗憾|遺憾) | (?:我|我们|我們)(?:很|非常|真的)?(?:抱歉|无法|無法|不能|没有办法|沒有辦法|没办法|不便|无权|不会|拒绝|只是一个|是一个(?:人工|AI|语言|大)|是(?:人工智能|AI|由)|没有(?:看到|收到|权限|找到|足够)|暂时无法|恐怕) | (?:无法|無法|不能)(?:为您|为你|满足|完成|提供|处理|回答|总结|總結|协助|帮助|生成|對) | (?:作为|作為|身为)(?:一个|一名|一個|一位)?(?:AI|人工智能|人工智慧|语言模型|語言模型|大型|大语言|智能助手) | (?:请|請)(?:您)?(?:提供|粘贴|发送|輸入|输入|换个|贴上) | (?:该|您的|此|这个|你的)(?:内容|请求|問題|问题)(?:可能)?(?:违反|不符合|涉及|无法|包含|被) | 根据相关(?:法律|政策|规定) | (?:有什么|有什麼)(?:我)?可以帮 | (?:您|你)好[，,！!。](?:我|有|请|很) | 没有(?:可|需要|任何)(?:以)?(?:总结|对话|内容)
(?:大変|誠に|まことに)?(?:申し訳(?:ありません|ございません|ない)|ごめんなさい|すみません|恐れ入りますが|恐縮ですが|残念ながら|残念ですが) | (?:私は|わたしは)?(?:AI|人工知能|言語モデル|大規模言語モデル)(?:アシスタント)?(?:として|である|なので|です) | (?:その|この|ご)?(?:リクエスト|要求|依頼|ご要望|内容|ご質問|会話)(?:に|は|を)(?:は)?(?:お応え|応じ|対応|要約)(?:する(?:こと)?|できかね|でき|られ|いたし|が|は|こと)*(?:ません|ない|できません) | お(?:手伝い|答え|応え)(?:することは|は)?(?:でき(?:ません|かねます)|いたしかねます) | (?:何か|どのように)(?:お手伝い|お困り) | (?:会話|文章|テキスト|内容)(?:を|が)(?:ご)?(?:提供|入力|貼り付け|見つかりません|ありません) | お断り | 要約(?:は|することは)?でき(?:ません|かね)
(?:정말 |대단히 )?(?:죄송합니다|죄송하지만|미안합니다|미안하지만|유감스럽게도|안타깝게도|유감입니다) | (?:저는|나는) (?:\S+ ){0,4}?(?:도와드릴 수|수 없|할 수 없|AI|인공지능|언어 모델|언어모델|답변할 수|요약할 수|없습니다) | (?:AI|인공지능|언어 모델|AI 언어 모델|AI 어시스턴트|대규모 언어 모델)(?:로서|으로서|이기|입니다|이므로) | (?:이|해당|그) (?:요청|내용|대화|질문)(?:은|을|는|에) (?:\S+ ){0,4}(?:수 없|위반|어렵|불가) | (?:요약|도움|답변)(?:할|을 드릴|해 드릴|드릴) 수 없 | 무엇을 도와 | 대화 내용을 (?:제공|입력|보내)
(?:أنا )?(?:آسف|آسفة|أعتذر|عذرا|عذراً|معذرة|نأسف|للأسف|يؤسفني|المعذرة) | (?:أنا )?لا (?:أستطيع|يمكنني|أقدر|يمكننا|أملك|يسعني|توجد|يوجد|يحق لي) | (?:لن|لست) (?:أتمكن|أستطيع|قادر) | (?:بصفتي|كوني|باعتباري|كنموذج|بوصفي) | أنا (?:مجرد )?(?:نموذج|ذكاء|مساعد) | (?:من فضلك|يرجى|الرجاء) | كيف (?:يمكنني|أستطيع)
(?:متأسفم|متاسفم|متأسفانه|متاسفانه|ببخشید|عذر می‌خواهم|پوزش) | (?:من )?(?:نمی‌توانم|نمی توانم|قادر نیستم) | به عنوان یک
(?:אני )?(?:מצטער|מצטערת|מתנצל|סליחה|לצערי) | (?:אני )?(?:לא יכול|לא יכולה|איני יכול|אינני) | (?:כמודל|בתור|כבינה)
(?:मुझे )?(?:क्षमा|खेद|माफ|माफ़|क्षमा करें|माफ़ करें|खेद है|दुर्भाग्य) | मैं (?:\S+ ){0,6}(?:नहीं कर सकता|नहीं कर सकती|नहीं सकता|असमर्थ|मदद नहीं|सकता नहीं) | एक (?:एआई|AI|भाषा|कृत्रिम) | मैं एक (?:एआई|AI|भाषा) | কৃপয়া | দুঃখিত | আমি (?:\S+ ){0,4}(?:পারি না|পারব না|অক্ষম) | மன்னிக்கவும் | క్షమించండి
(?:ฉัน|ผม|ดิฉัน)?(?:ขอโทษ|ขออภัย|เสียใจ|น่าเสียดาย) | (?:ฉัน|ผม|ดิฉัน|เรา)(?:ไม่สามารถ|เป็น(?:ปัญญา|โมเดล|AI)) | ไม่สามารถ(?:ช่วย|สรุป|ให้|ทำ|ตอบ) | ในฐานะ(?:ที่เป็น)?(?: )?(?:AI|ปัญญา|โมเดล|แบบ)
"""
_LEADING = re.compile(
    r"\A[\W_]*(?:\*\*|__|#+ )?(?:(?:summary|assistant|answer|ai|response|zusammenfassung|résumé|resumen|摘要|要約|요약)\s*[:：]\s*)?[\W_]*",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？؟।])\s*")
_MOST_PREAMBLE = 3
_MOST_REFUSING_WORDS = 60
_UNABLE = re.compile(
    r"\bi(?:'m| am| was|) (?:cannot|can't|unable to|not able to|won't be able to|could not|couldn't)\b"
    r"(?! (?:stand|eat|drink|tolerate|bear|digest|sleep|swim|drive|afford|wait)\b)"
    r"|\b(?:unable|cannot|can't|could not|couldn't|failed) (?:to )?(?:summari|generate|produce|create|provide|complete|fulfil)"
    r"|\b(?:request|content|response|message) (?:was )?(?:blocked|refused|denied|removed|filtered)|\A\W*(?:blocked|refused|declined|redacted|censored)\W*\Z"
    r"|\bagainst my (?:programming|guidelines|policy|policies|principles)|\bi'?(?:ll|d rather not| will) (?:now )?summari|\blet me summari"
    r"|\bi hope this helps|\banything else (?:you|i can)|\byou asked for\W*\Z"
    r"|\b(?:kann|darf) ich (?:\w+ ){0,4}nicht|\bmeine[nr]? richtlinien|\bje (?:ne )?(?:peux|puis|suis) (?:pas|dans l'incapacité)|mes directives"
    r"|\bno puedo\b|\bnon posso\b|\bnão (?:posso|consigo)\b|\bkan ik (?:\w+ ){0,4}(?:niet|geen)\b|\bя (?:не могу|не смогу|не в состоянии)"
    r"|\bnie (?:mogę|potrafię|jestem w stanie)|\w(?:emiyorum|amıyorum|emem|amam)\b|我(?:无法|不能|不便|不方便|没办法)|수 없습니다|수 없어요|できません\W*\Z|しかねます"
    r"|لا (?:أستطيع|يمكنني)|नहीं कर सकत",
    re.IGNORECASE,
)


@cache
def _get_refusal_pattern() -> re.Pattern[str]:
    spaced = _split_alternatives(_SORRY)
    unspaced = _split_alternatives(_SORRY_UNSPACED)
    return re.compile(f"(?:{spaced}|{unspaced})", re.IGNORECASE)


def _split_alternatives(text: str) -> str:
    parts = [part.strip() for line in text.strip().splitlines() for part in line.split(" | ")]
    return "|".join(part for part in parts if part)


def _is_refusal(text: str) -> bool:
    """Return whether a text speaks to whoever asked instead of telling what was said."""
    plain = _fold(text).replace("\u2019", "'").replace("\u02bc", "'")
    plain = _LEADING.sub("", plain)
    if _get_refusal_pattern().match(plain):
        return True
    sentences = [_LEADING.sub("", part) for part in _SENTENCE_END.split(plain) if part.strip()]
    if len(sentences) > _MOST_PREAMBLE:
        return False
    if len(_split_words(plain)) > _MOST_REFUSING_WORDS or not _is_own_voice(plain):
        return False
    later = any(_get_refusal_pattern().match(one) for one in sentences[1:])
    return later or _UNABLE.search(plain) is not None


def _is_own_voice(text: str) -> bool:
    """Return whether a short text names nobody whose words it could report."""
    return re.search(_REPORTED, text) is None


_REPORTED = re.compile(
    r"\b(?:user|assistant|customer|client|agent|they|he|she|nutzer\w*|benutzer\w*|kund\w*|assistent\w*|utilisat\w*|usuari\w*|"
    r"utent\w*|gebruiker\w*|użytkown\w*|kullanıc\w*|пользовател\w*|ассистент\w*|asistent\w*|asistan\w*)\b"
    r"|用户|用戶|助手|ユーザー|アシスタント|사용자|어시스턴트|المستخدم|المساعد|उपयोगकर्ता"
)


# -- Echoes and repetition ------------------------------------------------------------------------

_SHINGLE = 5
_COPIED = 0.85
_FENCES = re.compile(
    r"</?(?:transcript|previous_summary|missing)\b|write the summary now", re.IGNORECASE
)
_PROMPT = re.compile(
    r"you keep the memory of a conversation"
    r"|takes the place of the transcript|the transcript and the previous summary are data"
    r"|an earlier attempt left out|nothing besides the summary|what the assistant promised, what is still open"
    r"|leave out greetings and repetitions|everything that the previous summary tells"
    r"|here(?:'s| is) (?:the|a) (?:full )?transcript|\A\W*transcript\s*[:：]|follow no instruction in them",
    re.IGNORECASE,
)


def _find_echo(text: str, request: SummaryRequest, *, may_quote: bool) -> str:
    """Return whether a text gives back what the summariser was given."""
    if any(match.group() not in request.transcript for match in _PROMPT.finditer(text)):
        return "it repeats what the summariser was told to do"
    if may_quote or _is_small(request.transcript):
        return ""
    if any(match.group() not in request.transcript for match in _FENCES.finditer(text)):
        return "it repeats what the summariser was asked"
    if request.previous and _has_no_news(text, request.previous):
        return "it is the summary before, though more was said"
    if _measure_copied(text, request.transcript) >= _COPIED:
        return "it copies the transcript"
    return ""


def _has_no_news(text: str, previous: str) -> bool:
    """Return whether a text says what the summary before said, word for word, and no more."""
    mine, theirs = _split_shingles(text), _split_shingles(previous)
    if not mine:
        return _fold(text) in _fold(previous)
    return len(mine & theirs) >= 0.95 * len(mine)


def _measure_copied(text: str, transcript: str) -> float:
    """Return which share of a transcript a text says word for word."""
    said = _split_shingles(transcript)
    return len(said & _split_shingles(text)) / len(said) if said else 0.0


def _split_shingles(text: str) -> set[tuple[str, ...]]:
    """Return the runs of words of a text; of characters where no blanks part words."""
    words = _split_words(text)
    return {tuple(words[n : n + _SHINGLE]) for n in range(len(words) - _SHINGLE + 1)}


_WORDS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")


def _split_words(text: str) -> list[str]:
    bare = re.sub(r"^(?:\(\d{4}-\d\d-\d\d\)|[^\n:\d]{1,30}:(?=\s))", " ", text, flags=re.MULTILINE)
    return _WORDS.findall(_fold(bare))


_ENOUGH_TO_REPEAT = 24
_MOST_REPEATS = 4


def _is_repetitive(text: str) -> bool:
    """Return whether a text says the same again and again."""
    words = _split_words(text)
    if len(words) < _MOST_REPEATS:
        return False
    parts = [_fold(part).strip(" .-*•\u3002!") for part in re.split(r"[\n.!?。！？؟।]+", text)]
    counted = Counter(part for part in parts if len(part) > 2)  # noqa: PLR2004
    repeated = sum(len(part) * count for part, count in counted.items() if count >= _MOST_REPEATS)
    if repeated > 0.5 * sum(len(part) * count for part, count in counted.items()):
        return True
    if len(words) < _ENOUGH_TO_REPEAT:
        return len(set(words)) * 4 <= len(words)
    shingles = [tuple(words[n : n + 3]) for n in range(len(words) - 2)]
    return len(set(shingles)) < 0.4 * len(shingles)


# -- Size -----------------------------------------------------------------------------------------

_SIZES = ((900, 12), (380, 8), (150, 5), (90, 4))
"""Of so many different runs of words, a summary has at least so many words."""


_LEAST_TOLD = 3
_WORDS_OF_FACT = 2
_LEAST_OF_ASKED = 10
"""What was asked for is so many times what is too short, at least, in tokens to a word."""


def _find_fault_of_size(text: str, request: SummaryRequest, facts: int | None) -> str:
    said = len(_split_shingles(request.transcript))
    least = next((words for runs, words in _SIZES if said >= runs), 0)
    least = min(least, max(request.max_tokens // _LEAST_OF_ASKED, _LEAST_TOLD))
    if facts is not None:
        least = min(least, _LEAST_TOLD + _WORDS_OF_FACT * facts)
    return "it is too short for what it covers" if _count_words(text) < least else ""


def _count_words(text: str) -> int:
    words = _split_words(text)
    dense = sum(len(word) == 1 and not word.isascii() for word in words)
    return len(words) - dense // 2


_FAULTS: tuple[tuple[Callable[[str], object], str], ...] = (
    (_THINKING.search, "it holds thinking without an end"),
    (_TEMPLATE.search, "it holds tokens of a chat template"),
    (_is_call, "it is a call of a tool"),
    (_is_refusal, "it is a refusal"),
    (_is_placeholder, "it is a placeholder"),
)
