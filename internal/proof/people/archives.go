package people

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// archive is what a topic has packed, as its row says it.
type archive struct {
	id       uuid.UUID
	packed   []byte
	messages int
	rawBytes int
	sha256   []byte
}

// entry is a message of an archive.
type entry struct {
	Role      string  `json:"role"`
	Content   string  `json:"content"`
	Timestamp float64 `json:"timestamp"`
}

// topicTables are what the checks of topics read: the messages of each topic, found without our own function, what the
// archives say of themselves, and what is in them.
const topicTables = `
create temp table topic_rows on commit drop as
  select t.id as topic_id, m.seq, m.role, m.content, m.created_at
    from public.topics t
    join public.turn_index i on i.topic_id = t.id and i.chat_id = t.chat_id
    join public.messages m on m.chat_id = i.chat_id and m.seq between i.seq and i.last_seq
     and m.role in ('user', 'assistant') and m.token_count > 0 and m.superseded_by is null;
create index on topic_rows (topic_id);
create temp table archives (topic_id uuid primary key, broken text) on commit drop;
create temp table archived (topic_id uuid, place int, role text, content text, said_at double precision) on commit drop;`

// loadTopics writes topicTables into a transaction.
func loadTopics(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, topicTables); err != nil {
		return err
	}
	rows, _ := tx.Query(ctx, "select id, archive, archive_messages, archive_raw_bytes, archive_sha256 from public.topics where archive is "+
		"not null") // CollectRows has the error
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a archive, err error) {
		return a, row.Scan(&a.id, &a.packed, &a.messages, &a.rawBytes, &a.sha256)
	})
	if err != nil {
		return err
	}
	var states, contents [][]any
	for _, a := range all {
		entries, err := a.unpack()
		broken := ""
		if err != nil {
			broken = err.Error()
		}
		states = append(states, []any{a.id, broken})
		for n, e := range entries {
			contents = append(contents, []any{a.id, n + 1, e.Role, e.Content, e.Timestamp})
		}
	}
	return errors.Join(
		copyRows(ctx, tx, "archives", len(states), func(i int) []any { return states[i] }, "topic_id", "broken"),
		copyRows(ctx, tx, "archived", len(contents), func(i int) []any { return contents[i] }, "topic_id", "place", "role", "content", "said_at"))
}

// unpack returns the messages of an archive, and what is wrong with it.
func (a archive) unpack() ([]entry, error) {
	reader, err := gzip.NewReader(bytes.NewReader(a.packed))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(raw); !bytes.Equal(sum[:], a.sha256) {
		return nil, errors.New("its hash is another one")
	}
	var entries []entry
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, err
	}
	if len(raw) != a.rawBytes || len(entries) != a.messages {
		return entries, fmt.Errorf("%d bytes of %d messages, not %d of %d", len(raw), len(entries), a.rawBytes, a.messages)
	}
	return entries, nil
}
