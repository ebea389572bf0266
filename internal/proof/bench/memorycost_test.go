package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFactsAreInTheConversation(t *testing.T) {
	t.Parallel()
	said, err := conversationOf(0)
	if err != nil {
		t.Fatal(err)
	}
	const fresh = 40 // turns at the end that tell nothing again
	for _, f := range facts {
		first := slices.IndexFunc(said, f.in) + 1
		switch {
		case first != f.turn:
			t.Errorf("%q is said in turn %d first, not %d", f.words, first, f.turn)
		case f.turn > len(said)/2 || slices.ContainsFunc(said[len(said)-fresh:], f.in) && f.words != "4,500 euros":
			t.Errorf("%q is said late", f.words)
		case f.in(f.question):
			t.Errorf("%q gives itself away", f.question)
		}
	}
	if _, err := conversationOf(len(said) + 1); err == nil {
		t.Error("a conversation of more turns than there are")
	}
}

func TestBillKnowsWhatIsCached(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("one two three four five six seven eight nine ten. ", 200)
	var b bill
	b.add(long, "")
	if b.cached != 0 {
		t.Errorf("%d tokens of the first prompt are cached", b.cached)
	}
	b.add(long+"And more.", "Yes.")
	if b.cached < b.input/2-2*cachedInSteps || b.cached > b.input/2 || b.cached%cachedInSteps != 0 {
		t.Errorf("%d of %d tokens are cached", b.cached, b.input)
	}
	again := b.cached
	b.add("Something else. "+long, "")
	if b.cached != again || b.calls != 3 {
		t.Errorf("%d tokens of another prompt are cached, %d calls", b.cached-again, b.calls)
	}
	if want := float64(b.input+outputPrice*b.output) - 0.9*float64(b.cached); b.costWithCache() != want || b.cost() <= want {
		t.Errorf("%v with the cache, want %v; %v without", b.costWithCache(), want, b.cost())
	}
}

// prompted is a request as mem0 sends it.
const prompted = `{"model":"gpt-5-mini","messages":[{"role":"system","content":"Answer with JSON."},
	{"role":"user","content":"## Existing Memories\n[]\n\n## New Messages\nuser: My teacher is called Ilse. Is that rare?\nassistant: No.\n\n## Observation Date"}],
	"response_format":{"type":"json_object"}}`

func extracted(t *testing.T, x *extractor, key, body string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	request.Header.Set("Authorization", key)
	x.ServeHTTP(recorder, request)
	answer, err := io.ReadAll(recorder.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return recorder.Code, string(answer)
}

func TestExtractorGivesTheUsersStatements(t *testing.T) {
	t.Parallel()
	x := startExtractor(t)
	status, answer := extracted(t, x, "Bearer key", prompted)
	var found struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   map[string]int
	}
	if err := json.Unmarshal([]byte(answer), &found); err != nil || status != http.StatusOK || len(found.Choices) != 1 {
		t.Fatalf("HTTP %d, %s: %v", status, answer, err)
	}
	const want = `{"memory":[{"id":"0","text":"My teacher is called Ilse.","attributed_to":"user"}]}`
	if diff := cmp.Diff(want, found.Choices[0].Message.Content); diff != "" {
		t.Error(diff)
	}
	if spent := x.spent(); spent.calls != 1 || spent.input == 0 || spent.input != found.Usage["prompt_tokens"] || spent.output != found.Usage["completion_tokens"] {
		t.Errorf("spent %+v, told %v", spent, found.Usage)
	}
}

func TestExtractorRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	x := startExtractor(t)
	for _, c := range []struct{ name, key, body, want string }{
		{"no key", "", prompted, "with a key"},
		{"no JSON", "Bearer key", "{", "cannot be read"},
		{"unknown field", "Bearer key", strings.Replace(prompted, `"model"`, `"tools":[],"model"`, 1), "unknown field"},
		{"no model", "Bearer key", strings.Replace(prompted, "gpt-5-mini", "", 1), "a model"},
		{"another format", "Bearer key", strings.Replace(prompted, "json_object", "text", 1), "response_format"},
		{"another role", "Bearer key", strings.Replace(prompted, `"system"`, `"tool"`, 1), "one system"},
		{"no word of it", "Bearer key", strings.Replace(prompted, "JSON", "words", 1), "the word 'json'"},
		{"another prompt", "Bearer key", strings.Replace(prompted, "## New Messages", "## News", 1), "no new messages"},
	} {
		status, answer := extracted(t, x, c.key, c.body)
		if status != http.StatusBadRequest || !strings.Contains(answer, c.want) {
			t.Errorf("%s: HTTP %d, %s", c.name, status, answer)
		}
	}
	if spent := x.spent(); spent.calls != 0 {
		t.Errorf("refused, and %d calls are counted", spent.calls)
	}
}

func startExtractor(t *testing.T) *extractor {
	t.Helper()
	x, err := newExtractor(time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.close(); err != nil {
			t.Error(err)
		}
	})
	return x
}
