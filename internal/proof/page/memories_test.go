package page

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// longTerm remembers across chats, and reads a chat when it is asked to.
var longTerm = env{"LONG_TERM_MEMORY": "true", "MEMORY_EXTRACT_DELAY": "10h"}

// What a user is remembered for can be seen, written, corrected, forgotten and taken along.
func TestMemories(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, longTerm)
	r.inBrowser("memories.mjs", nil)
	assert.Equal(t, "inbox, pinned", testkit.Ask[string](t, r.pool, `select string_agg(case when pinned then 'pinned' else status end, ', ' order by pinned)
		from memories where user_id = $1 and content in ('Prefers short answers with an example.', 'May be learning Portuguese.')`, r.user))
}

// What the memories are about is drawn and listed, of a user with a few entities and of one with hundreds.
func TestGraph(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, longTerm)
	large := testkit.NewUser(t, r.db)
	r.fillGraph(large, 700)
	r.inBrowser("graph.mjs", env{"LARGE_TOKEN": testkit.Token(t, large)})
	assert.Equal(t, 700, testkit.Ask[int](t, r.pool, "select count(*) from memory_entities where user_id = $1", large), "looking changes nothing")
}

// fillGraph gives a user so many entities, every other one of which the user knows. The first has a hostile name.
func (r *rig) fillGraph(user uuid.UUID, entities int) {
	testkit.Exec(r.t, r.pool, "insert into memory_users (user_id) values ($1)", user)
	testkit.Exec(r.t, r.pool, `with memory as (
			insert into memories (user_id, content, origin) values ($1, 'The user knows many things.', 'user') returning id),
		things as (
			insert into memory_entities (user_id, name, entity_type, is_user, mentions)
			select $1, case n when 0 then 'User' when 1 then '<img src=x onerror=alert(1)>' else 'Thing number ' || n end,
				(array['person', 'place', 'tool', 'concept'])[n % 4 + 1], n = 0, $2 - n
			  from generate_series(0, $2 - 1) n returning id, mentions, is_user),
		mentioned as (insert into memory_mentions (user_id, memory_id, entity_id) select $1, memory.id, things.id from memory, things)
		insert into memory_relationships (user_id, source_entity_id, target_entity_id, relationship, memory_id)
		select $1, u.id, e.id, 'knows', memory.id
		  from things u, things e, memory where u.is_user and not e.is_user and e.mentions % 2 = 0`, user, entities)
}

// A chat's topics are seen in every state, read back when they are archived or packed, and changed.
func TestTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil) // TOPICS=off: no job changes what wander makes
	chat := r.wander()
	expired := r.Say("", "Question 1").ChatID
	testkit.Exec(t, r.pool, "update chats set ttl_hours = 1, created_at = now() - interval '1 day', last_message_at = now() - interval '2 hours' where "+
		"id = $1", expired)
	r.inBrowser("topics.mjs", env{"CHAT": chat, "EXPIRED": expired})
	assert.Equal(t, "Bows & hair", testkit.Ask[string](t, r.pool, `select t.title from topics m join topics t on t.id = m.merged_into
		where m.chat_id = $1 and m.title = 'Rosin' and m.state = 'merged'`, chat))
}

// wander makes a chat of topics that faded differently: one rested for two days and is packed, one is talked about now, one
// is archived and one merged.
func (r *rig) wander() (chat string) {
	r.t.Helper()
	chat = r.Say("", "Question 1").ChatID
	for n := 2; n <= 9; n++ {
		r.Say(chat, fmt.Sprint("Question ", n))
	}
	testkit.Exec(r.t, r.pool, "select throughline.index_chat($1, 100)", chat)
	testkit.Exec(r.t, r.pool, "update chats set title = 'The cello, and the rest' where id = $1", chat)
	bows := r.topic(chat, 1, "Bows", 1, 8)
	r.topic(chat, 2, "Rosin", 9, 12)
	tax := r.topic(chat, 3, "Tax return", 13, 16)
	former := r.topic(chat, 4, "Strings", 17, 18)
	r.pack(bows, 4, "They compared bows of pernambuco and of carbon, and what a rehair costs.")
	testkit.Exec(r.t, r.pool, "update topics set last_active_at = now() - interval '2 days', access_count = 6 where id = $1", bows)
	testkit.Exec(r.t, r.pool, "update topics set last_active_at = now() - interval '30 days', state = 'archived' where id = $1", tax)
	testkit.Exec(r.t, r.pool, "update topics set last_active_at = now() - interval '40 days', state = 'merged', merged_into = $2 where id = $1", former, bows)
	return chat
}

// pack archives the first messages of a topic, and summarizes them.
func (r *rig) pack(topic uuid.UUID, messages int, summary string) {
	testkit.Exec(r.t, r.pool, `update topics set compacted_seq = first_seq + $2::bigint - 1,
		summary_seq = first_seq + $2::bigint - 1, summary = $3, summary_tokens = 15, compacted_messages = $2::bigint where id = $1`, topic, messages, summary)
}

// topic gives the turns from one message to another a topic.
func (r *rig) topic(chat string, number int, title string, first, last int) (id uuid.UUID) {
	id = uuid.New()
	testkit.Exec(r.t, r.pool, "update turn_index set topic_id = $1 where chat_id = $2 and seq between $3 and $4", id, chat, first, last)
	testkit.Exec(r.t, r.pool, `insert into topics (id, chat_id, user_id, number, title, title_seq, message_count, created_at, last_active_at, first_seq, last_seq)
		select $1, chat_id, user_id, $2, $3, min(seq), count(*), min(created_at), max(created_at), min(seq), max(seq)
		  from messages where chat_id = $4 and seq between $5 and $6 group by chat_id, user_id`, id, number, title, chat, first, last)
	return id
}
