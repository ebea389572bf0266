package extract

import (
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// What a memory may not do is tell the assistant what to do. How the user likes answers to be written is the one thing
// that it may say to it: style. The patterns are for folded text.

// defiance are words of orders that no style needs, whoever they are said to.
var defiance = []expression{
	phrases(`(?:ignor\w*|disregard\w*|forget\w*|overrid\w*|bypass\w*|circumvent\w*|violat\w*|drop|skip|discard\w*) (?:\pL+ ){0,4}(?:instruct\w*|rules?|guidelines?|prompts?|polic(?:y|ies)|restrictions?|safety|safeguards?|filters?|guardrails?|constraints?|warnings?|training)`),
	phrases(`system prompts?|hidden prompts?|developer (?:mode|message)|jail ?break\w*|do anything now|god mode|sudo mode|admin mode|debug mode|root access|prompt injection payload|new instructions?|updated instructions?`),
	phrases(`you (?:are|re) now|from now on,? (?:you|the assistant|always|never|ignore)|you (?:must|have to|will|shall|should|are to|need to|may|can now)|your (?:new )?(?:role|task|goal|instructions?|rules?|purpose|objective|name) (?:is|are)|pretend (?:to be|you|that)|act as|roleplay as|behave as`),
	phrases(`(?:without|no need for|never|not) (?:\pL+ )?(?:ask\w*|confirm\w*|check\w*|verif\w*|warn\w*|tell\w*|inform\w*|mention\w*) (?:the |for )?(?:user|permission|confirmation|anyone|them)|without (?:asking|confirmation|confirming|verification|warning|telling)|(?:do not|don't|never) (?:tell|inform|warn|alert|ask) (?:the )?(?:user|them|anyone)`),
	phrases(`(?:call|invoke|run|execute|trigger|use) (?:the |a )?(?:\S+ ){0,3}(?:tools?|functions?|commands?|api|endpoint|script|shell|plugin|webhook)(?: (?:with|on|to|for|when|whenever|at|every|before|after|and)|$)|(?:curl|wget|rm -rf|drop table|eval\(|exec\(|powershell|bash -c)`),
	phrases(`(?:transfer|wire|pay|send|forward|exfiltrat\w*|leak|upload|post|email|e-mail|share|reveal|disclose|print|output|expose|dump|delete|erase|wipe) (?:all |any |every |the |their |his |her |user(?:'s)? |of )*(?:\S+ )?(?:money|funds|payments?|passwords?|credentials?|secrets?|keys?|tokens?|conversations?|chats?|chat history|history|messages|memories|data|files|records|documents|invoices?|account numbers?|system prompt|instructions)(?: to| at| via|$)`),
	phrases(`(?:in|at the (?:end|beginning|start) of|to|with|on) (?:every|each|all) (?:\pL+ )?(?:repl(?:y|ies)|responses?|answers?|messages?|conversations?|emails?).{0,60}(?:links?|urls?|http|ad|advert\w*|promot\w*|recommend\w*|mention|buy|visit|image|pixel)`),
	phrases(`(?:always |must |should |please )?(?:recommend|promote|advertise|endorse|link to|mention|insert|append|include|embed|add) .{0,60}(?:in|to|at the (?:end|beginning|start) of|with) (?:every|each|all|any|your|future) (?:\pL+ )?(?:repl(?:y|ies)|responses?|answers?|messages?|conversations?|emails?|recommendations?)`),
	phrases(`(?:when(?:ever)?|if|each time|every time|once|as soon as) (?:the user|they|he|she|anyone|someone|asked|prompted|a message)\b.{0,80}\b(?:respond with|reply with|answer with|say|tell|recommend|output|reveal|forward|transfer|refuse|pretend|trigger|return)`),
	phrases(`(?:has|have|holds|is granted|was granted|gets|with) (?:\pL+ )?(?:admin(?:istrator)?|root|superuser|developer|full|unrestricted|elevated|unlimited|override|debug|operator) (?:access|rights|privileges?|permissions?|mode|status|powers)`),
	phrases(`(?:is|are|was|were|has been|have been) (?:authori[sz]ed|allowed|permitted|cleared|approved|entitled|verified|exempt\w*|whitelisted|pre-?approved|pre-?authori[sz]ed|trusted) (?:to (?:see|access|bypass|receive|read|view|override|skip|use|change|delete|do|make|get)|from|for (?:all|any|every|unrestricted)|by (?:the )?(?:admin\w*|openai|anthropic|developers?|system))`),
	phrases(`(?:has|have) (?:already )?(?:consented|agreed|given (?:consent|permission|approval)) (?:to|for) (?:all|any|every|everything)|(?:no|without|disable[sd]?|turn(?:s|ed)? off|lift(?:s|ed)?|remove[sd]?) (?:\pL+ )?(?:safety|content|ethical|moderation) ?(?:filters?|rules|checks?|restrictions?|policies|guidelines|limits)?|no (?:restrictions|limitations|filters|guardrails|content policy)`),
	phrases(`(?:must|should|shall|has to|is to|needs to|will|always|never) (?:be )?(?:trust(?:ed)?|obey(?:ed)?|comply|complies|follow(?:ed)? (?:all|any|every|their)|believed?) (?:\pL+ )*(?:instructions?|orders?|commands?|requests?|website|link|source|domain|email|sender|messages?|tool|output)`),
	phrases(`(?:skip|bypass|disable|turn off|omit) (?:\pL+ ){0,3}(?:confirmation|verification|authentication|approval|2fa|mfa|security|login|checks?)`),
	phrases(`(?:safety |content |security )?(?:rules?|guidelines?|polic(?:y|ies)|instructions?|restrictions?|filters?|limits)(?: above| before| of yours)? (?:do not|don't|no longer|does not|are not|is not) (?:apply|count|hold|bind)|(?:rules?|guidelines?|polic(?:y|ies)|instructions?|restrictions?)(?: above| before)? (?:is|are) (?:void|off|suspended|cancelled|disabled|lifted|revoked|obsolete)`),
	phrases(`(?:may|can|is allowed to|has permission to) (?:read|see|access|delete|change|view|open) (?:\pL+ )?(?:others?'?|other (?:users?|people|customers?|accounts?)'?s?|everyone's|all (?:users?|accounts?|chats|data)|any (?:user|account|chat|data))|disables? (?:its|the|all|your) (?:\pL+ )?(?:filters?|rules|restrictions|safety)|never refuses?|refuse nothing|obeys? (?:the|every|all|any|me|my|him|her|them)`),
	phrases(`(?:disclose|reveal|share|print|output|show|give|send)s? (?:\pL+ )?(?:api keys?|passwords?|credentials?|secrets?|tokens?|account numbers?|system prompt|contents of)`),
	phrases(`(?:anweisung\w*|regeln?|vorgaben|richtlinien) (?:\S+ ){0,3}(?:ignorier|missacht|vergess|ubergeh)\w*|(?:instructies|regels|richtlijnen) (?:\S+ ){0,3}(?:te )?(?:neg(?:eer|eren)|vergeten)|(?:talimat|kural)\S* (?:\S+ ){0,2}(?:yok say|gormezden|unut)\w*|(?:instrukcj|zasad|polece)\w* (?:\S+ ){0,2}(?:ignorowac|zignorowac)`),
	// German, French, Spanish, Italian, Portuguese, Dutch, Polish, Turkish
	phrases(`ignorier\w* .{0,40}(?:anweisung\w*|regeln?|vorgaben|richtlinien)|(?:vergiss|missachte) .{0,40}(?:anweisung\w*|regeln?)|du bist (?:jetzt|nun|ab sofort)|ab (?:jetzt|sofort) .{0,30}(?:musst|sollst|bist|darfst)|systemprompt|systemanweisung\w*|ohne (?:nachfrage|ruckfrage|bestatigung|zu fragen|nachzufragen)|du (?:musst|sollst|darfst)|uberweise? .{0,40}|rufe? .{0,30}(?:werkzeug|tool|funktion)|alle sicherheits\w*`),
	phrases(`(?:ignor\w*|oubli\w*|contourn\w*) .{0,40}(?:instructions?|consignes?|regles?|directives?)|tu es (?:maintenant|desormais)|vous etes (?:maintenant|desormais)|a partir de maintenant,? (?:tu|vous)|tu dois|vous devez|(?:sans|jamais) (?:demander|confirmation|prevenir|verifier)|(?:vire|virer|transfere\w*) .{0,40}(?:argent|euros|compte|fonds)|invite systeme|prompt systeme|appelle l'outil|appeler l'outil`),
	phrases(`(?:ignor\w*|olvid\w*|omit\w*) .{0,40}(?:instrucciones|reglas|normas|directrices|indicaciones)|ahora eres|a partir de ahora,? (?:eres|debes|tienes)|(?:debes|tienes que|debera) (?:\pL+ )|sin (?:preguntar|confirmacion|confirmar|avisar)|transfier\w* .{0,40}|llama a la (?:herramienta|funcion)|prompt del? sistema|mensaje del sistema`),
	phrases(`(?:ignor\w*|dimentic\w*) .{0,40}(?:istruzioni|regole|direttive)|ora sei|adesso sei|d'ora in poi (?:sei|devi|tu)|devi (?:\pL+)|senza (?:chiedere|conferma|avvisare)|trasferis\w* .{0,40}|prompt di sistema|chiama lo strumento`),
	phrases(`(?:ignor\w*|esquec\w*) .{0,40}(?:instrucoes|regras|diretrizes|orientacoes)|(?:voce|tu) (?:agora )?(?:e|es) agora|agora (?:voce e|tu es)|a partir de agora,? (?:voce|tu|deve)|(?:voce )?deve (?:\pL+)|sem (?:perguntar|confirmacao|confirmar|avisar)|transfir\w* .{0,40}|prompt d[oe] sistema|chame a ferramenta`),
	phrases(`neg(?:eer|eren) .{0,40}(?:instructies|regels|richtlijnen)|je bent (?:nu|vanaf nu)|vanaf nu .{0,20}(?:moet|ben|zul)|je moet|zonder (?:te vragen|bevestiging)|systeemprompt|(?:z)?ignoruj\w* .{0,40}(?:instrukcj\w*|zasad\w*|polece\w*)|(?:od teraz|teraz) (?:jestes|musisz)|musisz|bez (?:pytania|potwierdzenia)|(?:onceki|tum|butun) .{0,30}(?:talimat\w*|kural\w*) .{0,20}(?:yok say|gormezden|unut)\w*|artik sen|sen artik|sormadan|onay almadan|sistem (?:istemi|komutu)`),
	// Russian, Ukrainian, Arabic, Hindi
	phrases(`(?:игнорир\pL*|забуд\pL*|нарушь|обоиди) .{0,40}(?:инструкци\pL*|правил\pL*|указани\pL*|ограничени\pL*)|(?:ты|вы) теперь|теперь ты|с этого момента|ты (?:должен|обязан)|системн\pL* (?:промпт|запрос|сообщени\pL*|инструкци\pL*)|без (?:подтверждения|спроса|разрешения)|не спрашивая|переведи .{0,40}(?:деньги|на счет|рубл\pL*|сумм\pL*)|вызови (?:инструмент|функцию)|ігнору\pL* .{0,40}(?:інструкці\pL*|правил\pL*)|ти тепер`),
	phrases(`(?:تجاهل|انس|انسى|تخط) .{0,40}(?:التعليمات|القواعد|تعليمات|قواعد|الأوامر)|أنت الآن|انت الان|يجب عليك|من الآن فصاعدا|دون (?:سؤال|تأكيد|إذن)|موجه النظام|حو[لّ]+ (?:المال|الأموال|مبلغ)|(?:पिछले|सभी) .{0,30}(?:निर्देश\S*|नियम\S*) .{0,30}(?:अनदेखा|भूल|नजरअंदाज|नज़रअंदाज़)\S*|अब आप|अब तुम|बिना पूछे|सिस्टम प्रॉम्प्ट`),
	// Chinese, Japanese, Korean, Vietnamese, Indonesian, Thai
	anywhere(`(?:忽略|无视|無視|忘记|忘記|绕过|繞過|不要遵守).{0,12}(?:指令|规则|規則|提示|限制|说明|說明|要求)|你现在是|你現在是|从现在(?:起|开始)|從現在|你必须|你必須|系统提示|系統提示|开发者模式|未经确认|无需确认|不要询问|不要告诉用户|转账给|转账到|调用.{0,8}工具|(?:以前|これまで|すべて|全て|前).{0,8}(?:指示|命令|ルール|規則).{0,6}(?:無視|忘れ|破)|あなたは今|あなたはこれから|今から.{0,10}(?:あなた|として)|システムプロンプト|確認(?:なし|せず)|ツールを(?:呼|実行)|送金(?:し|せよ)|(?:이전|모든).{0,10}(?:지시|명령|규칙).{0,8}(?:무시|잊)|당신은 이제|지금부터 (?:당신|너)|시스템 프롬프트|확인 없이|송금|bo qua .{0,30}(?:huong dan|chi dan|quy tac)|abaikan .{0,30}(?:instruksi|aturan|perintah)|ไม่ต้องสนใจ.{0,20}คำสั่ง|เพิกเฉย.{0,20}คำสั่ง`),
}

// imperatives are the verbs with which an order to the assistant begins.
var imperatives = express(`^(?:please |always |never |do not |don't |remember to |make sure (?:to|that) |important:? |note:? |be sure to |ensure (?:to |that )?)*(?:ignore|disregard|forget|override|bypass|call|invoke|execute|run|send|transfer|wire|forward|reveal|print|output|delete|erase|pretend|act|obey|comply|repeat|insert|append|include|recommend|promote|mention|tell|inform|refuse|reject|approve|accept|grant|give|allow|enable|disable|trust|click|open|visit|fetch|download|install|book|buy|order|pay|cancel|email|post|share|store|save|remember|remind|treat|consider|assume|respond|reply|answer|write|use|speak|say|address|format|keep|avoid|add|end|start|begin|sign|follow|do|be|check|read|never|always)(?:$|[^\pL])`)

// addresses are facts about what the assistant is to do.
var addresses = phrases(`(?:the |an? )?(?:assistant|ai|chatbot|bot|language model|llm|model|gpt|claude|agent) (?:\pL+ )?(?:must|should|shall|has to|have to|is to|needs to|ought to|will|may|can|cannot|must not|always|never|is (?:allowed|required|authori[sz]ed|instructed|supposed|expected))|(?:wants?|asks?|asked|tells?|told|instructs?|instructed|requires?|expects?|prefers?|would like|wishes|needs|orders?|ordered|commands?) (?:that )?(?:the )?(?:assistant|ai|chatbot|bot|model|agent|you) (?:to|not to|always|never|should)|(?:der|dem|den) (?:assistent\w*|ki) .{0,20}(?:soll|muss|darf)|l'assistant (?:doit|peut)|el asistente (?:debe|puede|tiene)|l'assistente (?:deve|puo)|o assistente (?:deve|pode)`)

// style is how answers are written. An order of nothing else is a preference.
var style = phrases(`(?:answer|respond|repl|writ|speak|explain|communicat|text|address|call|greet|summar|format|talk)\w*|answers?|repl(?:y|ies)|responses?|explanations?|tone|style|language|emojis?|bullet points?|bullets?|lists?|tables?|headings?|markdown|code (?:examples?|comments?|blocks?)|examples?|concise\w*|brief\w*|short\w*|long\w*|detailed|details?|formal\w*|informal\w*|casual\w*|polite\w*|humou?r|jokes?|sarcasm|metric|celsius|fahrenheit|units|kilomet\w*|24-hour|by (?:their )?(?:first )?name|pronouns?|simple words|plain (?:english|language)|jargon|sources|citations?|step[- ]by[- ]step|british|american|spelling|exclamation marks?|small talk|pleasantries|flattery|apolog\w*|` +
	`antwort\w*|sprache|knapp|kurz|ausfuhrlich|duzen|siezen|geduzt|gesiezt|reponses?|reponds?|tutoye\w*|vouvoye\w*|francais|respuestas?|respond\w*|espanol|tutear|risposte?|rispond\w*|italiano|respostas?|antwoorden?|odpowied\w*|yanit\w*|cevap\w*|ответ\w*|отвечать|إجابات?|الرد|उत्तर|जवाब`)

var styleEast = anywhere(`回答|回复|回覆|语气|語氣|简洁|簡潔|口调|返答|回答|敬語|簡潔|答え|日本語で|中文|답변|존댓말|반말|한국어로`)

// isOrder reports whether a fact tells the assistant what to do, beyond the style of its answers, or holds what could
// leave its section of a prompt.
func isOrder(fact string) bool {
	if markedUp.MatchString(fact) || leavesSection(fact) {
		return true
	}
	plain := fold(fact)
	return isDefiant(plain) || slices.ContainsFunc(clausesOf(plain), isCommand)
}

func isDefiant(plain string) bool {
	return slices.ContainsFunc(defiance, func(pattern expression) bool { return pattern.MatchString(plain) })
}

// clausesOf returns the parts of a folded text in which an order can begin: its sentences, what
// follows the words with which somebody wants it kept, and what follows a condition.
func clausesOf(plain string) []string {
	var clauses []string
	for _, clause := range clauseEnds.Split(plain, -1) {
		clause = strings.Trim(clause, ` "'.-*•()`)
		for {
			rest := wrapper.ReplaceAllString(clause, "")
			if rest == clause {
				break
			}
			clause = strings.Trim(rest, ` "'.-*•()`)
		}
		clauses = append(clauses, clause)
		if condition.MatchString(clause) {
			clauses = append(clauses, strings.Split(clause, ", ")...)
		}
	}
	return clauses
}

var (
	clauseEnds = express(`[;.!?。！？]+(?:\s+|$)`)
	condition  = express(`^(?:when(?:ever)?|if|each time|every time|once|as soon as|before|after|wenn|falls|sobald|jedes mal|quand|si|cuando|quando|se|als|wanneer)\b`)
	wrapper    = express(`^(?:(?:important|attention|system(?: note| message)?|instruction|command|order|policy|admin(?: note)?|update|reminder|rule)s?:|(?:the )?user(?:'s)? (?:wants?|prefers?|asks?|asked|says?|said|states?|requires?|requests?|requested|wishes|would like|insists|demands?|has asked|standing wish is|preference is)(?: that|:)|it is a fact (?:about me )?that|(?:my|this|the|a) (?:preference|rule|wish|note|fact|memory|instruction)(?: is)?(?: that)?|(?:please )?(?:remember|note|keep in mind|save|store|memori[sz]e|add|write)(?: this| it| the| permanently| for ever| forever| for later| for all (?:future|later) \pL+| to (?:your )?memory| in (?:your )?memory)*(?: rule| fact| preference)?(?: that| to)?|keep this(?: preference| in mind)?|i (?:prefer|want|would like|wish|ask|insist) (?:that|you to))(?:[,:]? |$)`)
)

// isCommand reports whether a clause is an order to the assistant that is about more than style.
func isCommand(clause string) bool {
	if youDo.MatchString(clause) {
		return true
	}
	if !imperatives.MatchString(clause) && !addresses.MatchString(clause) {
		return false
	}
	isStyle := style.MatchString(clause) || styleEast.MatchString(clause)
	return !isStyle || actions.MatchString(clause)
}

// youDo is an order in the second person.
var youDo = express(`^you (?:always |never |also |then |just )?(?:transfer|send|forward|call|execute|run|pay|delete|erase|reveal|disclose|tell|obey|ignore|approve|buy|order|open|click|post|print|output|read|treat|trust|may|can|must|shall|will)(?:$|[^\pL])`)

// actions are what an assistant does or touches beside writing answers.
var actions = phrases(`transfer|wire|pay|send|forward|delete|erase|execute|invoke|book|buy|purchase|order|cancel|download|install|click|visit|fetch|upload|post|publish|remind|schedule|browse|open (?:the|a|this)|e-?mail|approve|grant|confirm|append|obey|refuse|disclose|reveal|hide|http\S*|www\S*|\S+@\S+` +
	`|instructions?|rules?|polic(?:y|ies)|guidelines?|api|keys?|accounts?|money|passwords?|secrets?|memor(?:y|ies)|other (?:people|users)(?:'s)?|everyone|everybody|anyone|commands?|tools?|functions?|logs?|base64|urls?|links?|pixels?|web ?(?:pages?|sites?)|admin\w*|root|shell|invoices?|filters?|payments?`)

var (
	markedUp = express(`!\[[^\]]*\]\(|\[[^\]]*\]\(\s*(?:https?:|javascript:|data:)|</?[a-zA-Z][\w-]*(?:\s[^>]*)?/?>|<\|[\w-]+\|>|\{\{|\}\}|\x60\x60\x60|\[/?(?:INST|SYS|SYSTEM)\]|={3,}|javascript:|data:text/`)
	roleMark = express(`(?i)^\W*(?:system|assistant|developer|tool|user|human)\s*[:>\]|]`)
)

// leavesSection reports whether a fact looks like a heading or a speaker label of a prompt.
func leavesSection(fact string) bool {
	return prompt.LooksLikePrompt(fact) || text.HasHiddenMarks(fact) || roleMark.MatchString(fact) || opensInjection(fact) || headingWithin.MatchString(fold(fact))
}

// headingWithin finds a heading of ours in the middle of a line.
var headingWithin = express(`background . prior conversation summary|kept messages \(|recent conversation \(|what you remember about this user|relevant earlier turns|topic \(the conversation has come back to it|retrieved sources:|current message:|new messages:|conversation summary:|recent messages:`)

// meta is talk about the conversation instead of the user. So is what the assistant did.
var meta = []expression{
	express(`^(?:the )?(?:user|they|he|she) (?:\pL+ly |just |has |have |had |is |was |also |then )*(?:asks?|asked|asking|requests?|requested|requesting|inquire[sd]?|inquiring|wonders?|wondered|wondering|wants? to (?:know|ask|hear|see (?:an?|the) (?:example|answer|list|summary))|wanted to know|would like to know|greets?|greeted|greeting|thanks?|thanked|thanking|says? (?:hello|hi|thanks|thank|goodbye|bye|ok|okay|yes|no)|said (?:hello|hi|thanks|thank|goodbye|bye|ok|okay|yes|no)|acknowledge[sd]?|responded|replied|typed|pasted|shared (?:a|an|the|some) (?:file|log|message|document|text|link|code|error)|mentioned nothing|(?:did not|didn't|has not|hasn't) (?:mention|mentioned|provide|provided|share|shared|say|said|specify|specified)|is looking for (?:help|information|an answer)|is chatting|is talking|is conversing|is testing the (?:assistant|chat\w*|bot)|is interacting|initiated|started (?:a|the) conversation|ended the conversation)(?:$|[^\pL])`),
	express(`^(?:the |this |our |an? )?(?:assistant|ai|chatbot|bot|model|conversation|chat|discussion|dialogue|session|message|exchange|system|tool|agent)(?:'s)? (?:\pL+)`),
	express(`^(?:no|none|nothing|n/a|null|empty|unknown|not (?:specified|mentioned|provided|available|applicable))(?:$|[ .,](?:new |relevant |lasting |significant |further |specific )*(?:facts?|information|memor\w*|details?|preferences?|to (?:remember|extract|store|note|report)|was|were|is|are|has|worth|about the user|known|found)?)`),
	express(`^(?:i'm|i am|i) (?:sorry|cannot|can't|can not|unable|not able|do not|don't|am an? (?:ai|language model|assistant)|apologi[sz]e|an? (?:ai|language model))|^sorry\b|^as an? (?:ai|language model)|^(?:there (?:is|are) (?:no|nothing))|^here (?:is|are) (?:the|a|some)`),
	express(`^(?:der nutzer|die nutzerin|der benutzer) (?:fragt|fragte|bittet|bat|mochte wissen|wollte wissen|grusst|grusste|bedankt|bedankte|hat (?:nach .{0,60} )?gefragt|sagt (?:hallo|danke|tschuss))|^(?:der assistent|das gesprach|die unterhaltung|die ki) |^(?:keine|es gibt keine|es gibt nichts) .{0,30}(?:fakten|informationen|erinner\w*|angaben)?|^(?:tut mir leid|es tut mir leid|ich kann (?:das|dabei|dir|nicht|leider))`),
	express(`^(?:l'utilisateur|l'utilisatrice) (?:demande|a demande|souhaite savoir|veut savoir|salue|remercie|se demande|a remercie)|^(?:l'assistant|la conversation|cette conversation|l'ia) |^(?:aucun|aucune|rien|il n'y a (?:pas|rien|aucun)) |^(?:desole|je suis desole|je ne peux pas)`),
	express(`^(?:el usuario|la usuaria) (?:pregunta|pregunto|pide|pidio|quiere saber|saluda|saludo|agradece|agradecio|solicita|solicito)(?: |$|\.)|^(?:el asistente|la conversacion|esta conversacion|la ia) |^(?:ningun|ninguna|nada|no hay) |^(?:lo siento|no puedo (?:ayudar|hacer|extraer))`),
	express(`^l'utente (?:chiede|ha chiesto|vuole sapere|saluta|ringrazia|ha ringraziato)|^(?:l'assistente|la conversazione|questa conversazione) |^(?:nessun|nessuna|niente|non ci sono) |^(?:mi dispiace|non posso)|^(?:o usuario|a usuaria|o utilizador) (?:pergunta|perguntou|pede|pediu|quer saber|cumprimenta|agradece|agradeceu)|^(?:o assistente|a conversa|esta conversa) |^(?:nenhum|nenhuma|nao ha) |^(?:desculpe|nao posso|sinto muito)`),
	express(`^(?:de gebruiker|de gebruikster) (?:vraagt|vroeg|wil weten|groet|bedankt|heeft gevraagd)|^(?:de assistent|het gesprek|dit gesprek) |^(?:geen|er (?:is|zijn) geen) |^uzytkowni(?:k|czka) (?:pyta|zapytal\w*|prosi|poprosil\w*|chce wiedziec|dziekuje|wita)|^(?:asystent|rozmowa) |^brak |^kullanici .{0,60}(?:soruyor|sordu|istedi|selam\w*|tesekkur\w*)|^(?:asistan|konusma|sohbet) `),
	express(`^пользовател(?:ь|ьница) (?:спрашивает|спросил\pL*|просит|попросил\pL*|хочет (?:узнать|знать)|интересуется, |поздоровал\pL*|благодарит|поблагодарил\pL*)|^(?:ассистент|беседа|разговор|диалог|чат) |^(?:нет|ничего|никаких) (?:\pL+ )?(?:факт\pL*|информаци\pL*|нового|данных)|^(?:извините|к сожалению, я|я не могу)|^користувач(?:ка)? (?:питає|запитав|запитала|просить|попросив)`),
	express(`^المستخدمة? (?:يسأل|سأل|تسأل|سألت|يطلب|طلب|يريد أن يعرف|يريد معرفة|يشكر|حيا)|^(?:المساعد|المحادثة|هذه المحادثة) |^(?:لا توجد|لا يوجد|لا شيء) |^(?:عذرا|آسف|لا أستطيع|لا يمكنني)|^उपयोगकर्ता (?:ने )?.{0,60}(?:पूछा|पूछता|पूछ रहा|जानना चाहता|धन्यवाद)|^(?:सहायक|बातचीत) |^कोई .{0,30}(?:तथ्य|जानकारी) नहीं`),
	express(`^(?:用户|用戶)(?:正在|刚刚|想|在)?(?:询问|詢問|问了|問了|问|请求|請求|要求|想知道|打招呼|感谢|感謝|表示感谢|说了?你好|需要帮助)|^(?:助手|对话|對話|本次对话|该对话|机器人)|^(?:没有|沒有|无|無)(?:新的?|任何|相关|值得|可)?.{0,8}(?:事实|事實|信息|资讯|資訊|内容|記憶|记忆)|^(?:抱歉|对不起|對不起|我无法|我不能|很抱歉)`),
	express(`^(?:ユーザー|利用者)は.{0,60}(?:質問し|尋ね|聞い(?:た|て)|知りたがっ|知りたい|挨拶|感謝し|お礼|依頼し|頼ん)|^(?:アシスタント|会話|この会話|AI)(?:は|で|が)|^(?:特に|新しい|記憶すべき)?.{0,10}(?:事実|情報)(?:は)?(?:ありません|ない|なし)|^(?:申し訳|すみません|できません)|^사용자(?:는|가) .{0,60}(?:물었|질문|물어|요청했|인사|감사)|^(?:어시스턴트|대화|이 대화)(?:는|가|에서)|^(?:없음|새로운 .{0,10}없|죄송)`),
}

var questionMark = express(`[?？؟;]\s*["'”’»)]*$`)

var questionStart = express(`^(?:what|who|where|when|why|how|which|whose|do|does|did|is|are|can|could|would|should|will|has|have) (?:the user|you|i|we|they|it|there|is|are|does|do|did|much|many|to)(?:$|[^\pL])`)

// isNoFact reports whether a text is a question, a refusal, talk about the conversation, or says nothing.
func isNoFact(fact string) bool {
	if strings.ContainsAny(fact, "?？؟") && questionMark.MatchString(fact) && !strings.HasSuffix(fact, ";") {
		return true
	}
	plain := strings.Trim(fold(fact), ` "'-*•`)
	if questionStart.MatchString(plain) {
		return true
	}
	for _, pattern := range meta {
		if pattern.MatchString(plain) {
			return true
		}
	}
	return len(contentOf(fact)) == 0
}

// passing is what will not matter tomorrow: what somebody feels or does at this moment.
var passing = []expression{
	phrases(`(?:user|they|he|she) (?:is|feels|are|was|seems) (?:currently |right now |just |very |a bit |quite |so |feeling )*(?:tired|hungry|thirsty|sleepy|bored|cold|hot|busy|in a hurry|in a good mood|in a bad mood|happy|sad|excited|annoyed|frustrated|confused|curious|grateful|online|offline|awake|back|ready|here|away|typing|waiting|stuck)(?: (?:right now|now|at the moment|currently|with the (?:answer|reply|response)|about the (?:answer|reply|response)))?\.?`),
	phrases(`(?:der nutzer|die nutzerin) ist (?:gerade |sehr |jetzt )*(?:mude|hungrig|durstig|gelangweilt|beschaftigt)|l'utilisat(?:eur|rice) (?:est|a) (?:tres |actuellement )*(?:fatiguee?|faim|soif|occupee?)|(?:el usuario|la usuaria) (?:esta|tiene) (?:muy |ahora )*(?:cansad[oa]|hambre|sed|ocupad[oa]|aburrid[oa])|l'utente (?:e|ha) (?:molto |ora )*(?:stanc[oa]|fame|sete|occupat[oa])|(?:o usuario|a usuaria) (?:esta com|esta) (?:muito )?(?:cansad[oa]|fome|sede)`),
	anywhere(`用户(?:现在|正|很|有点)*(?:累|饿|困|渴|无聊|忙)(?:了)?。?$|ユーザーは(?:今)?(?:疲れて|お腹が|眠)|사용자는 (?:지금 )?(?:피곤|배고|졸)`),
}

// isPassing reports whether a fact is plainly of the moment, whatever the model says of its horizon.
func isPassing(fact string) bool {
	plain := strings.TrimRight(fold(fact), " .!。")
	return slices.ContainsFunc(passing, func(pattern expression) bool {
		place := pattern.FindStringIndex(plain)
		return place != nil && place[1] == len(plain)
	})
}
