package offline

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a server for one test.
func start(t *testing.T, options Options) *Server {
	l, err := Start(options)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, l.Close(), "close")
	})
	return l
}

// client keeps no connections, so that nothing of a test outlives it.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

// request makes a request with a key and a JSON body.
func request(t *testing.T, l *Server, method, path, body string) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(l.BaseURL(), "/v1")+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer anything")
	r.Header.Set("Content-Type", "application/json")
	return r
}

// do sends a request and reads its answer to the end; the error is that of reading.
func do(t *testing.T, r *http.Request) (*http.Response, []byte, error) {
	response, err := client.Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	assert.NoError(t, response.Body.Close(), "close body")
	return response, body, err
}

// ask posts to /v1/responses and wants an answer that can be read to its end.
func ask(t *testing.T, l *Server, body string) (*http.Response, []byte) {
	response, raw, err := do(t, request(t, l, http.MethodPost, "/v1/responses", body))
	require.NoError(t, err, "read")
	return response, raw
}

// body makes a request body from pairs of a parameter and its value.
func body(t *testing.T, pairs map[string]any) string {
	merged := map[string]any{"model": "gpt-5.6-terra", "input": "Hello there."}
	for name, value := range pairs {
		if value == nil {
			delete(merged, name)
			continue
		}
		merged[name] = value
	}
	raw, err := json.Marshal(merged)
	require.NoError(t, err)
	return string(raw)
}

// usageObject is the usage of a response object.
type usageObject struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// text is the output of a response object.
func text(t *testing.T, raw []byte) string {
	var response struct {
		Output []struct {
			Content []struct{ Text string }
		}
	}
	err := json.Unmarshal(raw, &response)
	require.Truef(t, err == nil, "%v in %s", err, raw)
	var out bytes.Buffer
	for _, item := range response.Output {
		for _, part := range item.Content {
			out.WriteString(part.Text)
		}
	}
	return out.String()
}

// event is one server-sent event as it came over the wire.
type event struct {
	name string
	data map[string]any
}

// events reads a stream strictly: an event line, a data line, an empty line.
func events(t *testing.T, raw []byte) []event {
	var found []event
	for block := range strings.SplitSeq(strings.TrimSuffix(string(raw), "\n\n"), "\n\n") {
		first, second, ok := strings.Cut(block, "\n")
		name, named := strings.CutPrefix(first, "event: ")
		payload, filled := strings.CutPrefix(second, "data: ")
		require.Truef(t, ok && named && filled && !strings.Contains(payload, "\n"), "no event: %.200q", block)
		e := event{name: name}
		err := json.Unmarshal([]byte(payload), &e.data)
		require.Truef(t, err == nil, "%v in %.200s", err, payload)
		found = append(found, e)
	}
	return found
}

// names are the kinds of events, each run of deltas as one.
func names(all []event) []string {
	var found []string
	for _, e := range all {
		if n := len(found); n == 0 || found[n-1] != e.name || e.name != "response.output_text.delta" {
			found = append(found, e.name)
		}
	}
	return found
}

// deltas puts the text of a stream together.
func deltas(all []event) string {
	var out strings.Builder
	for _, e := range all {
		if delta, ok := e.data["delta"].(string); ok {
			out.WriteString(delta)
		}
	}
	return out.String()
}

// say is a script that always answers with this text.
func say(text string) func(*Request) Answer {
	return func(*Request) Answer { return Answer{Text: text} }
}
