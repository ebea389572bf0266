package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"
)

// memoryTables are all that hold something of memories.
var memoryTables = []string{
	"memory_users",
	"memories",
	"memory_sources",
	"memory_revisions",
	"memory_extractions",
	"memory_entities",
	"memory_relationships",
	"memory_mentions",
}

// leaveItOff talks to a program without long-term memory, and asks it for everything that has to do with memories.
func leaveItOff(ctx context.Context, s *system, size int) ([]figure, error) {
	s.model.play(canned{extract: proposeAll(truths)})
	p, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	chat := uuid.Nil
	for n := range size {
		if n%8 == 0 {
			chat = uuid.Nil // a new chat makes extractions due, where there are some
		}
		reply, err := p.say(ctx, chat, truths[n%len(truths)].says)
		if err != nil {
			return nil, err
		}
		chat = reply.Started.ChatID
	}
	var answered []string
	for _, r := range []struct{ method, path string }{{http.MethodPost, "/v1/chats/" + chat.String() + "/extract"}, {http.MethodPost, "/v1/memories"}} {
		status, _ := p.call(ctx, r.method, r.path, map[string]any{"content": "The user plays the cello."}, nil) // a refusal is wanted
		if status < http.StatusBadRequest || status >= http.StatusInternalServerError {
			answered = append(answered, fmt.Sprintf("%s %s: %d", r.method, r.path, status))
		}
	}
	for _, job := range []string{"update_memory_graph", "decay_memories"} {
		if err := s.startJob(ctx, job); err != nil {
			return nil, err
		}
	}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	var found []string
	for _, table := range memoryTables {
		n, err := s.number(ctx, "select count(*) from public."+table+" where user_id = $1", p.id)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			found = append(found, fmt.Sprintf("%s: %d", table, n))
		}
	}
	due, err := s.number(ctx, `select count(*) from public.conversation_briefs b where b.user_id = $1 and (b.extract_due_at is not null or `+
		`b.extracted_seq > 0)`, p.id)
	if err != nil {
		return nil, err
	}
	jobs, err := s.number(ctx, `select count(*) from river.river_job where kind in ('extract_memories', 'embed_memories') and args->>'chat_id' in
		(select id::text from public.chats where user_id = $1) or kind = 'embed_memories' and args->>'user_id' = $1::text`, p.id)
	calls := s.model.bills()
	asked := calls[forExtract].calls + calls[forConsolidate].calls + calls[forEntities].calls
	slices.Sort(found)
	return []figure{
		none("rows", len(found)+due, "", append(found, fmt.Sprintf("due: %d", due))...),
		none("model calls", asked, ""),
		none("jobs", jobs, ""),
		none("requests for new memories that are not refused", len(answered), "", answered...),
	}, err
}
