package text

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTokensCountsAsO200kBase(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"":                           0,
		"hello world":                2,
		"The quick brown fox jumps.": 6,
		"<|endoftext|>":              7, // special tokens are plain text when people write them
		"a\xffb":                     3,
		"a\x7fb":                     3,
	} {
		assert.Equalf(t, want, Tokens(text), "Tokens(%q)", text)
	}
}

// The bar stands between tokens. The divisions were made with the published pattern in a library for regular expressions.
func TestTokensOfManyScripts(t *testing.T) {
	t.Parallel()
	for _, marked := range []string{
		"I'm| sure| it's| JOHN|'S|,| isn't| IT|'S|a| wir|'D",
		"snake|_case| camel|Case| HTTP|Server| v|1|.|2| don|'|ſ",
		"123|456|78| nights|,| |3|.|5|%|\t|(or| |²|½|\xe2\x85|\xa7|)",
		"x| | y|  | z| \t|\n\n|\t\r\n| | end|  ", "a|\n\t\n|b",
		"if| (|a| !=| b|)| {\r\n|\treturn| nil| //|...\n|}\n",
		"Gr|ü|ße| aus| München|,| ça| va",
		"i|\xcc|\x87| |́|́|ABC| é| |\xc7|\x85| |\xca|\xb0|A",
		"न|म|स्त|े| दुनिया|।",
		"日本|語|の|テ|キ|スト|。|演|奏|会|だ|！",
		"مرح|با| بالع|الم",
		"שלום| עולם",
		"С|ъ|ешь| ещё| бул|ок",
		"ส|วั|สด|ี|ช|าว|โลก",
		"한국|어| 문|장",
		"\xf0\x9d|\x94|\xb8|\xf0\x9d|\x95|\x93|\xf0|\x90|\x90|\x80|\xf0|\x90|\x90|\xa8| \xf0\x9f\x91|\xa9|\u200d|👍|\xf0\x9f\x8f|\xbd",
		"abab|abab|abab|abab|abab|abab|abab|abab|abab|abab|D|ona|ud|amp|fsch|if|ff|ahr|ts|gesellschaft|skap|it|än",
	} {
		text := strings.ReplaceAll(marked, "|", "")
		got, from := []string{}, 0
		for _, end := range tokenEnds(text) {
			got, from = append(got, text[from:end]), end
		}
		assert.Equal(t, strings.Split(marked, "|"), got)
	}
}

// The checksum is that of the file that OpenAI publishes.
func TestTheTableIsOpenAIs(t *testing.T) {
	t.Parallel()
	file := sha256.New()
	for rank, rest := 0, tokenTable(); rest != ""; rank++ {
		end := 1 + int(rest[0])
		fmt.Fprintf(file, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(rest[1:end])), rank)
		rest = rest[end:]
	}
	assert.Equal(t, "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d", hex.EncodeToString(file.Sum(nil)))
}

// Tokens cover the whole text.
func FuzzTokens(f *testing.F) {
	for _, text := range []string{
		"", " ", "one", "a b", "a  b\n\n\tc ", "I'm sure it's John's, isn't IT'S a b'c d's", "x  y   z", "one\ttwo\nthree \r\n four",
		"3 days, 12345 nights (or so) at 10:30",
		"Grüße aus München, ça va", "i\u0307 e\u0301 a \u0301b", "नमस्ते दुनिया and 日本語 text",
		"日本語のテキスト。", "👩‍👩‍👧‍👦 fam", "a\xff b\x7f c", "snake_case camelCase HTTPServer v1.2", strings.Repeat(" ", 1000),
		"word " + strings.Repeat("b", 24) + " end", strings.Repeat("the same words again and again ", 20),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = validUTF8(text)
		ends := tokenEnds(text)
		assert.Lenf(t, ends, Tokens(text), "%q", text)
		assert.Truef(t, text == "" || ends[len(ends)-1] == len(text), "%q: the tokens end at %v of %d", text, ends, len(text))
	})
}

func TestTokensIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				assert.Equal(t, 3, Tokens("one two three"), "a concurrent count is wrong")
			}
		})
	}
	group.Wait()
}

// Texts that make quadratic tokenizers hang for minutes; the test's own deadline is the measure.
func TestTokensOnHostileText(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"a", " ", "\n", "é", "👍", "aB", "9", "'", "\u200b", "ا"} {
		assert.Truef(t, Tokens(strings.Repeat(unit, 60_000/len(unit))) != 0, "60 KB of %q count as nothing", unit)
	}
}

// The bar marks where a sentence ends.
func TestSentenceEnds(t *testing.T) {
	t.Parallel()
	for _, marked := range []string{
		"",
		"no stop at all",
		"One.| Two!| Three?|",
		"He said \"Stop.\"| Then he left.|",
		"It costs 3.5 euros.| So what?!| Really…| Yes.|",
		"See e.g. Bach, i.e. the suites.| Dr. Wu agrees.| J. S. Bach too.|",
		"The recital is on June 12.| The user dislikes scales.|",
		"Das Konzert ist am 12. Juni.| Die Probe ist am 3. und 4. Mai.|",
		"1. First item.| It goes on",
		"weiter. klein geschrieben",
		"利用者は弾く。|演奏会だ！|「嫌いだ。」|はい",
		"वह बजाता है।| ठीक है॥|",
		"متى؟| الآن.|",
		"- practise the long scales|\n- learn the prelude|\nShort\nA heading of some length:\n# Another heading here\nEnd.|",
	} {
		text := strings.ReplaceAll(marked, "|", "")
		got, from := "", 0
		for _, end := range sentenceEnds(text) {
			got += text[from:end] + "|"
			from = end
		}
		assert.Equal(t, marked, got+text[from:], "")
	}
}

func TestCharacterEndSplitsNoCharacter(t *testing.T) {
	t.Parallel()
	text := "aé👩\u200d🎤👍🏽हि"
	var borders []string
	for at := range len(text) + 1 {
		if at > 0 && characterEnd(text, at-1, at) == at {
			borders = append(borders, text[:at])
		}
	}
	assert.Equal(t, []string{"a", "aé", "aé👩\u200d🎤", "aé👩\u200d🎤👍🏽", text}, borders, "borders")
}

func TestSentencesAreTheWholeText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "One.", "One. Two!  Three", "Dr. Wu saw it on 3.5 km.\n\nThen\nit rained. ", "東京です。はい。"} {
		parts := Sentences(text)
		assert.Truef(t, strings.Join(parts, "") == text, "%q became %q", text, parts)
	}
	assert.Equal(t, []string{"One. ", "Two!  ", "Three"}, Sentences("One. Two!  Three"))
}
