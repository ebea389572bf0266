package demo

import (
	"context"
	"net/http"
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
	if s.ID != a.chat || len(s.Turns) != 5 || s.FailedTurns != 0 || s.Interrupted || s.CoverageChecked {
		t.Errorf("summary %+v", s)
	}
	if s.Recall.Answer != replyText(6) || s.Recall.Turn.Number != 6 {
		t.Errorf("recall %+v", s.Recall)
	}
	history := 0
	for n := range 4 {
		history += text.Tokens("message 1") + text.Tokens(replyText(n+1))
	}
	last := s.Turns[4]
	if last.HistoryTokens != history || last.MemoryTokens() != 40 || last.Usage.CachedTokens != 40 {
		t.Errorf("last turn %+v, want a history of %d", last, history)
	}
	printed := o.Out.(*strings.Builder).String()
	for _, said := range []string{"5 user messages", "1 line by others", "1 user message without text", "5 of 5: 2026-04-05", "turn 5",
		"times as many", "No turn unseen. That is what the receipts say themselves", "Reply 6: größer", a.chat.String(), a.URL + "/river/"} {
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
	if err != nil || len(s.Turns) != 3 || s.Recall.Question != builtinQuestion || s.Turns[0].At.Year() != 2026 {
		t.Errorf("%v, %+v", err, s)
	}
}

func TestRunPlaysSeveralChatsAtOnce(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	o := a.options(lines(4))
	o.Parallel, o.Interactive = 3, true
	s, err := Run(t.Context(), o)
	if err != nil || len(s.Others) != 2 || len(a.contents) != 12 {
		t.Fatalf("%v: %d others, %d messages", err, len(s.Others), len(a.contents))
	}
	for _, c := range append(s.Others, s.Chat) {
		if len(c.Turns) != 4 {
			t.Errorf("a chat with %d turns", len(c.Turns))
		}
	}
	if printed := o.Out.(*strings.Builder).String(); !strings.Contains(printed, "played beside it") || !strings.Contains(printed, "12/12") {
		t.Errorf("printed:\n%s", printed)
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
	if err != nil || !s.Interrupted || len(s.Turns) != 3 || s.Recall.Question != "" {
		t.Errorf("%v, %+v", err, s)
	}
	if printed := o.Out.(*strings.Builder).String(); !strings.Contains(printed, "Interrupted") || !strings.Contains(printed, "Totals of 3 turns") {
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
		"too many chats": {func(o *Options) { o.Parallel = 65 }, "64"},
		"format":         {func(o *Options) { o.Format = "xml" }, `"xml"`},
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

func TestDefaults(t *testing.T) {
	t.Parallel()
	o, err := Options{URL: "u/", Token: "t", Out: &strings.Builder{}}.withDefaults()
	if err != nil || o.URL != "u" || o.Parallel != 1 {
		t.Errorf("%+v, %v", o, err)
	}
}
