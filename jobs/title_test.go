package jobs

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// One chat gets a title, one keeps its own, because the model refuses the call. Both jobs are done, and nothing is wrong.
func TestChatsGetTitles(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if request.Metadata["purpose"] == "title" && request.Model == "refusing" {
			return offline.Answer{Fault: offline.Fault404}
		}
		return offline.Answer{Text: "Practice of an etude"}
	})
	titled, refused := r.chat(3, 1), r.chatOf(testkit.NewUser(t, r.db), 3, 1)
	title := func(chatID uuid.UUID) string {
		return testkit.Ask[string](t, r.pool, "select title from chats where id = $1", chatID)
	}
	first := title(refused)
	for model, chatID := range map[string]uuid.UUID{"small": titled, "refusing": refused} {
		worker := r.work(func(_ *brief.Config, c *WorkerConfig) {
			client := llm.New(llm.Settings{APIKey: "offline", BaseURL: r.model.BaseURL(), IdleTimeout: time.Minute})
			t.Cleanup(client.Close)
			c.Titler = &topics.Titler{
				Store: &postgres.Titles{Pool: r.pool}, Writer: client, Model: model, Rest: time.Nanosecond, Metrics: c.Metrics, Logger: c.Logger,
			}
		})
		r.enqueueAs(work.TitleChat, work.Repair, chatID, chatID)
		testkit.Await(t, r.pool, "its job is done", "completed", "select string_agg(state::text, ' ') from river.river_job where args ->> 'chat_id' = $1", chatID)
		worker.stop()
	}
	assert.Equal(t, "Practice of an etude", title(titled))
	assert.Equal(t, first, title(refused))
	for _, line := range append(r.logs.Lines(t, "chat keeps its first title"), map[string]any{"level": "INFO"}) {
		assert.Equal(t, "INFO", line["level"])
	}
	assert.NotContains(t, r.logs.String(), "WARN")
}
