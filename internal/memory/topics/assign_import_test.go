package topics_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

func (r *assignRig) transfer() *transfer.Service {
	store := postgres.NewTransfer(r.pool, memory.DefaultLimits(), postgres.Enqueue{Fold: func(context.Context, pgx.Tx, uuid.UUID) error { return nil }},
		postgres.UserMemoriesOptions{})
	return transfer.New(transfer.Config{Store: store, Logger: slog.New(slog.DiscardHandler), TempDir: r.t.TempDir()})
}

func (r *assignRig) principal() auth.Principal {
	return auth.Principal{UserID: r.user, Claims: `{"sub": "` + r.user.String() + `", "role": "authenticated"}`}
}

// export returns a chat's bundle and its topics, whose turns are places of messages.
func (r *assignRig) export(chatID uuid.UUID) (file string, found []bundle.Topic) {
	r.t.Helper()
	export, err := r.transfer().Export(r.t.Context(), r.principal(), chatID)
	require.NoError(r.t, err)
	var out bytes.Buffer
	require.NoError(r.t, export.Write(r.t.Context(), &out, transfer.FormatLines))
	_, records, err := bundle.Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(r.t, err)
	places := map[string]string{}
	for record, err := range records {
		switch {
		case err != nil:
			r.t.Fatal(err)
		case record.Message != nil:
			places[record.Message.ID] = record.Message.Content
		case record.Topic != nil:
			topic := *record.Topic
			topic.ID = ""
			for n := range topic.Turns {
				topic.Turns[n] = places[topic.Turns[n]]
			}
			found = append(found, topic)
		}
	}
	return out.String(), found
}

func (r *assignRig) take(file string) uuid.UUID {
	done, err := r.transfer().Import(r.t.Context(), r.principal(), strings.NewReader(file), func(transfer.Progress) {})
	require.Truef(r.t, err == nil && done.Imported == 1, "%+v, %v", done, err)
	return done.Chats[0].ChatID
}

// An imported chat has the topics of its file: which turns, and what a person chose. Meaning would have chosen otherwise.
func TestTopicsOfAnImportedChat(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, func(c *topics.Assigner) { c.Settings.Continuity = -2 }) // one turn is enough for a topic
	chatID := r.chat()
	r.talk(chatID, "My cello needs new rosin soon", "Does marzipan contain walnut oil always?", "The bow slips although its rosin is fresh",
		"My telescope shows a nebula tonight", "ok, thanks")
	r.wantNumbers(chatID, 1, 2, 1, 3, 3)
	testkit.Ask[bool](t, r.as("throughline_app"), "select throughline.merge_topics($1, $2)", r.topicID(chatID, 3), r.topicID(chatID, 2))
	testkit.Exec(t, r.pool, "update topics set title = 'Sky and nuts', title_seq = null, tags = '{x,\"y, z\"}', importance = 0.25, importance_rated "+
		"= true where number = 2")
	testkit.Exec(t, r.pool, "update messages set rating = 1 where seq = 3") // is in the importance already
	testkit.Exec(t, r.pool, "update topics set importance = 0.25 where number = 2")
	file, want := r.export(chatID)
	require.Truef(t, len(want) == 2 && want[1].Title == "Sky and nuts" &&
		slices.Equal(want[1].Turns, []string{"Does marzipan contain walnut oil always?", "My telescope shows a nebula tonight", "ok, thanks"}),
		"%+v", want)

	r.user = testkit.NewUser(t, r.db)
	r.config.Mode = "auto"
	taken := r.take(file)
	same := func(when string, made bool) {
		t.Helper()
		_, got := r.export(taken)
		for n := range got {
			if !made { // their dates and titles come with their turns
				got[n].CreatedAt, got[n].LastActiveAt = want[n].CreatedAt, want[n].LastActiveAt
				if !got[n].Renamed {
					got[n].Title = want[n].Title
				}
			}
		}
		assert.Equalf(t, want, got, "%s", when)
	}
	same("before its turns are indexed", false)
	r.index(taken)
	r.wantWanted(taken, true, "indexed")
	r.assign(taken)
	same("without vectors", true)
	assert.True(t, testkit.Ask[bool](t, r.pool, "select imported_topics is not null from conversation_briefs where chat_id = $1", taken),
		"what the turns without vectors need is gone")
	r.embed(taken)
	r.assign(taken)
	same("with vectors", true)
	r.wantNumbers(taken, 1, 2, 1, 2, 2)
	r.wantSound(taken)
	assert.False(t, testkit.Ask[bool](t, r.pool, "select imported_topics is not null from conversation_briefs where chat_id = $1", taken),
		"something is left to do")
	r.talk(taken, "Which rosin suits a cello best?")
	r.wantNumbers(taken, 1, 2, 1, 2, 2, 1)
}

// What is deleted before its topic was made leaves nothing of the topic behind.
func TestATopicWhoseTurnsAreGoneIsNotMade(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	chatID := r.chat()
	r.talk(chatID, "My cello needs new rosin soon", "Does marzipan contain walnut oil always?", "Are hazelnut and almond true nuts?")
	testkit.Exec(t, r.pool, "update topics set title = 'Nuts', title_seq = null where number = 2")
	file, _ := r.export(chatID)
	r.user = testkit.NewUser(t, r.db)
	taken := r.take(file)
	testkit.Exec(t, r.pool, "delete from messages where chat_id = $1 and seq > 2", taken)
	_, left := r.export(taken)
	assert.Truef(t, len(left) == 1 && left[0].Title != "Nuts", "%+v", left)
	r.talk(taken)
	_, left = r.export(taken)
	assert.Truef(t, len(left) == 1 && left[0].Title == "Cello needs new rosin", "%+v", left)
	assert.False(t, testkit.Ask[bool](t, r.pool,
		`select imported_topics::text like '%Nuts%'
			from conversation_briefs where chat_id = $1 and imported_topics is not null union all select false limit 1`, taken),
		"its title is still there")
}
