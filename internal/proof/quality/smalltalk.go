package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// small are messages that say nothing which anything known could help with.
var small = []string{
	"Ok, thanks!", "Good morning.", "Haha, yes.", "Great.", "How are you today?", "Sure.", "I see.", "Nice one!", "Thank you so much.", "Hm, okay.",
	"Wow, really?", "That makes sense.", "Fine by me.", "Let us go on.", "Good night, see you tomorrow.", "No worries.", "Never mind.", "Sounds good to me.",
	"Yes, please.", "No, thank you.", "What do you think?", "Lol.", "You are right.", "Hello again.", "One moment, please.", "I am back.", "Alright then.",
	"Can you repeat that?", "Cool, thanks a lot!", "Danke dir!", "Merci beaucoup.", "Gracias, hasta luego.", "Perfetto, grazie.", "ありがとう。", "Спасибо!",
	"Tell me more.", "Why not?", "Go ahead.", "Absolutely.", "Maybe later.",
}

// talkSmall says them in a chat with a past, as a person who has memories.
func talkSmall(ctx context.Context, s *system, size int) ([]figure, error) {
	s.model.play(canned{})
	p, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range truths {
		if _, err := p.call(ctx, http.MethodPost, "/v1/memories", map[string]any{"content": t.fact, "type": "fact"}, nil); err != nil {
			return nil, err
		}
	}
	const past = 60
	var messages []said
	for n := range past {
		moment := time.Now().AddDate(0, 0, n-past)
		messages = append(messages, at(moment, fromUser, fmt.Sprintf("%s How do I tell others about "+
			"it (%d)?", truths[n%len(truths)].says, n)), at(moment, fromAssistant, "Tell them plainly."))
	}
	chat, err := p.tell(ctx, messages...)
	if err != nil {
		return nil, err
	}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	shown, recalled := 0, 0
	var examples []string
	for n := range size {
		content := small[n%len(small)]
		reply, err := p.say(ctx, chat, content)
		if err != nil {
			return nil, err
		}
		r, err := receiptOf(reply)
		if err != nil {
			return nil, err
		}
		if len(r.Memories) > 0 {
			shown++
			examples = append(examples, content)
		}
		if len(r.Recalled) > 0 {
			recalled++
			examples = append(examples, content+" (recall)")
		}
	}
	known, err := s.showsWhatIsKnown(ctx, p)
	share := func(n int) float64 { return 100 * float64(n) / float64(size) }
	return []figure{
		informs("messages", float64(size)),
		atMost("show a memory", share(shown), 2, "%", "", examples...),
		atMost("recall an earlier turn", share(recalled), 2, "%", "", examples...),
		exactly("questions about what is known that show it", known, len(questions), ""),
	}, err
}

// questions show that memories are shown at all, with the number of the truth that answers each.
var questions = []struct {
	text  string
	truth int
}{{"What am I allergic to?", 1}, {"What is my dog called?", 4}, {"Which car do I drive?", 9}, {"Who is my dentist?", 16}, {"Who is my landlord?", 31}}

func (s *system) showsWhatIsKnown(ctx context.Context, p *person) (known int, err error) {
	for _, q := range questions {
		reply, err := p.say(ctx, uuid.Nil, q.text)
		if err != nil {
			return known, err
		}
		r, err := receiptOf(reply)
		if err != nil {
			return known, err
		}
		n, err := s.number(ctx, `select count(*) from public.memories where id = any($1) and content = $2`, r.Memories, truths[q.truth].fact)
		if err != nil {
			return known, err
		}
		known += min(n, 1)
	}
	return known, nil
}
