package extract

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// lasting are words of facts that hardly ever change and that a user would not want to say twice: health, names, family,
// birth dates and languages. They are folded.
var lasting = []expression{
	// health
	beginnings(`allerg alerg anaphyla intoleran celiac coeliac zoliak diabet asthma asma epilep migrain migran hypertens bluthochdruck arthrit depress adhd adhs tdah autis dyslex insulin pacemaker herzschritt hearing aid blutgruppe schwanger pregnan enceinte embaraz incinta gravida vegan vegetari krankheit erkrank disease illness disorder syndrom chronic chronisch maladie enfermedad malattia doenca ziekte chorob hastalik uczulen alerji алерг аллерг диабет астм болезн беремен аллергия حساسية السكري الربو مرض حامل एलर्जी मधुमेह`),
	anywhere(`过敏|過敏|糖尿病|哮喘|高血压|高血圧|怀孕|妊娠|アレルギー|喘息|持病|알레르기|당뇨|천식|임신|แพ้|เบาหวาน`),
	// names
	phrases(`names? is|name's|is (?:called|named)|goes by|nickname\w*|pronouns?|heisst|mit (?:vor|nach)?namen|spitzname\w*|s'appelle|prenom|nom de famille|surnom|se llama|nombre es|apellid\w*|si chiama|cognome|chama-se|se chama|nome (?:e|do|da)|apelid\w*|heet|ma na imie|nazywa sie|imie|adi|ismi|soyadi|зовут|имя|фамилия|ім'я|звати|اسمه|اسمها|اسم المستخدم|يدعى|नाम`),
	anywhere(`名字(?:是|叫)|姓名|名叫|叫做|名前は|という名前|と呼ばれ|이름(?:은|이)`),
	// family
	beginnings(`mother father mom mum dad sister brother wife husband spouse son daughter child children kid kids twin parent grandmother grandfather grandparent grandson granddaughter niece nephew cousin fiance partner girlfriend boyfriend married divorced widow sibling aunt uncle in-law stepson stepdaughter
mutter vater schwester bruder ehefrau ehemann sohn tochter kinder geschwister eltern grossmutter grossvater oma opa nichte neffe cousine verheiratet geschieden verwitwet partnerin freundin
mere pere soeur frere epouse epoux mari femme fils fille enfant jumeau grand-mere grand-pere niece neveu mariee divorce madre padre hermana hermano esposa esposo marido mujer hijo hija hijos abuela abuelo sobrin casad divorciad sorella fratello moglie marito figlio figlia figli nonna nonno nipote sposat divorziat mae pai irma irmao filho filha avo sobrinh
moeder vader zus broer vrouw echtgenoot zoon dochter kinderen getrouwd matka ojciec siostra brat zona maz syn corka dzieci anne baba kardes esi oglu kizi cocuk мать мама отец папа сестр брат жена муж сын доч дети ребен бабушк дедушк женат замужем чоловік дружин أم والد أخت أخ زوج زوجة ابن ابنة بنت أطفال शादी पत्नी पति बेटा बेटी माँ पिता बहन भाई`),
	anywhere(`妈妈|媽媽|母亲|母親|爸爸|父亲|父親|姐姐|妹妹|哥哥|弟弟|妻子|丈夫|老婆|老公|儿子|兒子|女儿|女兒|孩子|已婚|结婚|離婚|离婚|家族|母|父|姉|兄|妻|夫|息子|娘|子供|子ども|結婚|어머니|아버지|엄마|아빠|아내|남편|아들|딸|자녀|결혼|누나|언니|오빠|동생`),
	// birth
	phrases(`birthday\w*|born|birth ?date|date of birth|year of birth|geburtstag\w*|geboren|geburtsdatum|anniversaire|nee?|naissance|cumpleanos|nacio|nacid[oa]|nacimiento|compleanno|nat[oa]|nascita|aniversario|nasceu|nascid[oa]|nascimento|verjaardag|urodziny|urodzil\w*|dogum gunu|dogdu|день рождения|родил\pL*|народи\pL*|عيد ميلاد\pL*|ولد|ولدت|जन्मदिन|जन्म`),
	anywhere(`生日|出生|誕生日|生まれ|생일|태어났`),
	// languages
	phrases(`native (?:language|speaker)|mother tongue|speaks|fluent in|bilingual|muttersprach\w*|spricht|zweisprachig|langue maternelle|parle|bilingue|lengua materna|idioma materno|habla|madrelingua|parla|lingua madre|lingua materna|fala|moedertaal|spreekt|jezyk ojczysty|mowi po|ana dili|konusuyor|родно[ий] язык|говорит|розмовляє|لغته|يتحدث|تتحدث|मातृभाषा|बोलता|बोलती`),
	anywhere(`母语|母語|会说|說.{0,4}语|说.{0,4}语|を話す|を話し|모국어|말을 한다|어를 한다|어를 구사`),
}

// beginnings matches words that begin so.
func beginnings(list string) expression {
	var stems []string
	for stem := range setOf(list) {
		stems = append(stems, regexp.QuoteMeta(stem))
	}
	slices.Sort(stems)
	const shortStem = 4 // characters: a shorter stem is a word of its own
	var long, short []string
	for _, stem := range stems {
		if utf8.RuneCountInString(stem) <= shortStem {
			short = append(short, stem)
		} else {
			long = append(long, stem)
		}
	}
	return express(`(?:^|[^\pL\pN])(?:(?:` + strings.Join(long, "|") + `)|(?:` + strings.Join(append(short, "-"), "|") + `)(?:s|'s|e|en|n)?(?:$|[^\pL\pN]))`)
}

// isLasting reports whether a fact is of the kind that does not decay.
func isLasting(fact string) bool {
	plain := fold(fact)
	for _, pattern := range lasting {
		if pattern.MatchString(plain) {
			return true
		}
	}
	return false
}

// isExcluded reports whether a text is about one of the subjects that the user does not want remembered: it has each word
// of the subject, in whatever form.
func isExcluded(subjects []string, texts ...string) bool {
	for _, subject := range subjects {
		wanted := wordsOf(subject)
		if len(wanted) == 0 {
			continue
		}
		for _, content := range texts {
			if namesSubject(content, wanted) {
				return true
			}
		}
	}
	return false
}

func namesSubject(content string, wanted []string) bool {
	words, whole := wordsOf(content), bare(content)
	for _, want := range wanted {
		if strings.ContainsFunc(want, isSpaceless) {
			if !strings.Contains(whole, want) {
				return false
			}
			continue
		}
		found := slices.ContainsFunc(words, func(word string) bool {
			const ofCompound = 5
			return sameStem(want, word) || len(want) >= ofCompound && strings.Contains(word, want)
		})
		if !found {
			return false
		}
	}
	return true
}
