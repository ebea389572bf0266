package brief_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestFold(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := r.chat(8)
	report := r.mustFold(chatID)
	if report.Version != 1 || report.SeqFrom != 1 || report.SeqTo != 12 || report.Turns != 6 || report.Calls != 1 ||
		report.Mode != brief.ModeInline || report.Model != "small" || report.TokensAfter == 0 || r.again {
		t.Errorf("the report is %+v, again %v", report, r.again)
	}
	asked := r.model.Requests()[0]
	if asked.Kind != offline.KindSummary || asked.Metadata["purpose"] != "fold" || asked.Store || asked.PromptCacheKey != chatID.String() || len(asked.SafetyIdentifier) != 64 ||
		!strings.HasPrefix(asked.Text, "=== EXISTING_SUMMARY ===\nNONE\n=== END_EXISTING_SUMMARY ===\n\n=== NEW_TURNS ===\nTurn 1:\nUser: I decided to practise etude 0") {
		t.Errorf("asked %+v", asked)
	}
	if got := testkit.Ask[string](t, r.pool, "select input_sha256 from conversation_brief_revisions"); got != sha256Hex(asked.Text) {
		t.Errorf("the revision names another input: %s", got)
	}
	if again, err := r.fold(chatID); err != nil || again.Result != brief.Nothing {
		t.Errorf("once more: %+v, %v", again, err)
	}
	if lines := strings.Count(r.logs.String(), chatID.String()); lines != 1 || strings.Contains(r.logs.String(), "etude") {
		t.Errorf("the log is %s", r.logs)
	}
	// The next fold starts from this summary.
	for turn := range 6 {
		r.say(chatID, "user", fmt.Sprintf("And then I decided to play suite %d%s.", turn, strings.Repeat(fmt.Sprintf(" gently%d", turn), 20)))
	}
	first := r.summary(chatID)
	r.mustFold(chatID)
	if input := r.model.Requests()[1].Text; !strings.HasPrefix(input, "=== EXISTING_SUMMARY ===\n"+first+"\n=== END_EXISTING_SUMMARY ===") {
		t.Errorf("the second input begins %.300s", input)
	}
}

func TestNothingToFold(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	streaming, stale := r.chat(8), r.chat(8)
	testkit.Exec(t, r.pool, "update messages set status = 'streaming', lease_until = now() + interval '1 hour' where chat_id = $1 and seq = 2", streaming)
	testkit.Exec(t, r.pool, "update conversation_briefs set stale = true, covered_seq = 2 where chat_id = $1", stale)
	for what, chatID := range map[string]uuid.UUID{"no chat": uuid.New(), "a short chat": r.chat(2), "a reply that still runs": streaming, "a stale brief": stale} {
		if report, err := r.fold(chatID); err != nil || report.Result != brief.Nothing {
			t.Errorf("%s: %+v, %v", what, report, err)
		}
	}
	if report, err := r.engine.Rebuild(t.Context(), r.chat(8), r.job()); err != nil || report.Result != brief.Nothing {
		t.Errorf("a rebuild of what is not stale: %+v, %v", report, err)
	}
	if n := len(r.model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	if n := testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where lease_token is not null"); n != 0 {
		t.Errorf("%d leases were kept", n)
	}
}

// What the gate refuses is asked for once more, with the reason.
func TestGateRefusesOnce(t *testing.T) {
	t.Parallel()
	for fault, reason := range map[offline.Fault]string{
		offline.FaultEmpty: "was empty", offline.FaultNone: "nothing to summarize", offline.FaultLoop: "same words over and over", offline.FaultRefusal: "declined the task",
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testkit.InOrder(offline.Answer{Fault: fault}, offline.Answer{}), nil)
			chatID := r.chat(8)
			report := r.mustFold(chatID)
			asked := r.model.Requests()
			if len(asked) != 2 || report.Calls != 2 || len(report.Refusals) != 1 || report.Version != 1 {
				t.Fatalf("asked %d times, %+v", len(asked), report)
			}
			if strings.Contains(asked[0].Instructions, reason) || !strings.Contains(asked[1].Instructions, reason) || asked[0].Text != asked[1].Text {
				t.Errorf("the second instructions are %s", asked[1].Instructions)
			}
			if got := r.summary(chatID); !strings.Contains(got, "etude") {
				t.Errorf("the summary is %q", got)
			}
		})
	}
}

func TestGateRefusesTwice(t *testing.T) {
	t.Parallel()
	for _, fault := range []offline.Fault{offline.FaultEmpty, offline.FaultNone, offline.FaultLoop, offline.FaultRefusal} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testkit.InOrder(offline.Answer{Fault: fault}), nil)
			chatID := r.chat(8)
			report, err := r.fold(chatID)
			if _, refused := errors.AsType[*brief.RefusedError](err); !refused || report.Result != brief.Refused || report.Calls != 2 {
				t.Errorf("%+v, %v", report, err)
			}
			r.checkUntouched(chatID)
		})
	}
}

// checkUntouched checks that the brief is that of a new chat and its lease released.
func (r *rig) checkUntouched(chatID uuid.UUID) {
	r.t.Helper()
	got := testkit.Ask[string](r.t, r.pool, "select concat_ws('/', version, covered_seq, brief ->> 'global_summary', lease_token) from conversation_briefs where chat_id = $1", chatID)
	if got != "0/0/" {
		r.t.Errorf("the brief is %s", got)
	}
}

// A summary that loses most of the one before is damage, not progress.
func TestShrunkenSummaryIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, testkit.InOrder(offline.Answer{Text: longSummary(250)}, offline.Answer{Text: "They talked about this and that for a while."}), func(c *brief.Config) { c.Limits.SummaryTokenCap = 400 })
	chatID := r.chat(8)
	r.mustFold(chatID)
	for range 8 {
		r.say(chatID, "user", "One more thing to remember:"+strings.Repeat(" slowly", 60))
	}
	report, err := r.fold(chatID)
	if report.Result != brief.Refused || err == nil || strings.Join(report.Refusals, " ") != "shrunk shrunk" {
		t.Errorf("%+v, %v", report, err)
	}
	if got := r.summary(chatID); got != longSummary(250) {
		t.Errorf("the summary is %.100q", got)
	}
}

// longSummary has about so many tokens, in sentences that do not repeat each other.
func longSummary(tokens int) string {
	var b strings.Builder
	for n := 0; text.Tokens(b.String()) < tokens; n++ {
		fmt.Fprintf(&b, "On day %d the user practised etude %d with bow %d. ", n, 100+n, 1000-n)
	}
	return strings.TrimSpace(b.String())
}

// A summary over the cap is shortened by one more call, always inline; what is still too long is cut at a sentence's end.
func TestSummaryOverTheCap(t *testing.T) {
	t.Parallel()
	long := longSummary(500)
	short := longSummary(150)
	for what, c := range map[string]struct {
		second offline.Answer
		want   func(string) bool
	}{
		"the model shortens it": {offline.Answer{Text: short}, func(got string) bool { return got == short }},
		"the model does not": {offline.Answer{Text: long}, func(got string) bool {
			return strings.HasPrefix(long, got) && strings.HasSuffix(got, ".") && text.Tokens(got) > 150
		}},
		"the model refuses":   {offline.Answer{Fault: offline.FaultRefusal}, func(got string) bool { return strings.HasPrefix(long, got) && strings.HasSuffix(got, ".") }},
		"the model is down":   {offline.Answer{Fault: offline.Fault401}, func(got string) bool { return strings.HasPrefix(long, got) && strings.HasSuffix(got, ".") }},
		"the model loses all": {offline.Answer{Fault: offline.FaultNone}, func(got string) bool { return strings.HasPrefix(long, got) && strings.HasSuffix(got, ".") }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testkit.InOrder(offline.Answer{Text: long}, c.second), hosted(brief.ModeHosted))
			chatID := r.chat(8)
			report := r.mustFold(chatID)
			if got := r.summary(chatID); !c.want(got) || text.Tokens(got) > 200 || report.TokensAfter != text.Tokens(got) {
				t.Errorf("%d tokens: %q", text.Tokens(got), got)
			}
			asked := r.model.Requests()
			if len(asked) != 2 || asked[1].Prompt != nil || asked[1].Model != "small" || asked[1].Text != long || !strings.Contains(asked[1].Instructions, "at most 200 tokens") {
				t.Errorf("asked %d times, the second time for %.100q", len(asked), asked[len(asked)-1].Instructions)
			}
			if got := testkit.Ask[string](t, r.pool, "select prompt_mode || ' ' || prompt_ref from conversation_brief_revisions"); got != "hosted pmpt_1@7" {
				t.Errorf("the revision names %s", got)
			}
		})
	}
}

// A turn longer than one call may read is folded in pieces, each summary the start of the next, and not a word is lost.
func TestOverlongTurnIsFoldedInPieces(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, func(c *brief.Config) { c.Limits.FoldInputTokens = 600 })
	chatID := testkit.Ask[uuid.UUID](t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
	var long strings.Builder
	for n := range 300 {
		fmt.Fprintf(&long, "Sentence number %04d tells of etude %d. ", n, n)
	}
	r.say(chatID, "user", strings.TrimSpace(long.String()))
	r.say(chatID, "assistant", "I read all of it.")
	for range 3 {
		r.say(chatID, "user", "Go on.")
	}
	report := r.mustFold(chatID)
	var read strings.Builder
	for i, request := range r.model.Requests() {
		existing, turns, _ := strings.Cut(request.Text, "=== NEW_TURNS ===")
		read.WriteString(turns)
		if (i == 0) != strings.Contains(existing, "\nNONE\n") {
			t.Errorf("call %d starts from %.200q", i, existing)
		}
	}
	for n := range 300 {
		if sentence := fmt.Sprintf("number %04d", n); strings.Count(read.String(), sentence) != 1 {
			t.Errorf("%q was read %d times", sentence, strings.Count(read.String(), sentence))
		}
	}
	if report.Calls < 4 || report.Version != 1 || report.Turns != 1 || report.SeqTo != 2 {
		t.Errorf("the report is %+v", report)
	}
}

// A turn of more rows than a fold reads at first, such as a reply with thousands of tool calls, is read whole
// and folded.
func TestTurnOfManyRows(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := testkit.Ask[uuid.UUID](t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
	r.say(chatID, "user", "Look up all of them.")
	const rows = 2500
	testkit.Exec(t, r.pool, "insert into messages (chat_id, role, content, token_count) select $1, 'tool', 'Result ' || n || '.', 4 from generate_series(1, $2::int) n", chatID, rows)
	for range 3 {
		r.say(chatID, "user", "Go on.")
	}
	if report := r.mustFold(chatID); report.Turns != 1 || report.SeqFrom != 1 || report.SeqTo != rows+1 {
		t.Errorf("the report is %+v", report)
	}
	var read strings.Builder
	for _, request := range r.model.Requests() {
		read.WriteString(request.Text)
	}
	for _, n := range []int{1, 2000, 2001, rows} {
		if result := fmt.Sprintf("Result %d.", n); strings.Count(read.String(), result) != 1 {
			t.Errorf("%q was read %d times", result, strings.Count(read.String(), result))
		}
	}
}

// A model that is not there is a failure that leaves everything as it was.
func TestModelFails(t *testing.T) {
	t.Parallel()
	for _, fault := range []offline.Fault{offline.Fault401, offline.Fault404, offline.FaultStall, offline.FaultFailed} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testkit.InOrder(offline.Answer{Fault: fault}), func(c *brief.Config) { c.Prompt.CallTimeout = 3 * time.Second })
			chatID := r.chat(8)
			report, err := r.fold(chatID)
			if report.Result != brief.Failed || err == nil {
				t.Errorf("%+v, %v", report, err)
			}
			r.checkUntouched(chatID)
		})
	}
}

// Without the next job, where one is due, nothing is written.
func TestNextJobFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, func(c *brief.Config) { c.Limits.FoldInputTokens = 500 })
	chatID := r.chat(40)
	broken := errors.New("no next job")
	report, err := r.engine.Fold(t.Context(), chatID, brief.Job{EnqueueNext: func(context.Context, pgx.Tx) error { return broken }})
	if report.Result != brief.Failed || !errors.Is(err, broken) {
		t.Errorf("%+v, %v", report, err)
	}
	r.checkUntouched(chatID)
}

// A long backlog is due again after a fold, and the next job is inserted in the same transaction.
func TestAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, func(c *brief.Config) { c.Limits.FoldInputTokens = 500 })
	chatID := r.chat(40)
	folds := 0
	for r.again = true; r.again; folds++ {
		r.mustFold(chatID)
	}
	if folds < 5 {
		t.Errorf("%d folds", folds)
	}
	if report, err := r.fold(chatID); err != nil || report.Result != brief.Nothing {
		t.Errorf("once more: %+v, %v", report, err)
	}
}

// A worker that takes the lease over ends the model call of the one that lost it.
func TestLostLeaseEndsTheCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, testkit.InOrder(offline.Answer{Fault: offline.FaultStall}), func(c *brief.Config) { c.Lease = 300 * time.Millisecond })
	chatID := r.chat(8)
	done := make(chan brief.Report, 1)
	go func() {
		report, _ := r.fold(chatID) // what it says is in the report
		done <- report
	}()
	r.model.AwaitRequest(t, "the fold asks", func(offline.Request) bool { return true })
	testkit.Exec(t, r.pool, "update conversation_briefs set lease_token = gen_random_uuid(), lease_until = now() + interval '1 hour'")
	if report := testkit.Receive(t, "the fold ends", done); report.Result != brief.Conflict {
		t.Errorf("%+v", report)
	}
	r.model.AwaitRequest(t, "the model is let go", func(a offline.Request) bool { return a.HungUp })
	if !testkit.Ask[bool](t, r.pool, "select lease_until > now() from conversation_briefs") {
		t.Error("the other's lease was taken away")
	}
}

func TestRebuild(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := r.chat(12)
	r.mustFold(chatID)
	testkit.Exec(t, r.pool, "update messages set content = 'I decided to stop with the violin.' where chat_id = $1 and seq = 1", chatID)
	if report, err := r.fold(chatID); err != nil || report.Result != brief.Nothing {
		t.Errorf("a fold of a stale brief: %+v, %v", report, err)
	}
	covered := testkit.Ask[int64](t, r.pool, "select covered_seq from conversation_briefs")
	report, err := r.engine.Rebuild(t.Context(), chatID, r.job())
	if err != nil || report.Result != brief.Done || report.Kind != brief.KindRebuild || report.SeqFrom != 1 || report.SeqTo != covered || report.Version != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	asked := r.model.Requests()
	if purpose := asked[len(asked)-1].Metadata["purpose"]; purpose != "rebuild" {
		t.Errorf("its purpose is %q", purpose)
	}
	if last := asked[len(asked)-1].Text; !strings.Contains(last, "violin") || strings.Contains(last, "etude 0 ") || !strings.Contains(last, "\nNONE\n") {
		t.Errorf("the rebuild read %.300s", last)
	}
	if got := r.summary(chatID); strings.Contains(got, "etude 0 ") {
		t.Errorf("the summary is %s", got)
	}
}

// supersede marks a message as the reply that another try has taken the place of, as a retry does.
func (r *rig) supersede(chatID uuid.UUID, seq int) {
	r.t.Helper()
	testkit.Exec(r.t, r.pool, "update messages set status = 'failed', superseded_by = gen_random_uuid(), token_count = 0 where chat_id = $1 and seq = $2", chatID, seq)
}

// What a reply said that was tried again is history: no fold reads it.
func TestSupersededReplyIsNotFolded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := r.chat(8)
	r.supersede(chatID, 2)
	report := r.mustFold(chatID)
	asked := r.model.Requests()[0].Text
	if report.SeqFrom != 1 || strings.Contains(asked, "Etude 0 it is") || !strings.Contains(asked, "practise etude 0 ") || !strings.Contains(asked, "Etude 1 it is") {
		t.Errorf("the report is %+v, the fold read %.500s", report, asked)
	}
}

// Was it folded before, the brief is stale and made anew without it.
func TestSupersededReplyIsForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := r.chat(8)
	r.mustFold(chatID)
	r.supersede(chatID, 2)
	report, err := r.engine.Rebuild(t.Context(), chatID, r.job())
	if err != nil || report.Result != brief.Done {
		t.Fatalf("%+v, %v", report, err)
	}
	asked := r.model.Requests()
	if last := asked[len(asked)-1].Text; strings.Contains(last, "Etude 0 it is") || !strings.Contains(last, "Etude 1 it is") {
		t.Errorf("the rebuild read %.500s", last)
	}
}
