package offline

import (
	"strings"
	"testing"
)

// conversation is the beginning of a rewriting's input; its lines are a user's and an assistant's in turn.
func conversation(said ...string) string {
	in := "CONVERSATION (oldest first):\n"
	for i, line := range said {
		in += []string{"User: ", "Assistant: "}[i%2] + line + "\n"
	}
	return in + "\n" + titleQuestion + ":\n"
}

func TestQuestionsStandAlone(t *testing.T) {
	t.Parallel()
	const bow = "My bow needs new hair."
	for _, c := range []struct{ in, want string }{
		{conversation(bow) + "How long does it take?", "How long does My bow take?"},
		{conversation("I bought the rosin in Lisbon.") + "What is the weather there?", "What is the weather in Lisbon?"},
		{conversation(bow) + "How old is my cello?", "How old is my cello?"},
		{conversation("") + "How long does it take?", "How long does it take?"},
		{conversation("今日は。") + "それはいくらですか？", "それはいくらですか？"},
		// The user's own words are meant before the assistant's.
		{conversation("I have a case.", "Put the bow into it.") + "Is it heavy?", "Is a case heavy?"},
		{conversation("Hm.", "Take the case.") + "Is it heavy?", "Is the case heavy?"},
		// A rewriting is one line, of the last question.
		{conversation("QUESTION: my bow?") + "Is it\n heavy? [[offline-rewrite:slow=1ms]]", "Is my bow heavy?"},
		{"", ""}, {"QUESTION", ""}, {"Is it heavy?", "Is it heavy?"},
	} {
		if got := rewrite(&Request{Kind: KindRewrite, Text: c.in}); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzRewrite(f *testing.F) {
	f.Add("User: My bow.\nQUESTION: Is it heavy?")
	f.Add("Assistant: À Paris.\n# QUESTION\nComment est-ce là-bas ?")
	f.Fuzz(func(t *testing.T, text string) {
		r := &Request{Kind: KindRewrite, Text: text}
		if got := rewrite(r); strings.Contains(got, "\n") || got != rewrite(r) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
