package chat

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/streaming"
)

// What stands under our keys and is not ours counts as absent, and hides nothing that is.
func TestForeignMetadataIsNotRead(t *testing.T) {
	t.Parallel()
	all := ReplyMetadata{
		ModelVariant: "arco", Model: "gpt", ResponseID: "r", FinishReason: "length", Usage: &streaming.Usage{InputTokens: 1},
		Memory: &prompt.Receipt{TailTurns: 2, Sections: []prompt.Account{}}, Failure: &Failure{Code: "upstream_failed", Message: "No."},
	}
	whole, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]ReplyMetadata{
		string(whole): all, `{}`: {}, `null`: {},
		`{"model_variant":7,"model":"gpt","usage":[],"memory":"none","failure":"no","finish_reason":{}}`: {Model: "gpt"},
		`{"usage":{"input_tokens":"many","output_tokens":3},"memory":{"tail_turns":1},"failure":{}}`:     {},
		`{"usage":{"input_tokens":1e300},"memory":{"tail_turns":1,"sections":[{"items":"x"}]}}`:          {},
		`{"finish_reason":"tool_calls","response_id":"r","usage":null,"memory":null}`:                    {ResponseID: "r"},
	} {
		var got ReplyMetadata
		if err := json.Unmarshal([]byte(given), &got); err != nil {
			t.Errorf("%s: %v", given, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", given, diff)
		}
	}
}
