package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
)

// Limits of a search.
const (
	MaxQuery             = 500 // characters
	DefaultSearchResults = 20
	MaxSearchResults     = 100
	// SearchCandidates are the newest matches that are ranked; older ones are not looked at.
	SearchCandidates = 500
)

// Roles of messages.
var Roles = []string{"user", "assistant", "system", "tool"}

// Searches is what the Service needs of Postgres for searching and counting.
type Searches interface {
	// Search ranks the user's own messages. It refuses with NoChat and Expired for the chat that a query names.
	Search(ctx context.Context, user auth.Principal, query SearchQuery) ([]SearchResult, error)
	CountUsage(ctx context.Context, user auth.Principal) (Stats, error)
}

// SearchQuery is what to look for. Text alone is required.
type SearchQuery struct {
	// Text is in the syntax of web search engines: words, "phrases", or, -not.
	Text string
	// ChatID looks into one chat; uuid.Nil into all.
	ChatID uuid.UUID
	// Role of the messages; "" for any.
	Role string
	// After and Before bound the time of the messages: from After on, up to but without Before.
	After, Before *time.Time
	// Limit of results, from 1 to MaxSearchResults. Defaults to DefaultSearchResults.
	Limit int
}

// SearchResult is a message that was found.
type SearchResult struct {
	MessageID uuid.UUID `json:"message_id"`
	ChatID    uuid.UUID `json:"chat_id"`
	ChatTitle string    `json:"chat_title"`
	Seq       int64     `json:"seq"`
	Role      string    `json:"role"`
	CreatedAt time.Time `json:"created_at"`
	// Rank is higher for a better match; it compares results of one search alone.
	Rank float32 `json:"rank"`
	Snippet
}

// Search finds the user's messages, the best matches first.
func (s *Service) Search(ctx context.Context, user auth.Principal, query SearchQuery) ([]SearchResult, error) {
	if err := query.complete(); err != nil {
		return nil, err
	}
	return s.store.Search(ctx, user, query)
}

func (q *SearchQuery) complete() error {
	wrong := map[string]any{}
	switch length := utf8.RuneCountInString(q.Text); {
	case length == 0 || length > MaxQuery:
		wrong["q"] = fmt.Sprintf("must have 1 to %d characters", MaxQuery)
	case strings.ContainsRune(q.Text, 0) || !utf8.ValidString(q.Text):
		wrong["q"] = "must be UTF-8 without the character U+0000"
	}
	if q.Role != "" && !slices.Contains(Roles, q.Role) {
		wrong["role"] = "must be one of " + strings.Join(Roles, ", ")
	}
	if q.Limit == 0 {
		q.Limit = DefaultSearchResults
	}
	checkWhole(wrong, "limit", &q.Limit, MaxSearchResults)
	return invalid(wrong)
}
