package people

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

var (
	//go:embed checks.sql
	checksSQL string
	//go:embed places.sql
	placesSQL string
	//go:embed evidence.sql
	evidenceSQL string
	//go:embed derived.sql
	derivedSQL string
	//go:embed traces.sql
	tracesSQL string
)

// When a check must hold: at any moment, once no one talks and all work is done, or after one more message in every chat.
const (
	Always  = "always"
	Quiet   = "quiet"
	Greeted = "greeted"
)

// Watched are the checks that commands make themselves, because no query can: their sentences, by name.
var Watched = map[string]string{
	"answers": "No server gives an answer that no crash explains: refuses what it granted, ends a stream with another length, says another text the " +
		"second time.",
	"processes": "No process ends unless it is killed.",
	"ready":     "Every server is ready again.",
	"deletable": "An account can be deleted at any moment.",
	"talk":      "Every message that waited gets its reply, and every chat can be talked to again.",
}

// WatchedBroken returns a violation of one of those; none where nothing was found.
func WatchedBroken(name string, what ...string) []Violation {
	if len(what) == 0 {
		return nil
	}
	return []Violation{{name, Watched[name], what}}
}

// Check is a query for what violates its sentence.
type Check struct{ Name, When, Sentence, sql string }

// Violation is a check with what it found.
type Violation struct {
	Name, Sentence string
	Rows           []string
}

// A block of checks.sql, after "-- check: ": its name, when it must hold, its sentence and its query.
var checkBlock = regexp.MustCompile(`^(\w+), (always|quiet|greeted)\n-- (.+)\n(?s:(.+?);?\s*)$`)

// Checks are those of checks.sql.
func Checks() []Check { return kit.Must(parseChecks(checksSQL)) } // a test reads them

func parseChecks(text string) (checks []Check, err error) {
	for _, block := range strings.Split(text, "-- check: ")[1:] {
		found := checkBlock.FindStringSubmatch(block)
		if found == nil {
			return nil, fmt.Errorf("the check %.20q is not whole", block)
		}
		checks = append(checks, Check{found[1], found[2], found[3], found[4]})
	}
	return checks, nil
}

// Chosen returns the checks that must hold at these moments.
func Chosen(checks []Check, when ...string) []Check {
	return slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return !slices.Contains(when, c.When) })
}

// Limits are the servers' settings that decide when a fold is due and a topic is packed, as @names in the checks: threshold,
// tail, bridge, least, prompt and topic_most. A summary of a topic has room for topic_room marks at least. topics_from_brief says that
// chats have topics only once they have a brief.
type Limits = pgx.NamedArgs

func (c Check) run(ctx context.Context, tx pgx.Tx, limits Limits) []string {
	defer kit.In("check %s", c.Name)
	const most = " found limit 20"                                                        // rows are reported
	rows, _ := tx.Query(ctx, "select to_json(found)::text from ("+c.sql+")"+most, limits) // CollectRows has the error
	return kit.Must(pgx.CollectRows(rows, pgx.RowTo[string]))
}

// Prompt is what the model was shown with a message.
type Prompt struct {
	clientID uuid.UUID
	marks    []string
}

// Examine runs checks on one snapshot of the database, which it compares with what a record knows of it. An empty record
// knows nothing, which is enough for checks that wait for the system alone.
func (s *System) Examine(ctx context.Context, r *Record, limits Limits, prompts []Prompt, checks []Check) (found []Violation, err error) {
	defer kit.Catch(&err)
	conn := kit.Must(pgx.Connect(ctx, s.Postgres.AdminDSN())) // a new one: it may have crashed a moment ago
	defer func() { _ = conn.Close(ctx) }()                    // which ends an open transaction
	kit.Must(conn.Exec(ctx, placesSQL+"set jit = off"))       // compiling the search of a hundred columns takes longer than the search
	ran := s.Tools.runs()                                     // before the snapshot: their calls are in it
	tx, e, err := gather(ctx, conn, r, prompts)
	kit.Check(err)
	e.ran = ran
	found = kit.Must(examine(ctx, tx, e, limits, checks))
	return found, errors.Join(tx.Commit(ctx), keepPlaces(ctx, conn))
}

// evidence is what the database is compared with: the record before the snapshot, all of which must be stored as
// far as it was acknowledged, and the record after it, beyond which nothing may be stored.
type evidence struct {
	talk          *Talk
	before, after known
	prompts       []Prompt
	ran           [][]any // tools
}

// gather opens a snapshot of the database between two copies of the record, and returns both.
func gather(ctx context.Context, conn *pgx.Conn, r *Record, prompts []Prompt) (pgx.Tx, evidence, error) {
	e := evidence{talk: r.Talk, before: r.now(), prompts: prompts}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err == nil {
		_, err = tx.Exec(ctx, "select 1") // takes the snapshot
	}
	e.after = r.now()
	return tx, e, err
}

// examine runs checks in a snapshot, against the evidence.
func examine(ctx context.Context, tx pgx.Tx, e evidence, limits Limits, checks []Check) (found []Violation, err error) {
	defer kit.Catch(&err)
	e.load(ctx, tx)
	kit.Must(tx.Exec(ctx, derivedSQL+tracesSQL))
	found = WatchedBroken("answers", e.after.broken...)
	for _, c := range checks {
		if rows := c.run(ctx, tx, limits); len(rows) > 0 {
			found = append(found, Violation{c.Name, c.Sentence, rows})
		}
	}
	return found, nil
}

func (e evidence) load(ctx context.Context, tx pgx.Tx) {
	kit.Must(tx.Exec(ctx, evidenceSQL))
	var messages, replies, prompts, answers [][]any
	paths := map[uuid.UUID]whether{} // by the client ids of the requests
	replied := map[int]whether{}     // by the number: of any reply to the message
	for i, now := range e.after.messages {
		certain := unsure
		if now.path == e.then(i).path {
			certain = now.path.of
		}
		paths[now.clientID], replied[now.number] = certain, max(replied[now.number], certain)
	}
	for i, now := range e.after.messages {
		if then := e.then(i); now.again == nil {
			messages = append(messages, []any{now.clientID, now.user, e.talk.Question(now.number), e.talk.ReplyTo(now.number), now.place, then.acknowledged,
				orNull(now.chatID), orNull(now.id), int(certainly(then.deletion, now.deletion)), int(replied[now.number])})
		}
	}
	later := map[uuid.UUID]deletion{}
	for _, now := range e.after.replies {
		later[now.id] = now.deletion
	}
	for _, then := range e.before.replies {
		replies = append(replies, []any{then.id, then.message.asked().clientID, string(then.text), then.certain, then.ended,
			int(certainly(then.deletion, later[then.id])), int(paths[then.message.clientID])})
	}
	for _, p := range e.prompts {
		prompts = append(prompts, []any{p.clientID, p.marks})
	}
	for _, s := range e.before.said {
		answers = append(answers, []any{s.reply, s.call, json.RawMessage(Encode(s.value))})
	}
	for table, rows := range map[string][][]any{
		"heard_messages": messages, "heard_replies": replies, "prompts": prompts, "heard_answers": answers, "tool_runs": e.ran,
	} {
		columns, _ := tx.Query(ctx, "select attname::text from pg_attribute where attrelid = $1::regclass and attnum > 0 order by attnum", table)
		kit.Must(tx.CopyFrom(ctx, pgx.Identifier{table}, kit.Must(pgx.CollectRows(columns, pgx.RowTo[string])), pgx.CopyFromRows(rows)))
		kit.Must(tx.Exec(ctx, "analyze "+table))
	}
}

// then is a message as it was before the snapshot; those sent later are at the end.
func (e evidence) then(i int) (then message) {
	if i < len(e.before.messages) {
		then = e.before.messages[i]
	}
	return then
}

// certainly returns the state of a deletion at the moment between two copies.
func certainly(before, after deletion) deletion {
	if before != after {
		return asked
	}
	return before
}

func orNull(id uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil} }

// keepPlaces remembers where every message is, and how far the users' memories are, for as long as the run lasts.
func keepPlaces(ctx context.Context, conn *pgx.Conn) error {
	return kit.Exec(ctx, conn, `insert into crash.places (chat_id, seq, message_id)
		select m.chat_id, m.seq, m.id from public.messages m on conflict do nothing`,
		`insert into crash.memory_versions as known (user_id, version) select u.user_id, u.version from public.memory_users u
		on conflict (user_id) do update set version = greatest(known.version, excluded.version)`)
}
