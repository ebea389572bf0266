package longterm

import (
	"slices"
	"strings"
	"unicode"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

// holdsSecret reports whether a text holds a secret, which may not be kept: a key, a token, a password, a PIN, the number of a card
// or an account.
func holdsSecret(content string) bool {
	plain := lang.Fold(content)
	return anyMatches(keys, content) || holdsCard(digitsOf(content)) || holdsIBAN(content) || holdsRandom(content) ||
		holdsPassword(plain) || seedPhrase().MatchString(plain)
}

// keys are the forms of well-known keys and tokens.
var keys = written("keys")

// holdsCard reports whether 13 to 19 digits, perhaps in groups, are the number of a card by Luhn's formula.
var cardDigits = express(`(?:\d[ -]?){12,18}\d`)

func holdsCard(content string) bool {
	for _, match := range cardDigits().FindAllString(content, -1) {
		digits := separator().ReplaceAllString(match, "")
		if luhn(digits) && strings.Trim(digits, digits[:1]) != "" {
			return true
		}
	}
	return false
}

func luhn(digits string) bool {
	sum := 0
	for n := range len(digits) {
		d := int(digits[len(digits)-1-n] - '0')
		if n%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

var iban = express(`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b`)

// holdsIBAN reports whether a text holds the number of an account whose check digits are right.
func holdsIBAN(content string) bool {
	for _, match := range iban().FindAllString(content, -1) {
		match = strings.ReplaceAll(match, " ", "")
		rest := 0
		for _, r := range match[4:] + match[:4] {
			if r >= 'A' {
				rest = (rest*100 + int(r-'A') + 10) % 97
			} else {
				rest = (rest*10 + int(r-'0')) % 97
			}
		}
		if rest == 1 {
			return true
		}
	}
	return false
}

var longToken = express(`[A-Za-z0-9+=]{22,}`)

// holdsRandom reports whether a text holds a long token that looks drawn by lot: digits among letters of both cases, or
// hexadecimal digits. An id as UUIDs are written is none.
func holdsRandom(content string) bool {
	return slices.ContainsFunc(longToken().FindAllString(uuidForm().ReplaceAllString(content, " "), -1), looksRandom)
}

var (
	uuidForm = express(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	hexKey   = express(`^[0-9a-f]{32,}$|^[0-9A-F]{32,}$`)
)

func looksRandom(token string) bool {
	if hexKey().MatchString(token) {
		return true
	}
	changes, upper, lower, digit := 0, 0, 0, 0
	before := 0
	for _, r := range token {
		kind := 0
		switch {
		case unicode.IsDigit(r):
			kind, digit = 1, digit+1
		case unicode.IsUpper(r):
			kind, upper = 2, upper+1
		case unicode.IsLower(r):
			kind, lower = 3, lower+1
		}
		if kind != before {
			changes++
		}
		before = kind
	}
	return digit >= 3 && lower >= 3 && (upper >= 3 && changes >= 7 || upper == 0 && changes >= 9)
}

// secretWords are words for secrets, of languages with spaces and of those without.
func secretWords(spaces bool) string {
	var sections []lang.Section
	for _, s := range lang.Each("secret words") {
		if lang.HasSpaces(s.Language) == spaces || s.Language == "th" && spaces {
			sections = append(sections, s)
		}
	}
	return lang.Folded(sections...)
}

// The value is what the first parentheses of an expression hold that count.
var (
	secretNamed = made(func() string {
		return `(?:^|[^\pL\pN])(?:` + secretWords(true) + `)((?:[^\pL\pN:=][^.!?:\n]{0,40}?)?)` +
			`(?:\s*[:=—]|[^\pL](?:` + words("secret is", lang.Fold) + `)[\s"'])\s*["']?([^\s"']+)`
	})
	secretUnspaced = made(func() string {
		return `(?:` + secretWords(false) + `)[^。\n]{0,12}?(?::|` + words("secret is", lang.Fold) + `)\s*"?([0-9a-zA-Z!@#$%^&*_.-]{3,})`
	})
	// bareValue is a word for a secret with a value right behind it: "PIN 4711", "пароль hunter2".
	bareValue  = made(func() string { return `(?:^|[^\pL\pN])(?:` + secretWords(true) + `)\s+"?([^\s"]*\d[^\s"]*)` })
	valueFirst = made(func() string {
		return `"?([^\s"]*\d[^\s"]*)"?,? (?:` + words("secret first", lang.Fold) + `) (?:` + words("secret of", lang.Fold) + `) (?:\pL+ ){0,2}(?:` +
			secretWords(true) + `)(?:$|[^\pL\pN])`
	})
	seedPhrase = framed(`...[^.\n]{0,30}?(?:is|are|:|=|ist|sind|est|es) (?:\pL+[ ,]+){5,}`, "seed phrase")
)

// notSecret are words after "the password is" that are no password.
var notSecret = wordSet("not secret")

// noSecretBehind are words behind "password" that make it another thing.
var noSecretBehind = wordSet("not secret behind")

// holdsPassword reports whether a folded text gives a password or the like with its value.
func holdsPassword(plain string) bool {
	for _, m := range secretNamed().FindAllStringSubmatch(plain, -1) {
		if between := strings.Fields(m[1]); len(between) > 0 && noSecretBehind[between[0]] {
			continue
		}
		if isValue(m[2]) {
			return true
		}
	}
	for _, pattern := range []expression{secretUnspaced, bareValue, valueFirst} {
		for _, m := range pattern().FindAllStringSubmatch(plain, -1) {
			if isValue(m[1]) {
				return true
			}
		}
	}
	// In Hindi the value stands before the verb, so that what follows the word may be it.
	return hindiSecret().MatchString(plain)
}

var hindiSecret = express(`(?:पासवर्ड|पिन)\s+["']?[^\s"']*[0-9a-z][^\s"']*`)

func isValue(value string) bool {
	value = strings.Trim(value, ".,;!?()")
	return value != "" && !notSecret[value]
}
