package offline

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func FuzzDecodeResponses(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":"hi"}`))
	f.Add([]byte(`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"stream":true}`))
	f.Add([]byte(`{"prompt":{"id":"pmpt_1","version":"7","variables":{"a":1}},"input":"=== EXISTING_SUMMARY ===\nNONE"}`))
	f.Add([]byte(`{"model":"m","input":"hi","max_output_tokens":1e3,"metadata":{"a":"b"}}`))
	f.Add([]byte(`{"model":"m","Model":7,"input":"hi"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, refusal := decodeResponses(raw, nil)
		if refusal != nil {
			if refusal.Status < 400 || refusal.Message == "" || refusal.Type == "" {
				t.Fatalf("refused without a reason: %+v", refusal)
			}
			return
		}
		if !json.Valid(raw) || r.Model == "" && r.Prompt == nil {
			t.Fatalf("accepted: %q", raw)
		}
		g := generation{request: &r}
		if !json.Valid(mustJSON(g.object(statusCompleted))) {
			t.Fatal("the response object is no JSON")
		}
	})
}

func FuzzDecodeEmbeddings(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":["a","b"],"encoding_format":"base64","dimensions":8}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, refusal := decodeEmbeddings(raw, nil); refusal == nil && (len(r.texts) == 0 || r.Dimensions < 1) {
			t.Fatalf("accepted: %q as %+v", raw, r)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(prompt(ownSummary, "User: a\nAssistant: b", "[1] c", "What is a?").Text)
	f.Add(headCurrent + "\nWrite 20 words about x")
	f.Add("[[offline:cut=5]] 👍")
	f.Fuzz(func(t *testing.T, text string) {
		r := &Request{Text: text}
		if got := reply(r); got == "" || utf8.ValidString(text) && !utf8.ValidString(got) || got != reply(r) {
			t.Fatalf("%q", got)
		}
	})
}

func FuzzSummarize(f *testing.F) {
	f.Add(foldText(ownSummary, [2]string{"My bus is 728.", "Fine."}), 60)
	f.Add(foldText("Prose. More prose.\n- a list", [2]string{"> quoted\n=== X ===", ""}), 16)
	f.Add("just a text", 500)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 16 + limit&0x3ff
		r := &Request{Kind: KindSummary, Text: text, MaxOutputTokens: limit}
		got := summarize(r)
		if got == "" {
			t.Fatal("empty")
		}
		if _, fold := parseFold(text); !fold && countTokens(got) > limit {
			t.Fatalf("%d tokens over %d: %q", countTokens(got), limit, got)
		}
		if gram, loops := repeatedGram(got); loops {
			t.Fatalf("repeats %q", gram)
		}
	})
}

// TestPromptSectionsComeBack builds prompts of random sections and reads them again.
func TestPromptSectionsComeBack(t *testing.T) {
	t.Parallel()
	line := rapid.StringMatching(`[a-z]{1,8}( [a-z]{1,8}){0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		want := mainPrompt{
			background: rapid.SampledFrom([]string{"", "A brief.\n\nIn two parts."}).Draw(t, "background"),
			current:    line.Draw(t, "current") + "\n" + line.Draw(t, "more"),
		}
		var recent []string
		for range rapid.IntRange(0, 5).Draw(t, "turns") {
			user, assistant := line.Draw(t, "user"), line.Draw(t, "assistant")+"\n\n"+line.Draw(t, "second paragraph")
			want.recent = append(want.recent, utterance{false, user}, utterance{true, assistant})
			recent = append(recent, "User: "+user+"\nAssistant: "+assistant)
		}
		got := parsePrompt(prompt(want.background, strings.Join(recent, "\n\n"), "", want.current).Text)
		if got.background != want.background || got.current != want.current || len(got.recent) != len(want.recent) {
			t.Fatalf("%+v, want %+v", got, want)
		}
		for i := range want.recent {
			if got.recent[i] != want.recent[i] {
				t.Fatalf("message %d: %+v, want %+v", i, got.recent[i], want.recent[i])
			}
		}
	})
}
