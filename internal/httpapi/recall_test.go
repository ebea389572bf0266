package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/history"
)

// recallStore answers every question with the same and keeps the last one.
type recallStore struct {
	asked history.RecallQuery
	found []history.RecallResult
	fails error
}

func (s *recallStore) Recall(_ context.Context, _ auth.Principal, query history.RecallQuery) ([]history.RecallResult, error) {
	s.asked = query
	return s.found, s.fails
}

func TestRecallAnswersAQuestion(t *testing.T) {
	t.Parallel()
	store := &recallStore{found: []history.RecallResult{{
		ChatID: uuid.MustParse(exampleChat), Seq: 4, MessageID: uuid.MustParse(exampleReply), Role: "user",
		CreatedAt: time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC), Score: 1.5, Text: "It was the A string.", Why: "string, broke",
	}}}
	h := newHarness(t, says("x"), func(c *Config) { c.Recall = store })
	for path, want := range map[string]history.RecallQuery{
		"?q=Which+string%3F": {Text: "Which string?", Limit: 20},
		"?q=a&limit=100&chat_id=" + exampleChat + "&topic_id=" + exampleReply: {
			Text: "a", Limit: 100, ChatID: exampleChat, Chat: uuid.MustParse(exampleChat), TopicID: exampleReply, Topic: uuid.MustParse(exampleReply),
		},
		"?q=" + strings.Repeat("%E6%9D%B1", 500): {Text: strings.Repeat("東", 500), Limit: 20},
	} {
		answer := h.call(http.MethodGet, "/v1/recall"+path, "")
		if answer.status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, answer.status, answer.body)
		}
		if diff := cmp.Diff(want, store.asked); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
		var got, want any
		answer.decode(t, &got)
		answered{body: []byte(`{"results": [{"chat_id": "` + exampleChat + `", "seq": 4, "message_id": "` + exampleReply + `", "role": "user",
			"created_at": "2026-03-03T12:00:00Z", "score": 1.5, "text": "It was the A string.", "why": "string, broke"}]}`)}.decode(t, &want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}
