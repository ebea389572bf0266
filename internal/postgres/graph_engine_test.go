package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// askerFunc is a model that answers with what a function returns.
type askerFunc func(question work.Question) (string, error)

func (f askerFunc) Ask(_ context.Context, question work.Question) (work.Answer, error) {
	text, err := f(question)
	return work.Answer{Text: text, InputTokens: 10, OutputTokens: 5}, err
}

const noEntities = `{"entities": [], "relationships": []}`

// likes answers for each fact "Likes X." with the tool X.
func likes(question work.Question) (string, error) {
	entities, relationships := []string{}, []string{}
	for line := range strings.SplitSeq(question.Input, "\n") {
		alias, fact, ok := strings.Cut(line, ": Likes ")
		if name := strings.TrimSuffix(fact, "."); ok {
			entities = append(entities, fmt.Sprintf(`{"memory": %q, "name": %q, "type": "tool"}`, alias, name))
			relationships = append(relationships, fmt.Sprintf(`{"memory": %q, "source": "User", "relationship": "likes", "target": %q}`, alias, name))
		}
	}
	return `{"entities": [` + strings.Join(entities, ",") + `], "relationships": [` + strings.Join(relationships, ",") + `]}`, nil
}

// update runs update_memory_graph once, with an engine that asks a function.
func (b *bed) update(asker askerFunc) (graph.Report, error) {
	b.t.Helper()
	return graph.New(graph.Config{
		Store: NewGraph(b.pool), Leases: b.work, Asker: asker, Model: "test-1",
		Metrics: metrics.New(), Logger: (&testkit.Log{}).Logger(), CallTimeout: 10 * time.Second,
	}).UpdateGraph(b.t.Context(), time.Minute)
}

func TestGraphLearnsWhatAUserWrote(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.wrote(b.user, "Likes Neovim.")
	b.wrote(b.user, "Sleeps well.")
	b.linked("Likes Emacs.", "Emacs/tool")
	inbox := b.wrote(b.user, "Likes Nano.")
	b.exec("update memories set status = 'inbox' where id = $1", inbox)
	off := b.newUser()
	b.wrote(off, "Likes Secrecy.")
	b.exec("update memory_users set enabled = false where user_id = $1", off.UserID)
	other := b.newUser()
	b.wrote(other, "Likes Vim.")
	var mu sync.Mutex
	var asked []work.Question
	report, err := b.update(func(question work.Question) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, question)
		return likes(question)
	})
	want := graph.Report{Users: 2, Memories: 3, Entities: 2, Relationships: 2, Calls: 2, InputTokens: 20, OutputTokens: 10}
	if err != nil || report != want {
		t.Errorf("%+v, %v", report, err)
	}
	for _, question := range asked {
		if question.Purpose != "entities" || question.Model != "test-1" || question.SchemaName != "entities" || strings.Contains(question.Input, "Emacs") {
			t.Errorf("%+v", question)
		}
	}
	b.wantGraph(history.GraphQuery{}, "User likes Neovim", "Neovim/tool 1", "User/person 1", "Emacs/tool 1")
	is(t, must(b.update(likes))(t), (graph.Report{}), "a second time")
	b.exec("update memories set status = 'active' where id = $1", inbox)
	b.exec("update memories set content = 'Likes Helix.' where content = 'Likes Neovim.'")
	is(t, must(b.update(likes))(t).Memories, 2, "after an edit and an acceptance")
	b.wantGraph(history.GraphQuery{}, "User likes Helix", "User likes Nano", "Helix/tool 1", "Nano/tool 1", "User/person 2", "Emacs/tool 1")
}

// A model that fails loses nothing: the memories wait. One that answers rubbish twice is not asked again.
func TestGraphOfAFailingModel(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	write := func(users int) {
		for range users {
			b.wrote(b.newUser(), "Likes Neovim.")
		}
		b.exec("update throughline.work set retry_at = now() where failures > 0")
	}
	away := errors.New("the model is away")
	failing := func(work.Question) (string, error) { return "", away }
	// once answers the first question, and likes all others.
	once := func(first askerFunc) askerFunc {
		calls := 0
		return func(question work.Question) (string, error) {
			if calls++; calls == 1 {
				return first(question)
			}
			return likes(question)
		}
	}
	var refused []string
	for _, c := range []struct {
		what                            string
		write                           int // users
		model                           askerFunc
		err                             error
		failed, broken, memories, waits int
	}{
		{"fails", 5, failing, away, 3, 0, 0, 5},
		{"works, and its last failures are put off", 0, likes, nil, 0, 0, 2, 3},
		{"fails once", 2, once(failing), away, 1, 0, 4, 1},
		{"answers rubbish twice", 0, func(question work.Question) (string, error) {
			refused = append(refused, question.Instructions)
			return "I like Neovim, too!", nil
		}, nil, 0, 1, 1, 0},
		{"answers rubbish once", 1, once(func(work.Question) (string, error) { return "{", nil }), nil, 0, 0, 1, 0},
	} {
		if c.what != "works, and its last failures are put off" {
			write(c.write)
		}
		report, err := b.update(c.model)
		is(t, tuple(errors.Is(err, c.err), report.Failed, report.Broken, report.Memories, b.count(waiting)), tuple(true, c.failed, c.broken, c.memories, c.waits),
			"a model that %s: %+v, %v", c.what, report, err)
	}
	if len(refused) != 2 || !strings.Contains(refused[1], "refused") {
		t.Errorf("%q", refused)
	}
}

// What changes while the model thinks is asked for again; what is deleted stays deleted.
func TestGraphOfMemoriesThatChangeMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	edited, deleted := b.wrote(b.user, "Likes Neovim."), b.wrote(b.user, "Likes Emacs.")
	b.wrote(b.user, "Likes Vim.")
	report, err := b.update(func(question work.Question) (string, error) {
		b.exec("update memories set content = 'Hates Neovim.' where id = $1", edited)
		b.exec("delete from memories where id = $1", deleted)
		return likes(question)
	})
	is(t, tuple(err, report.Changed, b.count(waiting)), tuple(nil, 3, 1), "%+v, … wait", report) // the edited one twice: there was a second round
	b.wantGraph(history.GraphQuery{}, "User likes Vim", "Vim/tool 1", "User/person 1")
	report, err = b.update(func(work.Question) (string, error) {
		b.exec("delete from auth.users where id = $1", b.user.UserID)
		return noEntities, nil
	})
	is(t, tuple(err, report.Changed), tuple(nil, 1), "a user who leaves: %+v", report)
}

// Two workers share the users; each memory is asked for once. Many memories of a user are asked for some at a time.
func TestTwoWorkersUpdateTheGraph(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for range 20 {
		b.wrote(b.newUser(), "Likes Neovim.")
	}
	for n := range 50 {
		b.wrote(b.user, fmt.Sprintf("Likes Tool%d.", n))
	}
	var mu sync.Mutex
	calls := map[uuid.UUID]int{}
	together(t, 4, func(int) error {
		return errOf(b.update(func(question work.Question) (string, error) {
			mu.Lock()
			calls[question.UserID]++
			mu.Unlock()
			return likes(question)
		}))
	})
	is(t, tuple(len(calls), calls[b.user.UserID], b.count(waiting)), tuple(21, 3, 0), "users, calls for many memories, … wait")
	for user, n := range calls {
		is(t, n == 1, user != b.user.UserID, "%d calls for a user", n)
	}
	b.checkGraph()
}

// waiting are the memories whose entities are to be asked for.
const waiting = "memories where graph_version is null and status = 'active'"
