"""Phrases of English. Pure data."""

# ruff: noqa: RUF001, E501 - phrases in the letters they are written in
from __future__ import annotations

from langchain_convmem.recall.words.phrase_kinds import Phrases

__all__ = ["ENGLISH"]

_EN_PRODUCT = (
    r"(?:\w+ )?(?:\w+ )?(?:list|overview|summary|translation|explanation|example|examples|script|"
    r"function|regex|query|synonym|word|title|name|names|ideas?|tips?|text|toast|poem|haiku|story|"
    r"version|definition|formula|code|snippet|template|outline|plan|trick|slogan|caption)(?! (?:tag|badge|plate))"
)
_EN_OBJECT = (
    r"(?:a|an|the|me|us|my|our|your|some|all|this|that|these|those|it|him|her|them|any|every|each|"
    r"down|up|out|in|for|to|with|two|three|four|five|six|ten|more|only|just|something|"
    r"alphabetically|\d+)\b"
)

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
