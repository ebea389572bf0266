package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// A language of its own, because how long recall takes depends on how often words occur: a few of its words are in
// every third turn, and most of them in hardly any, as in natural texts. Every second word is a function word of English.
const (
	lexiconSize  = 30_000
	zipfExponent = 1.05
	zipfShift    = 25 // makes the commonest words less common: natural ones are function words
)

var functionWords = strings.Fields("the a of and to in is that it was for on with as i you my we not be at this have but they from so when what how there if")

// lexeme returns the word of a rank, from 0. Three syllables, so that none is a function word of any language.
func lexeme(rank int) string {
	const consonants, vowels = "bdfghjklmnprstvz", "aeiou"
	const syllables = len(consonants) * len(vowels)
	var word []byte
	n := rank * 7919 % (syllables * syllables * syllables) // neighbours in rank are no neighbours in spelling
	for range 3 {
		word = append(word, consonants[n%syllables%len(consonants)], vowels[n%syllables/len(consonants)])
		n /= syllables
	}
	return string(word)
}

// synonym is the beginning of a word that no turn holds, and that the embedder takes for the rest of it.
const synonym = "qu"

// talk is a chat of measureRecall. A turn of it is the same whenever it is asked for.
type talk struct {
	conversation
	number, turns int
}

// recallChat is the beginning of the kind of such chats; each is one of its own.
const recallChat = "recall-"

// covered is the last seq that the brief covers; what follows is in each prompt.
func (t talk) covered() int { return 2 * (t.turns - shortTurns) }

func (t talk) batch() batch {
	texts := make([]string, 2*t.turns)
	for seq := 1; seq <= len(texts); seq++ {
		texts[seq%len(texts)] = t.message(seq)
	}
	return batch{
		kind: fmt.Sprint(recallChat, t.number), chats: 1, turns: t.turns, texts: texts,
		covered: t.covered(), summary: summaryText(), version: 1 + t.turns/30,
	}
}

// words returns the words of a message that are no function words.
func (t talk) words(seq int) []string {
	random := rand.New(rand.NewPCG(uint64(t.number), uint64(seq))) //nolint:gosec // it protects nothing
	zipf := rand.NewZipf(random, zipfExponent, zipfShift, lexiconSize-1)
	words := make([]string, 10+random.IntN(30))
	for n := range words {
		words[n] = lexeme(int(zipf.Uint64()))
	}
	return words
}

// message joins its words with as many function words.
func (t talk) message(seq int) string {
	var b strings.Builder
	for n, word := range t.words(seq) {
		b.WriteString(functionWords[(seq+n*n)%len(functionWords)] + " " + word + " ")
	}
	return strings.TrimSpace(b.String()) + "."
}

// question asks with three words of a message that left the prompt. By meaning it asks with synonyms.
func (t talk) question(random *rand.Rand, byMeaning bool) string {
	words := t.words(1 + random.IntN(t.covered()))[:3]
	if byMeaning {
		for n := range words {
			words[n] = synonym + words[n]
		}
	}
	return "What was it that I said about the " + words[0] + " when the " + words[1] + " was with " + words[2] + "?"
}

// bagOfWords makes vectors of which those that share words are near: a random direction for each word. Words of three
// letters and fewer have none.
type bagOfWords struct{}

var _ recall.Embedder = bagOfWords{}

func (bagOfWords) Model() string { return "bench-words" }

func (bagOfWords) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for n, content := range texts {
		vectors[n] = vectorOf(content)
	}
	return vectors, nil
}

func vectorOf(content string) []float32 {
	const shortest = 4
	vector := make([]float32, recall.VectorSize)
	for field := range strings.FieldsSeq(strings.ToLower(content)) {
		word := strings.TrimPrefix(strings.Trim(field, ".,?!"), synonym)
		if len(word) < shortest {
			continue
		}
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(word))                  // never fails
		random := rand.New(rand.NewPCG(hash.Sum64(), 0)) //nolint:gosec // it protects nothing
		for n := range vector {
			vector[n] += float32(random.Uint64()&1)*2 - 1
		}
	}
	length := 0.0
	for _, number := range vector {
		length += float64(number) * float64(number)
	}
	for n := range vector {
		vector[n] /= float32(max(math.Sqrt(length), 1))
	}
	return vector
}

// slowEmbedder serves bagOfWords as an API that takes a fixed time.
type slowEmbedder struct{ takes time.Duration }

func (s slowEmbedder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	kit.ServeVectors(w, r, bagOfWords{}.Model(), func(texts []string) [][]float32 {
		vectors, _ := bagOfWords{}.Embed(r.Context(), texts) // never fails
		time.Sleep(s.takes - time.Since(began))
		return vectors
	})
}
