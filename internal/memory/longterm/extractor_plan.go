package longterm

import (
	"slices"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
)

// enoughTurns are so many turns that a chat is read although somebody is talking in it.
const enoughTurns = 6

// shortly is how soon a chat is looked at again that is to be read at once, but has only a running reply.
const shortly = 5 * time.Second

// plan returns the range to read. Without one, wait is how long it is until the chat is due, and 0 says that nothing is
// left in it. A range never ends within a turn or before the end of a running reply.
func plan(s Snapshot, delay time.Duration) (_ Range, found bool, wait time.Duration) {
	from := s.ExtractedSeq + 1
	switch {
	case s.LastSeq < from:
		return Range{}, false, 0
	case !s.Wanted:
		return Range{From: from, To: s.LastSeq, Skip: true}, true, 0
	case s.ClearedSeq >= from:
		return Range{From: from, To: s.ClearedSeq, Skip: true}, true, 0
	case len(s.Messages) == 0:
		return Range{}, false, 0
	}
	whole := wholeTurns(s.Messages)
	turns := countTurns(whole)
	switch {
	case len(whole) == 0 && s.DueNow:
		return Range{}, false, shortly
	case len(whole) == 0 || !s.DueNow && turns < enoughTurns && s.Rested < delay:
		return Range{}, false, max(delay-s.Rested, time.Second)
	}
	return Range{From: from, To: whole[len(whole)-1].Seq, Turns: turns}, true, 0
}

// wholeTurns returns the messages up to the turn of the first running reply. A user's message begins a turn.
func wholeTurns(messages []memory.Message) []memory.Message {
	begins := 0
	for n := range messages {
		if messages[n].Role == memory.RoleUser {
			begins = n
		}
		if messages[n].Status == memory.StatusStreaming {
			return messages[:begins]
		}
	}
	return messages
}

func countTurns(messages []memory.Message) int {
	turns := 0
	for n := range messages {
		if isSaidBy(&messages[n], memory.RoleUser) {
			turns++
		}
	}
	return turns
}

// isSaidBy reports whether a message has words of one of the roles.
func isSaidBy(m *memory.Message, roles ...memory.Role) bool {
	return slices.Contains(roles, m.Role) && !m.Blank()
}
