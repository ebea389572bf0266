package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/history"
)

// memories remember what the demo says, by its words. The faults are what a server could do wrong.
type memories struct {
	forgetsNothing, showsNothing, showsTheForgotten, neverCorrects, learnsNothing bool

	mu      sync.Mutex
	all     []history.Memory
	deleted []history.Memory
	asked   []string // searches for what to forget
}

// learn is an extraction of what was said so far.
func (m *memories) learn(said []string) history.Extraction {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := strings.Join(said, " ")
	done := history.Extraction{Result: "done", Calls: 1}
	for word, content := range map[string]string{"allergic to walnuts": "Is allergic to walnuts.", "live in Lyon": "Lives in Lyon.", "moved to Porto": "Lives in Porto."} {
		known := func(one history.Memory) bool { return one.Content == content }
		if m.learnsNothing || !strings.Contains(text, word) || slices.ContainsFunc(m.all, known) {
			continue
		}
		if word == "moved to Porto" && !m.neverCorrects {
			for i := range m.all {
				if m.all[i].Content == "Lives in Lyon." {
					m.all[i].Status = "superseded"
					done.Superseded++
				}
			}
		}
		m.all = append(m.all, history.Memory{ID: uuid.New(), Content: content, Status: "active"})
		done.Added++
	}
	return done
}

// shownFor returns the ids that a prompt of a question shows.
func (m *memories) shownFor(question string) []uuid.UUID {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := []uuid.UUID{}
	shown := slices.Clone(m.all)
	if m.showsTheForgotten {
		shown = append(shown, m.deleted...)
	}
	for _, one := range shown {
		about := strings.Contains(question, "allergic to?") && strings.Contains(one.Content, "walnuts") || strings.Contains(question, "live?") && strings.Contains(one.Content, "Lives")
		if about && one.Status == "active" && !m.showsNothing {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

func (a *api) off(w http.ResponseWriter) bool {
	if a.memories == nil {
		refuse(w, http.StatusConflict, "memory_off", "This server remembers nothing.")
	}
	return a.memories == nil
}

func (a *api) answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		a.t.Error(err)
	}
}

func (a *api) extract(w http.ResponseWriter, r *http.Request) {
	if a.off(w) {
		return
	}
	if r.PathValue("id") != a.chat.String() {
		a.t.Errorf("an extraction of %s", r.PathValue("id"))
	}
	a.mu.Lock()
	said := slices.Clone(a.contents)
	a.mu.Unlock()
	a.answer(w, a.memories.learn(said))
}

func (a *api) list(w http.ResponseWriter, r *http.Request) {
	if a.off(w) {
		return
	}
	a.memories.mu.Lock()
	defer a.memories.mu.Unlock()
	page := history.MemoryPage{Memories: []history.Memory{}}
	for _, one := range a.memories.all {
		if one.Status == r.URL.Query().Get("status") {
			page.Memories = append(page.Memories, one)
		}
	}
	a.answer(w, page)
}

func (a *api) forget(w http.ResponseWriter, r *http.Request) {
	if a.off(w) {
		return
	}
	var body struct{ Query, Token string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	m := a.memories
	m.mu.Lock()
	defer m.mu.Unlock()
	about := func(one history.Memory) bool { return strings.Contains(one.Content, "walnuts") }
	if body.Token == "" {
		m.asked = append(m.asked, body.Query)
		offer := map[string]any{"token": "sure", "candidates": []history.ForgetCandidate{{ID: uuid.New(), Content: "Is allergic to walnuts."}}}
		a.answer(w, offer)
		return
	}
	if !m.forgetsNothing && body.Token == "sure" {
		m.deleted = append(m.deleted, m.all[slices.IndexFunc(m.all, about)])
		m.all = slices.DeleteFunc(m.all, about)
	}
	a.answer(w, map[string]int{"forgotten": len(m.deleted)})
}

func runBuiltin(ctx context.Context, a *api) (printed string, err error) {
	o := a.options("")
	o.Conversation, o.Turns, o.Question = nil, 1, "And?"
	_, err = Run(ctx, o)
	return o.Out.(*strings.Builder).String(), err
}

func TestRunShowsMemories(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.memories = &memories{}
	printed, err := runBuiltin(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{
		"chat 1  > I am allergic to walnuts. I live in Lyon.", "remembered: Is allergic to walnuts.", "chat 2  > What am I allergic to?",
		"1 memory", "2 added, 0 superseded", "remembered: Lives in Porto.", "kept as history: Lives in Lyon.", "chat 3  > Where do I live?", "would forget:", "yes: 1 forgotten",
		"chat 4  > What am I allergic to?", "TOKEN BILL  1 turn",
	} {
		if !strings.Contains(printed, said) {
			t.Errorf("not printed: %q", said)
		}
	}
	if t.Failed() || !slices.Equal(a.memories.asked, []string{"walnuts"}) {
		t.Errorf("asked to forget %q, printed:\n%s", a.memories.asked, printed)
	}
}

func TestRunFailsWhenAMemoryIsNotWhereItBelongs(t *testing.T) {
	t.Parallel()
	for says, m := range map[string]*memories{
		"no memory (active) of walnut":   {learnsNothing: true},
		"did not reach the next chat":    {showsNothing: true},
		"no memory (superseded) of Lyon": {neverCorrects: true},
		"of walnut is still active":      {forgetsNothing: true},
		"was forgotten was shown again":  {showsTheForgotten: true},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.memories = m
			printed, err := runBuiltin(t.Context(), a)
			if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(printed, "TOKEN BILL") {
				t.Errorf("%v, printed:\n%s", err, printed)
			}
		})
	}
}

func TestRunSaysThatNothingIsRemembered(t *testing.T) {
	t.Parallel()
	printed, err := runBuiltin(t.Context(), newAPI(t))
	if err != nil || !strings.Contains(printed, "LONG_TERM_MEMORY=false") {
		t.Errorf("%v, printed:\n%s", err, printed)
	}
}
