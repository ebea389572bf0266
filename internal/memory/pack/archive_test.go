package pack_test

import (
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestBrokenArchiveHealsFromTheMessages(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"cut":             "archive = substr(archive, 1, length(archive) - 7)",
		"empty":           "archive = ''::bytea",
		"a bit flipped":   "archive = set_bit(archive, 200, 1 - get_bit(archive, 200))",
		"other text":      "archive = 'H4sI no more'::bytea",
		"another hash":    "archive_sha256 = sha256('another')",
		"another count":   "archive_messages = archive_messages + 1",
		"another size":    "archive_raw_bytes = archive_raw_bytes + 1",
		"gone":            "archive = null, archive_messages = null, archive_raw_bytes = null, archive_sha256 = null",
		"of other words":  "archive = (select o.archive from topics o where o.id <> t.id), archive_messages = (select o.archive_messages from topics o where o.id <> t.id), archive_raw_bytes = (select o.archive_raw_bytes from topics o where o.id <> t.id), archive_sha256 = (select o.archive_sha256 from topics o where o.id <> t.id)",
		"of one too few":  "compacted_seq = compacted_seq + 1, summary_seq = summary_seq + 1",
		"of one too many": "compacted_seq = compacted_seq - 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, summaries(), nil)
			of := r.topic(8)
			r.mustCompact(of)
			r.mustCompact(r.topic(9))
			before := len(r.inputs())
			testkit.Exec(t, r.pool, "update topics t set "+damage+" where id = $1", of.id)
			report := r.mustCompact(of)
			if report.Healed == "" || report.Calls != 0 || len(r.inputs()) != before {
				t.Errorf("the report is %+v", report)
			}
			if n := testkit.Measured(t, r.metrics.TopicsHealed); n != 1 {
				t.Errorf("%v archives healed", n)
			}
			if lines := r.logs.Lines(t, "topic compaction ended"); lines[len(lines)-1]["healed"] == "" || lines[len(lines)-1]["level"] != "WARN" {
				t.Errorf("logged %v", lines)
			}
			r.wantNothing(of)
			if got := r.row(of); got.Summary != "Summary 1 of what was said." {
				t.Errorf("the topic is %+v", got)
			}
		})
	}
}

func TestBrokenArchiveHealsWhileTheTopicIsPutOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, summaries(), nil)
	of := r.topic(8)
	r.mustCompact(of)
	r.goOn(of, 8)
	testkit.Exec(t, r.pool, "update topics set archive = '', retry_at = now() + interval '1 hour' where id = $1", of.id)
	r.mustCompact(of)
	r.want(of, row{Summary: "Summary 1 of what was said.", SummarySeq: 12, CompactedSeq: 12, Archived: 12, Waits: true})
	r.wantNothing(of)
}

func TestVerify(t *testing.T) {
	t.Parallel()
	entries := []topics.Entry{topics.NewEntry("user", "Bows?", time.Unix(1, 0)), topics.NewEntry("assistant", "Rosin.", time.Unix(2, 0))}
	archive, err := topics.Pack(entries)
	if err != nil {
		t.Fatal(err)
	}
	if err := pack.Verify(&archive, entries); err != nil {
		t.Error(err)
	}
	if err := pack.Verify(nil, nil); err != nil {
		t.Error(err)
	}
	for name, broken := range map[string]error{
		"none":    pack.Verify(nil, entries),
		"fewer":   pack.Verify(&archive, entries[:1]),
		"another": pack.Verify(&archive, []topics.Entry{entries[1], entries[0]}),
	} {
		if broken == nil || strings.Contains(broken.Error(), "Bows") {
			t.Errorf("%s: %v", name, broken)
		}
	}
}
