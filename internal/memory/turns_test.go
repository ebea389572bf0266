package memory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func seqsOf(turns []Turn) [][]int64 {
	var all [][]int64
	for _, t := range turns {
		var seqs []int64
		for _, m := range t.Messages {
			seqs = append(seqs, m.Seq)
		}
		all = append(all, seqs)
	}
	return all
}

func TestTurns(t *testing.T) {
	t.Parallel()
	unknown := reply(2, 99, "a reply to a row that is not here")
	streaming := reply(2, 1, "")
	streaming.Status = StatusStreaming
	for name, c := range map[string]struct {
		rows []Message
		want [][]int64
	}{
		"nothing":                               {nil, nil},
		"a question and its reply":              {exchange(1, "q", "a"), [][]int64{{1, 2}}},
		"two user messages in a row":            {[]Message{row(1, RoleUser, "q"), row(2, RoleUser, "r")}, [][]int64{{1}, {2}}},
		"a greeting stands alone":               {[]Message{row(1, RoleAssistant, "hi"), row(2, RoleUser, "q")}, [][]int64{{1}, {2}}},
		"tool rows are enclosed":                {[]Message{row(1, RoleUser, "q"), row(2, RoleTool, "call"), row(3, RoleTool, "result"), reply(4, 1, "a"), row(5, RoleUser, "r")}, [][]int64{{1, 2, 3, 4}, {5}}},
		"a leading system row joins what comes": {[]Message{row(1, RoleSystem, "s"), row(2, RoleUser, "q")}, [][]int64{{1, 2}}},
		"a lone system row is kept":             {[]Message{row(1, RoleSystem, "s")}, [][]int64{{1}}},
		"a blank reply keeps its seq":           {exchange(1, "q", " \n"), [][]int64{{1, 2}}},
		"a streaming reply keeps its seq":       {[]Message{row(1, RoleUser, "q"), streaming}, [][]int64{{1, 2}}},
		"a blank row alone is no turn":          {[]Message{reply(1, 99, "")}, nil},
		"a blank turn joins the one before":     {append(exchange(1, "q", "a"), row(3, RoleUser, ""), row(4, RoleUser, "r")), [][]int64{{1, 2, 3}, {4}}},
		"a blank turn joins the one after":      {append([]Message{reply(1, 99, "")}, row(2, RoleUser, "q")), [][]int64{{1, 2}}},
		"a reply to an unknown row":             {[]Message{row(1, RoleUser, "q"), unknown, reply(3, 1, "a")}, [][]int64{{1, 3}, {2}}},
		"a late reply goes to its question":     {[]Message{row(1, RoleUser, "q"), row(2, RoleUser, "r"), reply(3, 1, "a"), reply(4, 2, "b")}, [][]int64{{1, 3}, {2, 4}}},
		"a second reply without reply_to":       {append(exchange(1, "q", "a"), row(3, RoleAssistant, "more")), [][]int64{{1, 2, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, seqsOf(Turns(c.rows))); diff != "" {
				t.Errorf("turns (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTurnFacts(t *testing.T) {
	t.Parallel()
	turn := Turn{Messages: append(exchange(4, "one two", "three"), row(6, RoleTool, ""))}
	if turn.FirstSeq() != 4 || turn.LastSeq() != 6 || turn.Tokens() != 3 || turn.UserMessages() != 1 || turn.Streaming() {
		t.Errorf("facts of %+v are wrong", turn)
	}
	var none Turn
	if none.FirstSeq() != 0 || none.LastSeq() != 0 || !none.Blank() || !none.StartedAt().IsZero() || none.anchor() != uuid.Nil {
		t.Error("an empty turn has facts")
	}
}

func TestAnchorOfATurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows []Message
		want int64
	}{
		"its reply":                     {exchange(1, "q", "a"), 2},
		"its last reply":                {append(exchange(1, "q", "a"), row(3, RoleTool, "t"), reply(4, 1, "b"), row(5, RoleTool, "u")), 4},
		"the question without a reply":  {[]Message{row(1, RoleUser, "q")}, 1},
		"the question of a blank reply": {exchange(1, "q", ""), 1},
		"the last row of neither":       {[]Message{row(1, RoleTool, "t"), row(2, RoleTool, "u")}, 2},
	} {
		if got := (Turn{Messages: c.rows}).anchor(); got != rowID(c.want) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
