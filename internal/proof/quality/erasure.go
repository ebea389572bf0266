package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// canaryStem begins every word that is told and deleted. It is no part of any other word.
const canaryStem = "zqkanarie"

// Beside calls of a model for a purpose, what may be at work while a message is deleted: a job, a request; or instead of being
// deleted its words are changed, or its chat is deleted, while a model is asked about it.
const (
	decayJob  = "decay_memories"
	exporting = "export"
	editing   = "edit"
	wholeChat = "chat"
)

var moments = []string{forExtract, forConsolidate, forVectors, forEntities, decayJob, exporting, editing, wholeChat}

// strike deletes the message of a canary when a model is asked about it, so that this meets every later step of the job.
type strike struct {
	purpose string      // of the call that it waits for
	met     atomic.Bool // the call came
	erase   func()      // once; returns when that is done
}

// strikes are the waiting ones, by their canaries.
type strikes struct{ sync.Map }

func (all *strikes) before(purpose, input string) {
	for canary, waits := range all.Range {
		one := waits.(*strike)
		if one.purpose == purpose && strings.Contains(strings.ToLower(input), canary.(string)) && one.met.CompareAndSwap(false, true) {
			go one.erase()
		}
	}
	pause(26 * time.Millisecond) // the answer comes before, while or after it is deleted
}

// eraseWhileWorking tells a canary, deletes it while a job is at work with it, and looks for it everywhere.
func eraseWhileWorking(s *scene, size int) (figures []figure) {
	const unmet, held = "kinds of work that no race met", "places that hold a deleted word"
	waiting := &strikes{}
	s.play(canned{extract: canaryFacts, decide: mergeCanaries, before: waiting.before, entities: canaryEntities})
	for _, moment := range moments {
		if moment == forVectors && s.Embedder == nil {
			continue
		}
		var met atomic.Int64
		s.atOnce(3, size, func(n int) {
			if s.eraseOne(waiting, moment, fmt.Sprint(canaryStem, strings.ReplaceAll(moment, "_", ""), n, "x")) {
				met.Add(1)
			}
		})
		if met.Load() == 0 {
			s.note(unmet, "%s", moment)
		}
		figures = append(figures, informs("races with "+moment, float64(met.Load())))
	}
	s.settle()
	for _, place := range s.traces(canaryStem) {
		s.note(held, "%s", place)
	}
	return append(figures, s.none(unmet, ""), s.none(held, "AutoGPT#12720: the summary"))
}

// canaryIn returns the canary that a text names, "" for none.
func canaryIn(text string) string {
	at := strings.Index(text, canaryStem)
	if at < 0 {
		return ""
	}
	return strings.TrimRight(strings.Fields(text[at:])[0], ".,")
}

// canaryFacts makes facts of the messages about canaries.
func canaryFacts(later []offline.Line) []offline.Fact {
	one, word := later[0], canaryIn(later[0].Text)
	if word == "" || one.Alias[0] != 'U' {
		return nil
	}
	f := people.Keep("The user's boat is called "+word+" and lies in the harbour.", strings.TrimSpace(one.Text), one.Alias)
	f.Entities = []offline.Entity{{Name: word, Type: "product"}}
	f.Relationships = []offline.Relationship{{Source: "User", Relationship: "owns", Target: word}}
	return []offline.Fact{f}
}

// mergeCanaries merges everything into the first memory.
func mergeCanaries(c offline.Line, memories []offline.Line) *offline.Decision {
	merged := strings.TrimSuffix(memories[0].Text, ".") + ", and " + strings.ToLower(c.Text[:1]) + c.Text[1:]
	return &offline.Decision{Action: "UPDATE", Memory: &memories[0].Alias, Merged: &merged, Reason: "More is known."}
}

// canaryEntities finds the canaries in the memories that it is shown.
func canaryEntities(memories []offline.Line) string {
	entities, relationships := []offline.Entity{}, []offline.Relationship{}
	for _, one := range memories {
		if word := canaryIn(one.Text); word != "" {
			entities = append(entities, offline.Entity{Memory: one.Alias, Name: word, Type: "product"})
			relationships = append(relationships, offline.Relationship{Memory: one.Alias, Source: "User", Relationship: "owns", Target: word})
		}
	}
	return people.Encode(map[string]any{"entities": entities, "relationships": relationships})
}

// eraseOne plays one race, and reports whether the deletion met the work.
func (s *scene) eraseOne(all *strikes, moment, canary string) (met bool) {
	p := s.person()
	now := time.Now().Add(-time.Hour)
	if moment == forConsolidate { // something alike is known, which is not about the canary
		p.tellAndLearn(turn(now, "My boat is called "+canary+"before and lies in the harbour.", "Nice.")...)
	}
	chat := p.tell(turn(now, "My boat is called "+canary+" and lies in the harbour.", "A good name.")...)
	one := &strike{purpose: moment, erase: sync.OnceFunc(func() { p.erase(moment, canary) })}
	if moment == editing || moment == wholeChat {
		one.purpose = forExtract
	}
	all.Store(canary, one)
	p.learn(chat)
	switch moment {
	case decayJob, exporting:
		p.workOn(moment)
		one.met.Store(true)
	case forEntities: // written after the extraction, which would give it the entities that the job is to ask for
		p.call(http.MethodPost, "/v1/memories", map[string]any{"content": "The harbour master knows " + canary + "."}, nil)
		s.startJob("update_memory_graph")
		s.until("the model is asked for entities", one.met.Load)
	}
	all.Delete(canary)
	met = one.met.Load()
	one.erase() // now, if its moment never came
	// What else names the canary on purpose: the message that was known before, what the user wrote, and the title of the
	// import, which is its first line.
	p.erase("", canary+"before")
	p.eraseWritten()
	s.exec(`update public.chats set title = 'A chat' where user_id = $1`, p.ID)
	return met
}

// workOn starts the work, without waiting for it.
func (p *person) workOn(moment string) {
	if moment == decayJob {
		p.s.exec(`update public.memories set last_accessed = now() - interval '60 days' where user_id = $1`, p.ID)
		p.s.startJob(moment)
		return
	}
	go func() { _ = p.try(http.MethodGet, "/v1/memories/export", nil, nil) }() // what it read may have been deleted meanwhile
	pause(20 * time.Millisecond)
}

// erase removes the canary's message: deleted, edited to something else, or with its chat.
func (p *person) erase(moment, canary string) {
	pause(20 * time.Millisecond)
	const named = `select id, chat_id from public.messages where user_id = $1 and content like '%' || $2 || ' %'`
	for _, m := range rows[struct{ ID, ChatID uuid.UUID }](p.s, named, p.ID, canary) {
		switch moment {
		case wholeChat:
			p.call(http.MethodDelete, "/v1/chats/"+m.ChatID.String(), nil, nil)
		case editing: // an owner's app edits through its own database role
			p.s.exec(`update public.messages set content = 'My boat has no name.' where id = $1`, m.ID)
		default:
			p.call(http.MethodDelete, "/v1/messages/"+m.ID.String(), nil, nil)
		}
	}
	if moment == forEntities {
		p.eraseWritten()
	}
}

func (p *person) eraseWritten() {
	for _, m := range rows[struct{ ID uuid.UUID }](p.s, `select id from public.memories where user_id = $1 and origin = 'user'`, p.ID) {
		p.call(http.MethodDelete, "/v1/memories/"+m.ID.String(), nil, nil)
	}
}

// switches are the ways in which a user stops the learning of a chat. Each returns when it is answered.
var switches = []struct {
	name string
	stop func(p *person, chat uuid.UUID)
}{
	{"chat not remembered", func(p *person, chat uuid.UUID) {
		p.call(http.MethodPatch, "/v1/chats/"+chat.String(), map[string]any{"remember": false}, nil)
	}},
	{"memories off", func(p *person, _ uuid.UUID) {
		p.call(http.MethodPatch, "/v1/memories/settings", map[string]any{"enabled": false}, nil)
	}},
	{"subject excluded", func(p *person, _ uuid.UUID) {
		p.call(http.MethodPatch, "/v1/memories/settings", map[string]any{"excluded": []string{"boat"}}, nil)
	}},
	{"cleared", func(p *person, chat uuid.UUID) {
		p.call(http.MethodPost, "/v1/chats/"+chat.String()+"/clear", map[string]any{}, nil)
	}},
	{"deleted", func(p *person, chat uuid.UUID) { p.call(http.MethodDelete, "/v1/chats/"+chat.String(), nil, nil) }},
	{"expired", func(p *person, chat uuid.UUID) {
		p.s.exec(`update public.chats set ttl_hours = 1, (created_at, last_message_at) = ('2020-01-01', '2020-01-01') where id = $1`, chat)
		p.s.until("the expired chat is deleted", func() bool {
			p.s.startJob("expire_chats") // one that finds the chat locked leaves it to the next
			return p.s.number(`select count(*) from public.chats where id = $1`, chat) == 0
		})
	}},
}

// stopWhileWorking switches memories off while a model is asked for them. A fact not known when that was answered is not
// known later, and what the user wrote stays.
func stopWhileWorking(s *scene, size int) []figure {
	const late, lost = "learnt after the answer", "the user's own, lost"
	waiting := &strikes{}
	s.play(canned{extract: canaryFacts, before: waiting.before})
	s.atOnce(3, size, func(n int) {
		one, p := switches[n%len(switches)], s.person()
		canary := fmt.Sprint(canaryStem, "switch", n, "x")
		said := turn(time.Now().Add(-time.Hour), "My boat is called "+canary+" and lies in the harbour.", "A good name.")
		p.call(http.MethodPost, "/v1/memories", map[string]any{"content": "The user's boat has a red sail."}, nil)
		chat, known := p.tell(said...), 0
		stop := &strike{purpose: forExtract, erase: sync.OnceFunc(func() {
			pause(20 * time.Millisecond)
			one.stop(p, chat)
			known = p.count(canary)
		})}
		waiting.Store(canary, stop)
		p.learn(chat)
		waiting.Delete(canary)
		stop.erase() // waits for its end
		if p.count(canary) > known {
			s.note(late, "%s", one.name)
		}
		if p.count("red sail") != 1 {
			s.note(lost, "%s", one.name)
		}
	})
	return []figure{informs("rounds", float64(size)), s.none(late, ""), s.none(lost, "")}
}

// count returns how many memories of the user have a word.
func (p *person) count(word string) int {
	return p.s.number(`select count(*) from public.memories where user_id = $1 and position($2 in content) > 0`, p.ID, word)
}

// traces returns where a word still is: in any column of any table, in any case.
func (s *scene) traces(word string) (found []string) {
	for _, t := range rows[struct{ Name string }](s, `select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast') and c.relkind in ('r', 'm')`) {
		for _, held := range rows[struct{ Row string }](s, `select left(row_now::text, 300) as row from `+t.Name+` row_now
			where position($1 in lower(row_now::text)) > 0 limit 3`, word) {
			found = append(found, t.Name+": "+held.Row)
		}
	}
	return found
}
