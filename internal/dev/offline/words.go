package offline

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	memorytext "github.com/arcoscribe/throughline/internal/memory/text"
)

// hash seeds everything that varies between prompts.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails, by its documentation
	sum := h.Sum64()
	sum ^= sum >> 29 // FNV alone leaves the upper bits of short texts alike
	return sum * 0xbf58476d1ce4e5b9
}

// words returns the words of a text in lower case. Scripts without spaces give a word per character.
func words(text string) []string {
	var found []string
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), outsideWords) {
		word = strings.Trim(word, "'’")
		if first, _ := utf8.DecodeRuneInString(word); memorytext.Unspaced(first) {
			found = append(found, strings.Split(word, "")...)
		} else if word != "" {
			found = append(found, word)
		}
	}
	return found
}

func outsideWords(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '\'' && r != '’'
}

// kin are words that ask for what other words state.
var kin = map[string]string{
	"call": "name", "called": "name", "move": "live", "moved": "live", "job": "work", "birthday": "born", "favorite": "favourite",
}

var endings = strings.Fields("'s ’s ies ing ed ly ic es s y e")

// stem cuts the commonest English endings, so that "lives" and "living" meet, and "allergy" and "allergic".
func stem(word string) string {
	if other, ok := kin[word]; ok {
		word = other
	}
	for _, ending := range endings {
		base, ok := strings.CutSuffix(word, ending)
		isRoot := ending == "y" && strings.ContainsAny(base[max(0, len(base)-1):], "aeiou") // "play"
		if ok && len(base) >= 3 && !isRoot {
			word = base
			break
		}
	}
	if n := len(word); n > 3 && word[n-1] == word[n-2] { // "runn" of "running"
		word = word[:n-1]
	}
	return word
}

// contentStems returns the stems of a text's content words, each once, in order.
func contentStems(text string) []string {
	if languageOf(text) == "de" {
		return stemsWithout(germanWords, text)
	}
	return stemsWithout(stopWords, text)
}

// stemsWithout returns the stems of a text's words but for some, each once, in order.
func stemsWithout(some map[string]bool, text string) []string {
	var stems []string
	seen := map[string]bool{}
	for _, word := range words(text) {
		if s := stem(word); !some[word] && !seen[s] {
			seen[s] = true
			stems = append(stems, s)
		}
	}
	return stems
}

// stopWords say nothing about what a sentence is about, among them the words of asking itself.
var stopWords = wordSet(`a about above after again all also am an and any are aren't as at be because been before being
	below between both but by can can't could couldn't did didn't do does doesn't doing don't down during each few for
	from further had has have having he he's her here hers him his how i i'd i'll i'm i've if in into is isn't it it's
	its just let's me more most my no nor not now of off on once one only or other our out over own please same she
	should so some such than that that's the their them then there these they this those through to too under until
	up us very was wasn't we we're were what what's when where which while who who's whom whose why will with won't
	would you you're your yours again ever exactly earlier before know known like mention mentioned recall remember
	remind said say tell told talk talked asked ask think yes ok okay thanks thank`)

// germanWords are the same of German. Most of them are in no English text.
var germanWords = wordSet(`aber als am an auf auch danke aus bei bin bist bitte da das dass dein deine dem den der des dich die dir doch du
	ein eine einem einen einer er es euch für gern gerne guten habe haben hallo hast hat heiße heißt heute ich ihm ihn ihr im in ist ja jetzt kann kein
	keine man mein meine meinem meinen meiner mich mir mit nach nein nicht noch nun nur oder schon sehr sein sich sie sind über um
	und uns unser von wann war was weil weiß weißt ok okay welche welcher wem wen wenn wer wie wieder wir wird wo wohne wohnst zu zum zur erzähl erinnerst`)

// doings are verbs that ask for a piece of work where a message begins with one.
const doings = `write draw explain translate summarize show calculate recommend suggest code schreib schreibe zeichne erklär erkläre übersetze übersetz ` +
	`zeig zeige berechne empfiehl`

// languageOf is "de" where a text has more German words than English ones, "en" where it has fewer, else "".
func languageOf(text string) string {
	german, english := 0, 0
	for _, word := range words(text) {
		if germanWords[word] {
			german++
		}
		if stopWords[word] {
			english++
		}
	}
	switch {
	case german > english:
		return "de"
	case german < english:
		return "en"
	}
	return ""
}

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

var listMarker = regexp.MustCompile(`^\s*(?:>\s+|[-*•]\s+|#{1,6}\s+|\d{1,3}[.)]\s+)+`)

// sentences splits a text at line ends and after sentence ends. List markers and quotation marks of
// lines are dropped, and so is what has no letter or digit.
func sentences(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		for _, sentence := range memorytext.Sentences(listMarker.ReplaceAllString(line, "")) {
			if len(words(sentence)) > 0 {
				found = append(found, strings.TrimSpace(sentence))
			}
		}
	}
	return found
}

// embeddings answers POST /v1/embeddings for a text or a list of texts. Vectors are base64 of little-endian float32s, as
// our client asks for them.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	asked := struct {
		Input      any
		Model      string
		Dimensions int
	}{Dimensions: 1536}
	raw, ok := s.read(w, r, &asked)
	if !ok {
		return
	}
	inputs, ok := asked.Input.([]any)
	if !ok {
		inputs = []any{asked.Input}
	}
	data, texts := make([]object, len(inputs)), make([]string, len(inputs))
	for n, input := range inputs {
		texts[n] = inputText(input)
		packed, _ := binary.Append(nil, binary.LittleEndian, s.options.Embed(texts[n], asked.Dimensions)) // cannot fail for numbers of a fixed size
		data[n] = object{"object": "embedding", "index": n, "embedding": base64.StdEncoding.EncodeToString(packed)}
	}
	text := strings.Join(texts, "\n")
	recorded := s.journal.add(Request{Kind: KindEmbedding, At: time.Now(), Body: raw, Text: text, Current: text, Model: asked.Model})
	answer := s.answerFor(*recorded)
	done, err := s.beforeHeaders(r.Context(), w, recorded, answer)
	if !done && answer.Gate != nil {
		err = receive(r.Context(), s, answer.Gate)
	}
	if !done && err == nil {
		s.journal.update(func() { recorded.Status = http.StatusOK })
		tokens := memorytext.Tokens(text)
		s.sendJSON(w, http.StatusOK, object{"object": "list", "data": data, "model": asked.Model,
			"usage": object{"prompt_tokens": tokens, "total_tokens": tokens}})
	}
	s.finish(recorded, err)
}

// embed makes a unit vector of a text: each of its stems is hashed to a dimension and a sign (the hashing trick), so
// texts that share words are close. A text without content words is one feature as a whole.
func embed(text string, dimensions int) []float32 {
	features := contentStems(text)
	if len(features) == 0 {
		features = []string{text}
	}
	vector := make([]float32, dimensions)
	for _, feature := range features {
		h := hash(feature)
		vector[h%uint64(dimensions)] += 1 - 2*float32(h>>63)
	}
	length := 0.0
	for _, v := range vector {
		length += float64(v) * float64(v)
	}
	if length == 0 { // all features cancelled out
		vector[0], length = 1, 1
	}
	for i := range vector {
		vector[i] /= float32(math.Sqrt(length))
	}
	return vector
}
