package postgres

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

func (b *bed) usage(user auth.Principal) history.Stats {
	b.t.Helper()
	counted, err := b.searches().CountUsage(b.t.Context(), user)
	if err != nil {
		b.t.Fatal(err)
	}
	return counted
}

func TestCountUsage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stranger := b.newUser()
	if diff := cmp.Diff(history.Stats{}, b.usage(b.user)); diff != "" {
		t.Errorf("of nothing: %s", diff)
	}
	chatID := b.keep(b.user, "Grüße", "東京", "ok", "", "again", "yes")
	expired := b.keep(b.user, "old", "older")
	b.exec("update chats set ttl_hours = 1, created_at = now() - interval '1 day', last_message_at = now() - interval '2 hours' where id = $1", expired)
	b.exec(`update messages set metadata = '{"usage": {"input_tokens": 100, "cached_tokens": 40, "output_tokens": 7}}' where chat_id = $1 and seq in (1, 2)`, chatID)
	b.exec(`update messages set metadata = '{"usage": {"input_tokens": 1, "output_tokens": 3}}' where chat_id = $1 and seq = 2`, expired)
	change := b.claim(chatID, brief.KindFold)
	change.Stats.InputTokens, change.Stats.OutputTokens = 300, 20
	b.mustCommit(change)
	b.exec(`insert into chat_files (chat_id, user_id, sha256, content, token_count) values ($1, $2, sha256('ä'), 'ä', 1)`, chatID, b.user.UserID)
	want := history.Stats{
		Chats: 1, ExpiredChats: 1, Turns: 4, Messages: 8,
		Tokens: history.UsedTokens{
			Reply: history.ReplyTokens{Input: 101, Cached: 40, Output: 10}, // what a user's message says is not a reply's
			Fold:  history.FoldTokens{Input: 300, Output: 20},
		},
		StoredBytes: history.StoredBytes{Messages: 7 + 6 + 2 + 5 + 3 + 3 + 5, Files: 2, Briefs: 2 * int64(len("They talked."))},
	}
	want.StoredBytes.Total = want.StoredBytes.Messages + want.StoredBytes.Files + want.StoredBytes.Briefs
	if diff := cmp.Diff(want, b.usage(b.user)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(history.Stats{}, b.usage(stranger)); diff != "" {
		t.Errorf("a stranger: %s", diff)
	}
	if diff := cmp.Diff(history.Stats{}, b.usage(auth.Principal{UserID: b.user.UserID, Claims: stranger.Claims})); diff != "" {
		t.Errorf("a mistake of ours: %s", diff)
	}

	b.exec("update messages set content = 'again!' where content = 'again'")
	rebuilt := b.claim(chatID, brief.KindRebuild)
	rebuilt.Stats.InputTokens, rebuilt.Stats.OutputTokens = 500, 30
	b.mustCommit(rebuilt)
	if got := b.usage(b.user).Tokens; got.Rebuild != (history.FoldTokens{Input: 500, Output: 30}) || got.Fold != want.Tokens.Fold {
		t.Errorf("after a rebuild: %+v", got)
	}
}

// Anything else that an app wrote in place of token counts is skipped.
func TestCountUsagePassesOverNonsense(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, usage := range []string{
		`7`, `"7"`, `null`, `[1]`, `{}`, `{"input_tokens": "7"}`, `{"input_tokens": null}`, `{"input_tokens": true}`, `{"input_tokens": -7}`,
		`{"input_tokens": 1e300}`, `{"input_tokens": {"input_tokens": 7}}`, `{"input_tokens": [7]}`, `{"input_tokens": 2.5, "output_tokens": "x"}`,
	} {
		chatID := b.keep(b.user, "question", "answer")
		b.exec("update messages set metadata = jsonb_build_object('usage', $2::jsonb) where chat_id = $1", chatID, usage)
	}
	if got := b.usage(b.user).Tokens.Reply; got != (history.ReplyTokens{Input: 2}) {
		t.Errorf("%+v", got)
	}
}
