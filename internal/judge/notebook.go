package judge

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/consolidate"
	"github.com/arcoscribe/throughline/internal/memory/learn"
	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/work"
)

// notebook is the store of one case: what is known of a user, one chat, and what was learnt of it.
type notebook struct {
	user   uuid.UUID
	said   []memory.Message
	known  []consolidate.Known
	change learn.Change
}

var _ learn.Store = (*notebook)(nil)

func newNotebook(c *Case) *notebook {
	n := &notebook{user: uuid.New(), said: c.Said}
	for place, content := range c.Known {
		n.known = append(n.known, consolidate.Known{
			Memory: memories.Memory{
				ID: uuid.New(), Content: content, Type: memories.Fact, Status: memories.Active, Confidence: 1,
				ValidFrom: said.AddDate(-1, 0, 0), SaidAt: said.AddDate(-1, 0, 0),
			},
			WordsPlace: place + 1,
		})
	}
	return n
}

func (n *notebook) Read(context.Context, uuid.UUID, int) (learn.Snapshot, bool, error) {
	return learn.Snapshot{UserID: n.user, Wanted: true, DueNow: true, LastSeq: int64(len(n.said)), Messages: n.said}, true, nil
}

func (n *notebook) Settle(context.Context, uuid.UUID) error { return nil }

// alone gives every lease: nobody else works on a notebook.
type alone struct{}

func (alone) Claim(context.Context, work.Lease) (work.Claim, time.Duration, error) {
	return work.Taken, 0, nil
}
func (alone) Renew(context.Context, work.Lease) (bool, error) { return true, nil }
func (alone) Release(context.Context, work.Lease, bool) error { return nil }
func (alone) PutOff(context.Context, work.Lease, string, work.Delay) (int, time.Duration, error) {
	return 1, 0, nil
}

// Similar returns all that is known: of so few memories each is like each.
func (n *notebook) Similar(_ context.Context, _ uuid.UUID, texts []learn.Text, _ string) (learn.Known, error) {
	known := learn.Known{}
	for range texts {
		known.Alike = append(known.Alike, n.known)
	}
	return known, nil
}

func (n *notebook) Commit(_ context.Context, change learn.Change, _ func(context.Context, pgx.Tx, time.Time) error) (learn.Outcome, learn.Written, error) {
	n.change = change
	return learn.Committed, learn.Written{}, nil
}

// outcome is what is remembered after the case, and what is closed.
type outcome struct {
	active, inbox, closed []string
}

func (n *notebook) outcome() (o outcome) {
	for _, op := range n.change.Operations {
		content := op.Content
		switch {
		case op.Action == memories.Noop || op.Action == memories.Unarchive:
			content = n.contentOf(op.Memory)
		case op.Action == memories.Delete:
			for _, id := range append(op.Also, op.Memory) {
				o.closed = append(o.closed, n.contentOf(id))
			}
		case op.ConflictsWith != uuid.Nil:
			o.closed = append(o.closed, n.contentOf(op.ConflictsWith)) // when its user accepts it
		}
		switch op.Status {
		case memories.Inbox:
			o.inbox = append(o.inbox, content)
		case memories.Superseded:
		default:
			o.active = append(o.active, content)
		}
	}
	return o
}

func (n *notebook) contentOf(id uuid.UUID) string {
	for _, k := range n.known {
		if k.ID == id {
			return k.Content
		}
	}
	return ""
}
