package extract

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/memories"
)

// parseDate reads YYYY, YYYY-MM or YYYY-MM-DD. An empty text is a zero time.
func parseDate(s string) (time.Time, memories.Precision, bool) {
	s = strings.TrimSpace(s)
	for layout, precision := range map[string]memories.Precision{"2006": memories.Year, "2006-01": memories.Month, time.DateOnly: memories.Day} {
		if at, err := time.Parse(layout, s); err == nil && at.Year() >= 1000 {
			return at, precision, true
		}
	}
	return time.Time{}, "", s == "" || s == "null"
}

// coarser returns the less exact of two precisions; "" is none.
func coarser(a, b memories.Precision) memories.Precision {
	for _, p := range []memories.Precision{memories.Year, memories.Month, memories.Day} {
		if a == p || b == p {
			return p
		}
	}
	return ""
}

// span is a stretch of time that something said can mean, from its first day to its last.
type span struct{ from, to time.Time }

func (s span) meets(from, to time.Time) bool { return !to.Before(s.from) && !from.After(s.to) }

// endOf returns the last day of the day, month or year that begins at from.
func endOf(from time.Time, precision memories.Precision) time.Time {
	switch precision {
	case memories.Year:
		return from.AddDate(1, 0, -1)
	case memories.Month:
		return from.AddDate(0, 1, -1)
	}
	return from
}

// A unit of time, and by how many days something said in it can be off: "last week" is a week ago, more or less.
type unit int

const (
	days unit = iota
	weeks
	months
	years
)

var slack = map[unit]int{days: 2, weeks: 8, months: 45, years: 366}

// near returns the stretch about so many units before or after a day.
func near(day time.Time, n int, u unit) span {
	var at time.Time
	switch u {
	case days:
		at = day.AddDate(0, 0, n)
	case weeks:
		at = day.AddDate(0, 0, 7*n)
	case months:
		at = day.AddDate(0, n, 0)
	default:
		at = day.AddDate(n, 0, 0)
	}
	return span{at.AddDate(0, 0, -slack[u]), at.AddDate(0, 0, slack[u])}
}

// spansOf returns the stretches of time that a message can mean by its words, as seen from the day on which it was said.
// That day itself is always one.
func spansOf(message string, day time.Time) []span {
	found := []span{near(day, 0, days)}
	lower := fold(message)
	for _, r := range relative {
		if r.pattern.MatchString(lower) {
			for _, n := range r.offsets {
				found = append(found, near(day, n, r.unit))
			}
		}
	}
	for _, m := range counted.FindAllStringSubmatch(ages.ReplaceAllString(lower, " "), -1) {
		count, word := cmp.Or(m[1], m[3]), cmp.Or(m[2], m[4])
		if n, ok := countOf(strings.TrimSpace(count)); ok && n < 150 {
			u := unitOf(word)
			found = append(found, near(day, -n, u), near(day, n, u))
		}
	}
	if names := monthsIn(lower); len(names) > 0 && !fourDigits.MatchString(lower) {
		for _, month := range names {
			for year := day.Year() - 1; year <= day.Year()+1; year++ {
				from := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
				found = append(found, span{from, endOf(from, memories.Month)})
			}
		}
	}
	return found
}

var (
	fourDigits = express(`(?:^|\D)(1[89]\d\d|20\d\d)(?:\D|$)`)
	// fullDates are dates with a number for each part, largest first.
	fullDates = express(`(?:^|\D)((?:1[89]|20)\d\d)[-/.年](\d{1,2})(?:[-/.月](\d{1,2}))?`)
	counted   = express(`(?:^|[^\pL\pN])(\pN+\s?|\pL+\s)(` + unitWords + `)(?:$|[^\pL])|([\pN一二三四五六七八九十两兩한두세네]+) ?(` + eastAsianUnits + `)`)
)

const unitWords = `days?|weeks?|months?|years?|tage?n?|wochen?|monate?n?|jahre?n?|jours?|semaines?|mois|ans?|annees?|dias?|semanas?|mes(?:es)?|anos?|giorn[io]|settiman[ae]|mes[ie]|ann[io]|dag(?:en)?|we(?:ek|ken)|maand(?:en)?|ja(?:ar|ren)|dni|dzien|tygodni(?:e|u)?|miesi(?:ac|ace|ecy)|lata?|rok[ui]?|gun|hafta|ay|yil|д(?:ень|ня|неи)|недел[яиью]|месяц(?:а|ев)?|год(?:а|у)?|лет|يوم|ايام|أيام|اسبوع|أسبوع|اسابيع|أسابيع|شهر|اشهر|أشهر|سنة|سنوات|दिन|हफ्ते|सप्ताह|महीने|साल`

// ages are counts of years from which nobody shall compute a year of birth.
var ages = express(`[\pL\pN]+[ -](?:years?|months?|jahre?|monate?|jaar|ar)[ -](?:old|alt|oud|gammal|gammel)|ai \pN+ ans(?:$|[^\pL])|(?:tengo|tiene|tenho|tem) \pN+ anos(?:$|[^\pL])|(?:ho|ha) \pN+ anni(?:$|[^\pL])`)

const eastAsianUnits = `天|日|周|週間|週|个星期|星期|个月|個月|か月|ヶ月|月|年|일|주|달|개월|년`

func unitOf(word string) unit {
	for u, beginnings := range map[unit]string{
		weeks:  `week woch semain semana settiman weken tyg hafta недел 周 週 星期 주 اسب أسب هفت हफ सप्`,
		months: `month monat mois mes maand mies ay месяц 个 個 か ヶ 月 달 개월 شهر اشهر أشهر महीने`,
		years:  `year jahr an ja lat rok yil год лет 年 년 سن साल`,
	} {
		for beginning := range strings.FieldsSeq(beginnings) {
			if strings.HasPrefix(word, beginning) {
				return u
			}
		}
	}
	return days
}

// countOf reads a number in digits or as a word.
func countOf(s string) (int, bool) {
	if n, err := strconv.Atoi(digitsOf(s)); err == nil {
		return n, true
	}
	n, ok := numberWords[s]
	return n, ok
}

// relativeTime are words for a time that only the day on which they are said makes clear, and how many units from there
// it may be. They are written folded.
type relativeTime struct {
	// lang is the language of words that mean something else in another one, "" where none are.
	lang    string
	pattern expression
	unit    unit
	offsets []int
}

func phrases(alternatives string) expression {
	return express(`(?:^|[^\pL\pN])(?:` + alternatives + `)(?:$|[^\pL\pN])`)
}

// anywhere is for scripts without spaces.
func anywhere(alternatives string) expression { return express(alternatives) }

const dayNames = `monday|tuesday|wednesday|thursday|friday|saturday|sunday`

var relative = []relativeTime{
	{"", phrases(`yesterday|the day before yesterday|today|tonight|tomorrow|this (?:morning|afternoon|evening)|last night|(?:last|next|this|past|coming) (?:` + dayNames + `)|(?:on )?(?:` + dayNames + `) (?:last|next)`), days, []int{-7, -4, -1, 0, 1, 4, 7}},
	{"de", phrases(`vorgestern|gestern|heute|ubermorgen|morgen (?:fruh|vormittag|mittag|nachmittag|abend)|(?:bis|ab) morgen|morgen (?:nach|in|zum|zur|einen|eine|um)|heute (?:fruh|morgen|abend|nacht)|gestern abend|(?:letzten|nachsten|kommenden|diesen|vergangenen) (?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)`), days, []int{-7, -4, -1, 0, 1, 4, 7}},
	{"fr", phrases(`avant[- ]hier|hier|hier soir|aujourd'hui|demain|apres[- ]demain|ce (?:matin|soir)|cet apres-midi|(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche) (?:dernier|prochain)`), days, []int{-7, -4, -1, 0, 1, 4, 7}},
	{"es", phrases(`(?:viaja|va|tiene|vuela|sale|hasta|empieza|llega|es|desde) manana|anteayer|antes de ayer|ayer|anoche|hoy|pasado manana|(?:el|este) (?:lunes|martes|miercoles|jueves|viernes|sabado|domingo) (?:pasado|proximo|que viene)|esta (?:manana|tarde|noche)`), days, []int{-7, -4, -1, 0, 1, 4, 7}},
	{"it", phrases(`altro ieri|l'altro ieri|ieri|ieri sera|oggi|domani|dopodomani|stamattina|stasera|(?:lunedi|martedi|mercoledi|giovedi|venerdi|sabato|domenica) (?:scors[oa]|prossim[oa])`), days, []int{-7, -4, -1, 0, 1, 4, 7}},
	{"pt", phrases(`anteontem|ontem|hoje|amanha|depois de amanha|esta (?:manha|tarde|noite)|hoje a noite`), days, []int{-7, -4, -1, 0, 1, 4, 7}},
	{"nl", phrases(`eergisteren|gisteren|gisteravond|vandaag|overmorgen|vanavond|vanochtend|(?:afgelopen|volgende|komende) (?:maandag|dinsdag|woensdag|donderdag|vrijdag|zaterdag|zondag)`), days, []int{-7, -4, -1, 0, 1, 4, 7}},
	{"pl", phrases(`przedwczoraj|wczoraj|dzisiaj|dzis|jutro|pojutrze`), days, []int{-2, -1, 0, 1, 2}},
	{"tr", phrases(`evvelsi gun|dun|bugun|yarin|dun gece|bu sabah|bu aksam`), days, []int{-2, -1, 0, 1, 2}},
	{"", phrases(`i gar|i forrgar|idag|i dag|imorgon|i morgon|i morgen|i overmorgen`), days, []int{-2, -1, 0, 1, 2}},
	{"", phrases(`eilen|toissapaivana|tanaan|huomenna|vcera|predevcirem|dnes|zitra|tegnap|holnap|astazi|kemarin|hari ini|besok|hom qua|hom nay|ngay mai`), days, []int{-2, -1, 0, 1, 2}},
	{"", phrases(`позавчера|вчера|сегодня|завтра|послезавтра|вчора|сьогодні|завтра|вчера|днес|утре`), days, []int{-2, -1, 0, 1, 2}},
	{"", phrases(`امس|أمس|اليوم|غدا|غدًا|بعد غد|البارحة|دیروز|امروز|فردا|आज|कल|परसों`), days, []int{-2, -1, 0, 1, 2}},
	{"", anywhere(`昨天|前天|今天|明天|后天|後天|昨日|一昨日|今日|明日|明後日|昨夜|今晚|昨晚|今朝|今夜|어제|그저께|오늘|내일|모레|เมื่อวาน|วันนี้|พรุ่งนี้`), days, []int{-2, -1, 0, 1, 2}},
	{"", phrases(`last week|this week|next week|past week|last weekend|this weekend|next weekend|a week ago|letzte[nr]? woche|vorige[nr]? woche|diese[nr]? woche|nachste[nr]? woche|kommende[nr]? woche|letztes wochenende|nachstes wochenende`), weeks, []int{-1, 0, 1}},
	{"", phrases(`la semaine (?:derniere|prochaine|passee)|cette semaine|le week-end (?:dernier|prochain)|la semana (?:pasada|que viene|proxima)|la proxima semana|esta semana|la settimana (?:scorsa|prossima)|(?:la )?(?:scorsa|prossima) settimana|questa settimana|(?:n?a )?semana (?:passada|que vem)|(?:n?a )?proxima semana`), weeks, []int{-1, 0, 1}},
	{"", phrases(`vorige week|afgelopen week|deze week|volgende week|w zeszlym tygodniu|w tym tygodniu|w przyszlym tygodniu|zeszlego tygodnia|gecen hafta|bu hafta|gelecek hafta|onumuzdeki hafta|forra veckan|nasta vecka|sidste uge|naeste uge|forrige uke|neste uke`), weeks, []int{-1, 0, 1}},
	{"", phrases(`на прошлои неделе|на этои неделе|на следующеи неделе|прошлои недел[еи]|минулого тижня|наступного тижня|الاسبوع الماضي|الأسبوع الماضي|الاسبوع القادم|الأسبوع القادم|पिछले हफ्ते|अगले हफ्ते|पिछले सप्ताह|अगले सप्ताह`), weeks, []int{-1, 0, 1}},
	{"", anywhere(`上周|上週|上个星期|上星期|下周|下週|这周|這週|本周|先週|今週|来週|지난주|지난 주|이번 주|다음 주|สัปดาห์ที่แล้ว|สัปดาห์หน้า`), weeks, []int{-1, 0, 1}},
	{"", phrases(`last month|this month|next month|past month|a month ago|letzten monat|letztem monat|vorigen monat|diesen monat|nachsten monat|le mois (?:dernier|prochain|passe)|ce mois-ci|el mes (?:pasado|que viene)|el proximo mes|este mes|il mese (?:scorso|prossimo)|(?:lo )?scorso mese|(?:n?o )?mes (?:passado|que vem)|(?:n?o )?proximo mes`), months, []int{-1, 0, 1}},
	{"", phrases(`vorige maand|afgelopen maand|volgende maand|deze maand|w zeszlym miesiacu|w przyszlym miesiacu|w tym miesiacu|gecen ay|bu ay|gelecek ay|forra manaden|nasta manad|в прошлом месяце|в этом месяце|в следующем месяце|минулого місяця|الشهر الماضي|الشهر القادم|هذا الشهر|पिछले महीने|अगले महीने`), months, []int{-1, 0, 1}},
	{"", anywhere(`上个月|上個月|下个月|下個月|这个月|這個月|先月|今月|来月|지난달|지난 달|이번 달|다음 달|เดือนที่แล้ว|เดือนหน้า`), months, []int{-1, 0, 1}},
	{"", phrases(`last year|this year|next year|past year|a year ago|last (?:spring|summer|autumn|fall|winter|christmas)|next (?:spring|summer|autumn|fall|winter|christmas)|this (?:spring|summer|autumn|winter)|letztes jahr|letztem jahr|letzten (?:sommer|winter|herbst|fruhling)|voriges jahr|dieses jahr|nachstes jahr|nachsten (?:sommer|winter|herbst|fruhling)|l'an(?:nee)? (?:dernier|prochain|passe)e?|l'ete dernier|cette annee|el ano (?:pasado|que viene)|el proximo ano|este ano|l'anno (?:scorso|prossimo)|quest'anno|(?:n?o )?ano (?:passado|que vem)|(?:n?o )?proximo ano`), years, []int{-1, 0, 1}},
	{"", phrases(`vorig jaar|afgelopen jaar|volgend jaar|dit jaar|w zeszlym roku|w przyszlym roku|w tym roku|gecen yil|gecen sene|bu yil|gelecek yil|forra aret|nasta ar|i fjor|sidste ar|naeste ar|neste ar|в прошлом году|в этом году|в следующем году|минулого року|наступного року|العام الماضي|السنة الماضية|العام القادم|السنة القادمة|هذا العام|पिछले साल|अगले साल|इस साल`), years, []int{-1, 0, 1}},
	{"", anywhere(`去年|今年|明年|前年|昨年|来年|작년|올해|내년|ปีที่แล้ว|ปีหน้า|ปีนี้`), years, []int{-2, -1, 0, 1}},
}

// ago are counts of units before or after now, in which the words around the count make it relative: "three days ago".
var ago = []expression{
	phrases(`(?:\pN+|\pL+) (?:days?|weeks?|months?|years?) ago|in (?:\pN+|a|two|three|four|five|six|ten) (?:days?|weeks?|months?|years?)(?: time)?`),
	phrases(`vor (?:\pN+|\pL+) (?:tagen?|wochen?|monate?n?|jahre?n?)|in (?:\pN+|einem|einer|zwei|drei|vier|funf|sechs) (?:tagen?|wochen?|monate?n?|jahre?n?)`),
	phrases(`il y a (?:\pN+|\pL+) (?:jours?|semaines?|mois|ans?|annees?)|dans (?:\pN+|un|une|deux|trois|quatre|cinq|six) (?:jours?|semaines?|mois|ans?)`),
	phrases(`hace (?:\pN+|\pL+) (?:dias?|semanas?|mes(?:es)?|anos?)|dentro de (?:\pN+|\pL+) (?:dias?|semanas?|mes(?:es)?|anos?)`),
	phrases(`(?:\pN+|\pL+) (?:giorn[io]|settiman[ae]|mes[ei]|ann[io]) fa|(?:tra|fra) (?:\pN+|\pL+) (?:giorn[io]|settiman[ae]|mes[ei]|ann[io])`),
	phrases(`ha (?:\pN+|\pL+) (?:dias?|semanas?|mes(?:es)?|anos?)|(?:\pN+|\pL+) (?:dias?|semanas?|mes(?:es)?|anos?) atras|daqui a (?:\pN+|\pL+) (?:dias?|semanas?|mes(?:es)?|anos?)`),
	phrases(`(?:\pN+|\pL+) (?:dag(?:en)?|we(?:ek|ken)|maand(?:en)?|jaar) geleden|over (?:\pN+|\pL+) (?:dagen|weken|maanden)`),
	phrases(`(?:\pN+|\pL+) (?:dni|tygodni[eu]?|miesiac[ea]?|miesiecy|lat|lata|rok) temu|za (?:\pN+|\pL+) (?:dni|tygodni[eu]?|miesiace|miesiecy)`),
	phrases(`(?:\pN+|\pL+) (?:gun|hafta|ay|yil) (?:once|sonra)|for (?:\pN+|\pL+) (?:dagar|veckor|manader|ar) sedan`),
	phrases(`(?:\pN+|\pL+ )?(?:день|дня|днеи|неделю|недели|недель|месяц|месяца|месяцев|год|года|лет) назад|через (?:\pN+ |\pL+ )?(?:день|дня|днеи|неделю|недели|недель|месяц|месяца|месяцев|год|года|лет)`),
	phrases(`(?:قبل|منذ) (?:\pN+|\pL+) (?:ايام|أيام|يوم|اسابيع|أسابيع|اسبوع|أسبوع|اشهر|أشهر|شهر) ?(?:مضت)?|(?:\pN+|\pL+) (?:दिन|हफ्ते|महीने|साल) पहले`),
	anywhere(`[\pN一二三四五六七八九十两兩几幾]+(?:天|日|周|週|个星期|个月|個月|年)(?:前|后|後|以前|之前)|[\pN一二三四五六七八九十]+(?:日|週間|か月|ヶ月|年)(?:前|後)|[\pN한두세네]+ ?(?:일|주|달|개월|년) ?전`),
}

// relativeDate reports whether a fact names a time that only the day on which it was said makes clear. What is written
// with a capital within a sentence, or in quotes, is a title: "Yesterday", "USA Today".
func relativeDate(fact string) bool {
	plain, lang := fold(withoutTitles(fact)), languageOf(fact)
	for _, r := range relative {
		other := r.lang != "" && lang != "" && r.lang != lang
		if !other && r.pattern.MatchString(plain) && !isGeneral(plain) {
			return true
		}
	}
	for _, pattern := range ago {
		if pattern.MatchString(plain) {
			return true
		}
	}
	return false
}

// isGeneral reports whether a text speaks of days as such: "the last week of every month".
var general = phrases(`(?:last|next|first) (?:week|month|day|year|night) (?:of|before|after)|(?:dernier|derniere) (?:semaine|jour) (?:de|du)`)

func isGeneral(plain string) bool { return general.MatchString(plain) }

var inQuotes = express(`"[^"\n]{1,80}"|“[^”\n]{1,80}”|„[^“”\n]{1,80}[“”]|«[^»\n]{1,80}»|『[^』\n]{1,80}』|「[^」\n]{1,80}」`)

// withoutTitles returns a fact without what stands in quotes, and without words within a sentence that have a capital: all
// but the days of the week. In German every noun has one.
func withoutTitles(fact string) string {
	fact = inQuotes.ReplaceAllString(fact, "·")
	if languageOf(fact) == "de" {
		return fact
	}
	var b strings.Builder
	copied := 0
	for _, at := range nameWord.FindAllStringIndex(fact, -1) {
		word := fact[at[0]:at[1]]
		first, _ := utf8.DecodeRuneInString(word)
		if unicode.IsUpper(first) && !startsSentence(fact[:at[0]]) && !dayName.MatchString(fold(word)) {
			b.WriteString(fact[copied:at[0]] + "·")
			copied = at[1]
		}
	}
	return b.String() + fact[copied:]
}

var dayName = express(`^(?:` + dayNames + `)$`)

// monthNames are the folded beginnings of the names of months.
var monthNames = monthsOf(
	"january januar janvier enero gennaio janeiro januari stycznia styczen января январь січня ocak يناير जनवरी",
	"february februar fevrier febrero febbraio fevereiro februari lutego luty февраля февраль лютого subat فبراير फरवरी",
	"march marz mars marzo marco maart marca marzec марта март березня mart مارس मार्च",
	"april avril abril aprile kwietnia kwiecien апреля апрель квітня nisan أبريل ابريل अप्रैल",
	"may mai mayo maggio maio mei maja maj мая май травня mayis مايو मई",
	"june juni juin junio giugno junho czerwca czerwiec июня июнь червня haziran يونيو जून",
	"july juli juillet julio luglio julho lipca lipiec июля июль липня temmuz يوليو जुलाई",
	"august aout agosto augustus sierpnia sierpien августа август серпня agustos أغسطس اغسطس अगस्त",
	"september septembre septiembre settembre setembro wrzesnia wrzesien сентября сентябрь вересня eylul سبتمبر सितंबर",
	"october oktober octobre octubre ottobre outubro pazdziernika pazdziernik октября октябрь жовтня ekim أكتوبر اكتوبر अक्टूबर",
	"november novembre noviembre novembro listopada listopad ноября ноябрь листопада kasim نوفمبر नवंबर",
	"december dezember decembre diciembre dicembre dezembro grudnia grudzien декабря декабрь грудня aralik ديسمبر दिसंबर")

func monthsOf(rows ...string) map[string]time.Month {
	names := map[string]time.Month{}
	for n, row := range rows {
		for name := range setOf(row) {
			names[name] = time.Month(n + 1)
		}
	}
	return names
}

var eastAsianMonth = express(`(\d{1,2})(?:月|월)`)

// monthsIn returns the months that a folded text names, in whatever form of the word.
func monthsIn(folded string) []time.Month {
	seen := map[time.Month]bool{}
	for _, word := range wordsOf(folded) {
		month, ok := monthNames[word]
		if !ok && len([]rune(word)) > 5 {
			for name, m := range monthNames {
				if len([]rune(name)) > 4 && strings.HasPrefix(word, name) {
					month, ok = m, true
				}
			}
		}
		if ok {
			seen[month] = true
		}
	}
	for _, m := range eastAsianMonth.FindAllStringSubmatch(folded, -1) {
		if n, _ := strconv.Atoi(m[1]); n >= 1 && n <= 12 {
			seen[time.Month(n)] = true
		}
	}
	var months []time.Month
	for m := time.January; m <= time.December; m++ {
		if seen[m] {
			months = append(months, m)
		}
	}
	return months
}
