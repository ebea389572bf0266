package llm

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

const foldInput = "=== EXISTING_SUMMARY ===\nNONE\n=== END_EXISTING_SUMMARY ===\n\n" +
	"=== NEW_TURNS ===\nTurn 1:\nUser: My bus is 728.\n=== END_NEW_TURNS ==="

func inlineCall() brief.Call {
	return brief.Call{Model: "gpt-5.6-luna", Instructions: "Summarize.", Input: foldInput, Kind: brief.KindFold, ChatID: chatID, UserID: userID}
}

func hostedCall() brief.Call {
	return brief.Call{Hosted: &brief.HostedPrompt{ID: "pmpt_1", Version: "7"}, Input: foldInput, Kind: brief.KindFold, ChatID: chatID, UserID: userID}
}

func TestSummarizeAnswers(t *testing.T) {
	t.Parallel()
	usage := &offline.Usage{Input: 30, Cached: 20, Output: 4}
	for _, c := range []struct {
		name   string
		answer offline.Answer
		want   string
	}{
		{"whole", offline.Answer{Text: fourWords}, fourWords},
		{"empty, which the gate judges", offline.Answer{Fault: offline.FaultEmpty}, ""},
		{"out of tokens", offline.Answer{Text: fourWords, Fault: offline.FaultIncomplete, FaultAfter: 2}, "one two "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.answer.Usage = usage
			server := model(t, always(c.answer))
			got, err := client(t, server.BaseURL(), 0).Summarize(t.Context(), inlineCall())
			require.NoError(t, err)
			assert.Equal(t, work.Answer{Text: c.want, Model: "gpt-5.6-luna", InputTokens: 30, CachedTokens: 20, OutputTokens: 4}, got)
		})
	}
}

// The summary is the parts of an answer that are text and no refusal.
func TestSummarizeTakesTheTextsOfAnAnswer(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		`{"type":"message","content":[{"type":"output_text","text":"one"},{"type":"output_text","text":""},{"type":"output_text",` +
			`"text":"two"}]}`: "one\n\ntwo",
		`{"type":"reasoning","content":[{"type":"reasoning_text","text":"thoughts"}]},{"type":"message","content":[{"type":"output_text","text":"one"}]}`: "one",
		`{"type":"message","content":[{"type":"refusal","refusal":"no"}]}`:                                                                                "",
	} {
		server := serve(t, answers(http.StatusOK, "application/json", `{"status":"completed","output":[`+output+`]}`))
		got, err := client(t, server.url, 0).Summarize(t.Context(), inlineCall())
		assert.Truef(t, err == nil && got.Text == want, "%s: %q, want %q, %v", output, got.Text, want, err)
	}
}

func TestSummarizeFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer offline.Answer
		want   fault.Code
		asked  int
	}{
		{"429", offline.Answer{Fault: offline.Fault429, RetryAfter: "0.01"}, fault.UpstreamOverloaded, 3},
		{"503, later", offline.Answer{Fault: offline.Fault503, RetryAfter: "60"}, fault.UpstreamOverloaded, 1},
		{"cut", offline.Answer{Fault: offline.FaultCut}, fault.UpstreamFailed, 3},
		{"hang", offline.Answer{Fault: offline.FaultHang}, fault.UpstreamTimeout, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := model(t, always(c.answer))
			deadline := testkit.Patience
			if c.want == fault.UpstreamTimeout {
				deadline = shortIdle
			}
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			got, err := client(t, server.BaseURL(), 0).Summarize(ctx, inlineCall())
			wantFault(t, err, c.want)
			assert.Truef(t, got == (work.Answer{}) && !errors.Is(err, brief.ErrPromptGone), "%+v, %v", got, err)
			assert.Len(t, server.Requests(), c.asked, "calls")
		})
	}
}

// Only the error that the hosted prompt does not exist switches to the inline prompt for good.
func TestWhenAHostedPromptIsGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		body   string
		gone   bool
	}{
		{"by its code alone", 404, `{"error":{"message":"No.","code":"prompt_not_found"}}`, true},
		{"by its parameter alone", 400, `{"error":{"message":"No such id.","param":"prompt.id"}}`, true},
		{"the version is gone", 400, `{"error":{"message":"No such version.","param":"prompt.version","code":"invalid_value"}}`, true},
		{"by its sentence alone", 404, `{"error":{"message":"Prompt with id pmpt_1 not found"}}`, true},
		{"retired", 410, `{"error":{"message":"Reusable prompts have been retired.","code":"gone"}}`, true},
		{"the parameter is unknown", 400, `{"error":{"message":"Unknown parameter: 'prompt'.","param":"prompt","code":"unknown_parameter"}}`, true},
		{"the words are refused", 400, `{"error":{"message":"Invalid prompt: we limit certain content.","code":"invalid_prompt"}}`, false},
		{"the cache key is refused", 400, `{"error":{"message":"Too long.","param":"prompt_cache_key","code":"string_above_max_length"}}`, false},
		{"the key is wrong", 401, `{"error":{"message":"Incorrect API key for this prompt.","code":"invalid_api_key"}}`, false},
		{"too many prompts", 429, `{"error":{"message":"Too many prompts.","code":"rate_limit_exceeded"}}`, false},
		{"a broken server", 500, `{"error":{"message":"The prompt service has failed.","param":"prompt"}}`, false},
		{"another parameter", 400, `{"error":{"message":"The prompt is fine, this is not.","param":"input","code":"invalid_type"}}`, false},
		{"not this API at all", 404, `<h1>Not found</h1>`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, answers(c.status, "application/json", c.body))
			_, err := client(t, server.url, 0).Summarize(t.Context(), hostedCall())
			assert.Truef(t, errors.Is(err, brief.ErrPromptGone) == c.gone && fault.CodeOf(err) != fault.Internal && err != nil, "%v", err)
			_, err = client(t, server.url, 0).Summarize(t.Context(), inlineCall())
			assert.Falsef(t, errors.Is(err, brief.ErrPromptGone), "an inline call has no prompt that could be gone: %v", err)
		})
	}
}

func TestSummarizeAnswersOfOtherShapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contentType, body string
	}{
		"no JSON":         {"application/json", `{"id":"resp_1"`},
		"not an object":   {"application/json", `"summary"`},
		"not JSON at all": {"text/html", `<p>summary</p>`},
		"no status":       {"application/json", `{"id":"resp_1","output":[]}`},
		"in progress":     {"application/json", `{"id":"resp_1","status":"in_progress"}`},
		"cancelled":       {"application/json", `{"id":"resp_1","status":"cancelled"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, answers(http.StatusOK, c.contentType, c.body))
			_, err := client(t, server.url, 0).Summarize(t.Context(), inlineCall())
			wantFault(t, err, fault.UpstreamFailed)
		})
	}
}
