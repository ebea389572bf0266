package offline

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The parts of an essay: %T is the topic, %A a quality, %N a thing, %V something to do.
var (
	essaySentences = []string{
		"Most people meet %T for the first time through %N, and only later notice how much %N matters.",
		"A %A start is to %V before anything else, because %N rarely improves on its own.",
		"What makes %T %A is the way %N and %N depend on each other.",
		"Those who have spent years with %T tend to %V first and to explain themselves afterwards.",
		"There is a %A side to it as well: %N costs more than it seems at the beginning.",
		"When %N goes wrong, it helps to %V, wait a little, and look at %N again.",
		"None of this is %A in itself, but together with %N it changes the whole picture.",
		"A good rule is to %V whenever %N and %N point in different directions.",
		"In practice %T asks for %A habits more than for talent or expensive tools.",
		"Others prefer to %V, which works just as well as long as %N stays %A.",
		"The question of %N comes up again and again, and every answer is a little more %A than the last.",
		"Seen from a distance, %T is mostly about %N; seen from close by, it is about %N.",
		"It is worth taking notes on %N, since memory turns a %A detail into a vague impression.",
		"So the next step is simple: %V, compare the result with %N, and keep what is %A.",
	}
	essayQualities = strings.Split("patient careful surprising modest steady practical lasting quiet honest thorough generous simple delicate robust curious deliberate", " ")
	essayThings    = strings.Split("timing,the first attempt,a clear plan,the choice of material,regular practice,good advice,the weather,a second opinion,the smallest detail,the daily routine,a shared goal,the budget,an open question,the order of the steps,the final check,a written record", ",")
	essayActions   = strings.Split("slow down,ask somebody with experience,measure twice,write down the result,start with the smallest part,leave out what nobody misses,change one thing at a time,repeat the easy part,set a date,look for the pattern,share the work,throw the first version away", ",")
)

// essay writes about that many words on a topic. The same seed gives the same text.
func essay(topic string, count int, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, uint64(count))) // #nosec G404 -- prose, not secrets
	var paragraphs []string
	var paragraph []string
	left := count
	for left > 0 {
		said := strings.Fields(essaySentence(topic, random))
		if len(said) > left {
			said = said[:left]
		}
		left -= len(said)
		paragraph = append(paragraph, sentenceOf(said))
		if len(paragraph) == 5 {
			paragraphs, paragraph = append(paragraphs, strings.Join(paragraph, " ")), nil
		}
	}
	if len(paragraph) > 0 {
		paragraphs = append(paragraphs, strings.Join(paragraph, " "))
	}
	return strings.Join(paragraphs, "\n\n")
}

// sentenceOf puts words together and ends them, also where the count cut them off.
func sentenceOf(words []string) string {
	return strings.TrimRight(strings.Join(words, " "), ".,:;") + "."
}

func essaySentence(topic string, random *rand.Rand) string {
	var out strings.Builder
	text := essaySentences[random.IntN(len(essaySentences))]
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out.WriteByte(text[i])
			continue
		}
		i++
		switch text[i] {
		case 'T':
			out.WriteString(topic)
		case 'A':
			out.WriteString(essayQualities[random.IntN(len(essayQualities))])
		case 'N':
			out.WriteString(essayThings[random.IntN(len(essayThings))])
		case 'V':
			out.WriteString(essayActions[random.IntN(len(essayActions))])
		}
	}
	return out.String()
}

// diary is a text of at least that many tokens that never repeats itself: a summary that is too long
// and has no other fault.
func diary(tokens int) string {
	var out strings.Builder
	for day, used := 1, 0; used < tokens; day++ {
		one, other := essayThings[day%len(essayThings)], essayThings[day*7%len(essayThings)]
		sentence := fmt.Sprintf("On day %d they chose %s (%d), later %s (%d). ", day, one, day, other, day)
		out.WriteString(sentence)
		used += countTokens(sentence) - 1 // its last space joins the next word
	}
	return strings.TrimSpace(out.String())
}
