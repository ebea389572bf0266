package offline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

// The parts of an essay. A sentence is filled in with the topic and with words of the other lists.
var (
	essaySentences = []string{
		"Most people meet $TOPIC for the first time through $THING, and only later notice how much $THING matters.",
		"A $QUALITY start is to $ACTION before anything else, because $THING rarely improves on its own.",
		"What makes $TOPIC $QUALITY is the way $THING and $THING depend on each other.",
		"Those who have spent years with $TOPIC tend to $ACTION first and to explain themselves afterwards.",
		"There is a $QUALITY side to it as well: $THING costs more than it seems at the beginning.",
		"When $THING goes wrong, it helps to $ACTION, wait a little, and look at $THING again.",
		"None of this is $QUALITY in itself, but together with $THING it changes the whole picture.",
		"A good rule is to $ACTION whenever $THING and $THING point in different directions.",
		"In practice $TOPIC asks for $QUALITY habits more than for talent or expensive tools.",
		"Others prefer to $ACTION, which works just as well as long as $THING stays $QUALITY.",
		"The question of $THING comes up again and again, and every answer is a little more $QUALITY than the last.",
		"Seen from a distance, $TOPIC is mostly about $THING; seen from close by, it is about $THING.",
		"It is worth taking notes on $THING, since memory turns a $QUALITY detail into a vague impression.",
		"So the next step is simple: $ACTION, compare the result with $THING, and keep what is $QUALITY.",
	}
	essayQualities = strings.Split("patient careful surprising modest steady practical lasting quiet honest thorough generous simple delicate robust curious deliberate", " ")
	essayThings    = strings.Split("timing,the first attempt,a clear plan,the choice of material,regular practice,good advice,the weather,a second opinion,the smallest detail,the daily routine,a shared goal,the budget,an open question,the order of the steps,the final check,a written record", ",")
	essayActions   = strings.Split("slow down,ask somebody with experience,measure twice,write down the result,start with the smallest part,leave out what nobody misses,change one thing at a time,repeat the easy part,set a date,look for the pattern,share the work,throw the first version away", ",")
)

// essay writes count words on a topic. The same seed gives the same text.
func essay(topic string, count int, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, uint64(count))) // #nosec G404 -- prose, not secrets
	var paragraphs, paragraph []string
	left := count
	for left > 0 {
		words := strings.Fields(essaySentence(topic, random))
		words = words[:min(len(words), left)]
		left -= len(words)
		paragraph = append(paragraph, sentenceOf(words))
		if len(paragraph) == 5 {
			paragraphs, paragraph = append(paragraphs, strings.Join(paragraph, " ")), nil
		}
	}
	if len(paragraph) > 0 {
		paragraphs = append(paragraphs, strings.Join(paragraph, " "))
	}
	return strings.Join(paragraphs, "\n\n")
}

// sentenceOf joins words into a sentence that ends with a full stop.
func sentenceOf(words []string) string {
	return strings.TrimRight(strings.Join(words, " "), ".,:;") + "."
}

func essaySentence(topic string, random *rand.Rand) string {
	choose := func(from []string) string { return from[random.IntN(len(from))] }
	return os.Expand(choose(essaySentences), func(name string) string {
		switch name {
		case "QUALITY":
			return choose(essayQualities)
		case "THING":
			return choose(essayThings)
		case "ACTION":
			return choose(essayActions)
		}
		return topic
	})
}

// diary returns a text of at least that many tokens that never repeats itself: a summary that is too long and has no
// other fault.
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
