package dev

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/dev/demo"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// The whole demo against what `make run` starts: folds happen, and what one chat is told reaches the next one.
func TestDemoPlays(t *testing.T) {
	t.Parallel()
	c := runForDemo(t, "MEMORY_CHUNK_SUMMARIZE_THRESHOLD", "1000")
	var out strings.Builder
	err := demo.Run(t.Context(), demo.Options{Client: c, Turns: 20, Out: &out})
	require.Truef(t, err == nil, "%v after %s", err, out.String())
	for _, want := range []string{
		"20 of 20: brief v", "\nBRIEF  ", "fold: messages 1 to ", "\nTOKEN BILL  20 turns", "No turn was left out", "\nRECALL  ", "\nTOOLS  ",
		"(called roll_dice ", "(approved by the demo)",
		" memories added)", "\n  < Your name is Rosa Lindqvist.", "\n  < You live in Freiburg.", "\n  < Your dog is called Bruno.", "\n  < You play the cello.",
		"\n  < You are allergic to walnuts.", `forget "walnuts": 1 forgotten`, "\nTOPICS  ", "imported ",
	} {
		assert.Containsf(t, out.String(), want, "%q is not in what the demo prints:\n%s", want, out.String())
	}
}

func TestDemoPlaysAFile(t *testing.T) {
	t.Parallel()
	c := runForDemo(t)
	for file, want := range map[string]string{
		`{"role": "user", "content": "Hello."}` + "\n" + `{"role": "assistant", "content": "Hi."}`: "TOKEN BILL  1 turns",
		`{"role": "assistant", "content": "Hi."}`:                                                  "no user message with text",
		`{"role": `: "conversation: message 1: unexpected EOF",
	} {
		var out strings.Builder
		err := demo.Run(t.Context(), demo.Options{Client: c, Conversation: strings.NewReader(file), Out: &out})
		if err != nil {
			out.WriteString(err.Error())
		}
		assert.Truef(t, strings.Contains(out.String(), want) && !strings.Contains(out.String(), "MEMORIES"),
			"%s: %s", file, out.String())
	}
}

// runForDemo returns a client of the local user of a dev that runs until the test ends.
func runForDemo(t *testing.T, settings ...string) *client.Client {
	t.Helper()
	set := map[string]string{"DATABASE_URL": testkit.NewEmptyDatabase(t).Direct(), "HTTP_ADDR": "127.0.0.1:0"}
	for n := 0; n < len(settings); n += 2 {
		set[settings[n]] = settings[n+1]
	}
	printed := runDev(t, set)
	link, _, _ := strings.Cut(strings.TrimSpace(printed), "\n")
	address, token, _ := strings.Cut(link, "/app/#token=")
	c := client.New(address, token)
	t.Cleanup(c.Close)
	return c
}
