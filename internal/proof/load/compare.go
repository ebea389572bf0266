package main

import (
	"context"
	"crypto/md5" //nolint:gosec // compares texts, protects nothing
	"fmt"

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

const heardTable = `
create temp table heard (user_id uuid, client_id uuid, chat_id uuid, reply_id uuid, acknowledged boolean, ended text, code text, asked bytea, received bytea)
    on commit drop`

// differences are sentences about what differs between the turns and the rows, one per kind, with an example. Its
// arguments are the terminal events of replies that are stored as complete and as cancelled.
const differences = `
with stored as (select *, decode(md5(content), 'hex') as hash from public.messages),
     answers as (select reply_to, count(*) as n from stored where role <> 'user' and superseded_by is null group by reply_to),
     questions as (
     select h.*, m.id, m.hash, m.chat_id as stored_chat, coalesce(a.n, 0) as answers, count(*) over (partition by h.user_id, h.client_id) as times
       from heard h left join stored m on m.role = 'user' and m.user_id = h.user_id and m.client_message_id = h.client_id
       left join answers a on a.reply_to = m.id
      where h.acknowledged),
     replies as (
     select h.*, m.id, m.hash, m.status, case h.ended when $1 then 'complete' when $2 then 'cancelled' end as want
       from heard h left join stored m on m.id = h.reply_id where h.ended <> ''),
     found (what, id) as (
     select case when id is null then 'acknowledged messages that are lost'
                 when times > 1 then 'messages that are there more than once'
                 when hash <> asked or stored_chat <> chat_id then 'messages with another content, or in another chat' end, coalesce(id, client_id)
       from questions
      union all
     select format('messages with %s answers', answers), id from questions where id is not null and answers <> 1
      union all
     select case when want is null then 'replies that failed with ' || code
                 when id is null then 'replies that are lost'
                 when status <> want then format('replies whose end was heard as %s and is stored as %s', want, status)
                 when hash <> received then 'replies with another text than was heard' end, reply_id
       from replies
      union all
     select 'messages that nobody sent', m.id
       from stored m left join heard h on h.user_id = m.user_id and h.client_id = m.client_message_id
      where m.role = 'user' and h.client_id is null)
select format('%s %s, such as %s', count(*), what, min(id::text)) from found where what is not null group by what order by what`

// compare checks every turn against the rows, and every row against the turns.
func compare(ctx context.Context, tx pgx.Tx, turns []turn) (c check, err error) {
	if _, err := tx.Exec(ctx, heardTable); err != nil {
		return c, err
	}
	acknowledged, whole := 0, 0
	columns := []string{"user_id", "client_id", "chat_id", "reply_id", "acknowledged", "ended", "code", "asked", "received"}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"heard"}, columns, pgx.CopyFromSlice(len(turns), func(i int) ([]any, error) {
		t := turns[i]
		if t.acknowledged {
			acknowledged++
		}
		if t.whole() {
			whole++
		}
		return []any{t.user, t.client, t.chat, t.message, t.acknowledged, t.end, t.code, t.asked[:], t.received[:]}, nil
	}))
	if err != nil {
		return c, err
	}
	if _, err := tx.Exec(ctx, "analyze heard"); err != nil {
		return c, err
	}
	rows, _ := tx.Query(ctx, differences, streaming.EventCompleted, streaming.EventCancelled) // CollectRows has the error
	problems, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return c, err
	}
	var all, questions int
	const count = `select count(*), count(distinct (user_id, client_message_id)) filter (where role = 'user') from public.messages`
	if err := tx.QueryRow(ctx, count).Scan(&all, &questions); err != nil {
		return c, err
	}
	if all != 2*questions {
		problems = append(problems, fmt.Sprintf("%d rows beside the %d questions and their answers", all-2*questions, questions))
	}
	return newCheck("every acknowledged message is there once, every reply as it was heard",
		fmt.Sprintf("%d acknowledged messages, %d replies heard whole, %d rows", acknowledged, whole, all), problems...), nil
}
