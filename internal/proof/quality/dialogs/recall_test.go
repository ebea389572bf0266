package dialogs

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	firstFive = regexp.MustCompile(`\*\*recall, words\*\* \| ([0-9.]+) `)
	quotedAll = regexp.MustCompile(`\| all \| \d+ \| [0-9.]+ \| [0-9.]+ \| ([0-9.]+) `)
)

// Our own dialogs are asked about through the real store: nearly every fact is among the first five messages.
func TestFactsOfOwnDialogsAreFound(t *testing.T) {
	t.Parallel()
	text, err := Recall(t.Context(), Options{Quick: true}, root, io.Discard)
	require.NoError(t, err)
	for _, way := range []string{"ts_rank", "BM25", "recall, words"} {
		assert.Containsf(t, text, way, "no row of %s", way)
	}
	t.Log(text)
	const least = 85 // %; without vectors nothing in the run is left to chance
	for what, figure := range map[string]*regexp.Regexp{"among the first five messages": firstFive, "quoted by a prompt": quotedAll} {
		found := figure.FindStringSubmatch(text)
		require.Truef(t, found != nil, "%v", "no figure of what is "+what)
		if share, err := strconv.ParseFloat(found[1], 64); err != nil || share < least {
			t.Errorf("%s %% of the facts are %s", found[1], what)
		}
	}
}

func TestOwnDialogsAreWellFormed(t *testing.T) {
	t.Parallel()
	dialogs, err := parseLoCoMo(own)
	require.Truef(t, err == nil && len(dialogs) >= 12, "%d, %v", len(dialogs), err)
	for _, d := range dialogs {
		for _, q := range d.questions {
			for _, id := range q.messages {
				assert.Truef(t, slices.ContainsFunc(d.messages, func(m message) bool { return m.id == id && m.role == "user" }),
					"%s: %q is answered by %q", d.name, q.text, id)
			}
		}
	}
}

// LoCoMo in both layouts, its captions and sloppy evidence, and each utterance once as a memory.
func TestLoCoMo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "l.json")
	const content = `[{"sample_id":"x","conversation":{"speaker_a":"Ann","session_1_date_time":"1:56 pm on 8 May, 2023","session_1":[
		{"speaker":"Ann","dia_id":"D1:1","text":"Hello!"},{"speaker":"Bob","dia_id":"D1:2","text":"Look","blip_caption":"a dog"}],
		"session_2_date_time":"9:00 am on 9 May, 2023","session_2":[{"speaker":"Ann","dia_id":"D2:1","text":"Hello!"}],
		"session_3_date_time":"9:00 am on 9 June, 2023"},
		"qa":[{"question":"q","evidence":["D1:02; D2:1","D7:1"]},{"question":"none","evidence":["D9:9"]}]}]`
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	sets, err := readSets(Options{LoCoMo: path})
	require.Truef(t, err == nil && len(sets) == 3, "%d sets, %v", len(sets), err)
	for n, role := range []string{"user", "assistant"} {
		d := sets[n].dialogs[0]
		m := d.messages[1]
		if m.role != role || m.content != "Look [shares a dog]" || m.at.Sub(d.messages[0].at) != 20*time.Second || d.messages[2].session != "session_2" {
			t.Errorf("%+v", d.messages)
		}
		assert.Truef(t, len(d.questions) == 1 && slices.Equal(d.questions[0].messages, []string{"D1:2", "D2:1"}),
			"%+v", d.questions)
	}
	known := sets[2].dialogs[0].messages
	assert.Truef(t, len(known) == 2 && known[1].content == "Bob says: Look a dog" && sets[2].asMemories, "%+v", known)
}

// A message is quoted if half of it is, and a session if one of its messages is.
func TestARowCountsWhatIsQuoted(t *testing.T) {
	t.Parallel()
	d := &dialog{messages: []message{
		{id: "a", session: "one", content: "My cat is called Bruno. He is old."}, {id: "b", session: "one", content: "Yes."},
		{id: "c", session: "two", content: "He is old. So very, very old that we worry."},
	}}
	r := row{kinds: make([]row, len(kinds))}
	const section = "[2026-03-03] User: My cat is called Bruno. …\n[2026-03-04] User: He is old. …"
	r.addAll(d, question{messages: []string{"a", "c"}, category: 1}, nil, 0, section)
	r.addAll(d, question{sessions: []string{"one"}, category: 5}, nil, 0, section)
	r.addAll(d, question{messages: []string{"b"}, category: 5}, nil, 0, "")
	for n, want := range map[int][2]float64{0: {1.5, 1}, 1: {.5, 0}, 2: {.5, 0}, 6: {1, 1}} {
		if k := r.kinds[n]; k.quoted != want[0] || float64(k.silent) != want[1] {
			t.Errorf("%s: %v quoted, %d with nothing", kinds[n].name, k.quoted, k.silent)
		}
	}
}

func TestARowCountsShares(t *testing.T) {
	t.Parallel()
	d := &dialog{}
	for n, session := range []string{"one", "one", "two", "three"} {
		d.messages = append(d.messages, message{id: string(rune('a' + n)), session: session})
	}
	var r row
	r.add(d, question{messages: []string{"c", "a"}}, []int64{2, 4, 3}, time.Second)
	r.add(d, question{messages: []string{"c"}}, nil, time.Second)
	assert.Truef(t, r.asked == 2 && r.messages == [...]float64{.5, .5, .5, .5} && r.sessions == [...]float64{1, 1} && r.nothing == 1,
		"%+v", r)
}
