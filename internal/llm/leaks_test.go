package llm

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory/brief"
)

// Errors are logged, so they must not contain what a server quotes of the prompt.
func TestErrorsNeverQuoteThePrompt(t *testing.T) {
	t.Parallel()
	const canary = "canary-7f3a-my-diagnosis"
	quoted := fmt.Sprintf(`{"error":{"message":"Invalid input: %s","type":"invalid_request_error","param":"input","code":"invalid_value"}}`, canary)
	for name, answer := range map[string]http.HandlerFunc{
		"refused":               answers(http.StatusBadRequest, "application/json", quoted),
		"not found":             answers(http.StatusNotFound, "application/json", quoted),
		"overloaded":            answers(http.StatusTooManyRequests, "application/json", quoted),
		"broken":                answers(http.StatusInternalServerError, "application/json", quoted),
		"timed out":             answers(http.StatusGatewayTimeout, "application/json", quoted),
		"a page":                answers(http.StatusBadGateway, "text/html", "<pre>"+canary+"</pre>"),
		"an error of one word":  answers(http.StatusBadRequest, "application/json", `{"error":"`+canary+`"}`),
		"a list of errors":      answers(http.StatusBadRequest, "application/json", `{"error":["`+canary+`"]}`),
		"no JSON":               answers(http.StatusOK, "application/json", canary),
		"a page in good order":  answers(http.StatusOK, "text/html", canary),
		"failed":                sends(delta(`"`+canary+`"`), event("response.failed", `,"response":{"error":{"code":"server_error","message":"`+canary+`"}}`)),
		"error event":           sends(event("error", `,"code":"server_error","message":"`+canary+`"`)),
		"a delta that breaks":   sends("event: response.output_text.delta\ndata: {\"delta\":\"" + canary + "\n\n"),
		"an end that breaks":    sends(delta(`"a"`), "event: response.completed\ndata: {\"response\":\""+canary+"\n\n"),
		"ended too early":       sends(delta(`"` + canary + `"`)),
		"a failed whole answer": answers(http.StatusOK, "application/json", `{"status":"failed","error":{"code":"server_error","message":"`+canary+`"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, answer)
			c := client(t, server.url, 0)
			ask := question()
			ask.Input, ask.Instructions = canary, canary
			streamed := readTo(t.Context(), c, ask, nil).err
			_, inline := c.Summarize(t.Context(), brief.Call{Model: "m", Input: canary, Instructions: canary, ChatID: chatID, UserID: userID})
			_, hosted := c.Summarize(t.Context(), brief.Call{Hosted: &brief.HostedPrompt{ID: "pmpt_1", Version: "1"}, Input: canary, ChatID: chatID, UserID: userID})
			for _, err := range []error{streamed, inline, hosted} {
				if err == nil {
					t.Error("no error")
				}
				if shown := everyWayToShow(err); strings.Contains(shown, canary) || strings.Contains(shown, "sk-test") {
					t.Errorf("quoted in %s", shown)
				}
			}
		})
	}
}

func everyWayToShow(err error) string {
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Error("failed", slog.Any("error", err))
	slog.New(slog.NewTextHandler(&logged, nil)).Error("failed", "error", err)
	return logged.String() + fmt.Sprintf("%s %v %+v %q", err, err, err, err)
}
