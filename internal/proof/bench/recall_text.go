package main

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// A language of its own, because how long recall takes depends on how often words occur: a few of its words are in
// every third turn, and most of them in hardly any, as in natural texts. Every second word is a function word of English.
const (
	lexiconSize    = 30_000
	zipfExponent   = 1.05
	zipfShift      = 25 // makes the commonest words less common: natural ones are function words
	topicWords     = 12 // that a segment comes back to
	topicEvery     = 5
	turnsOfSegment = 20
	sentenceLength = 12
)

var functionWords = strings.Fields(`the a of and to in is that it was for on with as i you my we not be at this have but they
	from so when what how there if your would about do can will our me or by are`)

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

// synonym is a word that no turn holds, and that the embedder takes for the word that it is made of.
const synonym = "qu"

// talk is a chat of measureRecall. A turn of it is the same whenever it is asked for.
type talk struct {
	conversation
	kind          string // names the chat and its messages; see kit.ID
	number, turns int
}

func (t talk) messageID(seq int) uuid.UUID { return kit.ID(t.kind+"-0", seq) }

// covered is the last seq that the brief covers; what follows is in each prompt.
func (t talk) covered() int { return 2 * (t.turns - shortTurns) }

// words returns the words of a turn that are no function words, those of the question first.
func (t talk) words(turn int) (asked, answered []int) {
	segment := rand.New(rand.NewPCG(uint64(t.number), uint64(turn/turnsOfSegment)+1<<32)) //nolint:gosec // it protects nothing
	topic := make([]int, topicWords)
	for n := range topic {
		topic[n] = segment.IntN(lexiconSize)
	}
	random := rand.New(rand.NewPCG(uint64(t.number), uint64(turn))) //nolint:gosec // it protects nothing
	zipf := rand.NewZipf(random, zipfExponent, zipfShift, lexiconSize-1)
	some := func(count int) []int {
		ranks := make([]int, count)
		for n := range ranks {
			if ranks[n] = int(zipf.Uint64()); n%topicEvery == 0 {
				ranks[n] = topic[random.IntN(topicWords)]
			}
		}
		return ranks
	}
	return some(6 + random.IntN(14)), some(20 + random.IntN(30))
}

func (t talk) turn(n int) (question, reply string) {
	asked, answered := t.words(n)
	return sentences(asked, uint64(n)), sentences(answered, uint64(n))
}

// sentences joins words with as many function words.
func sentences(ranks []int, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // it protects nothing
	var b strings.Builder
	for n, rank := range ranks {
		word := functionWords[random.IntN(len(functionWords))]
		if n%(sentenceLength/2) == 0 {
			if n > 0 {
				b.WriteByte('.')
			}
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word + " " + lexeme(rank))
	}
	return b.String() + "."
}

// question asks for something that a turn said which left the prompt: three words of it, of which one is rare. By
// meaning it asks with synonyms.
func (t talk) question(random *rand.Rand, byMeaning bool) string {
	asked, answered := t.words(random.IntN(t.turns - shortTurns))
	all := append(asked, answered...)
	rarest := all[0]
	for _, rank := range all {
		rarest = max(rarest, rank)
	}
	chosen := []string{lexeme(rarest), lexeme(all[random.IntN(len(all))]), lexeme(all[random.IntN(len(all))])}
	if byMeaning {
		for n, word := range chosen {
			chosen[n] = synonym + word
		}
	}
	return "What was it that I said about the " + chosen[0] + " when the " + chosen[1] + " was with " + chosen[2] + "?"
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
		_, _ = hash.Write([]byte(word)) // never fails
		random := rand.NewPCG(hash.Sum64(), 0)
		for n := 0; n < len(vector); n += 64 {
			for bits, i := random.Uint64(), 0; i < 64; bits, i = bits>>1, i+1 {
				vector[n+i] += float32(bits&1)*2 - 1
			}
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

// slowEmbedder serves bagOfWords as an API that takes a fixed time, and counts the calls.
type slowEmbedder struct {
	takes time.Duration
	calls atomic.Int64
}

func (s *slowEmbedder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	s.calls.Add(1)
	kit.ServeVectors(w, r, bagOfWords{}.Model(), func(texts []string) [][]float32 {
		vectors, _ := bagOfWords{}.Embed(r.Context(), texts) // never fails
		time.Sleep(s.takes - time.Since(began))
		return vectors
	})
}
