package memory_test

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
)

func seqsOf(turns []memory.Turn) [][]int64 {
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
	streaming.Status = memory.StatusStreaming
	for name, c := range map[string]struct {
		rows []memory.Message
		want [][]int64
	}{
		"nothing":                    {nil, nil},
		"a question and its reply":   {exchange(1, "q", "a"), [][]int64{{1, 2}}},
		"two user messages in a row": {[]memory.Message{row(1, memory.RoleUser, "q"), row(2, memory.RoleUser, "r")}, [][]int64{{1}, {2}}},
		"a greeting stands alone":    {[]memory.Message{row(1, memory.RoleAssistant, "hi"), row(2, memory.RoleUser, "q")}, [][]int64{{1}, {2}}},
		"tool rows are enclosed": {[]memory.Message{row(1, memory.RoleUser, "q"), row(2, memory.RoleTool, "call"),
			row(3, memory.RoleTool, "result"), reply(4, 1, "a"), row(5, memory.RoleUser, "r")}, [][]int64{{1, 2, 3, 4}, {5}}},
		"a leading system row joins what comes": {[]memory.Message{row(1, memory.RoleSystem, "s"), row(2, memory.RoleUser, "q")}, [][]int64{{1, 2}}},
		"a lone system row is kept":             {[]memory.Message{row(1, memory.RoleSystem, "s")}, [][]int64{{1}}},
		"a blank reply keeps its seq":           {exchange(1, "q", " \n"), [][]int64{{1, 2}}},
		"a streaming reply keeps its seq":       {[]memory.Message{row(1, memory.RoleUser, "q"), streaming}, [][]int64{{1, 2}}},
		"a blank row alone is no turn":          {[]memory.Message{reply(1, 99, "")}, nil},
		"a blank turn joins the one before": {append(exchange(1, "q", "a"), row(3, memory.RoleUser, ""), row(4, memory.RoleUser, "r")),
			[][]int64{{1, 2, 3}, {4}}},
		"a blank turn joins the one after": {append([]memory.Message{reply(1, 99, "")}, row(2, memory.RoleUser, "q")), [][]int64{{1, 2}}},
		"a reply to an unknown row":        {[]memory.Message{row(1, memory.RoleUser, "q"), unknown, reply(3, 1, "a")}, [][]int64{{1, 3}, {2}}},
		"a late reply goes to its question": {[]memory.Message{row(1, memory.RoleUser, "q"), row(2, memory.RoleUser, "r"), reply(3, 1, "a"),
			reply(4, 2, "b")}, [][]int64{{1, 3}, {2, 4}}},
		"a second reply without reply_to": {append(exchange(1, "q", "a"), row(3, memory.RoleAssistant, "more")), [][]int64{{1, 2, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, "", cmp.Diff(c.want, seqsOf(memory.Turns(c.rows))), "turns (-want +got):\n")
		})
	}
}

func TestTurnFacts(t *testing.T) {
	t.Parallel()
	turn := memory.Turn{Messages: append(exchange(4, "one two", "three"), row(6, memory.RoleTool, ""))}
	assert.Truef(t, turn.FirstSeq() == 4 && turn.LastSeq() == 6 && turn.Tokens() == 3 && turn.UserMessages() == 1 && !turn.Streaming(),
		"facts of %+v are wrong", turn)
	var none memory.Turn
	assert.True(t, none.FirstSeq() == 0 && none.LastSeq() == 0 && none.Blank(), "an empty turn has facts")
}
