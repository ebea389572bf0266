package longterm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory"
)

// talk returns messages from a seq on, by a letter each: u and a are said by the user and the assistant, s is a reply that
// still runs, t is a tool's row and b a blank reply.
func talk(from int64, letters string) []memory.Message {
	var messages []memory.Message
	for n, letter := range letters {
		m := memory.Message{Seq: from + int64(n), Role: memory.RoleAssistant, Status: memory.StatusComplete, Content: "words"}
		switch letter {
		case 'u':
			m.Role = memory.RoleUser
		case 't':
			m.Role, m.Content = memory.RoleTool, ""
		case 'b':
			m.Content = ""
		case 's':
			m.Status, m.Content = memory.StatusStreaming, ""
		}
		messages = append(messages, m)
	}
	return messages
}

func TestPlan(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Minute
	rested, talking := 3*time.Minute, 30*time.Second
	for name, c := range map[string]struct {
		read    int64 // extracted_seq
		said    string
		cleared int64
		now     bool
		rested  time.Duration
		off     bool
		want    Range
		wait    time.Duration
	}{
		"nothing":                             {read: 4, rested: rested},
		"a chat that rests":                   {said: "uaua", rested: rested, want: Range{From: 1, To: 4, Turns: 2}},
		"the rest of one":                     {read: 4, said: "uaua", rested: rested, want: Range{From: 5, To: 8, Turns: 2}},
		"somebody is talking":                 {said: "uaua", rested: talking, wait: 90 * time.Second},
		"somebody is talking, but it is due":  {said: "uaua", rested: talking, now: true, want: Range{From: 1, To: 4, Turns: 2}},
		"six turns":                           {said: "uauauauauaua", rested: talking, want: Range{From: 1, To: 12, Turns: 6}},
		"five turns and a running reply":      {said: "uauauauauaus", rested: talking, wait: 90 * time.Second},
		"six turns and a running reply":       {said: "uauauauauauaus", rested: talking, want: Range{From: 1, To: 12, Turns: 6}},
		"a running reply alone":               {said: "us", rested: rested, wait: time.Second},
		"a running reply alone, due":          {said: "us", now: true, wait: shortly},
		"a running reply of an earlier turn":  {said: "uasua", rested: rested, wait: time.Second},
		"tools and blank replies count along": {said: "utbuatb", rested: rested, want: Range{From: 1, To: 7, Turns: 2}},
		"a late reply alone":                  {read: 2, said: "a", rested: rested, want: Range{From: 3, To: 3}},
		"cleared":                             {said: "uaua", cleared: 2, rested: talking, want: Range{From: 1, To: 2, Skip: true}},
		"cleared before":                      {read: 2, said: "ua", cleared: 2, rested: rested, want: Range{From: 3, To: 4, Turns: 1}},
		"not wanted":                          {said: "uaus", off: true, rested: talking, want: Range{From: 1, To: 4, Skip: true}},
	} {
		messages := talk(c.read+1, c.said)
		got, found, wait := plan(Snapshot{
			Wanted: !c.off, ExtractedSeq: c.read, ClearedSeq: c.cleared, LastSeq: c.read + int64(len(messages)), DueNow: c.now, Rested: c.rested, Messages: messages,
		}, delay)
		assert.Truef(t, got == c.want && found == (c.want != Range{}) && wait == c.wait,
			"%s: %+v, found %v, wait %v; want %+v, %v", name, got, found, wait, c.want, c.wait)
	}
}
