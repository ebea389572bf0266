package recall

import (
	"strings"
	"unicode"
)

// language is what recall knows of a language.
type language struct {
	code string // as ISO 639-1 has it
	// function words say nothing by themselves.
	function map[string]bool
	// smallTalk are words of greetings, thanks, agreement and orders to the assistant: of any chat.
	smallTalk map[string]bool
}

// languageOf returns the language of which most tokens are known words; English in doubt.
func languageOf(tokens []string) *language {
	best, _ := mostKnown(tokens)
	return best
}

// mostKnown returns the language of which most tokens are known words, and how many are.
func mostKnown(tokens []string) (best *language, most int) {
	best = &languages[0]
	for n := range languages {
		known := 0
		for _, token := range tokens {
			if languages[n].function[token] || languages[n].smallTalk[token] {
				known++
			}
		}
		if known > most {
			best, most = &languages[n], known
		}
	}
	return best, most
}

// codeOf returns the code of a text's language by its script or its known words, "" where it is not known. A text in plain
// Latin letters without known words counts as English.
func codeOf(content string) string {
	var plain, latin, kana, arabic, other int
	for _, r := range content {
		switch {
		case r < unicode.MaxASCII && unicode.IsLetter(r):
			plain++
		case unicode.Is(unicode.Latin, r):
			latin++
		case unicode.In(r, unicode.Hiragana, unicode.Katakana, unicode.Han):
			kana++
		case unicode.Is(unicode.Arabic, r):
			arabic++
		case unicode.IsLetter(r):
			other++
		}
	}
	switch max(plain+latin, kana, arabic, other) {
	case other:
		return ""
	case kana:
		return "ja"
	case arabic:
		return "ar"
	}
	best, known := mostKnown(tokensOf(content))
	if known == 0 && latin > 0 {
		return ""
	}
	return best.code
}

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// languages begin with English. Words are as tokensOf writes them: an apostrophe separates.
var languages = []language{
	{ // English
		"en",
		setOf(`a about already also am an and any are aren as at be because been before being but by can cannot could couldn d did didn do does doesn doing don done for from get gets getting got had hadn has hasn have haven having he her hers him his how i if in into is isn it its just like ll m may me might my no nor not o of on or our out re s shall she should shouldn so some such t than that the their them then there these they this those to too up us ve very was wasn we were weren what when where which while who whom whose why will with won would wouldn you your yours`),
		setOf(`above after again all along although always among another anybody anyone anything around away became become below between both down during each either else ever every everybody everyone everything few further give given gives go goes going gone here herself himself however instead itself lately later least less lot lots made make makes many maybe mightn mine more most much must mustn myself neither never nobody none nothing now off often once one ones only onto other others ours ourselves over own perhaps put quite rather really same say says seem seems since somebody someone something sometimes soon still take theirs themselves thing things though through till together toward towards under until upon use used using via whatever wherever whether whoever within without yes yet yourself yourselves absolutely add afternoon agree agreed ahead alright amazing answer appreciate awesome back bad beautiful believe best better big bit bless bored boring bot brief briefly bro bye care chat check cheers clear clearer clearly come congrats congratulations continue cool correct course cya damn dang day days dear definitely delete detail details different dude dunno easier easy elaborate end english enjoy evening exactly example examples excellent excited exciting explain explanation fab fantastic fair feel feeling feels figure find fine finish first fix format forward friend full fun funny gee glad gonna good goodbye goodnight goodness gosh gotcha gotta great greetings guess guys ha haha hahaha happen happened happening happy hard hate haven hear heard hehe hello help helped helpful helps hey hi hmm hold hope hopefully hoping hug hugs huh hurry idea impressive improve incredible indeed information interested interesting joke jokes keep kidding kind know known last later laugh learn learned leave let lets letter like liked line list listen little lmao lol long longer look looking looks love loved lovely luck mate matter mean meaning means mention message mind minute moment moments morning name need needed new news next nice night nope ok okay omg oops ooh oh paragraph pardon part people perfect person pick please pleased pleasure plz point possible pretty problem proceed proud put question questions quick quickly ready reason regards remember remind repeat reply rest rewrite right said sad sec second see seen send sense sentence sentences shall share short shorten shorter show shut sick side silly simple simpler simply slow small smile soon sorry sort sound sounds speak start stay step steps stop stuff stupid suggest summarise summarize summary super sup support sure surprise sweet talk talking tell test testing text thank thanks thankful thx tbh think thinking thought time times tired today told tomorrow tone tonight topic totally translate true try trying turn ty type understand understood update useful wait want wanted wants wanna warm way weather week weekend welcome well whatever whoa wish wonder wonderful wondering word words work worked working works worries worry worse worth wow write writing written wrong ya yah yay yeah year years yep yesterday yikes yo yup hiya meet met nice job jobs brilliant knows seriously nevermind sleep birthday human ask asked asking happens next meant enough disagree fair choose choice appreciated asap asleep badly bed boo btw chill clever confused confusing crazy cute dinner lunch breakfast doubt dream dreams eh fault forget forgive forgot friday god grateful hang hell holiday holidays honest honestly huge hungry ill imagine insane jk joking laughing legend legit lie literally lucky mad merry min mins monday mood nah nap naw nite obviously okey outstanding peace pity pleasant plenty possibly relax relaxed respond return rough sadly saturday sunday tuesday wednesday thursday shame sigh smart solid sore spot statement stressed stress stuck suppose supposed sweetheart terrible terrific tho tough truth unbelievable understandable unfortunately useless usual voice wake waiting wise wished wishes xmas yummy advice opinion chatting conversation funnier exhausted sleepy lonely nervous anxious upset angry happier bravo kudos props splendid superb marvelous marvellous neat dope lit rad yess yesss noted roger affirmative incorrect false clarify clarification describe expand concise simplify paraphrase rephrase proofread edit fix bullet bullets points version formal informal casual polite friendly`),
	},
	{ // German
		"de",
		setOf(`ab aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da dabei dafür damit dann daran darauf darf darum das dass davon dazu dein deine deinem deinen deiner dem den denn der des deshalb dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines einige er es etwas euch euer eure für gab gegen gewesen gibt habe haben hat hatte hatten hattest hast hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in ins ist ja jede jedem jeden jeder jedes jetzt kann kannst kein keine keinem keinen keiner können könnte könntest man manche mehr mein meine meinem meinen meiner mich mir mit muss musst müssen nach neben nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so soll sollen sollte sonst über um und uns unser unsere unter viel viele vom von vor wann war waren warst warum was weil welche welchem welchen welcher welches wem wen wenig wenn wer werde werden wessen weshalb wie wieder wieso will willst wir wird wirst wo wobei wodurch woher wohin womit worden worüber wurde wurden während zu zum zur zwar zwischen würde würden`),
		setOf(`abend achso alles antwort ausführlicher bedanke beispiel bekannt besser bis bitte bitteschön brauche cool danke dankeschön dank dir egal einfach einfacher englisch entschuldigung erklär erkläre erzähl erzähle fertig frage fragen freue freut fühle ganz gefällt geht gehts genau genug gern gerne gespräch gestern gib glaube gleich gott gruß grüße gut gute guten gutem guter halt hallo hallöchen haha helfen heute heißt hilf hilfe hilfreich hoffe hi hm idee interessant jawohl ja jo kapiert kein klar klappt klasse klingt kommt kurz kürzer lass langweilig leid liebe lieber liste lustig lust mach mache machen machst macht mal meinst mittag moin morgen mach müde na nacht nächste name nee nein neu nett nochmal ok okay passt perfekt prima problem richtig sag sage sagen sagst satz schau schick schlecht schlaf schön schöne schönen schreib schreibe schreiben servus sicher spannend stimmt super tag tage tipp toll top traurig tschüss tschüs tust tut übersetze umschreiben und verstanden verstehe vielen viel vielleicht wahnsinn warte weiter weiß wetter wirklich witz witze woche wochenende wort wow wunderbar wünsche zeit zeig zeige zusammen zusammenfassen zusammenfassung lieben liebe hilft einfacher fasse spät später schönes kannst könntest erklären sekunde minute verstehst weißt gehen besser nächstes montag dienstag mittwoch donnerstag freitag samstag sonntag frühstück essen hunger krank gesund stress stressig nervt blöd quatsch egal glück glückwunsch geburtstag freund leute versuch versuche nochmals wiederhole wiederholen übersetzen kürzen länger ausführlich vereinfache formuliere verbessere korrigiere antworte vorschlag`),
	},
	{ // French
		"fr",
		setOf(`a ai ait alors après as au aucun aucune aujourd auquel aussi autre autres aux avais avait avant avec avez avoir avons c ce ceci cela celle celles celui ces cet cette ceux chaque chez comme comment contre d dans de depuis des dont donc du elle elles en encore entre es est et étaient étais était été être eu eux fait faire il ils j je l la laquelle le lequel les lesquels leur leurs lors lorsque lui m ma mais me même mes moi moins mon n ne ni non nos notre nous on ont ou où par parce pas pendant peu peut peux plus pour pourquoi pourrais pourriez qu quand que quel quelle quelles quelque quelques quels qui quoi s sa sans se sera ses si soi son sont sous suis sur t ta te tes toi ton tous tout toute toutes très tu un une va vais vas vers veux vont vos votre vous y à ça`),
		setOf(`accord aide aider aime allô allez appris après attends aussi au avance bah beau beaucoup besoin bien bientôt bisous blague blagues bof bon bonne bonnes bonjour bonsoir bravo calme certainement chouette clair compris comprends continue cool coucou court courte d détails dire dis dit désolé désolée drôle désormais écris encore ennuie enchanté entendu envie essaie évidemment exactement excellent excuse excusez exemple exemples expliquer explique expliquez fatigué fatiguée fin fois formidable français gentil génial heureux heureuse hier hein idée impeccable intéressant jour journée joyeux juste kiffe liste longue lol là magnifique mal matin merci merveilleux message mdr météo moment monde mot mots nickel nom nouveau nouvelles nuit ok okay oh ouais oui ouf parfait pardon parle parler pense petit peux phrase phrases plaisir plaît plait plutôt possible problème question questions quoi raconte rappelle refais recommence répète réponds réponse résume résumé reformule revoir rien rire salut sais semaine simple simplement sinon soir soirée souci sûr sympa super temps tard texte top tôt traduis triste trop truc utile vachement vie vite voilà vois vraiment vrai penses maintenant répéter répète donne moi demain week end appelles appelle aidez pourrais pouvez veuillez stp svp désolés dormi dors salutations fatigue malade faim ennui génialissime incroyable mercredi lundi mardi jeudi vendredi samedi dimanche anniversaire félicitations courage chance reformuler corrige améliore traduire résumer raccourcis développe détaille`),
	},
	{ // Spanish
		"es",
		setOf(`a al algo algún alguna algunas alguno algunos ante antes aquel aquella aquellos así aunque bajo cada como cómo con contra cual cuál cuáles cuando cuándo cuanto cuánto cuántos cuánta cuántas de del desde donde dónde dos durante e el él ella ellas ellos en entre era eran eras eres es esa esas ese eso esos está están estaba estaban estado estar estás este esta estas esto estos estoy fue fueron fui fuiste ha había habían habías hacer han has hasta hay haya he hemos iba la las le les lo los más me mi mí mis mientras mucho muchos muy nada ni no nos nosotros nuestra nuestro o os otra otras otro otros para pero poco por porque qué que quien quién quienes se sea sean según ser si sí sido sin sobre sois somos son soy su sus suyo también tan tanto te tengo tenía tiene tienes toda todas todo todos tras tu tú tus un una unas uno unos usted ustedes va van vosotros voy y ya yo puedo puedes puede`),
		setOf(`aburrido acuerdo adelante adiós ahora alegra alegro amigo anda ánimo ayer aquí ayuda ayudar ayúdame bien bonito bravo breve buen buena buenas bueno buenos cansado chao charlar chiste chistes cierto claro clima continúa correcto corto corta cosa cosas cuenta cuéntame cuídate dame dale decir desde después día días dices dicho dime disculpa diga divertido dormir duda ejemplo ejemplos encanta encantado enseguida entiendo entendido escribe escríbelo español espera estupendo exacto excelente explica explícame explicar fácil favor feliz fenomenal fin final gracias gracioso gran grande gusta gusto haha haz hecho hola hora hoy idea igual increíble interesante ja jaja jajaja lista listo llamas largo luego lugar mal mañana maravilla maravilloso mejor mensaje mira momento mundo necesito noche noches nombre nuevo ok okay oye palabra palabras pasa pasó pena pensar perdón perdona perfecto pienso pregunta preguntas problema pues quiero repite repítelo responde respuesta resumen resume resumir saber sabes saludos salud se semana siento siguiente simple sigue suena suerte super supongo tal tarde tardes texto tiempo tonto traduce triste último útil vale vamos ver verdad vez vida vale vaya voz muchas mil genial seguro piensas repetir ayudarme puedes podrías lunes martes miércoles jueves viernes sábado domingo cumpleaños felicidades enfermo hambre cansada aburrida sueño lástima ojalá corrige mejora reescribe acorta alarga detalla contento contenta`),
	},
	{ // Italian
		"it",
		setOf(`a abbia abbiamo ad agli ai al alla alle allo allora altra altre altri altro anche ancora avere aveva avevano avevi avete c che chi ci ciò co come con contro cosa cui da dagli dai dal dalla dalle degli dei del dell della delle dello dentro di dopo dov dove e è ed ebbe era erano eri essere fa fare fatto fino fra fu furono già gli ha hai hanno ho i il in io l la le lei li lo loro lui ma me mentre mi mia mie miei mio molto ne nei nel nell nella nelle nessun nessuno no noi non nostra nostro o ogni oppure per perché perciò però più poco poi prima proprio può puoi qual quale quali quando quanta quante quanti quanto quasi quel quella quelle quelli quello quest questa queste questi questo qui quindi s sarà se sei senza si sia siamo siete sono sopra sta stata state stati stato sto su sua sue sugli sui sul sulla suo suoi tra te ti troppo tu tua tue tuo tuoi tutta tutte tutti tutto un una uno va vai verso vi voi vostra vostro vado vorrei`),
		setOf(`accordo addio aiutami aiuto aiutare allora amico andiamo appunto arrivederci aspetta avanti barzelletta basta battuta bella bello bellissimo bene benissimo bravo brava breve buon buona buonanotte buonasera buongiorno buono capisco capito caro certo certamente chiaro chiedo ciao complimenti continua contento corretto corto cose così davvero detto dimmi dire dispiace divertente domanda domande domani dormire ecco eccellente esatto esempio esempi fame fantastico favore felice fico figurati fine forse forte frase genere gentile giorno giusto grande grazie ha haha idea ieri incredibile infatti interessante lista lungo magari magnifico male mattina meglio meno mente messaggio meteo mi mille minuto modo momento nome notte nuovo occhei oggi ok okay ottimo paio parla parlare parola parole pensi penso perfetto piacere piace pomeriggio potresti prego pronto problema prossimo racconta ragione ricorda riassumi riassunto ripeti risata rispondi risposta riscrivi saluti salve sai scherzo scrivi scusa scusami sembra semplice sentire senti sera serata settimana sicuro simpatico solito spero spiega spiegami stanco super sì tempo testo traduci tranquillo triste troppo utile va vabbè vedere vediamo vero vita volta volentieri wow stai come tante adesso raccontami ripetere aiutarmi fammi chiami lunedì martedì mercoledì giovedì venerdì sabato domenica compleanno auguri stanca malato noia annoiato peccato correggi migliora accorcia allunga`),
	},
	{ // Portuguese
		"pt",
		setOf(`a ao aos aquela aquelas aquele aqueles aquilo as às até com como contra cada da das de dela dele deles depois desde do dos e é ela elas ele eles em enquanto entre era eram és essa essas esse esses esta está estão estas estava estavam este estes estou eu foi for foram fui há isso isto já la lhe lhes lo mais mas me mesmo meu meus minha minhas muito muitos na nas não nem no nos nós nossa nosso num numa o onde os ou para pela pelas pelo pelos perante pode podes por porque qual quais quando quanta quantas quanto quantos que quê quem se sem ser será seu seus sido são só sob sobre somos sou sua suas também tão te tem têm tenho ter teu teus teve tinha tinham tive toda todas todo todos tu tua tuas tudo um uma umas uns vai vais você vocês vos vou à éramos`),
		setOf(`abraço acho acordo adeus adorei agora ajuda ajudar amanhã amigo ansioso aqui assim bacana beijo beijos beleza bem boa boas bom bonito breve cansado caramba certeza certo chato claro coisa coisas como compreendo conta conte continua continue correto cumprimentos curto desculpa desculpe deus dia dias diga dizer disse dormir durma dúvida engraçado entendi entendo entendido escreve escreva espera espero excelente exatamente exemplo exemplos explica explique fácil falar fala favor feliz fim fixe frase gosto gostei grande haha história hoje hora ideia igual incrível interessante já jeito kkk kkkk legal lindo lista logo longo mal maravilha maravilhoso melhor mensagem menos minuto momento mundo nada noite nome novo obrigada obrigado oi ok okay olá ontem ótimo palavra palavras parabéns pena penso perfeito pergunta perguntas piada piadas pois ponto possível prazer preciso problema próximo quero rapaz repete repita resposta responda resumo resume resuma rir rs rsrs sabe sabes saudações saúde semana sério sim simples sinto sorte super tá tal tarde tchau tempo texto tipo top traduz traduza triste último útil valeu vamos verdade ver vez vida viu acha repetir pode me dá exemplo segunda terça quarta quinta sexta sábado domingo aniversário doente fome sono cansada corrija melhore encurte você`),
	},
	{ // Dutch
		"nl",
		setOf(`aan al alle als altijd andere ben bent bij daar dan dat de deze die dit doe doen door dus een eens en er geen had hadden heb hebben hebt heeft hem het hier hij hoe hoeveel hun iemand iets ik in is ja je jij jou jouw jullie kan kon kunnen maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat ons onze ook op over reeds te tegen toch toen tot u uit uw van veel voor waar waarom wanneer want waren was wat we wel welke werd wezen wie wij wil wilde worden wordt zal ze zei zelf zich zij zijn zo zonder zou`),
		setOf(`alsjeblieft antwoord avond bedankt beetje begrijp beste beter dag dagen dank dankje dankjewel doei duidelijk eigenlijk even fijn ga gaat geweldig gisteren goed goede goedemorgen goedenavond graag grap grappig groetjes haha hallo help helpen hey hoi idee inderdaad interessant jammer kort korter laat lekker leuk lijst maak makkelijk mee misschien moe mooi morgen nacht naam nee nieuw nou oké ok okay perfect precies prima probleem schrijf slecht slaap slapen snap sorry super tijd top tot uitleg uitleggen vandaag vertaal vertel verder volgende vraag wacht weer weet welkom werkt zeg zeker`),
	},
	{ // Polish
		"pl",
		setOf(`a aby ale albo bo być był była było były by ci co czy czyj dla do gdy gdzie go i ich ile im ja jak jaka jaki jakie jakim jako je jego jej jest jestem już kiedy kim kto która które który którego ma mam masz mi mnie mój moja moje mu my na nad nam nas nic nie nim niż o od on ona one oni oraz po pod przed przez przy się są skąd ta tak tam te tego tej ten to tu tutaj twoja twoje twój ty tych tym w was we wszystko wy z za ze że`),
		setOf(`bardzo błagam brzmi chcę chyba cześć dalej dobra dobranoc dobre dobry dobrze dowcip dzięki dziękuję dzień dziś dzisiaj fajnie hej imię jasne jutro kawał krócej lista lubię miło miłego możesz napisz naprawdę noc ok okej opowiedz pa pogoda pomoc pomocy pomóż powiedz powtórz pozdrawiam pracy problem proszę przepraszam przetłumacz pytanie rozumiem rzeczywiście spoko streść super świetnie teraz trochę tydzień wiem wieczór wow wczoraj wiesz wyjaśnij zgoda zmęczony znaczy żart`),
	},
	{ // Russian
		"ru",
		setOf(`а без более бы был была были было быть в вам вас весь во вот все всё всего всех вы где да для до его ее её если есть еще ещё же за здесь и из или им их к как какая какие какой каком когда кого кем которая которые который кто куда ли либо мне много мог может мой моя моё мои мы на над надо наш не него нее неё нет ни них но ну о об однако он она они оно от очень по под после потом потому почему при про раз с сам свою себе себя сколько со так также такой там твой твоя твоё те тебе тебя тем то того тоже той только том ты у уже хотя чего чей чем что чтобы чье чья эта эти это этот я`),
		setOf(`анекдот болтать вечер вечера верно всё вчера выходные где день дела добрый доброе дорогой до досвидания друг думаю завтра здорово здравствуй здравствуйте знаю извини извините интересно кажется класс классно конечно короче круто ладно лучше люблю можешь можно молодец напиши настроение неделя ничего новости ночь ночи объясни ок окей отлично ответ пока поговорим погода подожди понял поняла понятно помоги помощь повтори перевод переведи пожалуйста правда правильно превосходно привет приветик пример рад рада расскажи рассказ сегодня скажи скучно слово смешно согласен спасибо список спокойной супер текст точно утро ура устал устала хорошо хочу час шутка шутку большое огромное как так теперь потом скучаю удачи выходных понедельник вторник среда четверг пятница суббота воскресенье короткий короче длиннее объяснить`),
	},
	{ // Turkish
		"tr",
		setOf(`acaba ama ancak ben benim bana beni bir biri biz bizim bu buna bunu çok çünkü da daha de değil diye dolayı en fakat gibi hangi hangisi hem hep hepsi her hiç için ile ise kadar kaç ki kim kimin mı mi mu mü nasıl ne neden nerede nereye nere niçin niye o olan olarak oldu olduğu on ona onu onun sana sen seni senin siz sizin şey şu şunu tüm var ve veya ya yani yok`),
		setOf(`açıkla akşam akşamlar anladım anlat bence bekle belki bilmiyorum bugün dün devam efendim ediyorum ederim eline evet eyvallah fıkra gece geceler gerçekten görüşürüz gün günaydın günler güzel haha hava haydi hayır hoş hoşça iyi iyiyim kısa kısalt konuş lütfen liste merhaba mutlu naber örnek özet özür peki rica sabah sağol sağlık selam selamlar söyle sıkıldım soru süper şaka tabii tamam tekrar teşekkür teşekkürler üzgünüm uzun yardım yarın yaz yorgun zaman nasılsın nasılsınız iyisin şimdi sonra`),
	},
}

// Of the pairs of characters of a script without spaces, those say nothing that are all hiragana, hold a particle, or
// are a word of small talk.
const particles = `的了是我你您他她它们吗呢吧啊呀在有和就都很也不没会能要想把被给对跟到着过地得这那哪什么怎为谁几多少个请の은는이가을를에의도와과요はがをにへ`

var spacelessSmallTalk = setOf(`早上 上好 是的 对的 不错 非常 常感 感谢 네 예 응 解で 三个 再来 你好 您好 谢谢 早上 晚安 再见 好的 没事 抱歉 哈哈 可以 知道 明白 今天 明天 昨天 天气 笑话 一个 一下 继续 解释 翻译 总结 写得 短一 一点 帮忙 怎样 高兴 喜欢 真的 太好 好了 好棒 ` +
	`今日 明日 昨日 天気 元気 冗談 面白 説明 翻訳 要約 続け 了解 大丈 丈夫 最高 素晴 本当 お願 願い 教え 短く 一番 笑い 英語 ` +
	`안녕 녕하 하세 세요 감사 사합 합니 니다 고마 마워 워요 미안 안해 좋아 아요 오늘 내일 어제 날씨 농담 계속 설명 번역 요약 알겠 겠습 습니 괜찮 찮아 정말 그래 래요 네요 해요 해줘 주세 줘요 반가 잘자`)

func spacelessFunction(pair []rune) bool {
	hiragana := 0
	for _, r := range pair {
		if strings.ContainsRune(particles, r) {
			return true
		}
		if r >= 0x3040 && r <= 0x309f {
			hiragana++
		}
	}
	return hiragana == len(pair)
}

// irregular are the other forms of English words whose stems differ.
var irregular = formsOf(`arise arose arisen, bear bore borne born, beat beaten, become became, begin began begun, bend bent, bind bound, bite bit bitten,
bleed bled, blow blew blown, break broke broken, breed bred, bring brought, build built, burn burnt, buy bought, catch caught, choose chose chosen,
cling clung, come came, creep crept, deal dealt, dig dug, draw drew drawn, dream dreamt, drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, feed fed,
feel felt, fight fought, find found, flee fled, fly flew flown, forbid forbade forbidden, forget forgot forgotten, forgive forgave forgiven,
freeze froze frozen, give gave given, grow grew grown, hang hung, hear heard, hide hid hidden, hold held, keep kept, know knew known,
lay laid, lead led, leave left, lend lent, light lit, lose lost, mean meant, meet met, pay paid, ride rode ridden, ring rang rung, rise rose risen,
run ran, say said, see saw seen, seek sought, sell sold, send sent, shake shook shaken, shine shone, shoot shot, show shown, shrink shrank shrunk,
sing sang sung, sink sank sunk, sit sat, sleep slept, slide slid, speak spoke spoken, spend spent, spin spun, stand stood, steal stole stolen,
stick stuck, sting stung, strike struck, swear swore sworn, sweep swept, swim swam swum, swing swung, take took taken, teach taught, tear tore torn,
tell told, think thought, throw threw thrown, understand understood, wake woke woken, wear wore worn, weep wept, win won, wind wound, write wrote written,
child children, man men, woman women, foot feet, tooth teeth, mouse mice, wife wives, life lives, knife knives, leaf leaves`)

func formsOf(table string) map[string][]string {
	forms := map[string][]string{}
	for row := range strings.SplitSeq(table, ",") {
		words := strings.Fields(row)
		for _, w := range words {
			for _, other := range words {
				if other != w {
					forms[w] = append(forms[w], other)
				}
			}
		}
	}
	return forms
}
