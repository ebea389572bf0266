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

// searchStore answers every search with the same and keeps what it was asked. It does nothing else.
type searchStore struct {
	history.Store
	asked chan history.SearchQuery
	found []history.SearchResult
	stats history.Stats
}

func (s *searchStore) Search(_ context.Context, _ auth.Principal, query history.SearchQuery) ([]history.SearchResult, error) {
	s.asked <- query
	return s.found, nil
}

func (s *searchStore) CountUsage(context.Context, auth.Principal) (history.Stats, error) {
	return s.stats, nil
}

func newSearchHarness(t *testing.T, store *searchStore) *harness {
	t.Helper()
	store.asked = make(chan history.SearchQuery, 100)
	return newHarness(t, says("x"), func(c *Config) { c.History = store })
}

func TestSearchAsksWhatTheParametersSay(t *testing.T) {
	t.Parallel()
	store := &searchStore{found: []history.SearchResult{}}
	h := newSearchHarness(t, store)
	chatID := uuid.MustParse(exampleChat)
	before := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	after := time.Date(2026, 11, 20, 23, 0, 0, 500_000_000, time.UTC)
	for path, want := range map[string]history.SearchQuery{
		"?q=scale":          {Text: "scale", Limit: 20},
		"?q=%E6%9D%B1+%22a": {Text: `東 "a`, Limit: 20},
		"?q=a&limit=100&role=assistant&chat_id=" + exampleChat:                 {Text: "a", Limit: 100, Role: "assistant", ChatID: chatID},
		"?q=a&before=2026-11-21T12:00:00Z&after=2026-11-21T00:00:00.5%2B01:00": {Text: "a", Limit: 20, Before: &before, After: &after},
		"?q=" + strings.Repeat("%E6%9D%B1", 500):                               {Text: strings.Repeat("東", 500), Limit: 20},
	} {
		answer := h.call(http.MethodGet, "/v1/search"+path, "")
		if answer.status != http.StatusOK || string(answer.body) != `{"results":[]}`+"\n" {
			t.Fatalf("%s: %d %s", path, answer.status, answer.body)
		}
		if diff := cmp.Diff(want, <-store.asked); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

func TestSearchAnswersWithWhatWasFound(t *testing.T) {
	t.Parallel()
	store := &searchStore{found: []history.SearchResult{{
		MessageID: uuid.MustParse(exampleReply), ChatID: uuid.MustParse(exampleChat), ChatTitle: "Scales", Seq: 4, Role: "assistant",
		CreatedAt: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Rank: 0.5,
		Snippet: history.Snippet{Text: "a slow scale", Highlights: []history.Highlight{{Start: 2, End: 6}}},
	}}}
	answer := newSearchHarness(t, store).call(http.MethodGet, "/v1/search?q=slow", "")
	var got, want any
	answer.decode(t, &got)
	answered{body: []byte(`{"results": [{"message_id": "` + exampleReply + `", "chat_id": "` + exampleChat + `", "chat_title": "Scales", "seq": 4,
		"role": "assistant", "created_at": "2026-11-21T12:00:00Z", "rank": 0.5, "snippet": "a slow scale", "highlights": [{"start": 2,
			"end": 6}]}]}`)}.decode(t, &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStatsAreToldWhole(t *testing.T) {
	t.Parallel()
	store := &searchStore{stats: history.Stats{
		Chats: 1, ExpiredChats: 2, Turns: 3, Messages: 4,
		Tokens: history.UsedTokens{
			Reply: history.ReplyTokens{Input: 5, Cached: 6, Output: 7}, Fold: history.FoldTokens{Input: 8, Output: 9},
			Rebuild: history.FoldTokens{Input: 10, Output: 11},
		},
		StoredBytes: history.StoredBytes{Messages: 12, Files: 13, Briefs: 14, Total: 39},
	}}
	answer := newSearchHarness(t, store).call(http.MethodGet, "/v1/stats", "")
	want := `{"chats":1,"expired_chats":2,"turns":3,"messages":4,"tokens":{"reply":{"input":5,"cached":6,"output":7},"fold":{"input":8,"output":9},` +
		`"rebuild":{"input":10,"output":11}},"stored_bytes":{"messages":12,"files":13,"briefs":14,"total":39}}` + "\n"
	if string(answer.body) != want {
		t.Errorf("%s", answer.body)
	}
}
