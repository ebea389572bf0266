package tools

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// Faults of a model before its first token, and those that also come within an answer.
var (
	anyFault = []offline.Fault{
		offline.Fault401, offline.Fault404, offline.Fault429, offline.Fault500, offline.Fault503, offline.FaultCut, offline.FaultEndEarly,
		offline.FaultFailed, offline.FaultErrorEvent,
	}
	midway = anyFault[5:]
)

const withFallback = `{"variants": [{"name": "first", "model": "first", "fallback": "second"}, {"name": "second", "model": "second"}]}`

// Whatever goes wrong with a model before its first token, its fallback answers, and makes all later steps. Afterwards it never does.
func TestTheFallbackAnswersBeforeTheFirstTokenAlone(t *testing.T) {
	t.Parallel()
	looks := []offline.Item{offline.Text{Text: "Let me look."}, offline.Call{Name: "look", CallID: "c1"}}
	model := testkit.NewModel(t, func(r *offline.Request) offline.Answer {
		n, steps := numberIn(r.Current), [][]offline.Item{looks, {offline.Text{Text: "There it is."}}}
		if r.Model == "second" {
			return offline.Says(steps[r.Step]...)
		}
		if n < 0 {
			return offline.Answer{Text: "So far, so good.", Fault: midway[-n%len(midway)], FaultAfter: 1 - n%4}
		}
		return offline.Answer{Fault: anyFault[n%len(anyFault)], RetryAfter: "0"}
	})
	server := start(t, model, withFallback)
	for n := range *faults {
		got := server.play(fmt.Sprint("fault ", n), "first", nil)
		require.Equal(t, []any{"Let me look.\n\nThere it is.", "stop", "second", 2}, []any{got.Content, got.FinishReason, got.AnsweredBy, len(got.Parts)},
			"%s", anyFault[n%len(anyFault)])
	}
	asked := map[string]int{}
	for _, request := range model.Requests() {
		asked[request.Model]++
	}
	assert.Equal(t, map[string]int{"first": *faults, "second": 2 * *faults}, asked)
	for n := range *faults {
		stream := server.Open(http.MethodPost, "/v1/message/first", testkit.Body{"content": fmt.Sprint("fault ", -n-1)})
		end := stream.Rest().End
		require.Equal(t, testkit.Failed, end.Name, "%v", end.Data)
		assert.NotEmpty(t, stream.Text)
	}
	for _, request := range model.Requests() {
		asked[request.Model]--
	}
	assert.Equal(t, map[string]int{"first": -*faults, "second": 0}, asked, "the fallback was asked after the first token")
	report(t, "faults of a model that has a fallback", mark("faults", *faults)+" before the first token: 0 replies failed; as many after it: 0 switched")
}
