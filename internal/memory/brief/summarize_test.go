package brief_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

func sha256Hex(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}

func hosted(mode brief.Mode) func(*brief.Config) {
	return func(c *brief.Config) {
		c.Prompt.Mode, c.Prompt.Hosted = mode, brief.HostedPrompt{ID: "pmpt_1", Version: "7"}
	}
}

func (r *rig) fallbacks() float64 {
	return testkit.Measured(r.t, r.metrics.PromptFallbacks)
}

// A hosted call names the prompt and nothing else: no model, no instructions.
func TestHostedPrompt(t *testing.T) {
	t.Parallel()
	for _, mode := range []brief.Mode{brief.ModeHosted, brief.ModeAuto} {
		r := newRig(t, testkit.InOrder(offline.Answer{Fault: offline.FaultNone}, offline.Answer{}), hosted(mode))
		report := r.mustFold(r.chat(8))
		first, second := r.model.Requests()[0], r.model.Requests()[1]
		assert.Truef(t, *first.Prompt == (offline.PromptRef{ID: "pmpt_1", Version: "7"}) && first.Model == "" && first.Instructions == "" && !first.Store,
			"%s: asked %+v", mode, first)
		assert.Truef(t, second.Prompt != nil && strings.Contains(second.Instructions, "nothing to summarize"),
			"%s: the second try says %q", mode, second.Instructions)
		assert.Truef(t, report.Mode == brief.ModeHosted && report.PromptRef == "pmpt_1@7" && r.fallbacks() == 0, "%s: %+v", mode, report)
	}
}

// When the API does not know the prompt, auto folds inline in the same run, logs it once, and
// never asks for it again; hosted goes on asking.
func TestHostedPromptIsGone(t *testing.T) {
	t.Parallel()
	gone := func(request *offline.Request) offline.Answer {
		if request.Prompt != nil {
			return offline.Answer{Fault: offline.FaultPromptGone}
		}
		return offline.Answer{}
	}
	t.Run("auto", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, gone, hosted(brief.ModeAuto))
		for range 2 {
			report := r.mustFold(r.chat(8))
			assert.Truef(t, report.Mode == brief.ModeInline && report.PromptRef == "built-in@1", "%+v", report)
		}
		tried := 0
		for _, request := range r.model.Requests() {
			if request.Prompt != nil {
				tried++
			}
		}
		warned := strings.Count(r.logs.String(), "hosted summary prompt is gone")
		assert.Truef(t, tried == 1 && warned == 1 && r.fallbacks() == 1, "tried %d times, warned %d times, counted %v", tried, warned, r.fallbacks())
	})
	t.Run("hosted", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, gone, hosted(brief.ModeHosted))
		chatID := r.chat(8)
		report, err := r.fold(chatID)
		assert.Truef(t, report.Result == work.Failed && err != nil && r.fallbacks() == 0, "%+v, %v", report, err)
		r.checkUntouched(chatID)
	})
}

// What else goes wrong with a hosted call is no reason to leave the prompt.
func TestHostedCallFailsOtherwise(t *testing.T) {
	t.Parallel()
	r := newRig(t, testkit.InOrder(offline.Answer{Fault: offline.Fault401}, offline.Answer{}), hosted(brief.ModeAuto))
	chatID := r.chat(8)
	report, err := r.fold(chatID)
	assert.Truef(t, report.Result == work.Failed && err != nil, "%+v, %v", report, err)
	report = r.mustFold(chatID)
	assert.Truef(t, report.Mode == brief.ModeHosted && r.fallbacks() == 0, "%+v", report)
}

// The days of the turns are those of the user's time zone, which a client sends in a message's metadata.
func TestInlineInstructions(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, func(c *brief.Config) {
		c.Prompt = brief.PromptConfig{Mode: brief.ModeAuto, Model: "small", Instructions: "Keep technique and repertoire."} // no version: inline
	})
	chatID := r.chat(8)
	testkit.Exec(t, r.pool, "update messages set created_at = '2026-11-20 23:30:00+00'")
	testkit.Exec(t, r.pool, `update messages set metadata = metadata || '{"time_zone": "Europe/Berlin"}' where seq = 5`)
	report := r.mustFold(chatID)
	asked := r.model.Requests()[0]
	for _, part := range []string{"Keep technique and repertoire.", "at most 200 tokens",
		"Turns 1 to 2: 2026-11-20, UTC\nTurns 3 to 6: 2026-11-21, Europe/Berlin"} {
		assert.Containsf(t, asked.Instructions, part, "the instructions do not say %q: %s", part, asked.Instructions)
	}
	assert.Truef(t, asked.Model == "small" && report.PromptRef == "custom@"+sha256Hex("Keep technique and repertoire.")[:8],
		"model %s, prompt %s", asked.Model, report.PromptRef)
}
