package demo

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

// topics are those of an imported chat: the bow, and two others. The faults are what a server could do wrong.
type topics struct {
	forgetsNothing, showsNothing, recallsNothing, recallsOthers, restoresNothing, noSection, packsLess bool

	mu       sync.Mutex
	bow      uuid.UUID
	asked    int // questions about the bow
	messages int // that were imported
	searches []string
}

func newTopics() *topics { return &topics{bow: uuid.New()} }

// shownFor returns the topic that a prompt of a question shows.
func (o *topics) shownFor(question string) uuid.UUID {
	if o == nil || question != bowQuestion && question != bowAgain {
		return uuid.Nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	if o.showsNothing {
		return uuid.Nil
	}
	return o.bow
}

func (o *topics) recalledFor(question string) []int64 {
	switch {
	case o == nil || question != bowQuestion && question != bowAgain || o.recallsNothing:
		return nil
	case o.recallsOthers:
		return []int64{7, 20}
	}
	return []int64{7}
}

// importChat checks the file, and answers with the one chat of the server.
func (a *api) importChat(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
	}
	messages := 0
	_, records, err := bundle.Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		a.t.Error(err)
		return
	}
	for record, err := range records {
		if err != nil || record.Chat != nil && (*record.Chat.Remember || *record.Chat.MaxTurns != wanderingTurns) {
			a.t.Errorf("a line of the file: %v, %+v", err, record.Chat)
		}
		if record.Message != nil {
			messages++
		}
	}
	if a.topics != nil {
		a.topics.mu.Lock()
		a.topics.messages = messages
		a.topics.mu.Unlock()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: import.completed\ndata: {\"chats\":[{\"chat_id\":%q}],\"imported\":1,\"messages\":%d}\n\n", a.chat, messages)
}

func (a *api) listTopics(w http.ResponseWriter, _ *http.Request) {
	if a.topics == nil {
		a.answer(w, history.TopicPage{Topics: []history.Topic{{ID: uuid.New(), Number: 1, Title: "My cello bow has …", State: "active", MessageCount: 1 << 20}}})
		return
	}
	o := a.topics
	o.mu.Lock()
	defer o.mu.Unlock()
	bow := history.Topic{ID: o.bow, Number: 1, Title: "My cello bow has lost\x1b[2J its camber", State: "archived", MessageCount: 14, MemoryType: "transitioning", HalfLifeDays: 2, Priority: 0.01}
	if o.forgetsNothing || o.asked == 2 && !o.restoresNothing {
		bow.State, bow.Priority = "active", 1
	}
	other := func(n int) history.Topic {
		return history.Topic{ID: uuid.New(), Number: n, Title: fmt.Sprint("Other thing ", n), State: "active", MessageCount: 2, MemoryType: "short-term", HalfLifeDays: 1}
	}
	a.answer(w, history.TopicPage{Topics: []history.Topic{other(6), other(5), other(4), bow, other(3)}})
}

func (a *api) topicStats(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("topic") != a.topics.bow.String() {
		a.t.Errorf("figures of topic %s", r.PathValue("topic"))
	}
	stats := history.TopicStats{CompressedMessages: 14, TotalMessages: 14}
	if a.topics.packsLess {
		stats.CompressedMessages = 10
	}
	a.answer(w, stats)
}

func (a *api) preview(w http.ResponseWriter, r *http.Request) {
	p := chat.PromptPreview{Sections: []prompt.Section{}}
	if !a.topics.noSection && strings.Contains(r.URL.Query().Get("content"), "bow") {
		p.Sections = append(p.Sections, prompt.Section{Account: prompt.Account{Name: "topic"}, Text: "TOPIC (the conversation has come back to it): My cello bow, since 3 March 2026, 7 turns\nThe user said:\n- I chose the dark rosin."})
	}
	a.answer(w, p)
}

func (a *api) recall(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("topic_id") != a.topics.bow.String() || query.Get("chat_id") != a.chat.String() {
		a.t.Errorf("a search of %v", query)
	}
	a.topics.mu.Lock()
	a.topics.searches = append(a.topics.searches, query.Get("q"))
	a.topics.mu.Unlock()
	a.answer(w, map[string]any{"results": []history.RecallResult{{Seq: 7}, {Seq: 8}}})
}

func TestRunComesBackToATopic(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.topics = newTopics()
	printed, err := runBuiltin(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{
		"seven turns about a cello bow, then ", " 1  archived  priority 0.01  transitioning, half-life 2 d, 14 messages  My cello bow has lost its camber", "… and 1 more",
		"packed  14 messages of 14", "| TOPIC (the conversation has come back to it): My cello bow, since 3 March 2026, 7 turns", "| - I chose the dark rosin.",
		"> Back to my cello bow: which rosin", "(1 turn recalled within the topic)", `"rosin" within the topic finds 2 messages`, " 1  active    priority 1.00",
	} {
		if !strings.Contains(printed, said) {
			t.Errorf("not printed: %q", said)
		}
	}
	if t.Failed() || !slices.Equal(a.topics.searches, []string{bowQuestion, "rosin"}) || a.topics.messages < 60 {
		t.Errorf("%d messages, searched for %q, printed:\n%s", a.topics.messages, a.topics.searches, printed)
	}
}

func TestRunFailsWhenATopicIsNotWhereItBelongs(t *testing.T) {
	t.Parallel()
	for says, o := range map[string]*topics{
		"the topic of the bow is not archived": {forgetsNothing: true},
		"in the archived topic 10 are packed":  {packsLess: true},
		"no section for the topic":             {noSection: true},
		"was not shown":                        {showsNothing: true},
		"nothing recalled of it":               {recallsNothing: true},
		"message 20 was recalled":              {recallsOthers: true},
		"the topic of the bow is not active":   {restoresNothing: true},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			o.bow, a.topics = uuid.New(), o
			c := client.New(a.URL, testToken)
			defer c.Close()
			w := &wanderer{scene: (&player{Options: a.options(""), client: c}).scene(), patience: time.Millisecond}
			if err := w.play(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRunSaysThatThereAreNoTopics(t *testing.T) {
	t.Parallel()
	o := newAPI(t).options("")
	o.Conversation, o.Turns, o.Question = nil, 1, "And?"
	_, err := Run(t.Context(), o)
	if printed := o.Out.(*strings.Builder).String(); err != nil || !strings.Contains(printed, "no embedder that tells texts apart") {
		t.Errorf("%v, printed:\n%s", err, printed)
	}
	o = newAPI(t).options("")
	o.Conversation, o.Turns, o.Question, o.NoTopics = nil, 1, "And?", true
	if _, err := Run(t.Context(), o); err != nil || !strings.Contains(o.Out.(*strings.Builder).String(), "TOPICS=off") {
		t.Errorf("%v, printed:\n%s", err, o.Out)
	}
}

// The bow's topic has faded when the conversation is imported, and no turn is in the future.
func TestWanderingConversationIsOfLongAgo(t *testing.T) {
	t.Parallel()
	lines, err := ReadConversation(strings.NewReader(wandering))
	if err != nil {
		t.Fatal(err)
	}
	if last := time.Duration(len(lines)/2) * wanderingGap; last > wanderingAge-10*24*time.Hour || len(lines)%2 != 0 {
		t.Errorf("%d lines, the last after %s", len(lines), last)
	}
	for n, line := range lines {
		if line.Role != roles[n%2] || n < 14 && !strings.Contains(line.Content, "bow") {
			t.Errorf("line %d is %s: %s", n+1, line.Role, line.Content)
		}
	}
}
