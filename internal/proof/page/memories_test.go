package page

import (
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// longTerm remembers across chats, and reads a chat when it is asked to.
var longTerm = env{"LONG_TERM_MEMORY": "true", "MEMORY_EXTRACT_DELAY": "10h"}

// What a user is remembered for can be seen, written, corrected, forgotten and taken along.
func TestMemories(t *testing.T) {
	t.Parallel()
	newRig(t, nil, longTerm).inBrowser("memories.mjs", nil)
}

// What the memories are about is drawn and listed, of a user with a few entities and of one with hundreds.
func TestGraph(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, longTerm)
	large := testkit.NewUser(t, r.db)
	r.fillGraph(large, 700)
	r.inBrowser("graph.mjs", env{"LARGE_TOKEN": testkit.Token(t, large)})
}

// fillGraph gives a user so many entities, every other one of which the user knows. The first has a hostile name.
func (r *rig) fillGraph(user uuid.UUID, entities int) {
	r.t.Helper()
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
