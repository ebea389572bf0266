package brief

import (
	"regexp"
	"strings"
)

// The phrases of the gate, one entry per language. They are regular expressions for a whole sentence as sentenceOf
// writes it: lower case, words one space apart, no punctuation. Only what a summary of a conversation never says of
// itself belongs here: that somebody cannot eat gluten, or plays a song called "I'm Sorry", is worth remembering.
type phrasing struct {
	// sorry are apologies. A sentence of nothing else is a refusal.
	sorry string
	// aside are words that may stand before, between or after apologies.
	aside string
	// unable are the words with which somebody says "I cannot". After an apology they are a refusal.
	unable string
	// declines are sentences that decline the task, with or without an apology.
	declines string
	// empty are whole answers that say that there is no summary.
	empty string
	// talk are beginnings of sentences about the task or the summary itself.
	talk string
	// joined languages do not put a space after each of these words.
	joined bool
}

// few are up to six words, several up to four.
const (
	few     = `(?: \S+){0,6} `
	several = `(?:\S+ ){0,4}`
)

// In these languages the verb of the task follows "I cannot"; in the others the whole sentence is described.
var phrasings = []phrasing{
	{ // English
		sorry:  `(?:i'm|i am|we're)(?: so| very| really| terribly)? sorry|(?:so |very )?sorry(?: about that)?|(?:i|we) apologi[sz]e(?: for (?:that|the (?:confusion|inconvenience)))?|(?:my )?apologies|i regret|unfortunately`,
		aside:  `but|however|no|and|i'm afraid(?: that)?|i am afraid(?: that)?|user`,
		unable: `(?:i|we) (?:can't|cannot|can not|won't(?: be able to)?|will not(?: be able to)?|couldn't|could not|must decline|don't have|do not have)|(?:i'm|i am) (?:unable|not able|not allowed|only|just)`,
		declines: `(?:i|we) (?:can't|cannot|can not|won't|will not|couldn't|could not|won't be able to|will not be able to|must decline to|have to decline to)` + few + `` + englishTask +
			`|(?:i'm|i am) (?:unable|not able|not allowed) to` + few + englishTask + `|i must decline|i don't feel comfortable` +
			`|(?:i'm (?:just |only )?|i am (?:just |only )?|as )an? (?:ai|artificial intelligence|(?:large )?language model)(?: (?:language model|model|assistant|chatbot))?(?: developed by \S+)? i(?:'m| |$).*` +
			`|as an ai (?:language model|model|assistant).*|i'm (?:just |only )?an? (?:ai|language model).*`,
		empty: `none|null|nil|n a|na|empty|undefined|nothing(?: new| more| to (?:add|report|summari[sz]e|note)| else)*|(?:no|there (?:is|are|was|were) no|there's no|there (?:is|was) nothing|there's nothing)(?: (?:any|new|more|meaningful|relevant|significant|further|additional|existing|prior|previous|useful))*` +
			`(?: (?:information|content|conversation|turns|details|facts|updates?|changes?|summary|data|messages))?(?: (?:available|yet|so far|found|provided|here|needed|required|necessary|to (?:add|summari[sz]e|include|report|update|record|note|remember)|in (?:the|these|this)(?: new)? (?:turns|conversation)|(?:has|have|was|were) been (?:provided|made)))*|the conversation is empty`,
		talk: `(?:(?:sure|certainly|of course|absolutely|okay|ok|alright|understood|got it|no problem|great|thanks|thank you)(?: thing)? )*` +
			`(?:(?:here is|here's|below is|this is|the following is) ` + several + `(?:summary|recap|brief)|here you go|(?:i've|i have|i will|i'll|let me|i'm going to|i am going to|i can)(?: now| just)? (?:updated?|summari[sz]ed?|rewritten|rewrite|condensed?|merged?) ` + several + `(?:summary|conversation|turns|it|this|below|for you))` +
			`|(?:sure|certainly|of course|absolutely|okay|ok|alright|understood|got it|no problem)$|(?:sure|certainly|of course) (?:i|here).*` +
			`|the (?:existing|updated|previous|current|new) summary (?:is|was|has|already|covers|remains|contains|holds|should|needs|must|does|doesn't|says|and the new turns|now)|(?:the|these) new turns (?:add|adds|contain|are|were|do|don't|have|show|cover|mention|discuss|only)` +
			`|based on the (?:new turns|existing summary|provided (?:turns|conversation|information))|please (?:provide|share|give|send|paste) ` + several + `(?:summary|conversation|turns|text|transcript|information|content|messages)` +
			`|it (?:looks|seems|appears) (?:like |that |as if )?(?:you (?:haven't|have not|didn't|did not|forgot)|no (?:conversation|turns))|you (?:haven't|have not|didn't|did not) (?:provided?|shared?|included?|given?) |you asked me to|let me know (?:if|what|when|how) ` +
			`|to (?:update|summari[sz]e|produce) the (?:existing summary|summary|new turns|conversation)|i (?:understand|have read) the (?:task|instructions|turns)|existingsummary|newturns`,
	},
	{ // German
		sorry:    `es tut mir (?:sehr |wirklich )?leid|tut mir (?:sehr |wirklich )?leid|entschuldigung|entschuldige(?: bitte)?|entschuldigen sie(?: bitte)?|verzeihung|sorry|leider|ich bitte um entschuldigung`,
		aside:    `aber|jedoch|nein|dass`,
		unable:   `ich (?:kann|darf|konnte|werde)(?: \S+){0,5} (?:nicht|kein|keine|keinen)|(?:dabei|das|hierbei|diese anfrage) (?:kann|darf) ich(?: \S+){0,2} nicht|(?:kann|darf) ich(?: \S+){0,5} (?:nicht|kein|keine|keinen)|ich bin nicht in der lage`,
		declines: `(?:ich (?:kann|darf|werde)|(?:dabei|das|hierbei|damit|hier) (?:kann|darf) ich|(?:kann|darf) ich)(?: \S+){0,6} (?:nicht|kein|keine|keinen)` + few + germanTask + `|ich kann (?:das|dies|dabei|diese anfrage) nicht|ich bin nicht in der lage` + few + germanTask + `|als (?:ki|künstliche intelligenz|sprachmodell|ki sprachmodell|ki assistent|ki modell|ki assistentin) (?:kann|bin|habe|darf) ich.*|ich bin (?:nur )?(?:eine ki|ein sprachmodell|ein ki modell).*`,
		empty:    `keine?|nichts|nichts neues|leer|entfällt|es gibt nichts(?: neues)?(?: zusammenzufassen| hinzuzufügen| zu ergänzen)?|(?:es gibt |es liegen )?keine (?:relevanten |neuen |weiteren )*(?:informationen|angaben|inhalte|änderungen|gespräche)(?: vor| vorhanden)?|keine zusammenfassung(?: vorhanden| möglich)?`,
		talk:     `(?:(?:gerne|gern|natürlich|klar|selbstverständlich|okay|ok|verstanden) )*(?:hier (?:ist|kommt|finden sie|findest du) ` + several + `zusammenfassung|ich habe ` + several + `(?:zusammenfassung|gespräch|unterhaltung) (?:aktualisiert|zusammengefasst|ergänzt))|(?:gerne|gern|natürlich|selbstverständlich|verstanden|klar)$|die (?:aktualisierte|bisherige|vorhandene|bestehende) zusammenfassung (?:ist|lautet|war|enthält|wurde|bleibt)|die neuen (?:beiträge|runden|turns) (?:sind|enthalten|ergänzen)|bitte (?:gib|geben sie|sende|senden sie|teile|teilen sie) ` + several + `(?:gespräch|zusammenfassung|text|beiträge|informationen)`,
	},
	{ // French
		sorry:    `(?:je suis|nous sommes) (?:vraiment |sincèrement )?désolée?s?|(?:vraiment )?désolée?|je m'excuse|excusez moi|toutes mes excuses|pardon|je regrette|malheureusement`,
		aside:    `mais|cependant|non|que`,
		unable:   `je (?:ne )?(?:peux|pourrai|pourrais) pas|je ne peux|je suis incapable|je ne suis pas (?:en mesure|capable)`,
		declines: `je (?:ne )?(?:peux|pourrai|pourrais) (?:malheureusement )?pas` + few + frenchTask + `|je ne suis pas (?:en mesure|capable) de?` + few + frenchTask + `|en tant qu'?(?:ia|une ia|intelligence artificielle|que modèle)(?: |').*je .*|en tant que modèle de langage.*`,
		empty:    `aucune?|rien|néant|vide|rien (?:de nouveau|à résumer|à ajouter|à signaler)|(?:il n'y a )?(?:aucune|pas de) (?:nouvelle )?(?:information|conversation|résumé)(?: (?:pertinente|nouvelle|disponible|à résumer))*|il n'y a rien à (?:résumer|ajouter)|aucun (?:résumé|changement)(?: disponible)?`,
		talk:     `(?:(?:bien sûr|certainement|d'accord|avec plaisir|compris) )*(?:voici ` + several + `(?:résumé|synthèse)|j'ai (?:mis à jour|résumé) ` + several + `(?:résumé|conversation))|(?:bien sûr|certainement|d'accord|compris)$|le résumé (?:existant|mis à jour|actuel) (?:est|contient|reste|a)|veuillez (?:fournir|partager|envoyer) `,
	},
	{ // Spanish
		sorry:    `lo siento(?: mucho)?|lo lamento|lamento|disculpa|disculpe|disculpas|perdón|perdona|perdone|mis disculpas|lamentablemente|desafortunadamente`,
		aside:    `pero|no|que|sin embargo`,
		unable:   `(?:yo )?no (?:puedo|podré|podría)|no soy capaz de|no estoy en condiciones de`,
		declines: `(?:yo )?no (?:puedo|podré|podría)(?: \S+){0,2} (?:ayudarte?|ayudarle|ayudar con (?:eso|esto|esta|ese|tu|su)|resumir(?:lo|la)?|asistir(?:te|le)?|cumplir|procesar|responder a (?:eso|esta|esto)|realizar (?:esa|esta)|hacer (?:eso|esto)|(?:proporcionar|ofrecer|generar|crear|actualizar|dar)` + few + `(?:resumen|información|solicitud))|como (?:una )?(?:ia|inteligencia artificial|modelo de lenguaje|asistente de ia) (?:no |soy |yo ).*|soy (?:solo )?(?:una ia|un modelo de lenguaje).*`,
		empty:    `ninguno|ninguna|nada|vacío|nulo|nada (?:nuevo|que (?:resumir|añadir|agregar))|no hay (?:nada que (?:resumir|añadir)|(?:nueva )?(?:información|conversación|contenido|resumen)(?: (?:nueva|relevante|disponible|que resumir))*)|sin (?:cambios|información|resumen|novedades)`,
		talk:     `(?:(?:claro|por supuesto|de acuerdo|entendido|desde luego) )*(?:aquí (?:está|tienes|tiene|va|te dejo) ` + several + `resumen|he (?:actualizado|resumido) ` + several + `(?:resumen|conversación)|a continuación ` + several + `resumen)|(?:claro|por supuesto|entendido|de acuerdo)$|el resumen (?:existente|actualizado|actual) (?:es|está|contiene|ya)|por favor (?:proporciona|proporcione|comparte|comparta|envía) `,
	},
	{ // Portuguese
		sorry:    `desculpe|desculpa|desculpas|peço desculpas?|sinto muito|lamento|me desculpe|perdão|infelizmente`,
		aside:    `mas|não|porém|que`,
		unable:   `(?:eu )?não (?:posso|consigo|poderei|sou capaz de)`,
		declines: `(?:eu )?não (?:posso|consigo|poderei|sou capaz de)(?: \S+){0,2} (?:ajudá lo|ajudar(?: você)? com (?:isso|isto|esse|este|essa|seu|sua)|ajudar|ajudar te|resumir|auxiliar|cumprir|processar|responder a (?:isso|esse|essa)|fazer (?:isso|isto)|atender|(?:fornecer|gerar|criar|atualizar|dar)` + few + `(?:resumo|informações|solicitação|pedido))|como (?:uma )?(?:ia|inteligência artificial|modelo de linguagem) (?:não |eu |sou ).*|sou (?:apenas )?(?:uma ia|um modelo de linguagem).*`,
		empty:    `nenhum|nenhuma|nada|vazio|nulo|nada (?:novo|de novo|a (?:resumir|acrescentar|adicionar))|não há (?:nada (?:a|para) (?:resumir|acrescentar)|(?:novas? )?(?:informações|informação|conversa|conteúdo|resumo)(?: (?:novas?|relevantes?|disponível|disponíveis|para resumir))*)|sem (?:alterações|informações|resumo)`,
		talk:     `(?:(?:claro|certamente|com certeza|entendido|ok) )*(?:aqui (?:está|vai|tem) ` + several + `resumo|segue ` + several + `resumo|atualizei ` + several + `resumo)|(?:claro|certamente|entendido|com certeza)$|o resumo (?:existente|atualizado|atual) (?:é|está|contém|já)|por favor (?:forneça|compartilhe|envie) `,
	},
	{ // Italian
		sorry:    `mi dispiace(?: molto)?|spiacente|sono spiacente|scusa|scusi|mi scuso|purtroppo`,
		aside:    `ma|no|però|che`,
		unable:   `(?:io )?non (?:posso|potrò|riesco a|sono in grado di)`,
		declines: `(?:io )?non (?:posso|potrò|riesco a|sono in grado di)(?: \S+){0,2} (?:aiutarti|aiutarla|aiutare con (?:questo|questa|quello)|riassumere|assisterti|soddisfare|elaborare|rispondere a (?:questo|questa)|farlo|fare (?:questo|ciò)|(?:fornire|creare|generare|aggiornare)` + few + `(?:riassunto|informazioni|richiesta))|come (?:ia|intelligenza artificiale|modello linguistico|modello di linguaggio) (?:non |io |sono ).*`,
		empty:    `nessuno|nessuna|niente|nulla|vuoto|niente (?:di nuovo|da (?:riassumere|aggiungere))|non c'è (?:niente|nulla) da (?:riassumere|aggiungere)|nessun(?:a)? (?:nuova )?(?:informazione|conversazione|riassunto|modifica)(?: (?:nuova|rilevante|disponibile))*`,
		talk:     `(?:(?:certo|certamente|va bene|capito|d'accordo) )*(?:ecco ` + several + `(?:riassunto|riepilogo)|ho (?:aggiornato|riassunto) ` + several + `(?:riassunto|conversazione))|(?:certo|certamente|capito)$|il riassunto (?:esistente|aggiornato|attuale) (?:è|contiene|già)|per favore (?:fornisci|fornisca|condividi) `,
	},
	{ // Dutch
		sorry:    `het spijt me(?: zeer)?|sorry|excuses|mijn excuses|helaas`,
		aside:    `maar|nee|dat`,
		unable:   `(?:ik kan|ik mag|kan ik)(?: \S+){0,5} (?:niet|geen)|ik ben niet in staat`,
		declines: `(?:ik kan|ik mag|(?:daar |hier )?kan ik)(?: \S+){0,5} (?:niet|geen)` + few + `(?:helpen|samenvatten|verwerken|voldoen|samenvatting (?:geven|maken|bijwerken))|ik kan (?:dit|dat|je|u) (?:hier |daar )?niet (?:mee )?(?:helpen|samenvatten)|als (?:ai|taalmodel|ai taalmodel|ai assistent) (?:kan|ben|heb) ik.*`,
		empty:    `geen|niets|niks|leeg|niets nieuws|er is niets (?:nieuws )?(?:om )?(?:samen te vatten|toe te voegen)|(?:er is |er zijn )?geen (?:nieuwe |relevante )*(?:informatie|gesprek|samenvatting|wijzigingen)(?: beschikbaar)?`,
		talk:     `(?:(?:natuurlijk|zeker|oké|begrepen) )*(?:hier (?:is|volgt|vind je) ` + several + `samenvatting|ik heb ` + several + `samenvatting (?:bijgewerkt|aangepast|gemaakt))|(?:natuurlijk|zeker|begrepen)$|de (?:bestaande|bijgewerkte|huidige) samenvatting (?:is|bevat|luidt)|geef (?:alsjeblieft|me) `,
	},
	{ // Polish
		sorry:    `przepraszam(?: bardzo)?|bardzo przepraszam|przykro mi|niestety`,
		aside:    `ale|nie|jednak|że`,
		unable:   `(?:ja )?nie (?:mogę|potrafię|jestem w stanie)`,
		declines: `(?:ja )?nie (?:mogę|potrafię|jestem w stanie)(?: \S+){0,3} (?:pomóc|streścić|podsumować|spełnić|przetworzyć|odpowiedzieć na (?:to|tę)|tego zrobić|zrobić (?:tego|to)|(?:podać|utworzyć|stworzyć|zaktualizować)` + few + `(?:streszczenia|podsumowania|streszczenie|podsumowanie))|jako (?:ai|sztuczna inteligencja|model językowy) nie .*`,
		empty:    `brak|nic|żadne|żaden|puste|nic nowego|brak (?:nowych |istotnych )*(?:informacji|danych|zmian|rozmowy|streszczenia)|nie ma (?:nic|czego) do (?:podsumowania|streszczenia|dodania)|nie ma (?:czego|nowych informacji)(?: podsumować| streścić)?`,
		talk:     `(?:(?:oczywiście|jasne|dobrze|rozumiem) )*(?:oto ` + several + `(?:streszczenie|podsumowanie)|zaktualizował[ea]m ` + several + `(?:streszczenie|podsumowanie))|(?:oczywiście|jasne|rozumiem)$|(?:istniejące|zaktualizowane|obecne) (?:streszczenie|podsumowanie) (?:to|jest|zawiera|brzmi)|proszę (?:podać|podaj|udostępnić|przesłać) `,
	},
	{ // Russian
		sorry:    `извините|извини|простите|прости|прошу прощения|приношу извинения|мне (?:очень )?жаль|сожалею|к сожалению`,
		aside:    `но|нет|однако|что`,
		unable:   `(?:я )?не (?:могу|смогу|в состоянии|способ(?:ен|на))`,
		declines: `(?:я )?не (?:могу|смогу|в состоянии)(?: \S+){0,3} (?:помочь(?: (?:вам|тебе|с|в))?|резюмировать|обобщить|подвести итог|выполнить|обработать|ответить на (?:это|этот)|это сделать|сделать это|(?:предоставить|составить|создать|обновить)` + few + `(?:резюме|сводку|краткое|итог|информацию))|(?:как|являясь) (?:ии|искусственный интеллект|языковая модель|языковой моделью|ии ассистент) я .*|я (?:всего лишь )?(?:языковая модель|искусственный интеллект).*`,
		empty:    `нет|ничего|пусто|отсутствует|ничего нового|нечего (?:резюмировать|обобщать|добавить)|нет (?:новой |значимой |важной )*(?:информации|данных|изменений|резюме|разговора)|нет новых (?:сообщений|реплик|данных)|информация отсутствует`,
		talk:     `(?:(?:конечно|хорошо|понятно|разумеется) )*(?:вот ` + several + `(?:резюме|сводка|краткое изложение|итог)|ниже (?:приведен[ао]?|приведён|представлен[ао]?) ` + several + `(?:резюме|сводка)|я (?:обновила?|составила?) ` + several + `(?:резюме|сводку))|(?:конечно|понятно|разумеется)$|(?:существующее|обновлённое|обновленное|текущее) резюме (?:содержит|это|уже|гласит)|пожалуйста (?:предоставьте|пришлите|поделитесь) `,
	},
	{ // Ukrainian
		sorry:    `вибачте|вибач|перепрошую|пробачте|прошу вибачення|мені (?:дуже )?(?:шкода|жаль)|на жаль`,
		aside:    `але|ні|проте|що`,
		unable:   `(?:я )?не (?:можу|зможу|в змозі)`,
		declines: `(?:я )?не (?:можу|зможу|в змозі)(?: \S+){0,3} (?:допомогти(?: (?:вам|тобі|з|у|в))?|підсумувати|узагальнити|виконати|обробити|відповісти на (?:це|цей)|це зробити|зробити це|(?:надати|скласти|створити|оновити)` + few + `(?:підсумок|резюме|інформацію))|як (?:ші|штучний інтелект|мовна модель) я .*`,
		empty:    `немає|нічого|порожньо|відсутн(?:є|я|ій)|нічого нового|нічого (?:підсумовувати|додати)|немає (?:нової |важливої )*(?:інформації|даних|змін|підсумку|розмови)|немає нових (?:повідомлень|реплік)`,
		talk:     `(?:(?:звичайно|звісно|добре|зрозуміло) )*(?:ось ` + several + `(?:підсумок|резюме)|я (?:оновив|оновила|склав|склала) ` + several + `(?:підсумок|резюме))|(?:звичайно|звісно|зрозуміло)$|(?:наявний|оновлений|поточний) підсумок (?:містить|це|вже)|будь ласка надайте `,
	},
	{ // Arabic
		sorry:    `(?:أنا )?(?:آسف|آسفة|اسف|متأسف|متأسفة)(?: جدا)?|عذرا|أعتذر|نعتذر|أعتذر عن ذلك|معذرة|للأسف|المعذرة`,
		aside:    `لكن|ولكن|لكنني|ولكنني|لا|و`,
		unable:   `(?:أنا )?(?:لا (?:أستطيع|يمكنني|أقدر)|لن أتمكن من|لست قادرا على|غير قادر على)`,
		declines: `(?:أنا )?(?:لا (?:أستطيع|يمكنني|أقدر)(?: على)?|لن أتمكن من|لست قادرا على|غير قادر على)(?: \S+){0,2} (?:مساعدتك|المساعدة|تلخيص|أن ألخص|تقديم (?:ملخص|المساعدة)|إنشاء ملخص|تحديث الملخص|تنفيذ (?:هذا|طلبك|الطلب)|تلبية|القيام بذلك|الرد على هذا|معالجة)|(?:كنموذج|بصفتي نموذج|باعتباري نموذج|بصفتي) (?:لغوي|لغة|ذكاء).*|أنا (?:مجرد )?نموذج لغوي.*`,
		empty:    `لا شيء|لا يوجد|لا توجد|فارغ|لا أحد|بلا|لا يوجد (?:شيء (?:لتلخيصه|جديد)|ملخص|محتوى)|لا توجد (?:معلومات|محادثة|تغييرات|تحديثات)(?: (?:جديدة|مهمة|متاحة))*|لا جديد`,
		talk:     `(?:(?:بالتأكيد|بالطبع|حسنا|طبعا) )*(?:(?:إليك|فيما يلي|هذا هو|إليكم|ها هو) ` + several + `(?:الملخص|ملخص|تلخيص)|لقد (?:قمت بتحديث|حدثت|لخصت) )|(?:بالتأكيد|بالطبع|حسنا|مفهوم)$|الملخص (?:الحالي|المحدث|الموجود) (?:هو|يحتوي)|(?:يرجى|من فضلك) (?:تقديم|تزويدي|إرسال|مشاركة) `,
	},
	{ // Hindi
		sorry:    `मुझे (?:खेद|अफ़सोस|अफसोस) है|क्षमा (?:करें|कीजिए|करना)|माफ़ (?:करें|कीजिए|करना)|माफ (?:करें|कीजिए|करना)|क्षमा चाहता हूँ|क्षमा चाहती हूँ|मैं (?:क्षमा|माफ़ी|माफी) (?:चाहता|चाहती|मांगता|माँगता) (?:हूँ|हूं)|दुर्भाग्य से|दुर्भाग्यवश`,
		aside:    `लेकिन|परंतु|परन्तु|किंतु|नहीं|कि|पर`,
		unable:   `मैं(?: \S+){0,8} (?:नहीं (?:कर|दे|बना|लिख|कह)|असमर्थ|सक्षम नहीं)`,
		declines: `मैं(?: \S+){0,6} (?:मदद|सहायता|सारांश|सारांशित|संक्षेप|अनुरोध|उत्तर)(?: \S+){0,4} (?:नहीं (?:कर|दे|बना|लिख)|असमर्थ|सक्षम नहीं).*|(?:एक )?(?:एआई|कृत्रिम बुद्धिमत्ता|भाषा मॉडल|एआई भाषा मॉडल)(?: \S+){0,3} (?:के रूप में|होने के नाते) .*`,
		empty:    `नहीं|कोई नहीं|कुछ नहीं|कुछ भी नहीं|शून्य|खाली|रिक्त|कोई (?:नई |प्रासंगिक )?(?:जानकारी|सूचना|बातचीत|सारांश|बदलाव|परिवर्तन) नहीं(?: है| हैं)?|सारांश के लिए कुछ (?:भी )?नहीं(?: है)?|सारांशित करने के लिए कुछ (?:भी )?नहीं(?: है)?`,
		talk:     `(?:(?:ज़रूर|जरूर|बिल्कुल|ठीक है|निश्चित रूप से) )*(?:(?:यहाँ|यहां|यह|ये)(?: रहा| है)?(?: \S+){0,3} (?:सारांश|संक्षेप)|मैंने(?: \S+){0,3} सारांश (?:अपडेट|अद्यतन|तैयार) ).*|(?:ज़रूर|जरूर|बिल्कुल|समझ गया)$|(?:मौजूदा|वर्तमान|अद्यतन) सारांश (?:यह|में|है)|कृपया(?: \S+){0,4} (?:प्रदान करें|साझा करें|दें|भेजें)$`,
	},
	{ // Bengali
		sorry:    `(?:আমি )?(?:খুবই |অত্যন্ত )?দুঃখিত|(?:আমি )?ক্ষমা (?:চাইছি|প্রার্থী|করবেন|করুন)|মাফ করবেন|দুর্ভাগ্যবশত`,
		aside:    `কিন্তু|তবে|না|যে`,
		unable:   `আমি(?: \S+){0,8} (?:পারছি না|পারব না|পারবো না|পারি না|অক্ষম|সক্ষম নই)`,
		declines: `আমি(?: \S+){0,6} (?:সাহায্য|সহায়তা|সহায়তা|সারাংশ|সারসংক্ষেপ|সংক্ষেপ|অনুরোধ|উত্তর)(?: \S+){0,4} (?:পারছি না|পারব না|পারবো না|পারি না|অক্ষম|সক্ষম নই).*|(?:একটি )?(?:এআই|কৃত্রিম বুদ্ধিমত্তা|ভাষা মডেল)(?: \S+){0,3} (?:হিসেবে|হিসাবে) .*`,
		empty:    `কিছুই না|কিছু না|কিছুই নেই|কিছু নেই|নেই|না|শূন্য|খালি|কোনোটিই না|কোনো (?:নতুন |প্রাসঙ্গিক )?(?:তথ্য|কথোপকথন|সারাংশ|পরিবর্তন) (?:নেই|নাই)|সারাংশ করার (?:মতো )?কিছু (?:নেই|নাই)`,
		talk:     `(?:(?:অবশ্যই|নিশ্চয়ই|নিশ্চয়ই|ঠিক আছে) )*(?:(?:এখানে|এই|এটি|নিচে)(?: \S+){0,3} (?:সারাংশ|সারসংক্ষেপ)(?:টি)?(?: (?:দেওয়া হলো|দেওয়া হলো|রয়েছে|হলো))|এই (?:হলো|যে|নিন)(?: \S+){0,3} (?:সারাংশ|সারসংক্ষেপ)).*|(?:অবশ্যই|নিশ্চয়ই|নিশ্চয়ই|বুঝেছি)$|(?:বিদ্যমান|হালনাগাদ|বর্তমান) (?:সারাংশ|সারসংক্ষেপ) (?:হলো|হল|এ)|অনুগ্রহ করে(?: \S+){0,4} (?:দিন|প্রদান করুন|শেয়ার করুন)$`,
	},
	{ // Turkish
		sorry:    `üzgünüm|çok üzgünüm|özür dilerim|kusura bakmayın|kusura bakma|maalesef|ne yazık ki|affedersiniz`,
		aside:    `ama|fakat|ancak|hayır`,
		unable:   `(?:\S+ ){0,6}(?:\S+emem|\S+amam|\S+emiyorum|\S+amıyorum|\S+emeyeceğim|\S+amayacağım)`,
		declines: `(?:ben )?(?:bu konuda |bununla |bunu |bu (?:konuşmayı|sohbeti|isteği|talebi|görüşmeyi) |size |sana )+(?:yardımcı |yardım |yanıt |cevap )?(?:olamam|edemem|özetleyemem|özetleyemiyorum|olamıyorum|edemiyorum|veremem|veremiyorum|yapamam|yapamıyorum|işleyemem|yerine getiremem|yerine getiremiyorum|olamayacağım|özetleyemeyeceğim)|(?:bir )?(?:yapay zeka|dil modeli|yapay zeka dil modeli)(?: \S+)? olarak .*`,
		empty:    `yok|hiçbiri|hiçbir şey|hiç|boş|yeni bir şey yok|özetlenecek (?:bir şey|hiçbir şey) yok|(?:yeni |ilgili )*(?:bilgi|konuşma|özet|değişiklik) yok`,
		talk:     `(?:(?:tabii|tabii ki|elbette|tamam) )*(?:işte ` + several + `(?:özet|özeti)|(?:güncellenmiş|güncel) özet (?:aşağıda|şu|şöyle)|özeti güncelledim|aşağıda ` + several + `özet)|(?:tabii|tabii ki|elbette|anladım)$|(?:mevcut|güncellenmiş) özet (?:şudur|şu|boş|zaten)|lütfen(?: \S+){0,4} (?:sağlayın|paylaşın|gönderin|verin)$`,
	},
	{ // Vietnamese
		sorry:    `(?:tôi |mình |em )?(?:rất )?(?:thành thật )?xin lỗi(?: bạn)?|rất tiếc|tiếc là|thật tiếc`,
		aside:    `nhưng|tuy nhiên|không|vì`,
		unable:   `(?:tôi|mình|em) không thể|(?:tôi|mình|em) không có khả năng`,
		declines: `(?:tôi|mình|em) (?:không thể|không có khả năng)(?: \S+){0,3} (?:giúp (?:bạn|được|với|việc)|giúp$|hỗ trợ (?:bạn|việc|yêu)|tóm tắt|đáp ứng|xử lý|thực hiện (?:yêu cầu|việc)|trả lời (?:câu|yêu)|cung cấp (?:bản )?tóm tắt)|là một (?:mô hình ngôn ngữ|ai|trí tuệ nhân tạo).*`,
		empty:    `không có|không|không có gì|trống|rỗng|không có gì (?:mới|để tóm tắt|cần thêm)|không có (?:thông tin|nội dung|cuộc trò chuyện|tóm tắt|thay đổi)(?: (?:mới|nào|liên quan|nào mới))*`,
		talk:     `(?:(?:chắc chắn rồi|được rồi|vâng|dĩ nhiên|tất nhiên) )*(?:(?:đây là|dưới đây là|sau đây là) ` + several + `tóm tắt|tôi đã (?:cập nhật|tóm tắt) )|(?:chắc chắn rồi|tất nhiên|đã hiểu)$|bản tóm tắt (?:hiện có|hiện tại|đã cập nhật) (?:là|bao gồm|đã)|vui lòng (?:cung cấp|chia sẻ|gửi) `,
	},
	{ // Indonesian
		sorry:    `(?:saya )?(?:mohon )?maaf(?:kan saya)?|maaf sekali|saya minta maaf|sayangnya`,
		aside:    `tapi|tetapi|namun|tidak|bahwa`,
		unable:   `saya (?:tidak (?:dapat|bisa|mampu)|belum bisa|tak bisa)`,
		declines: `saya (?:tidak (?:dapat|bisa|mampu)|belum bisa|tak bisa)(?: \S+){0,2} (?:membantu(?: (?:anda|dengan|kamu|itu|hal))|membantu$|merangkum|meringkas|memenuhi|memproses|melakukan (?:itu|hal)|menjawab (?:itu|pertanyaan)|(?:memberikan|membuat|memperbarui) ` + several + `(?:ringkasan|rangkuman))|sebagai (?:ai|model bahasa|kecerdasan buatan|asisten ai) saya .*`,
		empty:    `tidak ada|kosong|nihil|tidak|tidak ada (?:apa apa|yang baru|yang perlu (?:diringkas|dirangkum|ditambahkan))|tidak ada (?:informasi|percakapan|ringkasan|perubahan|konten)(?: (?:baru|relevan|penting|tersedia|yang relevan))*`,
		talk:     `(?:(?:tentu|tentu saja|baik|baiklah) )*(?:(?:berikut(?: ini)?(?: adalah)?|inilah|ini(?: adalah)?) ` + several + `(?:ringkasan|rangkuman)|saya (?:telah|sudah) (?:memperbarui|merangkum|meringkas) )|(?:tentu|tentu saja|dimengerti)$|ringkasan (?:yang ada|yang diperbarui|saat ini) (?:adalah|sudah|berisi)|(?:silakan|mohon|harap) (?:berikan|bagikan|kirimkan) `,
	},
	{ // Chinese
		joined:   true,
		sorry:    `(?:我|非常|很|十分|真的)*(?:抱歉|对不起|對不起|不好意思)|请原谅|請原諒|遗憾的是|很遗憾|很遺憾`,
		aside:    `但是|但|不过|不過|不行|不`,
		unable:   `我(?:暂时|暫時|目前|恐怕)?(?:无法|無法|不能|没办法|沒辦法|没法|不可以)`,
		declines: `我?(?:暂时|暫時|目前|恐怕)?(?:无法|無法|不能|没办法|沒辦法|没法)(?:为您|为你|為您|為你|就此|对此|對此)?(?:总结|總結|概括|提供(?:任何)?(?:帮助|协助|摘要|总结|總結|幫助)|帮助|幫助|协助|協助|帮您|帮你|完成(?:这|此|该|這|您|$)|处理(?:这|此|该)|处理$|處理|回答(?:这|此|该|您|你|$)|满足(?:您|你|这)|滿足|更新摘要|生成摘要|执行(?:这|此)).{0,30}|(?:作为|作為)(?:一个|一個|一名)?(?:ai|人工智能|人工智慧|语言模型|語言模型|大型语言模型)(?:语言模型|助手|模型)? ?我.*`,
		empty:    `无|無|没有|沒有|没|空|空白|暂无|暫無|什么都没有|没有(?:任何)?(?:新的|新|相关|有意义的|需要总结的)*(?:内容|信息|对话|摘要|变化|更新)?|沒有(?:任何)?(?:新的|新|相關)*(?:內容|資訊|對話|摘要|變化)|没有需要总结的?(?:内容|信息)?|没有什么(?:可|要|需要)(?:总结|补充)的?|无需(?:更新|总结)|无新(?:信息|内容)`,
		talk:     `(?:(?:好的|当然|當然|没问题|可以) ?)*(?:(?:以下|下面|这|這)(?:是|为|為)(?:.{0,10})(?:摘要|总结|總結|概要)|我(?:已经|已|已經)(?:更新|总结|總結)(?:了)?(?:.{0,6})(?:摘要|对话|對話|总结))|(?:好的|当然|當然|没问题|明白了|明白)$|(?:现有|更新后的|現有|更新後的)(?:摘要|总结|總結)(?:是|为|如下|已经|已)|(?:请|請)(?:您)?提供(?:.{0,8})(?:对话|對話|内容|摘要|信息)`,
	},
	{ // Japanese
		joined:   true,
		sorry:    `(?:大変|誠に)?(?:申し訳(?:ありません|ございません|ないです|ない)|すみません|ごめんなさい|恐れ入ります|恐縮です|お詫びします)(?:が|けど|けれども)?|残念ながら|あいにく`,
		aside:    `しかし|いいえ|ですが|でも`,
		unable:   `.{0,40}(?:できません|できかねます|いたしかねます|しかねます|致しかねます)$`,
		declines: `(?:私(?:は|には|では) ?)?(?:その|この|ご|お|あなたの|いただいた)?(?:会話|対話|やり取り|内容|リクエスト|依頼|要求|要望|件|質問)?(?:の|を|に|には|について|については)? ?(?:ご|お)?(?:要約|お手伝い|手伝い|応え|答え|対応|回答|協力|提供|支援|要約を作成|要約を提供)(?:する|を|は|に|こと|して|すること)*(?:が|は|も)?(?:でき(?:ません|ない)|できかねます|いたしかねます|しかねます)|(?:私は)?(?:ai|人工知能|言語モデル|大規模言語モデル)(?:言語モデル|アシスタント|モデル)?(?:として|なので|ですので|であるため).*`,
		empty:    `なし|無し|ありません|無|空|特になし|特にありません|該当なし|何もありません|要約なし|(?:新しい|関連する|重要な)?(?:情報|内容|会話|要約)は(?:特に)?(?:ありません|ない)|要約する(?:内容|こと|もの|情報)(?:は|が)(?:特に)?(?:ありません|ない)`,
		talk:     `(?:(?:はい|もちろん|もちろんです|承知しました|了解しました|かしこまりました) ?)*(?:(?:以下|こちら|下記)(?:は|が|に)(?:.{0,12})(?:要約|まとめ|サマリー)|要約を(?:更新|作成)しました)|(?:もちろん|もちろんです|承知しました|了解しました|かしこまりました|わかりました)$|(?:更新された|既存の|現在の)(?:要約|サマリー)(?:は|です|に)|(?:会話|内容|要約)を(?:ご)?(?:提供|共有|入力)(?:して)?ください`,
	},
	{ // Korean
		joined:   true,
		sorry:    `(?:정말 |대단히 )?(?:죄송합니다만|죄송합니다|죄송하지만|미안합니다만|미안합니다|미안하지만|유감스럽게도|안타깝게도|죄송해요)`,
		aside:    `하지만|그러나|아니요`,
		unable:   `.{0,40}(?:수 없습니다|수 없어요|드릴 수 없습니다|못합니다|어렵습니다)$`,
		declines: `(?:저는 |제가 )?(?:이 |그 |해당 |요청하신 )?(?:대화|내용|요청|질문|부분)?(?:를|을|에|은|는|에 대해)? ?(?:요약(?:할|해 드릴|해드릴|을 제공할|을 작성할)|도와 ?드릴|도울|처리할|처리해 드릴|답변할|답변해 드릴|답변드릴|수행할|들어 드릴) ?수(?:가)? 없(?:습니다|어요)|(?:저는 )?(?:ai|인공지능|언어 모델)(?: 언어 모델| 모델| 어시스턴트)?(?:로서|이므로|이기 때문에|이라서).*`,
		empty:    `없음|없습니다|없다|없어요|무|해당 없음|해당 사항 없음|요약 없음|내용 없음|비어 있음|아무것도 없(?:음|습니다)|(?:새로운 |관련 |중요한 )?(?:정보|내용|대화|요약|변경 사항)(?:이|가|은|는)? 없(?:음|습니다)|요약할 (?:내용|것|정보)(?:이|가|은)? 없(?:음|습니다)`,
		talk:     `(?:(?:네|물론입니다|물론이죠|알겠습니다) ?)*(?:(?:다음은|아래는|여기|이것은)(?:.{0,16})(?:요약|정리)(?:입니다|문입니다|본입니다|이 있습니다)|요약을 (?:업데이트|작성)했습니다)|(?:네|물론입니다|물론이죠|알겠습니다)$|(?:기존|업데이트된|현재) 요약(?:은|이|에는)|(?:대화|내용|요약)(?:을|를)? (?:제공|공유|입력)해 ?주(?:세요|십시오)`,
	},
	{ // Thai
		joined:   true,
		sorry:    `(?:ฉัน|ผม|ดิฉัน|เรา)?(?:ต้อง)?(?:ขออภัย|ขอโทษ|เสียใจ)(?:ด้วย|อย่างยิ่ง|จริงๆ|เป็นอย่างยิ่ง)*(?:ครับ|ค่ะ|คะ)?|น่าเสียดาย`,
		aside:    `แต่|ไม่|ที่`,
		unable:   `(?:ฉัน|ผม|ดิฉัน|เรา)?ไม่สามารถ`,
		declines: `(?:ฉัน|ผม|ดิฉัน|เรา)ไม่สามารถ ?(?:ช่วย|สรุป|ให้ความช่วยเหลือ|ดำเนินการตามคำขอ|ตอบ(?:คำถาม|คำขอ)|ทำตาม|จัดทำสรุป|ให้ข้อมูลสรุป).*|ในฐานะ(?:ที่เป็น)?(?:ปัญญาประดิษฐ์|ai|โมเดลภาษา|แบบจำลองภาษา).*`,
		empty:    `ไม่มี|ว่าง|ว่างเปล่า|ไม่มีอะไร(?:ใหม่|ต้องสรุป|ให้สรุป)?|ไม่มี(?:ข้อมูล|เนื้อหา|บทสนทนา|การสนทนา|สรุป|การเปลี่ยนแปลง)(?:ใหม่|ที่เกี่ยวข้อง|ให้สรุป|ที่ต้องสรุป)*|ไม่`,
		talk:     `(?:(?:แน่นอน|ได้เลย|ได้)(?:ครับ|ค่ะ)? ?)*(?:(?:นี่คือ|ต่อไปนี้คือ|ด้านล่างนี้คือ)(?:.{0,4})(?:สรุป|บทสรุป)|(?:ฉัน|ผม)ได้(?:อัปเดต|สรุป))|(?:แน่นอน|ได้เลย|เข้าใจแล้ว|รับทราบ)(?:ครับ|ค่ะ)?$|(?:สรุป|บทสรุป)(?:ที่มีอยู่|ที่อัปเดต|ปัจจุบัน) ?(?:คือ|มี)|(?:โปรด|กรุณา)(?:ให้|ส่ง|แบ่งปัน|ระบุ)(?:.{0,10})(?:บทสนทนา|ข้อมูล|ข้อความ|สรุป)`,
	},
	{ // Khmer
		joined:   true,
		sorry:    `(?:ខ្ញុំ ?)?(?:សូមអភ័យទោស|សូមទោស|សុំទោស|សោកស្តាយ)(?:ផង|ណាស់)?|ជាអកុសល`,
		aside:    `ប៉ុន្តែ|តែ|ទេ`,
		unable:   `ខ្ញុំ ?(?:មិនអាច|អត់អាច)`,
		declines: `ខ្ញុំ ?(?:មិនអាច|អត់អាច) ?(?:ជួយ|សង្ខេប|ផ្តល់សេចក្តីសង្ខេប|បំពេញ|ឆ្លើយ|ធ្វើបាន).*|ក្នុងនាមជា ?(?:ai|បញ្ញាសិប្បនិម្មិត|គំរូភាសា).*`,
		empty:    `គ្មាន|មិនមាន|គ្មានអ្វី(?:ទេ|ថ្មី|ត្រូវសង្ខេប)?|ទទេ|(?:គ្មាន|មិនមាន)(?:ព័ត៌មាន|ការសន្ទនា|សេចក្តីសង្ខេប)(?:ថ្មី|ទេ)*|មិនមានទេ`,
		talk:     `(?:(?:បាទ|ចាស|ពិតណាស់) ?)*(?:(?:នេះជា|នេះគឺជា|ខាងក្រោមនេះជា|ខាងក្រោមជា) ?(?:សេចក្តីសង្ខេប|ការសង្ខេប))|(?:ពិតណាស់|យល់ហើយ)$|សេចក្តីសង្ខេប(?:ដែលមានស្រាប់|បច្ចុប្បន្ន) ?(?:គឺ|មាន)|សូមផ្តល់(?:.{0,10})(?:ការសន្ទនា|ព័ត៌មាន)`,
	},
	{ // Lao
		joined:   true,
		sorry:    `(?:ຂ້ອຍ|ຂ້າພະເຈົ້າ)? ?(?:ຂໍໂທດ|ຂໍອະໄພ|ເສຍໃຈ)(?:ນຳ|ນໍາ|ດ້ວຍ|ຫຼາຍ)?|ໜ້າເສຍດາຍ`,
		aside:    `ແຕ່|ບໍ່`,
		unable:   `(?:ຂ້ອຍ|ຂ້າພະເຈົ້າ) ?ບໍ່ສາມາດ`,
		declines: `(?:ຂ້ອຍ|ຂ້າພະເຈົ້າ) ?ບໍ່ສາມາດ ?(?:ຊ່ວຍ|ສະຫຼຸບ|ສະຫລຸບ|ໃຫ້|ຕອບ|ເຮັດຕາມ|ດຳເນີນ).*|ໃນຖານະ(?:ທີ່ເປັນ)? ?(?:ai|ປັນຍາປະດິດ|ແບບຈຳລອງພາສາ).*`,
		empty:    `ບໍ່ມີ|ຫວ່າງ|ຫວ່າງເປົ່າ|ບໍ່ມີຫຍັງ(?:ໃໝ່|ຕ້ອງສະຫຼຸບ|ໃຫ້ສະຫຼຸບ)?|ບໍ່ມີ(?:ຂໍ້ມູນ|ການສົນທະນາ|ບົດສະຫຼຸບ)(?:ໃໝ່)*`,
		talk:     `(?:(?:ແນ່ນອນ|ໄດ້) ?)*(?:(?:ນີ້ແມ່ນ|ນີ້ຄື|ຂ້າງລຸ່ມນີ້ແມ່ນ) ?(?:ບົດສະຫຼຸບ|ສະຫຼຸບ|ການສະຫຼຸບ))|(?:ແນ່ນອນ|ເຂົ້າໃຈແລ້ວ)$|ບົດສະຫຼຸບ(?:ທີ່ມີຢູ່|ປັດຈຸບັນ) ?(?:ແມ່ນ|ມີ)|ກະລຸນາ(?:ໃຫ້|ສົ່ງ)(?:.{0,10})(?:ການສົນທະນາ|ຂໍ້ມູນ)`,
	},
}

// What somebody declines to do who declines the task.
const (
	englishTask = `(?:(?:help|assist)(?: you)?(?: with (?:that|this|it|your|the|summari[sz]ing)|$)|help you|summari[sz]e|comply|(?:fulfil|fulfill|process|complete|handle|honor|do|answer|continue|engage with|engage in|respond to|access) (?:that|this|your|the (?:request|task|conversation|turns))|` +
		`(?:provide|create|generate|produce|write|give|make|update|offer)` + ` ` + several + `(?:summary|summaries|assistance|help with|information about that|brief|recap))`
	germanTask = `(?:helfen|behilflich sein|unterstützen|zusammenfassen|zusammenzufassen|nachkommen|erfüllen|bearbeiten|weiterhelfen|beantworten|zusammenfassung (?:zu )?(?:erstellen|geben|liefern|schreiben|aktualisieren)|aktualisieren)`
	frenchTask = `(?:(?:vous |t')?aider|aider à cela|résumer|répondre à (?:cette|cela|votre)|faire cela|traiter|satisfaire|(?:fournir|créer|générer|rédiger|mettre à jour)` + few + `(?:résumé|synthèse|demande))`
)

// phraseMatcher are the phrases of all languages as expressions for one sentence.
type phraseMatcher struct{ refusal, empty, talk *regexp.Regexp }

var phrases = compilePhrases()

func compilePhrases() phraseMatcher {
	var refusals, empties, talks []string
	for _, p := range phrasings {
		gap, end := ` `, `(?: |$)`
		if p.joined {
			gap, end = ` ?`, ``
		}
		apology := `(?:` + p.sorry + `)`
		lead := `(?:(?:` + p.sorry + `|` + p.aside + `)` + gap + `)`
		refusals = append(refusals,
			`(?:(?:`+p.aside+`)`+gap+`)*`+apology+`(?:`+gap+`(?:`+p.sorry+`|`+p.aside+`))*$`,
			lead+`*(?:`+p.declines+`)`+end,
			apology+gap+lead+`*(?:`+p.unable+`)`+end)
		empties = append(empties, p.empty)
		talks = append(talks, `(?:`+p.talk+`)`)
	}
	return phraseMatcher{
		refusal: regexp.MustCompile(`^(?:` + strings.Join(refusals, `|`) + `)`),
		empty:   regexp.MustCompile(`^(?:` + strings.Join(empties, `|`) + `)$`),
		talk:    regexp.MustCompile(`^(?:` + strings.Join(talks, `|`) + `)`),
	}
}
