"""Phrases of French, Spanish, Italian, Portuguese. Pure data."""

# ruff: noqa: E501 - phrases in the letters they are written in
from __future__ import annotations

from langchain_convmem.recall.words.phrase_kinds import Phrases

__all__ = ["FRENCH", "ITALIAN", "PORTUGUESE", "SPANISH"]

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
