package system

import (
	"net/http"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const embeddingModel = "text-embedding-3-small"

// newIndexedRig is a stopped rig with one indexed turn.
func newIndexedRig(t *testing.T, script testkit.Script, change env) *rig {
	t.Helper()
	r := newStoppedRig(t, testkit.NewDatabase(t), script, change)
	r.newUser()
	testkit.Exec(t, r.pool, `with chat as (insert into chats (user_id) values ($1) returning id)
		insert into messages (chat_id, role, content, token_count) select id, role, 'My cello is from 1890.', 9 from chat,
			unnest(array['user', 'assistant']) role`, r.user)
	testkit.Exec(t, r.pool, `insert into turn_index (chat_id, seq, user_id, last_seq, words_from, segment, said_at, tokens, tsv, lexemes)
		select chat_id, 1, user_id, 2, 1, 1, created_at, 18, to_tsvector('simple', content), 5 from messages where seq = 1`)
	return r
}

func (r *rig) metric(line string) bool {
	r.t.Helper()
	return strings.Contains(r.Call(http.MethodGet, "/metrics", nil).Text, line)
}

// A turn that is indexed gets its vector, from a server of its own if there is one, with the key of the main model.
func TestTurnsGetVectors(t *testing.T) {
	t.Parallel()
	embedder := testkit.NewModel(t, nil)
	r := newIndexedRig(t, nil, env{"EMBEDDING_MODEL": embeddingModel, "EMBEDDING_BASE_URL": embedder.BaseURL()})
	r.node = r.start(app.Role{API: true, Workers: true}, nil)
	testkit.Eventually(t, "the turn has a vector", func() bool {
		return r.count("select count(*) from turn_index where embedding_model = '"+embeddingModel+"'") == 1
	})
	testkit.Eventually(t, "the metrics know", func() bool {
		return r.metric("throughline_turns_without_vector 0") && r.metric("throughline_embedded_turns_total 1") &&
			r.metric(`throughline_embedding_call_duration_seconds_count{result="answered"} 2`)
	})
	if here, there := len(r.model.Asked(offline.KindEmbedding)), len(embedder.Requests()); here != 0 || there != 2 {
		t.Errorf("the main model was asked %d times, the embedder %d times", here, there)
	}
	spent := "select coalesce(sum(calls), 0)::int from inspect.tokens_by_day where purpose = 'embed' and model = '" + embeddingModel + "' and input_tokens > 0"
	testkit.Eventually(t, "its user has spent the call for it", func() bool { return r.count(spent) == 1 })
	r.wanted(http.StatusOK, http.MethodGet, "/v1/recall?q=Which+cello", nil)
	testkit.Eventually(t, "and the one for a question", func() bool { return r.count(spent) == 2 })
	if strings.Contains(r.logs.String(), "cello") {
		t.Error("the log holds words of the turn")
	}
}
