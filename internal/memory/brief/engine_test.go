package brief_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

func TestFold(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := r.chat(8)
	report := r.mustFold(chatID)
	assert.Truef(t, report.Version == 1 && report.SeqFrom == 1 && report.SeqTo == 12 && report.Turns == 6 && report.Calls == 1 &&
		report.Mode == brief.ModeInline && report.Model == "small" && report.TokensAfter != 0 && !r.again,
		"the report is %+v, again %v", report, r.again)
	asked := r.model.Requests()[0]
	const begins = "=== EXISTING_SUMMARY ===\nNONE\n=== END_EXISTING_SUMMARY ===\n\n=== NEW_TURNS ===\nTurn 1:\nUser: I decided to practise etude 0"
	assert.Truef(t, asked.Kind == offline.KindSummary && asked.Metadata["purpose"] == "fold" && asked.PromptCacheKey == chatID.String() &&
		strings.HasPrefix(asked.Text, begins),
		"asked %+v", asked)
	testkit.Want(t, r.pool, sha256Hex(asked.Text), "select input_sha256 from conversation_brief_revisions")
	again, err := r.fold(chatID)
	assert.Truef(t, err == nil && again.Result == work.Nothing, "once more: %+v, %v", again, err)
	assert.Truef(t, strings.Count(r.logs.String(), chatID.String()) == 1 && !strings.Contains(r.logs.String(), "etude"), "the log is %s", r.logs)
	// The next fold starts from this summary.
	for turn := range 6 {
		r.say(chatID, "user", fmt.Sprintf("And then I decided to play suite %d%s.", turn, strings.Repeat(fmt.Sprintf(" gently%d", turn), 20)))
	}
	first := r.summary(chatID)
	r.mustFold(chatID)
	input := r.model.Requests()[1].Text
	assert.Truef(t, strings.HasPrefix(input, "=== EXISTING_SUMMARY ===\n"+first+"\n=== END_EXISTING_SUMMARY ==="),
		"the second input begins %.300s", input)
}

// Long turns leave the prompt at their pace, and yet no summary is paid for each.
func TestAFoldIsWorthItsCall(t *testing.T) {
	t.Parallel()
	for size, most := range map[int]int{400: 2, 900: 5, 1500: 7, 1800: 8, 2000: 8, 2200: 8, 2500: 8} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, func(c *brief.Config) { c.Limits = memory.DefaultLimits() })
			chatID := r.chat(0)
			for turn := range 16 {
				r.say(chatID, "user", fmt.Sprintf("Here is page %d:%s", turn, strings.Repeat(" word", size-110)))
				r.say(chatID, "assistant", fmt.Sprintf("Page %d says this:%s", turn, strings.Repeat(" so", 90)))
				for due := true; due; due = r.again {
					_, err := r.fold(chatID)
					require.NoError(t, err)
				}
			}
			calls := len(r.model.Requests())
			assert.Truef(t, calls != 0 && calls <= most, "%d summary calls in 16 turns, at most %d are wanted", calls, most)
		})
	}
}

func TestNothingToFold(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	open := map[string]uuid.UUID{"streaming": r.chat(8), "awaiting": r.chat(8)}
	for status, chatID := range open {
		testkit.Exec(t, r.pool, "update messages set status = $2, lease_until = now() + interval '1 hour' where chat_id = $1 and seq = 2", chatID, status)
	}
	for _, chatID := range []uuid.UUID{uuid.New(), r.chat(2), open["streaming"], open["awaiting"]} {
		r.wantFold(chatID, work.Nothing)
	}
	assert.Empty(t, r.model.Requests(), "calls")
	// While a reply runs nothing is settled: one that ends without words leaves a turn to fold, and the counters as they were.
	testkit.Want(t, r.pool, 0, "select (select count(*) from throughline.work) + count(*) from conversation_briefs where settled_turns is not null")
}

// What the gate refuses is asked for once more, with the reason.
func TestGateRefusesOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, testkit.InOrder(offline.Answer{Fault: offline.FaultLoop}, offline.Answer{}), nil)
	chatID := r.chat(8)
	report := r.mustFold(chatID)
	asked := r.model.Requests()
	require.Truef(t, len(asked) == 2 && report.Calls == 2 && len(report.Refusals) == 1 && report.Version == 1, "asked %d times, %+v", len(asked), report)
	const reason = "same words over and over"
	assert.Truef(t, !strings.Contains(asked[0].Instructions, reason) && strings.Contains(asked[1].Instructions, reason) && asked[0].Text == asked[1].Text,
		"the second instructions are %s", asked[1].Instructions)
	assert.Contains(t, r.summary(chatID), "etude", "the summary")
}

// checkUntouched checks that the brief is that of a new chat and its lease released.
func (r *rig) checkUntouched(chatID uuid.UUID) {
	got := testkit.Ask[string](r.t, r.pool,
		`select concat_ws('/', version, covered_seq, brief ->> 'global_summary',
		(select w.lease_token from throughline.work w where w.key = chat_id)) from conversation_briefs where chat_id = $1`, chatID)
	assert.Equal(r.t, "0/0/", got, "the brief")
}

// A summary that loses most of the one before is damage, not progress.
func TestShrunkenSummaryIsRefused(t *testing.T) {
	t.Parallel()
	script := testkit.InOrder(offline.Answer{Text: longSummary(250)}, offline.Answer{Text: "They talked about this and that for a while."})
	r := newRig(t, script, func(c *brief.Config) { c.Limits.SummaryTokenCap = 400 })
	chatID := r.chat(8)
	r.mustFold(chatID)
	for range 8 {
		r.say(chatID, "user", "One more thing to remember:"+strings.Repeat(" slowly", 60))
	}
	report, err := r.fold(chatID)
	assert.Truef(t, report.Result == work.Refused && err != nil && strings.Join(report.Refusals, " ") == "shrunk shrunk",
		"%+v, %v", report, err)
	assert.Equal(t, longSummary(250), r.summary(chatID), "the summary")
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
	long, short := longSummary(500), longSummary(150)
	for what, second := range map[string]offline.Answer{
		"the model shortens it": {Text: short}, "the model does not": {Text: long}, "the model is down": {Fault: offline.Fault401},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testkit.InOrder(offline.Answer{Text: long}, second), hosted(brief.ModeHosted))
			chatID := r.chat(8)
			report := r.mustFold(chatID)
			got := r.summary(chatID)
			cut := strings.HasPrefix(long, got) && strings.HasSuffix(got, ".") && text.Tokens(got) > 150
			if text.Tokens(got) > 200 || report.TokensAfter != text.Tokens(got) || second.Text == short && got != short || second.Text != short && !cut {
				t.Errorf("%d tokens: %q", text.Tokens(got), got)
			}
			asked := r.model.Requests()
			last := asked[len(asked)-1]
			if len(asked) != 2 || last.Prompt != nil || last.Model != "small" || last.Text != long || !strings.Contains(last.Instructions, "at most 200 tokens") {
				t.Errorf("asked %d times, the second time for %.100q", len(asked), last.Instructions)
			}
			testkit.Want(t, r.pool, "hosted pmpt_1@7", "select prompt_mode || ' ' || prompt_ref from conversation_brief_revisions")
		})
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
	testkit.Exec(t, r.pool, `insert into messages (chat_id, role, content, token_count)
		select $1, 'tool', 'Result ' || n || '.', 4 from generate_series(1, $2::int) n`, chatID, rows)
	for range 3 {
		r.say(chatID, "user", "Go on.")
	}
	report := r.mustFold(chatID)
	assert.Truef(t, report.Turns == 1 && report.SeqFrom == 1 && report.SeqTo == rows+1, "the report is %+v", report)
	var read strings.Builder
	for _, request := range r.model.Requests() {
		read.WriteString(request.Text)
	}
	for _, n := range []int{1, 2000, 2001, rows} {
		result := fmt.Sprintf("Result %d.", n)
		assert.Truef(t, strings.Count(read.String(), result) == 1, "%q was read %d times", result, strings.Count(read.String(), result))
	}
}

// A covered message that was edited, or left the path, is folded again from there, upon the summary before it. No fold reads what
// has left the path.
func TestFoldGoesOnWhereTheBriefWentBackTo(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	chatID := r.chat(8)
	first := r.mustFold(chatID)
	summary := r.summary(chatID)
	r.play(chatID)
	r.mustFold(chatID)
	testkit.Exec(t, r.pool, "update messages set content = 'I stopped with the violin.' where chat_id = $1 and seq = $2", chatID, first.SeqTo+1)
	testkit.Exec(t, r.pool, "update messages set superseded_by = gen_random_uuid() where chat_id = $1 and seq = $2", chatID, first.SeqTo+2)
	require.Equal(t, summary, r.summary(chatID), "the brief")
	again := r.mustFold(chatID)
	assert.Truef(t, again.SeqFrom == first.SeqTo+1 && again.Version > first.Version+2, "%+v", again)
	read := r.lastInput()
	left := fmt.Sprintf("Etude %d it is", first.SeqTo/2)
	assert.Truef(t, strings.Contains(read, summary) && strings.Contains(read, "violin") && !strings.Contains(read, left), "the fold read %s", read)
}

// The model's share of a fold and Postgres' are measured apart: each call, and the one commit.
func TestCallsAndCommitAreMeasuredApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, testkit.InOrder(offline.Answer{Fault: offline.FaultNone}, offline.Answer{}, offline.Answer{Fault: offline.Fault401}), nil)
	calls, commits := r.metrics.SummaryDuration.WithLabelValues, r.metrics.CommitDuration
	r.mustFold(r.chat(8))
	answered, n := testkit.Measured(t, calls("answered")), testkit.Measured(t, commits)
	assert.Truef(t, answered == 2 && n == 1, "%v calls and %v commits were measured", answered, n)
	_, err := r.fold(r.chat(8))
	assert.Error(t, err, "a refused key goes unnoticed")
	failed, n := testkit.Measured(t, calls("failed")), testkit.Measured(t, commits)
	assert.Truef(t, failed == 1 && n == 1, "%v failed calls and %v commits were measured", failed, n)
}
