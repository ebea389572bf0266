package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

// attempts makes every call about a topic, and returns the codes of the refusals.
func (p *topical) attempts(user auth.Principal, ref history.TopicRef, messageID uuid.UUID) map[string]fault.Code {
	p.t.Helper()
	ctx, codes := p.t.Context(), map[string]fault.Code{}
	note := func(name string, err error) { codes[name] = fault.CodeOf(err) }
	_, err := p.store.ListTopics(ctx, user, ref.ChatID, history.TopicsQuery{Limit: 10})
	note("list", err)
	_, err = p.store.FindTopic(ctx, user, ref)
	note("find", err)
	_, err = p.store.ChangeTopic(ctx, user, ref, history.TopicChange{Title: new("Mine")})
	note("change", err)
	_, err = p.store.TopicHistory(ctx, user, ref, history.TopicHistoryQuery{IncludeCompressed: true})
	note("history", err)
	_, err = p.store.TopicStats(ctx, user, ref)
	note("stats", err)
	_, err = p.store.TopicArchive(ctx, user, ref)
	note("archive", err)
	_, err = p.store.TopicContext(ctx, user, ref)
	note("context", err)
	_, err = p.store.MergeTopic(ctx, user, ref, p.rosin)
	note("merge", err)
	_, err = p.store.RateMessage(ctx, user, messageID, history.Feedback{Rating: new(1)})
	note("rate", err)
	return codes
}

func (p *topical) everything() string {
	return ask[string](p.bed, "select (select json_agg(t order by number)::text from topics t) || (select json_agg(m order by seq)::text from messages m)")
}

func TestTopicsOfOthersDoNotExist(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.pack(4)
	stranger := p.newUser()
	theirs := p.create(stranger)
	before := p.everything()
	for _, c := range []struct {
		who         string
		user        auth.Principal
		ref         history.TopicRef
		list, other fault.Code
	}{
		{"a stranger", stranger, p.ref(p.bows), fault.ChatNotFound, fault.ChatNotFound},
		{"a stranger, current", stranger, p.current(), fault.ChatNotFound, fault.ChatNotFound},
		{"a stranger, through a chat of theirs", stranger, history.TopicRef{ChatID: theirs, ID: p.bows}, "", fault.TopicNotFound},
		{"somebody who does not exist", principalOf(t, uuid.New()), p.ref(p.bows), fault.ChatNotFound, fault.ChatNotFound},
	} {
		for name, code := range p.attempts(c.user, c.ref, p.messages[0]) {
			want := map[string]fault.Code{"list": c.list, "rate": fault.MessageNotFound}[name]
			if want == "" && name != "list" {
				want = c.other
			}
			if code != want {
				t.Errorf("%s, %s: %q, want %q", c.who, name, code, want)
			}
		}
	}
	for name, ref := range map[string]history.TopicRef{"no topic": p.ref(uuid.New()), "the nil id": p.ref(uuid.Nil)} {
		for call, code := range p.attempts(p.user, ref, uuid.New()) {
			want := map[string]fault.Code{"list": "", "rate": fault.MessageNotFound}
			if wanted, ok := want[call]; ok && code != wanted || !ok && code != fault.TopicNotFound {
				t.Errorf("%s, %s: %q", name, call, code)
			}
		}
	}
	if after := p.everything(); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
}

func TestTopicsOfAnExpiredChat(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	shelfOf(p.bed).expire(p.chat)
	before := p.everything()
	for name, code := range p.attempts(p.user, p.ref(p.bows), p.messages[0]) {
		if code != fault.ChatExpired {
			t.Errorf("%s: %q", name, code)
		}
	}
	if after := p.everything(); after != before {
		t.Error("something changed")
	}
}

// The app's own rules hold for topics and ratings.
func TestOwnersRulesAboutTopics(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.exec("create policy no_topics on topics as restrictive for update to authenticated using (false)")
	if _, err := p.store.ChangeTopic(t.Context(), p.user, p.ref(p.bows), history.TopicChange{Title: new("Mine")}); fault.CodeOf(err) != fault.ForbiddenByPolicy {
		t.Errorf("change: %v", err)
	}
	if rated, err := p.store.RateMessage(t.Context(), p.user, p.messages[0], history.Feedback{Rating: new(-1)}); err != nil || *rated.Rating != -1 {
		t.Errorf("rate a message of such a topic: %v", err)
	}
	if ask[float32](p.bed, "select importance from topics where id = $1", p.bows) != 1 {
		t.Error("the rating moved the topic")
	}
	p.exec("create policy no_ratings on messages as restrictive for update to authenticated using (false)")
	if _, err := p.store.RateMessage(t.Context(), p.user, p.messages[0], history.Feedback{Rating: new(1)}); fault.CodeOf(err) != fault.ForbiddenByPolicy {
		t.Errorf("rate: %v", err)
	}
	if ask[int](p.bed, "select count(*) from messages where rating = 1") != 0 {
		t.Error("a rating was stored")
	}
}

// A topic that began before what a time.Duration reaches has faded.
func TestVeryOldTopic(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.exec("update topics set created_at = '0001-01-01 00:00Z', last_active_at = '0001-01-01 00:00Z' where id = $1", p.bows)
	found, err := p.store.FindTopic(t.Context(), p.user, p.ref(p.bows))
	if err != nil || found.Priority != 0 || found.CreatedAt.Year() != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	stats, err := p.store.TopicStats(t.Context(), p.user, p.ref(p.bows))
	if years := time.Duration(stats.AgeSeconds / (365.2425 * 24 * 60 * 60)); err != nil || years < 2000 {
		t.Errorf("%+v, %v", stats, err)
	}
}
