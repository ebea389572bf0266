package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed checks.sql
var checksSQL string

// When a check must hold.
const (
	whenAlways  = "always"
	whenQuiet   = "quiet"
	whenGreeted = "greeted"
)

// watched are the checks that the harness makes itself, because no query can: their sentences, by name.
var watched = map[string]string{
	"answers": "No server gives an answer that no crash explains: refuses what it granted, ends a stream with another length, says another text the " +
		"second time.",
	"processes": "No process ends that nobody killed.",
	"ready":     "Every server is ready again.",
	"talk":      "Every message that waited gets its reply, and every chat can be talked to again.",
}

// watchedBroken returns a violation of one of those.
func watchedBroken(name string, what ...string) []violation {
	return []violation{{name, watched[name], what}}
}

// check is a query for what violates its sentence.
type check struct{ name, when, sentence, sql string }

// violation is a check with what it found.
type violation struct {
	name, sentence string
	rows           []string
}

// A block of checks.sql, after "-- check: ": its name, when it must hold, its sentence and its query.
var checkBlock = regexp.MustCompile(`^(\w+), (always|quiet|greeted)\n-- (.+)\n(?s:(.+?);?\s*)$`)

func parseChecks(text string) ([]check, error) {
	var checks []check
	for _, block := range strings.Split(text, "-- check: ")[1:] {
		found := checkBlock.FindStringSubmatch(block)
		if found == nil {
			return nil, fmt.Errorf("the check %.20q is not whole", block)
		}
		checks = append(checks, check{name: found[1], when: found[2], sentence: found[3], sql: found[4]})
	}
	return checks, nil
}

// chosen returns the checks that must hold at these moments.
func chosen(checks []check, when ...string) []check {
	return slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return !slices.Contains(when, c.when) })
}

// limits are the servers' settings that decide when a fold is due and a topic is packed, as @names in the checks. A summary of
// a topic has room for topic_room marks at least.
var limits = pgx.NamedArgs{"threshold": 200, "tail": 2, "bridge": 6000, "least": 1, "prompt": 8000, "topic_most": 6, "topic_room": 20}

// mostRows is how many rows of a violation are reported.
const mostRows = 20

// run returns rows that violate the check's sentence.
func (c check) run(ctx context.Context, tx pgx.Tx) ([]string, error) {
	rows, _ := tx.Query(ctx, fmt.Sprintf("select to_json(found)::text from (%s) found limit %d", c.sql, mostRows), limits) // CollectRows has the error
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", c.name, err)
	}
	return found, nil
}

// prompt is what the model was shown with a message.
type prompt struct {
	clientID uuid.UUID
	marks    []string
}

// evidence is what the database is compared with: the record before the snapshot, all of which must be stored as
// far as it was acknowledged, and the record after it, beyond which nothing may be stored.
type evidence struct {
	before, after known
	prompts       []prompt
}

// gather opens a snapshot of the database between two copies of the record, and returns both.
func gather(ctx context.Context, conn *pgx.Conn, r *record, prompts []prompt) (pgx.Tx, evidence, error) {
	e := evidence{before: r.now(), prompts: prompts}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, e, err
	}
	if _, err := tx.Exec(ctx, "select 1"); err != nil { // takes the snapshot
		return nil, e, errors.Join(err, tx.Rollback(ctx))
	}
	e.after = r.now()
	return tx, e, nil
}

// examine runs checks in a snapshot, against the evidence.
func examine(ctx context.Context, tx pgx.Tx, e evidence, checks []check) ([]violation, error) {
	if err := errors.Join(e.load(ctx, tx), loadTopicRows(ctx, tx), loadTraces(ctx, tx)); err != nil {
		return nil, fmt.Errorf("load the evidence: %w", err)
	}
	var found []violation
	if len(e.after.broken) > 0 {
		found = append(found, watchedBroken("answers", e.after.broken...)...)
	}
	for _, c := range checks {
		rows, err := c.run(ctx, tx)
		if err != nil {
			return found, err
		}
		if len(rows) > 0 {
			found = append(found, violation{c.name, c.sentence, rows})
		}
	}
	return found, nil
}

const evidenceTables = `
create temp table heard_messages (
  client_id uuid primary key, user_id uuid, content text, answer text, place int, acknowledged boolean,
  chat_id uuid, message_id uuid, deletion int) on commit drop;
create temp table heard_replies (
  reply_id uuid primary key, client_id uuid, text text, certain int, ended text, deletion int) on commit drop;
create temp table prompts (client_id uuid primary key, marks text[]) on commit drop;
create index on heard_messages (message_id);
create index on heard_messages (chat_id);
create index on heard_replies (client_id);`

// load writes the evidence into tables of the transaction.
func (e evidence) load(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, evidenceTables); err != nil {
		return err
	}
	return errors.Join(
		copyRows(
			ctx,
			tx,
			"heard_messages",
			len(e.after.messages),
			e.messageRow,
			"client_id",
			"user_id",
			"content",
			"answer",
			"place",
			"acknowledged",
			"chat_id",
			"message_id",
			"deletion",
		),
		copyRows(ctx, tx, "heard_replies", len(e.before.replies), e.replyRow(), "reply_id", "client_id", "text", "certain", "ended", "deletion"),
		copyRows(ctx, tx, "prompts", len(e.prompts), func(i int) []any { return []any{e.prompts[i].clientID, e.prompts[i].marks} }, "client_id", "marks"),
	)
}

func copyRows(ctx context.Context, tx pgx.Tx, table string, count int, row func(int) []any, columns ...string) error {
	rows := pgx.CopyFromSlice(count, func(i int) ([]any, error) { return row(i), nil })
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{table}, columns, rows); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "analyze "+table)
	return err
}

func (e evidence) messageRow(i int) []any {
	now := e.after.messages[i]
	var then message // as it was before the snapshot; those sent later are at the end
	if i < len(e.before.messages) {
		then = e.before.messages[i]
	}
	return []any{now.clientID, now.user, now.content, answer(now.number), now.place, then.acknowledged,
		orNull(now.chatID), orNull(now.id), int(certainly(then.deletion, now.deletion))}
}

func (e evidence) replyRow() func(i int) []any {
	later := map[uuid.UUID]deletion{}
	for _, now := range e.after.replies {
		later[now.id] = now.deletion
	}
	return func(i int) []any {
		then := e.before.replies[i]
		return []any{then.id, then.message.clientID, string(then.text), then.certain, then.ended, int(certainly(then.deletion, later[then.id]))}
	}
}

// certainly returns what is known of a deletion at the moment between two copies.
func certainly(before, after deletion) deletion {
	if before != after {
		return asked
	}
	return before
}

func orNull(id uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: id, Valid: id != uuid.Nil} }

// keepPlaces remembers where every message is, and how far the users' memories are, for as long as the run lasts.
func keepPlaces(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `insert into crash.places (chat_id, seq, message_id) select m.chat_id, m.seq, m.id from public.messages m on conflict do nothing`)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `insert into crash.memory_versions as known (user_id, version) select u.user_id, u.version from public.memory_users u
		on conflict (user_id) do update set version = greatest(known.version, excluded.version)`)
	return err
}

const placesTable = `
create schema crash;
create table crash.places (chat_id uuid, seq bigint, message_id uuid, primary key (chat_id, seq, message_id));
create table crash.memory_versions (user_id uuid primary key, version bigint)`
