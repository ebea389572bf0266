package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/demo"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// talkSmall says what says nothing in a chat with a past, as a person who has memories.
func talkSmall(s *scene, size int) []figure {
	s.play(canned{})
	p := s.person()
	for _, t := range truths {
		p.call(http.MethodPost, "/v1/memories", map[string]any{"content": t.fact, "type": "fact"}, nil)
	}
	const past = 60
	var messages []said
	for n := range past {
		question := fmt.Sprintf("%s How do I tell others about it (%d)?", truths[n%len(truths)].says, n)
		messages = append(messages, turn(time.Now().AddDate(0, 0, n-past), question, "Tell them plainly.")...)
	}
	chat := p.tell(messages...)
	s.settle()
	var shown, recalled []string
	small := cases("smalltalk", 1)
	for n := range size {
		content := small[n%len(small)][0]
		_, r := p.say(chat, content)
		if len(r.Memories) > 0 {
			shown = append(shown, content)
		}
		if len(r.Recalled) > 0 {
			recalled = append(recalled, content)
		}
	}
	known := 0
	for question, truth := range questions {
		_, r := p.say(uuid.Nil, question)
		known += min(1, s.number(`select count(*) from public.memories where id = any($1) and content = $2`, r.Memories, truths[truth].fact))
	}
	share := func(of []string) float64 { return 100 * float64(len(of)) / float64(size) }
	return []figure{
		informs("messages", float64(size)),
		atMost("show a memory", share(shown), 2, "%", "", shown...),
		atMost("recall an earlier turn", share(recalled), 2, "%", "", recalled...),
		exactly("questions about what is known that show it", known, len(questions), ""),
	}
}

// questions show that memories are shown at all, with the number of the truth that answers each.
var questions = map[string]int{
	"What am I allergic to?": 1, "What is my dog called?": 4, "Which car do I drive?": 9, "Who is my dentist?": 16, "Who is my landlord?": 31,
}

// countCost plays the demo's conversation, with replies of a usual length. Extractions come by themselves, every six turns.
// What is to be kept is what the offline model finds by its rules, as in make peers; and then, for comparison, the first
// sentence of every message.
func countCost(s *scene, size int) []figure {
	lines, err := demo.BuiltinConversation()
	s.check(err)
	var messages []string
	for _, one := range lines {
		if one.Role == fromUser && len(messages) < size {
			messages = append(messages, one.Content)
		}
	}
	usual := s.costOf(messages, canned{byRule: true})
	most := s.costOf(messages, canned{extract: firstSentence})
	return []figure{
		informs("turns", float64(len(messages))),
		informs("memories", float64(usual.memories)),
		informs("calls for extraction", float64(usual.extract)),
		informs("calls for consolidation", float64(usual.consolidate)),
		atMost("model calls a turn for memories", usual.calls, .25, "", "mem0 v3: 1"),
		atMost("input tokens a turn for memories", usual.input, 700, "", "mem0 v3: 7 600"),
		informs("output tokens a turn for memories", usual.output),
		informs("a fact of every message: memories", float64(most.memories)),
		informs("a fact of every message: model calls a turn", most.calls),
		atMost("a fact of every message: input tokens a turn", most.input, 700, "", ""),
	}
}

// cost is what a conversation cost.
type cost struct {
	memories, extract, consolidate int
	calls, input, output           float64 // a turn
}

func (s *scene) costOf(messages []string, now canned) (c cost) {
	now.reply = func(r *offline.Request) string { return adviceOn(len(r.Current)) }
	s.settle() // what other suites have begun costs calls as well
	s.play(now)
	p, chat := s.person(), uuid.Nil
	for n, content := range messages {
		chat, _ = p.say(chat, content)
		if (n+1)%6 == 0 { // a person takes longer to write than a worker to notice
			s.settle()
		}
	}
	p.learn(chat)
	bills, turns := s.bills(), float64(len(messages))
	c.extract, c.consolidate = bills[forExtract].calls, bills[forConsolidate].calls
	for _, one := range bills {
		c.calls += float64(one.calls) / turns
		c.input += float64(one.input) / turns
		c.output += float64(one.output) / turns
	}
	if c.memories = len(p.memories()); c.memories == 0 {
		s.fail(errors.New("nothing was remembered"))
	}
	return c
}

// ofTheDay are words of what will not matter tomorrow.
var ofTheDay = regexp.MustCompile(`(?i)\b(?:today|tonight|yesterday|tomorrow|this (?:morning|evening|afternoon|week)|last (?:night|week)|next ` +
	`week|heute|morgen|gestern)\b`)

// firstSentence makes a fact of each message of the user: what it says first. As the instructions have it, a question is
// none, and what is about the day is for the moment.
func firstSentence(later []people.Line) []people.Fact {
	sentence := later[0].Text
	if end := strings.IndexAny(sentence, ".!?\n"); end >= 0 {
		sentence = sentence[:end+1]
	}
	sentence = strings.TrimSpace(sentence)
	if later[0].Alias[0] != 'U' || len(sentence) < 20 || len(sentence) > 300 || strings.HasSuffix(sentence, "?") {
		return nil
	}
	f := people.Keep(sentence, sentence, later[0].Alias)
	if ofTheDay.MatchString(sentence) {
		f.Horizon = "moment"
	}
	return []people.Fact{f}
}

// adviceOn returns a reply as long as real ones, without anything to remember.
func adviceOn(n int) string {
	sentences := cases("advice", 1)
	var chosen []string
	for i := range 9 {
		chosen = append(chosen, sentences[(n+i)%len(sentences)][0])
	}
	return strings.Join(chosen, " ")
}

// memoryTables are all that hold something of memories.
var memoryTables = strings.Fields("memory_users memories memory_sources memory_revisions memory_extractions memory_entities memory_relationships memory_mentions")

// leaveItOff talks to a program without long-term memory, and asks it for everything that has to do with memories.
func leaveItOff(s *scene, size int) []figure {
	s.play(canned{extract: proposeAll(truths)})
	p, chat := s.person(), uuid.Nil
	for n := range size {
		if n%8 == 0 {
			chat = uuid.Nil // a new chat makes extractions due, where there are some
		}
		chat, _ = p.say(chat, truths[n%len(truths)].says)
	}
	var answered, held, jobs, asked []string
	for _, path := range []string{"/v1/chats/" + chat.String() + "/extract", "/v1/memories"} {
		err := p.try(http.MethodPost, path, map[string]any{"content": "The user plays the cello."}, nil)
		if refusal, refused := errors.AsType[*people.Refused](err); !refused || refusal.Status >= http.StatusInternalServerError {
			answered = append(answered, fmt.Sprintf("POST %s: %v", path, err))
		}
	}
	s.startJob("update_memory_graph")
	s.startJob("decay_memories")
	s.settle()
	for _, table := range memoryTables {
		if n := s.number("select count(*) from public."+table+" where user_id = $1", p.ID); n > 0 {
			held = append(held, fmt.Sprintf("%s: %d", table, n))
		}
	}
	for range s.number(`select count(*) from public.conversation_briefs b where b.user_id = $1 and (b.extract_due_at is not null or b.extracted_seq > 0)`, p.ID) {
		held = append(held, "a chat that is due")
	}
	for _, job := range rows[struct{ Kind string }](s, `select kind from river.river_job where kind in ('extract_memories', 'embed_memories') and
		args->>'chat_id' in (select id::text from public.chats where user_id = $1) or kind = 'embed_memories' and args->>'user_id' = $1::text`, p.ID) {
		jobs = append(jobs, job.Kind)
	}
	for purpose := range s.bills() {
		asked = append(asked, purpose)
	}
	return []figure{
		none("rows", "", held...),
		none("model calls", "", asked...),
		none("jobs", "", jobs...),
		none("requests for new memories that are not refused", "", answered...),
	}
}
