package main

import (
	"context"
	"crypto/md5" //nolint:gosec // compares texts, protects nothing
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/streaming"
)

// turn is what a client knows of one message that it sent.
type turn struct {
	user, chat, client uuid.UUID // client is the message's client_message_id
	message            uuid.UUID // the reply's
	acknowledged       bool      // the server sent message.started
	end                string    // the terminal event, "" when none came
	code               string    // a failure's
	asked, received    [md5.Size]byte
}

// newTurn returns what is known after the last attempt.
func newTurn(user, client uuid.UUID, content string, r *reply) turn {
	return turn{
		user: user, client: client, chat: r.Started.ChatID, message: r.Started.MessageID,
		acknowledged: r.Started.MessageID != uuid.Nil, end: r.End, code: r.Code,
		asked: md5.Sum([]byte(content)), received: md5.Sum(r.Text), //nolint:gosec // see the import
	}
}

// whole reports whether the client received all of the reply.
func (t turn) whole() bool { return t.end == streaming.EventCompleted }

// ledger is what all clients know. It is safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	turns []turn
}

func (l *ledger) add(t turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns = append(l.turns, t)
}

func (l *ledger) all() []turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.turns)
}

// stored is a message as Postgres has it.
type stored struct {
	id, chat, user, client, replyTo uuid.UUID // uuid.Nil for none
	role, status                    string
	superseded                      bool
	hash                            [md5.Size]byte
}

func readStored(ctx context.Context, s *system) ([]stored, error) {
	rows, err := s.admin.Query(ctx, `
		select id, chat_id, user_id, coalesce(client_message_id, '00000000-0000-0000-0000-000000000000'), coalesce(reply_to, '00000000-0000-0000-0000-000000000000'),
		       role, status, superseded_by is not null, decode(md5(content), 'hex') from public.messages`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (m stored, err error) {
		var hash []byte
		err = row.Scan(&m.id, &m.chat, &m.user, &m.client, &m.replyTo, &m.role, &m.status, &m.superseded, &hash)
		copy(m.hash[:], hash)
		return m, err
	})
}

// compared counts the differences between the clients' ledger and Postgres's rows, by kind.
type compared struct {
	problems map[string]int
	examples map[string]uuid.UUID
}

func (c *compared) add(what string, id uuid.UUID) {
	c.problems[what]++
	c.examples[what] = id
}

// compare checks every turn against the rows, and every row against the turns.
func compare(turns []turn, rows []stored) check {
	c := compared{map[string]int{}, map[string]uuid.UUID{}}
	asked, replies, answers := index(rows)
	known := map[[2]uuid.UUID]bool{}
	acknowledged, whole := 0, 0
	for _, t := range turns {
		key := [2]uuid.UUID{t.user, t.client}
		known[key] = true
		if t.acknowledged {
			acknowledged++
			c.question(t, asked[key], answers)
		}
		if t.end != "" {
			c.reply(t, replies[t.message])
		}
		if t.whole() {
			whole++
		}
	}
	for key, of := range asked {
		if !known[key] {
			c.add("messages that nobody sent", of[0].id)
		}
	}
	if want := len(asked); len(rows) != 2*want {
		c.problems[fmt.Sprintf("rows beside the %d questions and their answers", want)] = len(rows) - 2*want
	}
	return newCheck("every acknowledged message is there once, every reply as it was heard",
		fmt.Sprintf("%d acknowledged messages, %d replies heard whole, %d rows", acknowledged, whole, len(rows)), c.sentences()...)
}

// index groups rows: questions by user and client_message_id, replies by id, and how many answers a question has.
func index(rows []stored) (asked map[[2]uuid.UUID][]stored, replies map[uuid.UUID]stored, answers map[uuid.UUID]int) {
	asked, replies, answers = map[[2]uuid.UUID][]stored{}, map[uuid.UUID]stored{}, map[uuid.UUID]int{}
	for _, m := range rows {
		if m.role == "user" {
			key := [2]uuid.UUID{m.user, m.client}
			asked[key] = append(asked[key], m)
			continue
		}
		replies[m.id] = m
		if !m.superseded {
			answers[m.replyTo]++
		}
	}
	return asked, replies, answers
}

func (c *compared) question(t turn, found []stored, answers map[uuid.UUID]int) {
	switch {
	case len(found) == 0:
		c.add("acknowledged messages that are lost", t.client)
		return
	case len(found) > 1:
		c.add("messages that are there more than once", found[0].id)
	case found[0].hash != t.asked || found[0].chat != t.chat:
		c.add("messages with another content, or in another chat", found[0].id)
	}
	if n := answers[found[0].id]; n != 1 {
		c.add(fmt.Sprintf("messages with %d answers", n), found[0].id)
	}
}

// statusAfter is the status that a reply must have after a terminal event.
var statusAfter = map[string]string{streaming.EventCompleted: "complete", streaming.EventCancelled: "cancelled"}

func (c *compared) reply(t turn, found stored) {
	want := statusAfter[t.end]
	switch {
	case want == "":
		c.add("replies that failed with "+t.code, t.message)
	case found.id == uuid.Nil:
		c.add("replies that are lost", t.message)
	case found.status != want:
		c.add(fmt.Sprintf("replies whose end was heard as %s and is stored as %s", want, found.status), t.message)
	case found.hash != t.received:
		c.add("replies with another text than was heard", t.message)
	}
}

func (c *compared) sentences() (all []string) {
	for _, what := range slices.Sorted(maps.Keys(c.problems)) {
		text := fmt.Sprintf("%d %s", c.problems[what], what)
		if id := c.examples[what]; id != uuid.Nil {
			text += ", such as " + id.String()
		}
		all = append(all, text)
	}
	return all
}
