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
		insert into messages (chat_id, role, content, token_count) select id, role, 'My cello is from 1890.', 9 from chat, unnest(array['user', 'assistant']) role`, r.user)
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
	if strings.Contains(r.logs.String(), "cello") {
		t.Error("the log holds words of the turn")
	}
}

// Where nothing is recalled, or by words alone, the embedder is not asked.
func TestNoVectorsWhereTheyAreOff(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]env{
		"no recall":  {"RECALL": "off", "EMBEDDING_MODEL": embeddingModel},
		"words only": {"EMBEDDING_MODEL": "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newIndexedRig(t, nil, change)
			r.node = r.start(app.Role{API: true, Workers: true}, nil)
			testkit.Eventually(t, "a sweep", func() bool {
				return r.count("select count(*) from river.river_job where kind = 'sweep_briefs' and state = 'completed'") > 0
			})
			if n := r.count("select count(*) from river.river_job where kind = 'embed_turns'"); n != 0 || len(r.model.Requests()) != 0 {
				t.Errorf("%d jobs, %d calls", n, len(r.model.Requests()))
			}
			if r.metric("throughline_turns_without_vector") {
				t.Error("the metrics count vectors that nobody makes")
			}
		})
	}
}

// An embedder that is away delays no reply, and the turns get their vectors when it is back.
func TestRepliesGoOnWithoutTheEmbedder(t *testing.T) {
	t.Parallel()
	back := make(chan struct{})
	r := newIndexedRig(t, func(request *offline.Request) offline.Answer {
		if request.Kind == offline.KindEmbedding {
			return offline.Answer{Gate: back}
		}
		return offline.Answer{}
	}, env{"EMBEDDING_MODEL": embeddingModel})
	r.node = r.start(app.Role{API: true, Workers: true}, nil)
	r.model.AwaitRequest(t, "a turn is embedded", func(asked offline.Request) bool { return asked.Kind == offline.KindEmbedding })
	r.Say("", "Hello?")
	if purpose := r.model.Asked(offline.KindReply)[0].Metadata["purpose"]; purpose != "reply" {
		t.Errorf("the reply's purpose is %q", purpose)
	}
	if !r.metric("throughline_turns_without_vector 1") {
		t.Error("the metrics do not tell that a turn has no vector")
	}
	close(back)
	testkit.Eventually(t, "the turn has a vector", func() bool {
		return r.count("select count(*) from turn_index where embedding_model = '"+embeddingModel+"'") == 1
	})
}
