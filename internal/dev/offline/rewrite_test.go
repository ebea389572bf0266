package offline

import (
	"strings"
	"testing"
)

// standalone rewrites a question after a conversation; its lines are a user's and an assistant's in turn.
func standalone(question string, said ...string) string {
	var in strings.Builder
	in.WriteString("CONVERSATION (oldest first):\n")
	for i, line := range said {
		in.WriteString([]string{"User: ", "Assistant: "}[i%2] + line + "\n")
	}
	in.WriteString("\n" + titleQuestion + ":\n" + question)
	return rewrite(&Request{Kind: KindRewrite, Text: in.String()})
}

func TestQuestionsStandAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ said, question, want string }{
		{"My bow needs new hair.", "How long does it take?", "How long does my bow take?"},
		{"I bought the rosin in Lisbon.", "What is the weather there?", "What is the weather in Lisbon?"},
		{"I keep my bow dry.", "Is that enough?", "Is that enough?"},
		{"I keep my bow dry.", "I know that song, do you?", "I know that song, do you?"},
		{"I keep my bow dry.", "Do you like that?", "Do you like my bow?"},
		{"The kiln is too hot.", "It cracks the glaze, why?", "The kiln cracks the glaze, why?"},
		{"My bow needs new hair.", "How old is my cello?", "How old is my cello?"},
		{"", "How long does it take?", "How long does it take?"},
		{"今日は。", "それはいくらですか？", "それはいくらですか？"},
	} {
		if got := standalone(c.question, c.said); got != c.want {
			t.Errorf("%q after %q: %q, want %q", c.question, c.said, got, c.want)
		}
	}
}

func TestTheUsersOwnWordsAreMeant(t *testing.T) {
	t.Parallel()
	if got, want := standalone("Is it heavy?", "I have a case.", "Put the bow into it."), "Is a case heavy?"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := standalone("Is it heavy?", "Hm.", "Take the case."), "Is the case heavy?"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRewritingsAreOneLineAndTakeTheLastQuestion(t *testing.T) {
	t.Parallel()
	if got, want := standalone("Is it\n heavy? [[offline-rewrite:slow=1ms]]", "QUESTION: My bow?"), "Is my bow heavy?"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, text := range []string{"", "QUESTION", "Is it heavy?"} {
		if got := rewrite(&Request{Text: text}); got != strings.TrimPrefix(text, "QUESTION") {
			t.Errorf("%q became %q", text, got)
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
