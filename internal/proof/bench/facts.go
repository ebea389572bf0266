package main

import (
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/dev/demo"
)

// fact is something that the user says once, and a question about it that does not contain it.
type fact struct {
	turn     int // the user's message that says it, from 1
	words    string
	question string
}

// facts are said in the first half of the demo's conversation, and not again in its last forty turns.
var facts = []fact{
	{1, "Brandauer", "What is the family name of my cello teacher?"},
	{2, "Lindqvist", "What is my own family name?"},
	{2, "3 March 2025", "On which day did I start to play the cello?"},
	{2, "parish registers", "What do I mostly repair in my work, besides old atlases?"},
	{3, "38 euros", "How much is the rent of the cello each month?"},
	{6, "1989", "Since which year has Ilse taught from the little yellow book of études?"},
	{10, "Sigmaringen", "Near which town is the village where Ilse was born?"},
	{10, "23 kilometres", "How far did Ilse cycle to her entrance audition?"},
	{10, "nine pupils", "How many pupils does Ilse have now?"},
	{11, "nickel allergy", "What allergy do I have?"},
	{13, "164 euros", "What did the set of strings with the titanium A cost?"},
	{14, "1688", "From which year is the register of baptisms that I was repairing?"},
	{15, "Mittenwald", "Where was the cello from the estate in Basel made?"},
	{16, "4,500 euros", "What was my first budget for a cello of my own?"},
	{18, "C sharp", "To which note does bar 11 go, where I drew the lighthouse?"},
	{20, "theorbo", "Which instrument was in the recording of the Vivaldi that I liked best?"},
	{30, "Bechstein", "Which make is the piano of the beekeeper?"},
	{34, "chair 48 cm", "How high is the chair supposed to be for my practice?"},
	{36, "supraspinatus", "Which tendon in my shoulder was irritated?"},
	{39, "Maarika Ots", "Which living composer wrote the piece that is called Ferry?"},
}

func (f fact) in(text string) bool { return strings.Contains(text, f.words) }

// advice is what the model answers with: as long as real replies, without anything to remember.
var advice = []string{
	"A slow beginning often pays, because attention is freshest then and mistakes have not settled yet.",
	"It may help to stop before it becomes tiring and to come back after a short pause.",
	"Working on small portions and joining them later tends to hold better than long stretches.",
	"Listening back without judging at first makes it easier to hear what is really there.",
	"What matters most is to notice the moment in which the movement becomes tense.",
	"Some people like to sing the phrase aloud before they try it on an instrument.",
	"An even pulse is easier to keep when the breath goes along with it.",
	"If one thing feels wrong it can be worth changing only that thing and nothing else.",
	"There is no hurry, and a little patience here usually saves much time afterwards.",
	"Writing down one sentence at the end of the day keeps the thread for the next one.",
}

// replyTo returns the model's answer to the message of a number.
func replyTo(n int) string {
	const length = 9
	sentences := make([]string, length)
	for i := range sentences {
		sentences[i] = advice[(n*3+i)%len(advice)]
	}
	return strings.Join(sentences, " ")
}

// conversationOf returns the first user messages of the demo's conversation; 0 is all.
func conversationOf(turns int) ([]string, error) {
	lines, err := demo.BuiltinConversation()
	if err != nil {
		return nil, err
	}
	var messages []string
	for _, line := range lines {
		if line.Role == "user" {
			messages = append(messages, line.Content)
		}
	}
	if len(messages) < turns {
		return nil, fmt.Errorf("the conversation has %d turns, not %d", len(messages), turns)
	}
	if turns > 0 {
		messages = messages[:turns]
	}
	return messages, nil
}
