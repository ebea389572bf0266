package demo

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/google/go-cmp/cmp"
)

func TestRunPlaysTheConversation(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	o := a.options(lines(5) + `{"role":"assistant","content":"not sent"}` + "\n" + `{"role":"user","content":"  "}`)
	o.Question = "What did I say first?"
	s, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"message 1", "message 2", "message 3", "message 4", "message 5", o.Question}, a.contents); diff != "" {
		t.Errorf("sent (-want +got)\n%s", diff)
	}
	if s.ChatID != a.chat || len(s.Turns) != 5 || s.FailedTurns != 0 || s.Interrupted {
		t.Errorf("summary %+v", s)
	}
	if len(s.Answers) != 1 || s.Answers[0].Text != replyText(6) {
		t.Errorf("answers %+v", s.Answers)
	}
	history := 0
	for n := range 4 {
		history += text.Tokens("message 1") + text.Tokens(replyText(n+1))
	}
	last := s.Turns[4]
	if last.Number != 5 || last.Tokens != (Bill{Memory: 40, History: history, Input: 100, Cached: 40}) {
		t.Errorf("last turn %+v, want a history of %d", last, history)
	}
	printed := o.Out.(*strings.Builder).String()
	for _, said := range []string{"5 user messages", "2 lines by others or without text", "5 of 5: 2026-04-05", "TOKEN BILL  5 turns",
		"times as many", "No turn was left out", "> What did I say first?", "< Reply 6: größer", a.chat.String(), a.URL + "/river/"} {
		if !strings.Contains(printed, said) {
			t.Errorf("the report does not say %q", said)
		}
	}
	if strings.Contains(printed, "not sent") || strings.Contains(printed, "\x1b") {
		t.Errorf("printed:\n%s", printed)
	}
}

func TestRunPlaysTheBuiltInConversationAndAsks(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	o := a.options("")
	o.Conversation, o.Turns = nil, 3
	s, err := Run(t.Context(), o)
	if err != nil || len(s.Turns) != 3 || len(s.Answers) != 2 {
		t.Errorf("%v, %+v", err, s)
	}
	if printed := o.Out.(*strings.Builder).String(); !slices.Equal(a.contents[3:], builtinQuestions) || !strings.Contains(printed, "3 of 3: 2026-") {
		t.Errorf("asked %q, printed:\n%s", a.contents[3:], printed)
	}
}

func TestRunInterruptedPrintsWhatItHas(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	ctx, interrupt := context.WithCancel(t.Context())
	a.hook = func(_ http.ResponseWriter, r *http.Request, m *received) bool {
		if m.n == 4 {
			interrupt()
			<-r.Context().Done()
			return true
		}
		return false
	}
	o := a.options(lines(9))
	o.Question = "never asked"
	s, err := Run(ctx, o)
	if err != nil || !s.Interrupted || len(s.Turns) != 3 || len(s.Answers) > 0 {
		t.Errorf("%v, %+v", err, s)
	}
	if printed := o.Out.(*strings.Builder).String(); !strings.Contains(printed, "Interrupted") || !strings.Contains(printed, "TOKEN BILL  3 turns") {
		t.Errorf("printed:\n%s", printed)
	}
}

func TestRunWithoutServer(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.Close()
	if _, err := Run(t.Context(), a.options(lines(1))); err == nil || !strings.Contains(err.Error(), "make run") {
		t.Errorf("error %v, want one that says how to start the server", err)
	}
}

func TestRunChecksItsOptions(t *testing.T) {
	t.Parallel()
	good := func() Options {
		return Options{URL: "http://127.0.0.1:1", Token: "t", Out: &strings.Builder{}, Conversation: strings.NewReader(lines(1))}
	}
	for name, test := range map[string]struct {
		spoil func(*Options)
		says  string
	}{
		"no URL":         {func(o *Options) { o.URL = "" }, "URL"},
		"no token":       {func(o *Options) { o.Token = "" }, "Token"},
		"no output":      {func(o *Options) { o.Out = nil }, "Out"},
		"negative turns": {func(o *Options) { o.Turns = -1 }, "turns"},
		"nothing to say": {func(o *Options) { o.Conversation = strings.NewReader("") }, "no user message"},
		"bad line":       {func(o *Options) { o.Conversation = strings.NewReader("x") }, "line 1"},
		"database":       {func(o *Options) { o.DatabaseURL = "postgres://127.0.0.1:x" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good()
			test.spoil(&o)
			if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one about %s", err, test.says)
			}
		})
	}
}
