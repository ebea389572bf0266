package people

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// What cannot be built is no system, and leaves nothing behind.
func TestBuildFails(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Plan{Source: t.TempDir()}, t.Output())
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "build"), "an empty folder was built: %v", err)
}

// A call that is not as the contract has it is kept.
func TestModelIsStrict(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]*offline.Request{
		"without a purpose":    {},
		"to be stored":         {Metadata: map[string]string{"purpose": "reply"}, Store: true},
		"no strict schema":     {Metadata: map[string]string{"purpose": "consolidate"}},
		"without NEW MESSAGES": {Metadata: map[string]string{"purpose": "extract"}},
		"":                     {Metadata: map[string]string{"purpose": "extract"}, Text: "NEW MESSAGES\nU1: hello"},
	} {
		r.TextOptions.Format.Type, r.TextOptions.Format.Name, r.Body = "json_schema", "extracted_facts", []byte(`{"strict":true}`)
		m, err := StartModel(nil, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = m.Close() })
		m.look(r)
		got := fmt.Sprint(m.Irregular())
		assert.Truef(t, (want == "" || strings.Contains(got, want)) && (want != "" || got == "<nil>"), "%q: %s", want, got)
		assert.NoErrorf(t, m.Irregular(), "%q is not forgotten", want)
	}
}

// All that is said follows from its number, and a model makes of it what the checks expect.
func TestTalk(t *testing.T) {
	t.Parallel()
	talk := testTalk()
	talk.First, talk.Pace = time.Second, [2]time.Duration{10 * time.Millisecond, 20 * time.Millisecond}
	talk.Article, talk.Files = Range{900, 900, 7}, Range{3, 5, 4}
	third := talk.Question(3)
	assert.True(t, third == talk.Question(3) && third != talk.Question(4) && talk.ReplyTo(3) != talk.ReplyTo(4),
		"the text does not follow from the number")
	if words := len(strings.Fields(talk.Question(7))); words < 900 || len(talk.FilesOf(4)) == 0 || talk.FilesOf(5) != nil {
		t.Errorf("an article of %d words, %d files, %d files", words, len(talk.FilesOf(4)), len(talk.FilesOf(5)))
	}
	input := "NEW MESSAGES\nU1 [2026-01-01]: " + talk.Question(6) + "\nA1: " + talk.ReplyTo(6) + "\nand more"
	facts := extractAll(input)
	assert.Truef(t, strings.Contains(facts, "The user lives in Porto.") && strings.Contains(facts, "the number said6"),
		"extracted of %q: %s", input, facts)
	decided := talk.consolidate("CANDIDATES\nC1: The user lives in Porto.\nC2: The user swims in Porto.\nMEMORIES\nM1: The user lives in Lyon.", time.Minute)
	assert.Truef(t, strings.Count(decided.Text, `"DELETE","memory":"M1"`) == 1 && talk.isDeciding(),
		"decided: %s", decided.Text)
	r := &offline.Request{Kind: offline.KindReply, Current: talk.Question(6), Text: "ask5 said5"}
	if answer := talk.Answer(r); answer.Text != talk.ReplyTo(6) || len(talk.Shown(6)) != 2 {
		t.Errorf("%+v, shown %q", answer, talk.Shown(6))
	}
	late := talk.Due(6, 0).Sub(time.Now().Add(talk.FirstWord(6)))
	assert.Truef(t, late <= 0 && late >= -time.Second, "the first word is due %s later", late)
	talk.Answer(&offline.Request{Kind: offline.KindTopic, Text: "ask6"})
	assert.True(t, talk.isRead(6) && !talk.isRead(7), "a message that is read is not known, or another one is")
}

// A reply with an errand is the same text in two steps, with the calls between them.
func TestErrands(t *testing.T) {
	t.Parallel()
	talk := testTalk()
	assert.Nil(t, talk.errand(4).calls)
	talk.ErrandEvery = 4
	assert.Empty(t, talk.errand(5).offered())
	r := &offline.Request{Kind: offline.KindReply, Current: talk.Question(4)}
	before := talk.Answer(r).Items
	require.Len(t, before, 2)
	r.Step++
	after := talk.Answer(r).Items
	require.Len(t, after, 1)
	assert.Equal(t, talk.ReplyTo(4), before[0].(offline.Text).Text+after[0].(offline.Text).Text)
	assert.Equal(t, offline.Call{Name: "order", Arguments: map[string]int{"n": 4}}, before[1])
	assert.Len(t, talk.errand(4).offered(), 3)
}

// The same key does the same: other arguments are noticed.
func TestToolsCount(t *testing.T) {
	t.Parallel()
	tools, err := startTools(filepath.Join(t.TempDir(), "tools.json"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = tools.stop() })
	for _, arguments := range []string{`{"n":1}`, `{"n":1}`, `{"n": 1}`} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/look", strings.NewReader(arguments))
		r.Header.Set("Idempotency-Key", "reply:call")
		tools.ServeHTTP(httptest.NewRecorder(), r)
	}
	requests, keys, most := tools.Ran()
	assert.Equal(t, []int{3, 1, 3}, []int{requests, keys, most})
	assert.Equal(t, [][]any{{"reply", "call", json.RawMessage(`"different ones"`)}}, tools.runs())
}

// A process that crashes writes no JSON; that is an error as one that it logs.
func TestLogCountsErrors(t *testing.T) {
	t.Parallel()
	kept := &closing{}
	l := &processLog{kept: kept, warnings: true}
	for _, line := range []string{`{"level":"INFO","msg":"a"}`, `{"level":"WARN","msg":"b"}`, `{"level":"ERROR","msg":"c"}`, "panic: d"} {
		_, err := l.Write([]byte(line + "\n"))
		require.NoError(t, err)
	}
	said := kept.String()
	if l.errors.Load() != 2 || !strings.Contains(*l.first.Load(), `"c"`) || strings.Contains(said, `"a"`) || !strings.Contains(said, "panic: d") {
		t.Errorf("%d errors, %s", l.errors.Load(), said)
	}
}

type closing struct{ testkit.Log }

func (*closing) Close() error { return nil }
