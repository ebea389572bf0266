package dialogs

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
)

const root = "../../../.."

// Our own dialogs, with the keyless embedder's vectors: the subjects are told apart, and better than by the letter.
func TestOwnDialogsAreGrouped(t *testing.T) {
	t.Parallel()
	histories, short, err := readTalks(Options{})
	require.NoError(t, err)
	r, err := group(t.Context(), histories, short, root, io.Discard)
	if errors.Is(err, embedder.ErrNotInstalled) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Log("\n" + r.text(false) + r.counts())
	if f1 := r.mean(ours).f1; f1 < .45 || f1 <= r.mean(letter).f1 || f1 <= r.mean(onSentences).f1 {
		t.Errorf("F1 %.3f, by the letter %.3f, on the scale of sentences %.3f", f1, r.mean(letter).f1, r.mean(onSentences).f1)
	}
	for _, d := range short {
		all, single := singles(r.assign(d, r.onTurns, new(guesses)))
		assert.Truef(t, 100*all <= 15*len(d.turns) && 5*single <= all,
			"%s: %d topics in %d turns, %d of a single one", d.name, all, len(d.turns), single)
	}
}

func TestBCubed(t *testing.T) {
	t.Parallel()
	d := &talk{}
	for _, session := range []string{"a", "a", "a", "b", "b"} {
		d.turns = append(d.turns, &turn{session: session})
	}
	for _, test := range []struct {
		groups            []int
		precision, recall float64
	}{
		{[]int{1, 1, 1, 2, 2}, 1, 1},
		{[]int{1, 1, 1, 1, 1}, 13. / 25, 1},
		{[]int{1, 2, 3, 4, 5}, 1, 2. / 5},
		{[]int{1, 1, 2, 2, 2}, (2 + 1./3 + 4./3) / 5, (4./3 + 1./3 + 2) / 5},
	} {
		f := compare(d, test.groups)
		assert.Truef(t, math.Abs(f.precision-test.precision) <= 1e-9 && math.Abs(f.recall-test.recall) <= 1e-9 && f.sessions == 2,
			"%v: %+v, not %v and %v", test.groups, f, test.precision, test.recall)
	}
	f := compare(&talk{}, nil)
	assert.Equalf(t, 0.0, f.f1, "of nothing: %+v", f)
}

func TestHistoriesAreReadInOrderOfTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "h.json")
	const history = `[{"question_id":"h","question_date":"2023/05/03 (Wed) 09:00","haystack_dates":["2023/05/02 (Tue) 09:00",
		"2023/05/01 (Mon) 09:00"],"haystack_session_ids":["late","early"],
		"haystack_sessions":[[{"role":"assistant","content":"welcome"},{"role":"user","content":"c"}],
		[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]]}]`
	require.NoError(t, os.WriteFile(path, []byte(history), 0o600))
	dialogs, _, err := readTalks(Options{LongMemEval: path})
	require.Truef(t, err == nil && len(dialogs) == 1 && len(dialogs[0].messages) == 4 && len(dialogs[0].turns) == 2,
		"%+v, %v", dialogs, err)
	first := dialogs[0].turns[0]
	if first.session != "early" || first.Seq != 1 || first.LastSeq != 3 || first.text != "User: a\nAssistant: b\nAssistant: welcome" ||
		!first.SaidAt.Equal(time.Date(2023, time.May, 1, 9, 0, 0, 0, time.UTC)) || dialogs[0].turns[1].Question != "c" {
		t.Errorf("%+v", first)
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(history, `"late",`, "", 1)), 0o600))
	if _, _, err := readTalks(Options{LongMemEval: path}); err == nil {
		t.Error("a session without a name is taken")
	}
}

func TestLongMessagesAreReadAsTheServerDoes(t *testing.T) {
	t.Parallel()
	d := talkOf(&dialog{messages: []message{{role: "user", content: strings.Repeat("é", 20_000)}}})
	if text := d.turns[0].text; strings.Count(text, "é") > 10_000 {
		t.Errorf("%d characters", strings.Count(text, "é"))
	}
}
