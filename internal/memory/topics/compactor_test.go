package topics_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

func TestCompactionKeepsTheLastMessages(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), nil)
	of := r.topic(6)
	r.wantNothing(of) // twelve messages are not too many
	r.goOn(of, 1)
	report := r.mustCompact(of)
	r.want(of, row{Summary: "Summary 1 of what was said.", SummarySeq: 10, CompactedSeq: 10, Archived: 10})
	assert.Truef(t, report.Packed == 10 && report.Active == 4 && report.Summarized == 10 && report.Calls == 1 && report.PromptRef == "built-in@1",
		"the report is %+v", report)
	r.wantNothing(of)
	assert.Equal(t, 1.0, testkit.Measured(t, r.metrics.TopicCompactions.WithLabelValues("done")), "compactions counted")
	lines := r.logs.Lines(t, "topic compaction ended")
	assert.Truef(t, len(lines) == 1 && lines[0]["packed"] == 10., "logged %v", lines)
	logged := r.logs.String()
	assert.Truef(t, !strings.Contains(logged, "rosin") && !strings.Contains(logged, "bows"), "the log holds what was said: %s", logged)
}

func TestSummaryIsIncremental(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), nil)
	of := r.topic(7)
	r.mustCompact(of)
	r.goOn(of, 5)
	r.mustCompact(of)
	r.want(of, row{Summary: "Summary 2 of what was said.", SummarySeq: 20, CompactedSeq: 20, Archived: 20})
	inputs := r.inputs()
	require.Truef(t, len(inputs) == 2, "%d calls", len(inputs))
	assert.Truef(t, saidNumbers(inputs[0]) == "1 2 3 4 5 6 7 8 9 10" && strings.Contains(inputs[0], "NONE"), "first %q", inputs[0])
	assert.Truef(t, saidNumbers(inputs[1]) == "11 12 13 14 15 16 17 18 19 20" && strings.Contains(inputs[1], "Summary 1 of what was said."),
		"then %q", inputs[1])
	assert.Contains(t, r.model.Requests()[0].Instructions, "at most 150 tokens", "the instructions")
}

func TestCompactionIsOfOneTopic(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), nil)
	of := r.topic(5)
	r.topicIn(of.chatID, 3)
	r.goOn(of, 3)
	r.mustCompact(of)
	assert.Equal(t, "1 2 3 4 5 6 7 8 9 10 17 18", saidNumbers(r.inputs()[0]), "read")
	r.want(of, row{Summary: "Summary 1 of what was said.", SummarySeq: 18, CompactedSeq: 18, Archived: 12})
}

func TestLongTopicIsReadInTurns(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), func(c *topics.CompactorConfig) { c.InputTokens, c.Turn = 400, 1 })
	of := r.topic(20)
	report := r.mustCompact(of)
	require.Truef(t, report.Calls == 1 && len(r.jobs) == 1 && report.Archived != 0 && report.Archived < 36, "the first turn: %+v, %d jobs", report, len(r.jobs))
	first := r.row(of)
	assert.Truef(t, first.CompactedSeq == int64(report.Archived) && first.SummarySeq == first.CompactedSeq, "after the first turn %+v", first)
	for jobs := 0; len(r.jobs) > jobs; {
		jobs = len(r.jobs)
		r.mustCompact(of)
	}
	all := ""
	for _, input := range r.inputs() {
		all += saidNumbers(input) + " "
	}
	want := ""
	for n := range r.row(of).CompactedSeq {
		want += strconv.FormatInt(n+1, 10) + " "
	}
	assert.Truef(t, all == want && r.row(of).Archived >= 28, "read %q, archived %d", all, r.row(of).Archived)
}

func TestRehydratedTopicIsNotCompactedWhileItIsTheActiveOne(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), nil)
	of := r.topic(7)
	r.mustCompact(of)
	testkit.Exec(t, r.pool, "update topics set compacted_seq = 0, compacted_messages = 0, rehydrated = true where id = $1", of.id)
	r.wantNothing(of)
	other := r.topicIn(of.chatID, 1)
	report := r.mustCompact(of)
	r.want(of, row{Summary: "Summary 1 of what was said.", SummarySeq: 10, CompactedSeq: 10, Archived: 10})
	assert.Truef(t, report.Calls == 0 && len(r.inputs()) == 1, "what is in the summary was read again: %+v", report)
	r.wantNothing(other)
}

func TestStaleTopicIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), nil)
	of := r.topic(8)
	r.mustCompact(of)
	testkit.Exec(t, r.pool, "update topics set stale = true where id = $1", of.id)
	r.mustCompact(of)
	r.want(of, row{Summary: "Summary 2 of what was said.", SummarySeq: 12, CompactedSeq: 12, Archived: 12})
	input := r.inputs()[1]
	assert.Truef(t, saidNumbers(input) == "1 2 3 4 5 6 7 8 9 10 11 12" && !strings.Contains(input, "Summary 1"), "read %q", input)
	r.wantNothing(of)

	testkit.Exec(t, r.pool, "delete from messages where chat_id = $1 and seq > 6", of.chatID)
	testkit.Exec(t, r.pool, "update topics set stale = true where id = $1", of.id)
	r.mustCompact(of)
	r.want(of, row{}) // few are left: they are all active
	r.wantNothing(of)
}

func TestStaleTopicThatIsTalkedAboutStaysUnpacked(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), nil)
	of := r.topic(8)
	testkit.Exec(t, r.pool, "update topics set stale = true, rehydrated = true where id = $1", of.id)
	r.mustCompact(of)
	r.want(of, row{Summary: "Summary 1 of what was said.", SummarySeq: 12, Rehydrated: true})
	r.wantNothing(of)
}

// A topic of an old chat may fade before its compaction: it is archived without a summary, and gets it then.
func TestArchivedTopicWithoutASummaryGetsIt(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), nil)
	of, short := r.topic(8), r.topic(6)
	for _, faded := range []topic{of, short} {
		r.fade(faded)
	}
	report := r.mustCompact(of)
	r.want(of, row{Summary: "Summary 1 of what was said.", SummarySeq: 16, CompactedSeq: 16, Archived: 16, Faded: true})
	assert.Truef(t, report.Summarized == 16 && report.Packed == 0 && report.Active == 0, "the report is %+v", report)
	r.wantNothing(of)
	r.wantNothing(short)
}

// What is left unsummarized of a topic when it fades is few messages, which do without.
func TestArchivedTopicKeepsItsSummary(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), nil)
	of := r.topic(8)
	r.mustCompact(of)
	r.fade(of)
	r.wantNothing(of)
	r.want(of, row{Summary: "Summary 1 of what was said.", SummarySeq: 12, CompactedSeq: 16, Archived: 16, Faded: true})
}

func TestArchivedTopicIsSummarizedInTurns(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), func(c *topics.CompactorConfig) { c.Turn, c.InputTokens = 1, 1000 })
	of := r.topic(60)
	r.fade(of)
	for n := 1; r.row(of).SummarySeq < 120-12; n++ {
		before := r.row(of).SummarySeq
		r.mustCompact(of)
		got := r.row(of)
		require.Truef(t, got.SummarySeq > before && got.CompactedSeq == 120 && got.Archived == 120 && got.Faded, "the topic is %+v", got)
		require.Equalf(t, len(r.jobs) == n, got.SummarySeq < 120-12, "%d of 120 are summarized, and %d jobs follow", got.SummarySeq, len(r.jobs))
	}
	assert.NotEmpty(t, r.jobs, "it took one turn")
	r.wantNothing(of)
}

func TestMergedAndMissingTopicsNeedNothing(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), nil)
	of := r.topic(8)
	r.wantNothing(topic{of.chatID, r.topic(1).id}) // of another chat
	testkit.Exec(t, r.pool, "update topics set state = 'merged', merged_into = $2 where id = $1", of.id, r.topicIn(of.chatID, 1).id)
	r.wantNothing(of)
	testkit.Exec(t, r.pool, "delete from chats where id = $1", of.chatID)
	report, err := r.compact(of)
	assert.Truef(t, err == nil && report.Result == work.Nothing, "a deleted chat: %+v, %v", report, err)
	assert.Empty(t, r.inputs(), "calls")
}

func TestRefusedSummaryIsTriedAgainAndThenDoneWithout(t *testing.T) {
	t.Parallel()
	refusing := true
	r := newCompactRig(t, func(*offline.Request) offline.Answer {
		if refusing {
			return offline.Answer{Text: "I'm sorry, but I can't help with that."}
		}
		return offline.Answer{Text: "They talked about bows."}
	}, nil)
	of := r.topic(8)
	report, err := r.compact(of)
	require.Truef(t, report.Result == work.Failed && err != nil && len(r.inputs()) == 2,
		"the first attempt: %+v, %v, %d calls", report, err, len(r.inputs()))
	r.want(of, row{})
	report, err = r.engine.Compact(t.Context(), of.chatID, of.id, work.Attempt{Last: true})
	require.Truef(t, report.Result == work.Refused && err == nil && report.WithoutSummary, "the last attempt: %+v, %v", report, err)
	r.check(of)
	r.want(of, row{CompactedSeq: 12, Archived: 12, Waits: true})
	r.wantNothing(of)

	refusing = false
	testkit.Exec(t, r.pool, "update throughline.work set retry_at = now() where key = $1", of.id)
	report = r.mustCompact(of)
	r.want(of, row{Summary: "They talked about bows.", SummarySeq: 12, CompactedSeq: 12, Archived: 12})
	assert.Truef(t, report.Packed == 0 && report.Summarized == 12, "the summary caught up: %+v", report)
	r.wantNothing(of)
}

func TestHostedPromptIsNotForTopics(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, always("They talked."), func(c *topics.CompactorConfig) {
		c.Prompt = brief.PromptConfig{Mode: brief.ModeHosted, Hosted: brief.HostedPrompt{ID: "pmpt_1", Version: "2"}, Model: "small"}
	})
	report := r.mustCompact(r.topic(8))
	assert.Truef(t, report.Mode == brief.ModeInline && report.Model == "small", "the report is %+v", report)
}

// The first summary gives a topic its title, unless a person did; later ones do not change it.
func TestTheFirstSummaryNamesTheTopic(t *testing.T) {
	t.Parallel()
	n := 0
	r := newCompactRig(t, func(*offline.Request) offline.Answer {
		n++
		return offline.Answer{Text: "Title: Rosin for cello bows " + strconv.Itoa(n) + "\n\nSummary " + strconv.Itoa(n) + " of what was said."}
	}, nil)
	titled := func(of topic) string {
		return testkit.Ask[string](t, r.pool, "select concat_ws('/', title, title_seq) from topics where id = $1", of.id)
	}
	of, renamed := r.topic(7), r.topic(7)
	testkit.Exec(t, r.pool, "update topics set title = 'Mine', title_seq = null where id = $1", renamed.id)
	r.mustCompact(of)
	r.want(of, row{Summary: "Summary 1 of what was said.", SummarySeq: 10, CompactedSeq: 10, Archived: 10})
	r.goOn(of, 5)
	r.mustCompact(of)
	r.mustCompact(renamed)
	if of, renamed := titled(of), titled(renamed); of != "Rosin for cello bows 1/0" || renamed != "Mine" {
		t.Errorf("the titles are %q and %q", of, renamed)
	}
	asked := r.model.Requests()
	assert.True(t, strings.Contains(asked[0].Instructions, `"Title: "`) && !strings.Contains(asked[1].Instructions+asked[2].Instructions, `"Title: "`),
		"a title is not asked for once")
}

// A title whose message is gone is made of another one, without a model where there is nothing to summarize.
func TestATopicGetsAnotherTitle(t *testing.T) {
	t.Parallel()
	r := newCompactRig(t, summaries(), nil)
	of := r.topic(2)
	testkit.Exec(t, r.pool, "delete from messages where chat_id = $1 and seq = 1", of.chatID)
	testkit.Want(t, r.pool, "…/0/true", "select concat_ws('/', title, title_seq, stale::text) from topics where id = $1", of.id)
	r.mustCompact(of)
	testkit.Want(t, r.pool, "Bows/3/false", "select concat_ws('/', title, title_seq, stale::text) from topics where id = $1", of.id)
	assert.Empty(t, r.model.Requests(), "calls of the model")
}

// What happens to the topic while the model works.
func TestChangeMeanwhileIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		// lost is whether the compaction must not be written, left what is packed when it is tried again.
		lost bool
		left int
	}{
		"a message deleted":       {"delete from messages where chat_id = $1 and seq = 3", true, 11},
		"all messages deleted":    {"delete from messages where chat_id = $1", true, 0},
		"the chat deleted":        {"delete from chats where id = $1", true, 0},
		"the account deleted":     {"delete from auth.users where id = (select user_id from chats where id = $1)", true, 0},
		"archived":                {"update topics set state = 'archived' where chat_id = $1", true, 0},
		"a turn moved away":       {"update turn_index set topic_id = gen_random_uuid() where chat_id = $1 and seq = 3", true, 10},
		"a turn of another topic": {"insert into messages (chat_id, role, content, token_count) values ($1, 'user', 'Else', 1)", false, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r *compactRig
			var of topic
			changed := false
			r = newCompactRig(t, func(*offline.Request) offline.Answer {
				if !changed {
					changed = true
					testkit.Exec(t, r.pool, c.change, of.chatID)
				}
				return offline.Answer{Text: "They talked about something."}
			}, nil)
			of = r.topic(8)
			report, err := r.compact(of)
			want := map[bool]work.Result{true: work.Conflict, false: work.Done}[c.lost]
			require.Truef(t, err == nil && report.Result == want, "%+v, %v, want %s", report, err, want)
			if n := testkit.Ask[int](t, r.pool, "select count(*) from topics where id = $1", of.id); n == 0 {
				return // went with its messages
			}
			r.check(of)
			got := r.row(of)
			require.Truef(t, !c.lost || (got.Summary == "" && got.Archived == 0), "it was written: %+v", got)
			if !c.lost || c.left == 0 {
				return
			}
			r.recount(of)
			r.mustCompact(of)
			if inputs := r.inputs(); strings.HasSuffix(c.change, "seq = 3") && strings.Contains(inputs[len(inputs)-1], "Question 3 ") {
				t.Errorf("the model read again what is gone: %s", inputs[len(inputs)-1])
			}
			got = r.row(of)
			assert.Truef(t, got.Archived == c.left, "afterwards %+v, want %d archived", got, c.left)
		})
	}
}
