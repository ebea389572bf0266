package system

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// operate runs a script of sql/operate, as psql does.
func (r *rig) operate(script string) {
	r.t.Helper()
	text, err := os.ReadFile("../../../sql/operate/" + script)
	if err != nil {
		r.t.Fatal(err)
	}
	conn := testkit.Connect(r.t, r.db.Direct())
	if _, err := conn.PgConn().Exec(r.t.Context(), string(text)).ReadAll(); err != nil {
		r.t.Fatal(err)
	}
}

// checkPaused talks, and checks that replies go on, complete, while no fold is made.
func (r *rig) checkPaused(chatID string) {
	r.t.Helper()
	before := len(r.model.Asked(offline.KindSummary))
	r.practise(chatID, 12)
	if n := r.count("select count(*) from river.river_job where queue = 'memory' and state = 'available'"); n != 1 {
		r.t.Errorf("%d folds wait, want one of the chat", n)
	}
	if asked := len(r.model.Asked(offline.KindSummary)) - before; asked != 0 {
		r.t.Errorf("%d summaries were made during the pause", asked)
	}
	if got := r.Call(http.MethodGet, "/metrics", nil).Text; !strings.Contains(got, `throughline_queue_depth{queue="memory"} 1`) {
		r.t.Error("the metrics do not tell that a fold waits")
	}
	r.checkCoverage(uuid.MustParse(chatID))
}

// While the queue memory is paused, replies go on and nothing is dropped that fits; afterwards the folds catch up. A pause
// outlives servers, however it was made.
func TestPausedMemoryCatchesUp(t *testing.T) {
	t.Parallel()
	r := newStoppedRig(t, testkit.NewDatabase(t), nil, smallMemory)
	r.newUser()
	ui := env{"RIVER_UI": "true", "RIVER_UI_USER": "ops", "RIVER_UI_PASSWORD": "a password"}
	both := app.Role{API: true, Workers: true}
	r.operate("pause_memory.sql")
	r.node = r.start(both, ui)
	chatID := r.Say("", "My cello teacher is called Ilse and I live in Graz.").ChatID
	r.checkPaused(chatID)
	r.operate("resume_memory.sql") // the worker that runs listens
	r.awaitFirstFold()
	r.awaitFolds()

	press := func(button string) {
		t.Helper()
		request := r.Request(t.Context(), http.MethodPut, "/river/api/queues/memory/"+button, nil)
		request.SetBasicAuth("ops", "a password")
		if got := r.Do(request); got.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", button, got.Status, got.Text)
		}
	}
	press("pause")
	r.stopNow()
	r.node = r.start(both, ui)
	r.checkPaused(chatID)
	press("resume")
	r.awaitFolds()
	if said := r.Say(chatID, "What is my cello teacher called?"); !strings.Contains(said.Text, "Ilse") {
		t.Errorf("forgotten: %q", said.Text)
	}
}
