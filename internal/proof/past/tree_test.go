package past

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// tree is a chat as it should be: kept in memory, by rules that say what is true, not how a database gets there.
type tree struct {
	rows      []*row // in the order of seq
	revisions []*revision
	lastSeq   int64
	clearedTo int64
	// readTo is how far the chat was read for memories, skippedTo where the last stretch ends that was not to be.
	readTo, skippedTo int64
}

type row struct {
	id, parent, by uuid.UUID // by: the row that took this one's place on the path; zero on it
	seq            int64
	user           bool
	content        string
	read           bool // for memories, since it came to the path
}

// revision is a change of the brief. said is what its summary was made of.
type revision struct {
	kind           string
	from, to       int64
	said           string
	undone, before bool // before: the last clear
}

// path returns the rows that are read, between two seqs, the first left out.
func (t *tree) path(after, upTo int64) []*row {
	return slices.DeleteFunc(slices.Clone(t.rows), func(r *row) bool { return r.by != uuid.Nil || r.seq <= after || r.seq > upTo })
}

const end = int64(1) << 60

func (t *tree) last() *row {
	if line := t.path(0, end); len(line) > 0 {
		return line[len(line)-1]
	}
	return nil
}

func (t *tree) find(id uuid.UUID) *row {
	for _, r := range t.rows {
		if r.id == id {
			return r
		}
	}
	return nil
}

// says is the summary of the path between two seqs.
func (t *tree) says(after, upTo int64) string {
	var said strings.Builder
	for _, r := range t.path(after, upTo) {
		fmt.Fprintf(&said, "%s.", r.content)
	}
	return said.String()
}

var nothing = &revision{kind: "none"}

// standing returns the change that the brief is at: the last one since the clear that was never wrong.
func (t *tree) standing() *revision {
	for _, r := range slices.Backward(t.revisions) {
		if !r.undone && !r.before {
			return r
		}
	}
	return nothing
}

// words are what each seq says on the path.
func (t *tree) words() map[int64]string {
	said := map[int64]string{}
	for _, r := range t.path(0, end) {
		said[r.seq] = r.content
	}
	return said
}

// settle undoes every change of the brief which says something else than the path does, and records one that goes back. before is what
// the path said; summaries from before the last clear lose their text with any word up to their end.
func (t *tree) settle(before map[int64]string) {
	was, after, lowest := t.standing(), t.words(), end
	for seq := range t.lastSeq + 1 {
		if before[seq] != after[seq] {
			lowest = min(lowest, seq)
		}
	}
	for _, r := range t.revisions {
		switch {
		case r.undone || r.kind == "clear":
		case r.before && r.to >= lowest:
			r.said = ""
		case !r.before:
			r.undone = t.says(t.clearedTo, r.to) != r.said
		}
	}
	if now := t.standing(); now != was {
		t.revisions = append(t.revisions, &revision{kind: "rollback", from: now.to + 1, to: now.to, said: now.said})
	}
}

// insert adds a row behind the path's last.
func (t *tree) insert(r *row) {
	r.parent = uuid.Nil
	if last := t.last(); last != nil {
		r.parent = last.id
	}
	t.rows = append(t.rows, r)
	t.lastSeq = r.seq
}

// supersede takes all of the path from a seq on away.
func (t *tree) supersede(from int64, by uuid.UUID) {
	for _, r := range t.path(from-1, end) {
		r.by, r.read = by, false
	}
}

// selects leads the path through a row to the highest seq behind it.
func (t *tree) selects(id uuid.UUID) {
	leaf := t.find(id)
	for _, r := range t.rows { // children have a higher seq than their parents
		if t.descends(r, id) && r.seq > leaf.seq {
			leaf = r
		}
	}
	line := map[uuid.UUID]bool{}
	for r := leaf; r != nil; r = t.find(r.parent) {
		line[r.id] = true
	}
	for _, r := range t.rows {
		switch {
		case line[r.id]:
			r.by = uuid.Nil
		case r.by == uuid.Nil:
			r.by, r.read = id, false
		}
	}
}

func (t *tree) descends(r *row, from uuid.UUID) bool {
	for ; r != nil; r = t.find(r.parent) {
		if r.id == from {
			return true
		}
	}
	return false
}

func (t *tree) remove(ids []uuid.UUID) {
	for _, id := range ids {
		gone := t.find(id)
		t.rows = slices.DeleteFunc(t.rows, func(r *row) bool { return r == gone })
		for _, r := range t.rows {
			if r.parent == id {
				r.parent = gone.parent
			}
		}
	}
}

// state is what is compared, a line for each thing.
func (t *tree) state() string {
	var s strings.Builder
	standing := t.standing()
	turns := func(after int64) (n int) {
		for _, r := range t.path(after, end) {
			if r.user {
				n++
			}
		}
		return n
	}
	covered := max(standing.to, t.clearedTo)
	fmt.Fprintf(&s, "brief: %q to %d, %d turns wait\n", standing.said, covered, turns(covered))
	fmt.Fprintf(&s, "chat: %d messages, %d turns, %d cleared\n", len(t.rows), turns(0), turns(0)-turns(t.clearedTo))
	for _, r := range t.rows {
		fmt.Fprintf(&s, "%d %s: after %s, by %s, counted: %t\n", r.seq, short(r.id), short(r.parent), short(r.by), r.by == uuid.Nil)
	}
	for n, r := range t.revisions {
		said := r.said
		if r.undone {
			said = ""
		}
		fmt.Fprintf(&s, "version %d: %s %d..%d %q, undone: %t\n", n+1, r.kind, r.from, r.to, said, r.undone)
	}
	return s.String()
}

func short(id uuid.UUID) string {
	if id == uuid.Nil {
		return "-"
	}
	return id.String()[:4]
}
