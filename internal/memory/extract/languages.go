package extract

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// setOf returns the words of a list, folded.
func setOf(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(fold(list)) {
		set[w] = true
	}
	return set
}

// functionWords are common words of languages that share a script, folded: by them a language is told.
var functionWords = map[string]map[string]bool{
	"en": setOf(`a about after all am an and any are as at be because been before but by can could did do does for from had has have he her him his how i if in into is it its just like me my no not of on or our out she should so some than that the their them then there these they this to too up us very was we were what when where which while who why will with would you your user likes lives works plays prefers wants uses`),
	"de": setOf(`ab aber alle als also am an auch auf aus bei bin bis bist da dann das dass dein dem den der des die dies diese doch du durch ein eine einem einen einer er es etwas euch fur gern gerne hat habe haben hatte ich ihm ihn ihr ihre im in ins ist ja jede jeden kann kein keine mag man mein meine mich mir mit muss nach nicht noch nur ob oder ohne schon sehr sein seine seit sich sie sind so und uns unser unter vom von vor war warum was weil wenn wer werden wie wir wird wohnt zu zum zur nutzer nutzerin benutzer arbeitet spielt mochte`),
	"fr": setOf(`a ai alors apres as au aussi aux avec avoir c ca ce ces cet cette chez comme d dans de depuis des dont du elle en est et etait ete etre eu fait il ils j je l la le les leur lui m ma mais me mes moi mon n ne nos notre nous on ont ou par pas pendant plus pour qu que qui quoi s sa sans se ses si son sont suis sur ta te tes toi ton tous tout tres tu un une vous y utilisateur utilisatrice aime habite travaille joue prefere veut`),
	"es": setOf(`a al algo antes como con cual cuando de del desde donde el ella en entre era eres es esa ese eso esta estaba este esto estoy fue ha han hasta hay he la las le les lo los mas me mi mis mucho muy nada ni no nos o otra otro para pero por porque que quien se ser si sin sobre somos son soy su sus tambien te tengo tiene todo tu tus un una uno usted y ya yo usuario usuaria vive trabaja toca gusta prefiere quiere`),
	"it": setOf(`a abbiamo ai al alla alle anche c che chi ci come con cosa cui da dai dal dalla dei del della delle di dove e ed era essere fa gli ha hai hanno ho i il in io l la le lei lo loro lui ma mi mia mio molto ne nei nel nella no noi non nostro o ogni per perche piu quando quella quello questa questo se sei si sia sono sta su sul sua suo ti tra tu tutto un una uno vi voi utente vive lavora suona piace preferisce vuole`),
	"pt": setOf(`a ao aos as ate com como da das de dela dele do dos e ela ele em entre era essa esse esta este estou eu foi ha isso isto ja la lhe mais mas me meu meus minha muito na nao nas no nos nossa nosso o os ou para pela pelo por porque quando que quem se sem ser seu seus so sou sua suas tambem te tem tenho tinha tu tudo um uma usuario usuaria utilizador utilizadora voce mora trabalha toca gosta prefere quer`),
	"nl": setOf(`aan al alles als altijd ben bij daar dan dat de der deze die dit doen door dus een en er ge geen had heb hebben heeft het hier hij hoe hun ik in is ja je kan kunnen maar me meer men met mij mijn moet na naar niet nog nu of om omdat onder ons ook op over te toch toen tot u uit uw van veel voor want was wat we wel werd wie wij wil worden zal ze zich zij zijn zo zonder zou gebruiker gebruikster woont werkt speelt houdt graag`),
	"pl": setOf(`a ale albo bez bo byc byl byla bylo co czy czyli dla do gdy gdzie go i ich im ja jak jako je jego jej jest jestem juz kiedy ktora ktory ku lub ma mam mi mnie moj moja moje moze my na nad nam nas nie niz o od on ona ono oraz po pod przed przez przy sa sie ta tak takze tam te tego ten to tu ty tylko u w we wiec z za ze uzytkownik uzytkownika uzytkowniczka mieszka pracuje gra lubi woli`),
	"tr": setOf(`acaba ama ancak artik asla aslinda az bana bazi belki ben beni benim bir biraz bize bu bunu cok cunku da daha de degil diye en fakat gibi hem hep hic icin ile ise iste ki kim mi mu nasil ne neden nerede o olan olarak olan oldu onun sadece sen siz su tum ve veya ya yok zaman kullanici kullanicinin seviyor oturuyor yasiyor calisiyor caliyor tercih ediyor var`),
	"sv": setOf(`alla att av blev bli de dem den denna det dig din du efter ej eller en ett fran for ha hade han har hon honom hur i icke inte jag kan man med men mig min mitt mycket nar ni nu och om oss pa sa sig sin ska som till under upp ut var vara vi vid ar anvandaren bor arbetar spelar gillar foredrar`),
	"da": setOf(`af alle at blev da de dem den der det dig din du efter eller en er et for fra ham han har havde hun hvad hvor i ikke ind jeg kan man med meget men mig min mit mod noget nu og om op os pa sa sig sin skal som til ud under var ved vi vil brugeren bor arbejder spiller foretraekker`),
	"no": setOf(`alle at av ble da de dem den der det du eller en er et for fra ham han har hadde hun hva hvor i ikke inn jeg kan man med meg men mer min mitt noe na og om opp oss pa sa seg sin skal som til ut var ved vi vil brukeren bor jobber spiller liker foretrekker`),
	"fi": setOf(`ei en et ette han he hyvin ja jo joka jos kaikki kanssa kuin kun me mina minua minulla minun mita mutta myos ne niin nyt ole olen olet oli on ovat se sen sina sita siis tai tama vain viela kayttaja kayttajan asuu soittaa pitaa`),
	"cs": setOf(`a ale ani az bez bude by byl byla bylo byt co do ho i ja jak jako je jeho jeji jen jeste ji jsem jsi jsme jsou k kde kdyz ktera ktery ma mam me mi mne muj my na nad ne nebo neni nez o od on ona po pod podle pro proto protoze pred pri s se si sve ta tak take tam tato te ten to tu ty u uz v ve z za ze uzivatel uzivatelka bydli pracuje hraje`),
	"hu": setOf(`a ahogy aki akkor ami az azonban azt be csak de e egy el ez ezt fel ha hanem hogy igen is itt jol kell ki lehet leg meg mert mi milyen mint mit most nagyon ne nem nincs o ok olyan ott sem szamara van vagy vagyok volt felhasznalo felhasznalonak el lakik dolgozik jatszik szereti`),
	"ro": setOf(`a ai al ale am ar are as asta au ca cand care ce cei cel cu cum da daca de din dar ea ei el era este eu fi fost ii in intr la lui ma mai mea meu mi mult nu o pe pentru prin sa sau se si sunt te tot un una unde va utilizatorul utilizatoarea locuieste lucreaza canta prefera`),
	"id": setOf(`ada adalah agar akan aku anda apa atau bahwa bagi banyak belum bisa dalam dan dapat dari dengan di dia ia ini itu jika juga kami karena ke kepada kita kita lebih mereka oleh pada saya sangat sebagai sebuah sedang seorang sudah tapi telah tetapi tidak untuk yang pengguna tinggal bekerja bermain suka lebih`),
	"vi": setOf(`anh ay ban bi boi cac cai can chi cho co con cua cung da dang day de den di do duoc gi hay hon khi khong la lai lam len minh mot nay neu ngay nguoi nha nhieu nhu nhung noi o ra rat roi sao se tai thi toi trong tu va vao ve vi voi dung song lam viec thich`),
	"ru": setOf(`а без более бы был была были было быть в вам вас весь во вот все всего вы где да для до его ее ей если есть еще же за здесь и из или им их к как когда кто ли меня мне может мой моя мы на над нам нас не него нее нет ни но о об он она они от по под при с сам свою себя со так также там то только том ты у уже чем что чтобы эта эти это этот я пользователь пользователя пользователю пользовательница живет работает играет любит предпочитает`),
	"uk": setOf(`а або але без би був була було бути в вам вас весь від він вона вони все всі ви де для до його її ж за з і із й як який яка коли мене мені мій моя ми на над нас не немає ні но о об он по під при про с та так також там те ти то тільки у уже це цей ця чи чим що щоб я є користувач користувача користувачка живе працює грає любить`),
	"bg": setOf(`а аз ако ала без беше бил в вас ви все във го да до е за и или им има искам их към как като когато който ли м ме ми много му на над не нещо ни но о от по под при с са само се си ски след съм със също така там те ти това той тя ще че потребителят живее работи обича`),
	"ar": setOf(`ال في من على إلى عن مع هو هي أن إن كان كانت لا ما هذا هذه ذلك التي الذي أنا لي عند كل قد لم لن ثم أو و يا بعد قبل غير المستخدم المستخدمة يعيش يعمل يحب تحب يعزف يفضل لدى لديه لديها`),
	"fa": setOf(`از است این آن با به بر برای بود تا که در را من می ها های هم و یا یک او ما شما نه هر اگر کاربر دارد زندگی کار دوست`),
	"ur": setOf(`ہے ہیں کا کی کے کو میں سے اور نے پر یہ وہ ایک بھی تھا تھی ہوں نہیں مجھے میرا میری صارف رہتا کرتا`),
	"hi": setOf(`है हैं का की के को में से और ने पर यह वह एक भी था थी हूँ हूं नहीं मुझे मेरा मेरी मेरे तो ही जो कि लिए उपयोगकर्ता रहता रहती करता करती पसंद`),
	"mr": setOf(`आहे आहेत आणि मी माझा माझी माझे मला तो ती ते हा ही हे नाही आहेत वापरकर्ता राहतो करतो`),
}

// alphabets are scripts that only one of our languages is written in.
var alphabets = []struct {
	table *unicode.RangeTable
	lang  string
}{
	{unicode.Hangul, "ko"}, {unicode.Thai, "th"}, {unicode.Hebrew, "he"}, {unicode.Greek, "el"}, {unicode.Bengali, "bn"},
	{unicode.Tamil, "ta"}, {unicode.Telugu, "te"}, {unicode.Georgian, "ka"}, {unicode.Armenian, "hy"}, {unicode.Lao, "lo"},
	{unicode.Khmer, "km"}, {unicode.Myanmar, "my"}, {unicode.Gujarati, "gu"}, {unicode.Kannada, "kn"}, {unicode.Malayalam, "ml"},
	{unicode.Gurmukhi, "pa"}, {unicode.Sinhala, "si"}, {unicode.Ethiopic, "am"},
}

// shared are scripts of several languages: by their words these are told apart.
var shared = []struct {
	table *unicode.RangeTable
	name  string
	langs []string
}{
	{unicode.Latin, "latin", []string{"en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "sv", "da", "no", "fi", "cs", "hu", "ro", "id", "vi"}},
	{unicode.Cyrillic, "cyrillic", []string{"ru", "uk", "bg"}},
	{unicode.Arabic, "arabic", []string{"ar", "fa", "ur"}},
	{unicode.Devanagari, "devanagari", []string{"hi", "mr"}},
}

// scriptOf returns the script that most letters of a text belong to, and how many do. A character of a script without
// spaces counts as three letters, and kana make Han letters Japanese.
func scriptOf(content string) (name string, letters int) {
	count := map[string]int{}
	for _, r := range content {
		if unicode.IsLetter(r) {
			count[scriptOfRune(r)] += lettersOf(r)
		}
	}
	if kana := count["ja"]; kana > 0 && (kana+count["zh"])*2 > count["latin"] {
		return "ja", kana + count["zh"]
	}
	for script, n := range count {
		if n > letters || n == letters && script < name {
			name, letters = script, n
		}
	}
	return name, letters
}

func lettersOf(r rune) int {
	if isSpaceless(r) {
		return 3
	}
	return 1
}

func scriptOfRune(r rune) string {
	switch {
	case unicode.Is(unicode.Han, r):
		return "zh"
	case unicode.In(r, unicode.Hiragana, unicode.Katakana):
		return "ja"
	}
	for _, s := range shared {
		if unicode.Is(s.table, r) {
			return s.name
		}
	}
	for _, a := range alphabets {
		if unicode.Is(a.table, r) {
			return a.lang
		}
	}
	return "other"
}

func langsOf(script string) []string {
	for _, s := range shared {
		if s.name == script {
			return s.langs
		}
	}
	return nil
}

// languageOf returns the language of a text as ISO 639-1 has it, "" where it cannot be told.
func languageOf(content string) string {
	script, letters := scriptOf(content)
	langs := langsOf(script)
	switch {
	case letters == 0 || script == "other":
		return ""
	case langs == nil:
		return script
	}
	lang, hits, second := bestOf(known(content), langs)
	if hits < 2 || hits == second {
		return ""
	}
	return lang
}

// vocabulary is what of a text tells its language: its different words, and its letters.
type vocabulary struct {
	words   map[string]bool
	letters string
}

func known(content string) vocabulary {
	return vocabulary{setOf(bare(content)), strings.ToLower(norm.NFC.String(content))}
}

// hitsOf counts the words that are known of a language, and two of its own letters as a word each.
func hitsOf(v vocabulary, lang string) int {
	hits := 0
	for word := range v.words {
		if len(word) > 1 && functionWords[lang][word] {
			hits++
		}
	}
	own := 0
	for _, letter := range ownLetters[lang] {
		if own < 2 && strings.ContainsRune(v.letters, letter) {
			own++
		}
	}
	return hits + own
}

// ownLetters are letters that few other languages have.
var ownLetters = map[string]string{
	"de": "äöüß", "fr": "éèêàçùîôœ", "es": "ñáéíóú¿¡", "it": "èàùòì", "pt": "ãõçáéíóâê", "pl": "ąćęłńśźżó", "tr": "ğışçöü",
	"sv": "åäö", "da": "åæø", "no": "åæø", "fi": "äö", "cs": "ěščřžýáíéůú", "hu": "őűáéíóöü", "ro": "ăâîșşțţ", "vi": "ăâđêôơưạảấầếềốồ",
	"uk": "іїєґ", "ru": "ыэъё", "bg": "ъ", "fa": "پچژگک", "ur": "ٹڈڑںھے",
}

func bestOf(words vocabulary, langs []string) (lang string, hits, second int) {
	for _, l := range langs {
		switch n := hitsOf(words, l); {
		case n > hits:
			lang, hits, second = l, n, hits
		case n > second:
			second = n
		}
	}
	return lang, hits, second
}

// differ reports whether a fact is plainly in another language than what was said: of another script, or with words
// that are known of one language where what was said has those of another. In doubt it is not.
func differ(fact, said string) bool {
	const (
		fewLetters = 6
		plainly    = 2 // words more
	)
	scriptA, lettersA := scriptOf(fact)
	scriptB, lettersB := scriptOf(said)
	if lettersA < fewLetters || lettersB < 2 || scriptA == "other" || scriptB == "other" {
		return false
	}
	if scriptA != scriptB {
		return !mixes(said, scriptA)
	}
	langs := langsOf(scriptA)
	if langs == nil {
		return false
	}
	wordsA, wordsB := known(fact), known(said)
	langA, hitsA, _ := bestOf(wordsA, langs)
	langB, hitsB, _ := bestOf(wordsB, langs)
	if langA == langB || hitsA < 2 || hitsB < 2 {
		return false
	}
	return hitsA-hitsOf(wordsA, langB) >= plainly && hitsB-hitsOf(wordsB, langA) >= plainly
}

// mixes reports whether a good part of a text is in a script: then it may be told in that script, too.
func mixes(content, script string) bool {
	in, all := 0, 0
	for _, r := range content {
		if unicode.IsLetter(r) {
			name, n := scriptOfRune(r), lettersOf(r)
			all += n
			if name == script || script == "ja" && name == "zh" || script == "zh" && name == "ja" {
				in += n
			}
		}
	}
	return in*3 > all
}

// userWords are the words by which facts call the user, and titles, in any language.
var userWords = setOf(`user users nutzer nutzers nutzerin benutzer utilisateur utilisatrice usuario usuaria utente utilizador utilizadora gebruiker gebruikster uzytkownik uzytkownika kullanici kullanicinin пользователь пользователя пользователю користувач المستخدم المستخدمة उपयोगकर्ता anvandaren brugeren brukeren kayttaja uzivatel felhasznalo utilizatorul pengguna`)

// spacelessEmpty are pairs of characters that say nothing.
var spacelessEmpty = setOf(`用户 使用 ユー ーザ ザー 利用 用者 사용 용자 用戶 我是 我的 他的 她的 一个 一個 没有 沒有 不是 这个 這個 那个 ผู้ใช้`)
