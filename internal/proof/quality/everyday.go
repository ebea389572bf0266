package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/demo"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/judge"
	"github.com/arcoscribe/throughline/internal/llm"
	limits "github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// askEveryday asks what people ask of somebody who knows them, each in a new chat: of a few memories, all of which a prompt can
// show, and of so many that it has to choose.
func askEveryday(s *scene, size int) []figure {
	s.play(canned{})
	everyday, asked := cases("everyday", 2), cases("asked", 2)
	p := s.person()
	for _, row := range everyday {
		p.remember(row[1], nil)
	}
	const few, many = "asked of a few memories, shown", "asked of 300 memories in their words, shown"
	s.ask(p, few, everyday)
	s.ask(s.rememberedWell(), many, asked)
	const elsewhere = "asked of what other chats were told, quoted"
	s.askElsewhere(elsewhere, asked)
	return []figure{s.atLeast(few, size, 42), s.atLeast(many, len(asked), 18), s.atLeast(elsewhere, len(asked), 18)}
}

// askElsewhere asks the same questions, each in a new chat, of a person who has told each of the truths to a chat of its own, and
// of whom nothing is remembered yet. It notes those to which the prompt does not quote it.
func (s *scene) askElsewhere(figure string, questions [][]string) {
	p := s.person()
	told := map[string]uuid.UUID{}
	for _, t := range truths {
		told[t.fact], _ = p.say(uuid.Nil, t.says)
	}
	for _, row := range questions {
		_, r := p.say(uuid.Nil, row[0])
		if !slices.ContainsFunc(r.Elsewhere, func(t prompt.ChatTurn) bool { return t.ChatID == told[row[1]] }) {
			s.note(figure, "%s", row[0])
		}
	}
}

// ask asks questions, each in a new chat, and notes those to which the prompt does not show the memory in the second column.
func (s *scene) ask(p *person, figure string, questions [][]string) {
	for _, row := range questions {
		_, r := p.say(uuid.Nil, row[0])
		if s.number(`select count(*) from public.memories where id = any($1) and content = $2`, r.Memories, row[1]) == 0 {
			s.note(figure, "%s", row[0])
		}
	}
}

// rememberedWell returns a person with 300 memories: the truths, and where they have been. None is durable.
func (s *scene) rememberedWell() *person {
	p := s.person()
	const all = 300
	for n := range all - len(truths) {
		p.remember(fmt.Sprintf("The user visited %s in %d.", towns[n%len(towns)], 1990+n/len(towns)), new(false))
	}
	for _, t := range truths {
		p.remember(t.fact, new(false))
	}
	return p
}

func (p *person) remember(content string, durable *bool) {
	p.call(http.MethodPost, "/v1/memories", map[string]any{"content": content, "type": "fact", "durable": durable}, nil)
}

var towns = strings.Fields("Bergen Ghent Graz Lund Nantes Padua Riga Salzburg Toledo Utrecht York Zadar")

// talkSmall says what says nothing in a chat with a past, as a person of whom more is remembered than a prompt can show.
func talkSmall(s *scene, size int) []figure {
	s.play(canned{})
	p := s.rememberedWell()
	const past = 60
	var messages []said
	for n := range past {
		question := fmt.Sprintf("%s How do I tell others about it (%d)?", truths[n%len(truths)].says, n)
		messages = append(messages, turn(time.Now().AddDate(0, 0, n-past), question, "Tell them plainly.")...)
	}
	chat := p.tell(messages...)
	s.settle()
	const shown, recalled, elsewhere = "show a memory", "recall an earlier turn", "in a new chat, quote another one"
	small := cases("smalltalk", 1)
	for n := range size {
		content := small[n%len(small)][0]
		_, r := p.say(chat, content)
		if len(r.Memories) > 0 {
			s.note(shown, "%s", content)
		}
		if len(r.Recalled)+len(r.Elsewhere) > 0 {
			s.note(recalled, "%s", content)
		}
		if _, r := p.say(uuid.Nil, content); len(r.Elsewhere) > 0 {
			s.note(elsewhere, "%s", content)
		}
	}
	return []figure{
		informs("messages", float64(size)),
		s.share(shown, size, "≤", 5, ""),
		s.share(recalled, size, "≤", 2, ""),
		s.share(elsewhere, size, "≤", 2, ""),
	}
}

// countCost plays the demo's conversation, with replies of a usual length. Extractions come by themselves, every six turns.
// The facts to be kept are the ones that the offline model finds by its rules; and then, for comparison, the first
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
	turns := float64(len(messages))
	memories, calls, bill := s.costOf(messages, canned{byRule: true})
	most, _, whole := s.costOf(messages, canned{extract: firstSentence})
	return []figure{
		informs("turns", turns),
		informs("memories", memories),
		informs("calls for extraction", calls[forExtract]),
		informs("calls for consolidation", calls[forConsolidate]),
		atMost("model calls a turn for memories", bill.calls/turns, .25, "mem0 v3: 1"),
		atMost("input tokens a turn for memories", bill.input/turns, 700, "mem0 v3: 7 600"),
		informs("output tokens a turn for memories", bill.output/turns),
		informs("a fact of every message: memories", most),
		informs("a fact of every message: model calls a turn", whole.calls/turns),
		atMost("a fact of every message: input tokens a turn", whole.input/turns, 700, ""),
	}
}

func (s *scene) costOf(messages []string, now canned) (memories float64, calls map[string]float64, bill spent) {
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
	if memories = float64(len(p.memories())); memories == 0 {
		s.fail(errors.New("nothing was remembered"))
	}
	calls, bill = s.bill()
	return memories, calls, bill
}

// ofTheDay are words of what will not matter tomorrow.
var ofTheDay = regexp.MustCompile(`(?i)\b(?:today|tonight|yesterday|tomorrow|this (?:morning|evening|afternoon|week)|last (?:night|week)|next ` +
	`week|heute|morgen|gestern)\b`)

// firstSentence makes a fact of each message of the user: what it says first. As the instructions have it, a question is
// none, and a fact about the day is for the moment.
func firstSentence(later []offline.Line) []offline.Fact {
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
	return []offline.Fact{f}
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

var memoryTables = strings.Fields("memory_users memories memory_sources memory_revisions memory_extractions " +
	"memory_entities memory_relationships memory_mentions")

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
	const held, asked, jobs, answered = "rows", "model calls", "jobs", "requests for new memories that are not refused"
	for _, path := range []string{"/v1/chats/" + chat.String() + "/extract", "/v1/memories"} {
		err := p.try(http.MethodPost, path, map[string]any{"content": "The user plays the cello."}, nil)
		if status := refusedWith(err); status == 0 || status >= http.StatusInternalServerError {
			s.note(answered, "POST %s: %v", path, err)
		}
	}
	s.startJob("update_memory_graph")
	s.startJob("decay_memories")
	s.settle()
	for _, table := range memoryTables {
		if n := s.number("select count(*) from public."+table+" where user_id = $1", p.ID); n > 0 {
			s.note(held, "%s: %d", table, n)
		}
	}
	for range s.number(`select count(*) from public.conversation_briefs b where b.user_id = $1 and (b.extract_due_at is not null or b.extracted_seq > 0)`, p.ID) {
		s.note(held, "a chat that is due")
	}
	for _, job := range rows[struct{ Kind string }](s, `select kind from river.river_job where kind in ('extract_memories', 'embed_memories') and
		args->>'chat_id' in (select id::text from public.chats where user_id = $1) or kind = 'embed_memories' and args->>'user_id' = $1::text`, p.ID) {
		s.note(jobs, "%s", job.Kind)
	}
	calls, _ := s.bill()
	for purpose := range calls {
		s.note(asked, "%s", purpose)
	}
	return []figure{s.none(held, ""), s.none(asked, ""), s.none(jobs, ""), s.none(answered, "")}
}

// judgeKeyless tells what `throughline quality` says of the offline model, which knows some English: what memories are worth
// without a key.
func judgeKeyless(s *scene, _ int) (figures []figure) {
	model := kit.Must(offline.Start(offline.Options{}))
	defer func() { s.check(model.Close()) }()
	client := llm.New(llm.Settings{APIKey: "offline", BaseURL: model.BaseURL()})
	defer client.Close()
	settings := judge.Settings{Prompt: brief.PromptConfig{Mode: brief.ModeInline, Model: "offline"}, Limits: limits.DefaultLimits()}
	for _, spoken := range []struct {
		name      string
		languages []string
	}{{"English", []string{"en"}}, {"ten languages", nil}} {
		report := kit.Must(judge.Judge(s.ctx, client, settings, kit.Must(judge.Cases(spoken.languages...))))
		kept, of := report.Kept()
		right, stored := report.Right()
		figures = append(figures,
			figure{what: "the offline model keeps, " + spoken.name, text: fmt.Sprintf("%d of %d", kept, of)},
			figure{what: "of its memories are right, " + spoken.name, text: fmt.Sprintf("%d of %d", right, stored)})
	}
	return figures
}
