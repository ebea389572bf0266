package history

import (
	"context"

	"github.com/arcoscribe/throughline/internal/auth"
)

// Stats are what a user's chats amount to. Counts, tokens and bytes are of everything that is stored, expired
// chats as well.
type Stats struct {
	// Chats are those that have not expired.
	Chats        int64       `json:"chats"`
	ExpiredChats int64       `json:"expired_chats"`
	Turns        int64       `json:"turns"`
	Messages     int64       `json:"messages"`
	Tokens       UsedTokens  `json:"tokens"`
	StoredBytes  StoredBytes `json:"stored_bytes"`
}

// UsedTokens are the tokens that models counted, by what they were used for.
type UsedTokens struct {
	Reply   ReplyTokens `json:"reply"`
	Fold    FoldTokens  `json:"fold"`
	Rebuild FoldTokens  `json:"rebuild"`
}

// ReplyTokens are those of replies. Cached is a part of Input.
type ReplyTokens struct {
	Input  int64 `json:"input"`
	Cached int64 `json:"cached"`
	Output int64 `json:"output"`
}

// FoldTokens are those of summaries.
type FoldTokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// StoredBytes are the octets of stored text in UTF-8, without what Postgres adds.
type StoredBytes struct {
	Messages int64 `json:"messages"`
	Files    int64 `json:"files"`
	// Briefs are the summaries in use and the earlier ones that are kept.
	Briefs int64 `json:"briefs"`
	Total  int64 `json:"total"`
}

// CountUsage gives the user's Stats.
func (s *Service) CountUsage(ctx context.Context, user auth.Principal) (Stats, error) {
	return s.store.CountUsage(ctx, user)
}
