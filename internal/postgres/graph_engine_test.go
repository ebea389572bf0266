package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	var entities, relationships []string
	for line := range strings.SplitSeq(question.Input, "\n") {
		alias, fact, ok := strings.Cut(line, ": Likes ")
		if name := strings.TrimSuffix(fact, "."); ok {
			entities = append(entities, fmt.Sprintf(`{"memory": %q, "name": %q, "type": "tool"}`, alias, name))
			relationships = append(relationships, fmt.Sprintf(`{"memory": %q, "source": "User", "relationship": "likes", "target": %q}`, alias, name))
		}
	}
	return `{"entities": [` + strings.Join(entities, ",") + `], "relationships": [` + strings.Join(relationships, ",") + `]}`, nil
}

// grapher is an engine that asks a function.
func (b *bed) grapher(asker askerFunc) *graph.Engine {
	return graph.New(graph.Config{
		Store: NewGraph(b.pool), Leases: b.work, Asker: asker, Model: "test-1",
		Metrics: metrics.New(), Logger: (&testkit.Log{}).Logger(), CallTimeout: 10 * time.Second,
	})
}

// update runs update_memory_graph once.
func (b *bed) update(asker askerFunc) (graph.Report, error) {
	b.t.Helper()
	return b.grapher(asker).UpdateGraph(b.t.Context(), time.Minute)
}

func (b *bed) waiting() int {
	b.t.Helper()
	return b.count("memories where graph_version is null and status = 'active'")
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

// Many memories are asked for some at a time.
func TestGraphAsksForSomeMemoriesAtATime(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for n := range 50 {
		b.wrote(b.user, fmt.Sprintf("Likes Tool%d.", n))
	}
	report := must(b.update(likes))(t)
	is(t, tuple(report.Calls, report.Memories, report.Users, b.waiting()), tuple(3, 50, 1, 0), "%+v, … wait", report)
	b.checkGraph()
}

// A model that fails loses nothing: the memories wait. One that answers rubbish twice is not asked again.
func TestGraphOfAFailingModel(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for range 5 {
		b.wrote(b.newUser(), "Likes Neovim.")
	}
	failing := errors.New("the model is away")
	report, err := b.update(func(work.Question) (string, error) { return "", failing })
	if !errors.Is(err, failing) || report.Failed != 3 || report.Memories != 0 || b.waiting() != 5 {
		t.Errorf("%+v, %v, %d wait", report, err, b.waiting())
	}
	if report, err := b.update(likes); err != nil || report.Memories != 2 || b.waiting() != 3 {
		t.Errorf("those of whom it has not failed: %+v, %v, %d wait", report, err, b.waiting())
	}
	b.wrote(b.newUser(), "Likes Neovim.")
	b.wrote(b.newUser(), "Likes Neovim.")
	tryAgain := func() { b.exec("update throughline.work set retry_at = now() where failures > 0") }
	tryAgain()
	calls := 0
	report, err = b.update(func(question work.Question) (string, error) {
		if calls++; calls == 1 {
			return "", failing
		}
		return likes(question)
	})
	tryAgain()
	if !errors.Is(err, failing) || report.Failed != 1 || report.Memories != 4 || b.waiting() != 1 {
		t.Errorf("%+v, %v, %d wait", report, err, b.waiting())
	}
	var instructions []string
	report, err = b.update(func(question work.Question) (string, error) {
		instructions = append(instructions, question.Instructions)
		return "I like Neovim, too!", nil
	})
	if err != nil || report.Broken != 1 || report.Calls != 2 || b.waiting() != 0 || len(instructions) != 2 || !strings.Contains(instructions[1], "refused") {
		t.Errorf("%+v, %v, %d wait, %q", report, err, b.waiting(), instructions)
	}
	b.wrote(b.user, "Likes Vim.")
	calls = 0
	report, err = b.update(func(question work.Question) (string, error) {
		if calls++; calls == 1 {
			return "{", nil
		}
		return likes(question)
	})
	is(t, tuple(err, report.Broken, report.Calls, report.Relationships), tuple(nil, 0, 2, 1), "rubbish, then an answer: %+v", report)
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
	is(t, tuple(err, report.Changed, b.waiting()), tuple(nil, 3, 1), "%+v, … wait", report) // the edited one twice: there was a second round
	b.wantGraph(history.GraphQuery{}, "User likes Vim", "Vim/tool 1", "User/person 1")
	report, err = b.update(func(work.Question) (string, error) {
		b.exec("delete from auth.users where id = $1", b.user.UserID)
		return noEntities, nil
	})
	is(t, tuple(err, report.Changed), tuple(nil, 1), "a user who leaves: %+v", report)
}

// Two workers share the users; each memory is asked for once.
func TestTwoWorkersUpdateTheGraph(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for range 20 {
		b.wrote(b.newUser(), "Likes Neovim.")
	}
	var mu sync.Mutex
	users := []string{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, err := b.update(func(question work.Question) (string, error) {
				mu.Lock()
				users = append(users, question.UserID.String())
				mu.Unlock()
				return likes(question)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	slices.Sort(users)
	is(t, tuple(len(users), len(slices.Compact(users)), b.waiting()), tuple(20, 20, 0), "calls, … wait")
	b.checkGraph()
}
