package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// canaryStem begins every word that is told and deleted. It is no part of any other word.
const canaryStem = "zqkanarie"

// moments are what is at work while a message is deleted: calls of a model for a purpose, or a job or a request of that name.
// In the last two its words are changed, or its chat is deleted, while a model is asked about it.
var moments = []string{forExtract, forConsolidate, forVectors, forEntities, decayJob, exporting, editing, wholeChat}

const (
	decayJob  = "decay_memories"
	exporting = "export"
	editing   = "edit"
	wholeChat = "chat"
)

// callOf returns for which purpose a model is asked at a moment.
func callOf(moment string) string {
	if moment == editing || moment == wholeChat {
		return forExtract
	}
	return moment
}

// eraser deletes the message of a canary at the moment when a model is asked about it, so that the deletion meets every later
// step of the job.
type eraser struct {
	mu    sync.Mutex
	armed map[string]*strike // by canary, until the model is asked
}

// strike is one deletion. It is done once it has run.
type strike struct {
	purpose string // of the call that it waits for
	run     func()
	done    chan struct{}
}

// before is called by the model before each answer.
func (e *eraser) before(purpose, input string) {
	e.mu.Lock()
	for canary, one := range e.armed {
		if one.purpose == purpose && strings.Contains(strings.ToLower(input), canary) {
			delete(e.armed, canary)
			go func() {
				defer close(one.done)
				one.run()
			}()
		}
	}
	e.mu.Unlock()
	time.Sleep(time.Duration(uuid.New()[0]) * time.Millisecond / 10) // the answer comes before, while or after it is deleted
}

func (e *eraser) arm(canary, purpose string, run func()) *strike {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := &strike{purpose: purpose, run: run, done: make(chan struct{})}
	e.armed[canary] = one
	return one
}

func (e *eraser) waits(canary string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.armed[canary] != nil
}

// disarm reports whether the canary's moment never came.
func (e *eraser) disarm(canary string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, waited := e.armed[canary]
	delete(e.armed, canary)
	return waited
}

// eraseWhileWorking tells a canary, deletes it while a job is at work with it, and looks for it everywhere.
func eraseWhileWorking(ctx context.Context, s *system, size int) ([]figure, error) {
	e := &eraser{armed: map[string]*strike{}}
	s.model.play(canned{extract: canaryFacts, decide: mergeCanaries, before: e.before, entities: canaryEntities})
	var figures []figure
	var missed []string
	for _, moment := range moments {
		if moment == forVectors && s.embedder == nil {
			continue
		}
		var all errgroup.Group
		const atOnce = 3
		all.SetLimit(atOnce)
		var mu sync.Mutex
		met := 0
		for n := range size {
			all.Go(func() error {
				came, err := s.eraseOne(ctx, e, moment, fmt.Sprintf("%s%s%dx", canaryStem, letters(moment), n))
				mu.Lock()
				defer mu.Unlock()
				if came {
					met++
				}
				if err != nil {
					err = fmt.Errorf("%s, race %d: %w", moment, n, err)
				}
				return err
			})
		}
		if err := all.Wait(); err != nil {
			return figures, err
		}
		if met == 0 {
			missed = append(missed, moment)
		}
		figures = append(figures, informs("races with "+moment, float64(met)))
	}
	if err := s.settle(ctx); err != nil {
		return figures, err
	}
	left, err := s.traces(ctx, canaryStem)
	return append(figures,
		none("kinds of work that no race met", len(missed), "", missed...),
		none("places that hold a deleted word", len(left), "AutoGPT#12720: the summary", left...)), err
}

func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, text)
}

// canaryFacts makes facts of the messages about canaries.
func canaryFacts(asked *extraction) (facts []fact) {
	for _, one := range asked.messages {
		at := strings.Index(one.text, canaryStem)
		if at < 0 || one.alias[0] != 'U' {
			continue
		}
		word := strings.TrimRight(strings.Fields(one.text[at:])[0], ".,")
		f := keep("The user's boat is called "+word+" and lies in the harbour.", strings.TrimSpace(one.text)).from(one.alias)
		f.Entities = []entity{{word, "product"}}
		f.Relationships = []relationship{{"User", "owns", word}}
		facts = append(facts, f)
	}
	return facts
}

// mergeCanaries merges everything into the first memory.
func mergeCanaries(asked *consolidation) (decisions []decision) {
	for _, c := range asked.candidates {
		merged := strings.TrimSuffix(asked.memories[0].text, ".") + ", and " + lower(c.text)
		decisions = append(
			decisions,
			decision{Candidate: c.alias, Action: "UPDATE", Memory: new(asked.memories[0].alias), Merged: new(merged), Reason: "More is known."},
		)
	}
	return decisions
}

// canaryEntities finds the canaries in the memories that it is shown.
func canaryEntities(input string) string {
	entities, relationships := []map[string]string{}, []map[string]string{}
	for _, one := range readLines(input, "M") {
		if at := strings.Index(one.text, canaryStem); at >= 0 {
			word := strings.TrimRight(strings.Fields(one.text[at:])[0], ".,")
			entities = append(entities, map[string]string{"memory": one.alias, "name": word, "type": "product"})
			relationships = append(relationships, map[string]string{"memory": one.alias, "source": "User", "relationship": "owns", "target": word})
		}
	}
	return encode(map[string]any{"entities": entities, "relationships": relationships})
}

// eraseOne plays one race, and reports whether the deletion met the work.
func (s *system) eraseOne(ctx context.Context, e *eraser, moment, canary string) (met bool, err error) {
	p, err := s.person(ctx)
	if err != nil {
		return false, err
	}
	now := time.Now().Add(-time.Hour)
	if moment == forConsolidate { // something alike is known, which is not about the canary
		if err := p.tellAndLearn(ctx, at(now, fromUser, "My boat is called "+canary+"before and lies in the harbour."), at(now, fromAssistant, "Nice.")); err != nil {
			return false, err
		}
	}
	chat, err := p.tell(ctx, at(now, fromUser, "My boat is called "+canary+" and lies in the harbour."), at(now, fromAssistant, "A good name."))
	if err != nil {
		return false, err
	}
	erase := func() { err = errors.Join(err, p.erase(ctx, moment, canary)) }
	var armed *strike
	switch moment {
	case forExtract, forConsolidate, forVectors, editing, wholeChat:
		armed = e.arm(canary, callOf(moment), erase)
		if err := p.learn(ctx, chat); err != nil {
			return false, err
		}
	case forEntities:
		armed = e.arm(canary, moment, erase)
		// Written after the extraction, which would give it the entities that the job is to ask for.
		if err := p.learn(ctx, chat); err != nil {
			return false, err
		}
		written := map[string]any{"content": "The harbour master knows " + canary + "."}
		if _, err := p.call(ctx, http.MethodPost, "/v1/memories", written, nil); err != nil {
			return false, err
		}
		if err := s.startJob(ctx, "update_memory_graph"); err != nil {
			return false, err
		}
		if err := until(ctx, "the model is asked for entities", func() (bool, error) { return !e.waits(canary), nil }); err != nil {
			return false, err
		}
	default:
		if err := errors.Join(p.learn(ctx, chat), s.workOn(ctx, p, moment)); err != nil {
			return false, err
		}
		erase()
		return true, errors.Join(err, p.eraseRest(ctx, canary))
	}
	if e.disarm(canary) {
		erase()
		return false, errors.Join(err, p.eraseRest(ctx, canary))
	}
	<-armed.done
	return true, errors.Join(err, p.eraseRest(ctx, canary))
}

// workOn starts what is to be at work, without waiting for it.
func (s *system) workOn(ctx context.Context, p *person, moment string) error {
	switch moment {
	case decayJob:
		_, err := s.admin.Exec(ctx, `update public.memories set last_accessed = now() - interval '60 days' where user_id = $1`, p.id)
		return errors.Join(err, s.startJob(ctx, moment))
	case exporting:
		go func() { _, _ = p.call(ctx, http.MethodGet, "/v1/memories/export", nil, nil) }() // what it read may have been deleted meanwhile
	}
	pause(ctx, 20*time.Millisecond)
	return nil
}

// erase removes the canary's message: deleted, edited to something else, or with its chat.
func (p *person) erase(ctx context.Context, moment, canary string) error {
	pause(ctx, 20*time.Millisecond)
	found, err := rows[struct{ ID, ChatID uuid.UUID }](ctx, p.s, `select id, chat_id from public.messages where user_id = $1 and content like '%' || `+
		`$2 || ' %'`, p.id, canary)
	for _, m := range found {
		var gone error
		switch moment {
		case wholeChat:
			_, gone = p.call(ctx, http.MethodDelete, "/v1/chats/"+m.ChatID.String(), nil, nil)
		case editing: // an owner's app edits through its own database role
			_, gone = p.s.admin.Exec(ctx, `update public.messages set content = 'My boat has no name.' where id = $1`, m.ID)
		default:
			_, gone = p.call(ctx, http.MethodDelete, "/v1/messages/"+m.ID.String(), nil, nil)
		}
		err = errors.Join(err, gone)
	}
	if moment == forEntities {
		err = errors.Join(err, p.eraseWritten(ctx))
	}
	return err
}

// eraseWritten deletes the memories that the user wrote.
func (p *person) eraseWritten(ctx context.Context) error {
	written, err := rows[struct{ ID uuid.UUID }](ctx, p.s, `select id from public.memories where user_id = $1 and origin = 'user'`, p.id)
	for _, m := range written {
		_, gone := p.call(ctx, http.MethodDelete, "/v1/memories/"+m.ID.String(), nil, nil)
		err = errors.Join(err, gone)
	}
	return err
}

// eraseRest deletes what else names the canary on purpose: memories that the user wrote, and the message that was known before.
func (p *person) eraseRest(ctx context.Context, canary string) error {
	if err := p.erase(ctx, "", canary+"before"); err != nil {
		return err
	}
	if err := p.eraseWritten(ctx); err != nil {
		return err
	}
	_, err := p.s.admin.Exec(ctx, `update public.chats set title = 'A chat' where user_id = $1`, p.id) // an import's title is its first line
	return err
}

// traces returns where a word still is: in any column of any table, packed ones unpacked, in any case.
func (s *system) traces(ctx context.Context, word string) (found []string, err error) {
	const ours = `n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast') and c.relkind in ('r', 'm')`
	tables, err := rows[struct{ Name string }](ctx, s, `select format('%I.%I', n.nspname, c.relname) as name
		from pg_class c join pg_namespace n on n.oid = c.relnamespace where `+ours)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		held, err := rows[struct{ Row string }](ctx, s, `select left(row_now::text, 300) as row from `+t.Name+` row_now where position($1 in `+
			`lower(row_now::text)) > 0 limit 3`, word)
		if err != nil {
			return nil, err
		}
		for _, one := range held {
			found = append(found, t.Name+": "+one.Row)
		}
	}
	packed, err := rows[struct{ Table, Column string }](ctx, s, `select format('%I.%I', n.nspname, c.relname) as table, format('%I', a.attname) as column
		from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
		where a.atttypid = 'bytea'::regtype and a.attnum > 0 and not a.attisdropped and `+ours)
	if err != nil {
		return nil, err
	}
	for _, one := range packed {
		held, err := rows[struct{ Held []byte }](ctx, s, fmt.Sprintf(`select %s as held from %s where %[1]s is not null`, one.Column, one.Table))
		if err != nil {
			return nil, err
		}
		for _, value := range held {
			if strings.Contains(strings.ToLower(string(unpacked(value.Held))), word) {
				found = append(found, one.Table+"."+one.Column)
			}
		}
	}
	return found, nil
}

// unpacked returns bytes, and what they hold where they are gzip.
func unpacked(held []byte) []byte {
	reader, err := gzip.NewReader(bytes.NewReader(held))
	if err != nil {
		return held
	}
	const most = 64 << 20
	text, _ := io.ReadAll(io.LimitReader(reader, most)) // what can be read of it
	return append(held, text...)
}
