package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// asWorker runs statements as a job of the user.
func (b *bed) asWorker(user auth.Principal, work func(tx pgx.Tx)) {
	tx := b.begin()
	mustExec(b.t, tx, `select set_config('request.jwt.claims', json_build_object('sub', $1::text)::text, true), set_config('request.jwt.claim.sub',
		$1::text, true),
		set_config('role', 'throughline_worker', true)`, user.UserID)
	mustExec(b.t, tx, "select from throughline.own_memory_users for no key update")
	work(tx)
	noError(b.t, tx.Commit(b.t.Context()))
}

// said reads "Neovim/tool" and "User likes Neovim".
func said(words ...string) graph.Found {
	found := graph.Found{Entities: []graph.Entity{}, Relationships: []graph.Relationship{}}
	for _, word := range words {
		if name, kind, ok := strings.Cut(word, "/"); ok {
			found.Entities = append(found.Entities, graph.Entity{Name: name, Type: graph.Type(kind)})
			continue
		}
		parts := strings.SplitN(word, " ", 3)
		found.Relationships = append(found.Relationships, graph.Relationship{Source: parts[0], Relationship: parts[1], Target: parts[2]})
	}
	return found
}

func (b *bed) link(user auth.Principal, memory uuid.UUID, words ...string) {
	found := said(words...)
	entities, _ := json.Marshal(found.Entities)
	relationships, _ := json.Marshal(found.Relationships)
	b.asWorker(user, func(tx pgx.Tx) {
		mustExec(b.t, tx, "select throughline.touch_memories($1)", user.UserID)
		mustExec(b.t, tx, "select throughline.link_memory($1, $2, $3)", memory, string(entities), string(relationships))
	})
}

// linked stores a memory and links it.
func (b *bed) linked(content string, words ...string) uuid.UUID {
	memory := b.wrote(b.user, content)
	b.link(b.user, memory, words...)
	return memory
}

// graph reads "User likes Neovim", or "was User likes Neovim", and "Neovim/tool 2".
func (b *bed) graph(query api.GraphQuery) []string {
	noError(b.t, api.Check(&query))
	answer := must((&Graph{Pool: b.server}).ReadGraph(b.t.Context(), b.user, query))(b.t)
	words := []string{}
	for _, edge := range answer.Relationships {
		was := ""
		if !edge.Valid {
			was = "was "
		}
		words = append(words, was+edge.Source+" "+edge.Relationship+" "+edge.Target)
	}
	for _, node := range answer.Entities {
		words = append(words, fmt.Sprintf("%s/%s %d", node.Name, node.Type, node.Mentions))
	}
	slices.Sort(words)
	return words
}

func (b *bed) wantGraph(query api.GraphQuery, want ...string) {
	b.t.Helper()
	slices.Sort(want)
	is(b.t, b.graph(query), want, "%+v:\n got …\nwant", query)
	b.checkGraph()
}

// checkGraph checks what holds of every graph.
func (b *bed) checkGraph() {
	b.t.Helper()
	for what, sql := range map[string]string{
		"mentions that a recount does not confirm": `select count(*) from memory_entities e where mentions <> (select count(*) from memory_mentions m
			where m.entity_id = e.id) or mentions = 0`,
		"triples that are open twice": `select count(*) from (select from memory_relationships where valid group by source_entity_id,
			relationship, target_entity_id having count(*) > 1) t`,
		"relationships whose memory does not mention both ends": `select count(*) from memory_relationships r where 2 <> (select count(*) from memory_mentions m
			where m.memory_id = r.memory_id and m.entity_id in (r.source_entity_id, r.target_entity_id))`,
		"relationships that are open though all that say them are superseded": `select count(*) from memory_relationships r where valid and not exists (
			select from memories m where m.id in (select r.memory_id union all select unnest(r.also_said_by)) and m.status <> 'superseded')`,
		"entities with two users": "select count(*) from memory_entities e join memory_mentions m on m.entity_id = e.id where m.user_id <> e.user_id",
	} {
		is(b.t, ask[int](b, sql), 0, "%s", what)
	}
}

func TestGraphOfMemories(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.linked("Likes Neovim and uses it at Acme.", "Neovim/tool", "Acme/organization", "User likes Neovim", "I works_at ACME")
	b.linked("Acme is in Porto.", "Porto/place", "Acme is_in Porto")
	b.linked("Prefers neovim to Emacs, in C++.", "neovim/product", "Emacs/tool", "C++/concept", "User prefers neovim")
	all := []string{"User likes Neovim", "User prefers Neovim", "User works_at Acme", "Acme is_in Porto",
		"User/person 2", "Neovim/tool 2", "Acme/organization 2", "Porto/place 1", "Emacs/tool 1", "C++/concept 1"}
	b.wantGraph(api.GraphQuery{}, all...)
	b.wantGraph(api.GraphQuery{Entity: "NEOVIM"}, "User likes Neovim", "User prefers Neovim", "Neovim/tool 2", "User/person 2")
	b.wantGraph(api.GraphQuery{Entity: "porto"}, "Acme is_in Porto", "Acme/organization 2", "Porto/place 1")
	b.wantGraph(api.GraphQuery{Entity: "porto", Depth: 2}, "Acme is_in Porto", "User works_at Acme", "Acme/organization 2", "Porto/place 1", "User/person 2")
	b.wantGraph(api.GraphQuery{Entity: "porto", Depth: 3}, "Acme is_in Porto", "User works_at Acme", "User likes Neovim", "User prefers Neovim",
		"Acme/organization 2", "Porto/place 1", "User/person 2", "Neovim/tool 2")
	b.wantGraph(api.GraphQuery{Relationship: "Works at"}, "User works_at Acme", "Acme/organization 2", "User/person 2")
	b.wantGraph(api.GraphQuery{Type: "tool"}, "User likes Neovim", "User prefers Neovim", "Neovim/tool 2", "User/person 2", "Emacs/tool 1")
	b.wantGraph(api.GraphQuery{Entity: "Emacs"}, "Emacs/tool 1")
	b.wantGraph(api.GraphQuery{Entity: "c++"}, "C++/concept 1")
	b.wantGraph(api.GraphQuery{Entity: "c"})
	b.wantGraph(api.GraphQuery{Entity: "Nobody' or true --"})

	b.wantGraph(api.GraphQuery{Text: "what tools do I like?"}, "User likes Neovim", "User prefers Neovim", "Neovim/tool 2", "User/person 2")
	b.wantGraph(api.GraphQuery{Text: "Where do I work?"}, "User works_at Acme", "Acme/organization 2", "User/person 2")
	b.wantGraph(api.GraphQuery{Text: "Do I like Porto?"}, "Porto/place 1")
	b.wantGraph(api.GraphQuery{Text: "Tell me about porto."}, "Acme is_in Porto", "Acme/organization 2", "Porto/place 1")
	b.wantGraph(api.GraphQuery{Text: "Why though?"})
	b.linked("Struggles with Vim and hates nano.", "Vim/tool", "nano/tool", "User struggles_with Vim", "User hates nano")
	b.linked("Zeichnet Lyon.", "Lyon/place", "User draws Lyon")
	for _, liked := range []string{"what tools do I enjoy", "Welche Werkzeuge mag ich?"} {
		b.wantGraph(api.GraphQuery{Text: liked}, "User likes Neovim", "User prefers Neovim", "Neovim/tool 2", "User/person 4")
	}
	for _, disliked := range []string{"what do I not like", "what tools don't I like", "Was mag ich nicht?", "Welche Werkzeuge hasse ich?"} {
		b.wantGraph(api.GraphQuery{Text: disliked}, "User hates nano", "nano/tool 1", "User/person 4")
	}
	b.wantGraph(api.GraphQuery{Text: "What tools do I photograph?"})
	b.wantGraph(api.GraphQuery{Text: "What tools do I not use?"})
	b.wantGraph(api.GraphQuery{Text: "Which cities did I draw?"}, "User draws Lyon", "Lyon/place 1", "User/person 4")
	b.wantGraph(api.GraphQuery{Text: "What tools are at Acme?"}, "Acme/organization 2")

	other := b.newUser()
	b.user = other
	b.wantGraph(api.GraphQuery{})
	b.wantGraph(api.GraphQuery{Entity: "Neovim"})
}

// The graph knows no more than the memories.
func TestLinkMemoryTakesOnlyWhatTheMemorySays(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.linked("Likes the cello.", "cello/concept", "Yo-Yo Ma/person", "User likes cello", "User admires Yo-Yo", "User likes User", "cello  ", "/tool",
		strings.Repeat("x", 101)+"/tool", "cell/tool")
	b.wantGraph(api.GraphQuery{}, "User likes cello", "User/person 1", "cello/concept 1")
	memory := b.linked("東京に住んでいる。", "東京/place", "User lives_in 東京")
	b.wantGraph(api.GraphQuery{Entity: "東京"}, "User lives_in 東京", "User/person 2", "東京/place 1")
	stranger := b.newUser()
	b.link(stranger, memory, "東京/concept", "User hates 東京")
	b.wantGraph(api.GraphQuery{Entity: "東京"}, "User lives_in 東京", "User/person 2", "東京/place 1")
	b.asWorker(b.user, func(tx pgx.Tx) {
		for _, odd := range []string{"null", "{}", "[]", `[1, null, "x", {}]`, `[{"name": 5, "type": []}]`, `[{"name": null}]`} {
			mustExec(t, tx, "select throughline.link_memory($1, $2, $2)", memory, odd)
		}
		mustExec(t, tx, `select throughline.link_memory($1, '[]', '[{"source": "User", "relationship": "knows", "target": "東京", "valid_from": "2026-13-45"},
			{"source": "User", "relationship": "?!", "target": "東京"}]')`, memory)
	})
	b.wantGraph(api.GraphQuery{Entity: "東京"}, "User lives_in 東京", "User knows 東京", "User/person 2", "東京/place 1")
}

// A superseded fact is closed, and was true until then; one that comes back is open again. A fact that became true a second time
// has two rows; a restored memory does not open the first beside the second.
func TestRelationshipsFollowTheirMemory(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	old := b.linked("Lives in Lyon.", "Lyon/place", "User lives_in Lyon")
	b.exec("update memories set valid_from = '2024-05-01', recorded_at = '2025-01-01' where id = $1", old)
	b.exec("update memory_relationships set valid_from = '2024-05-01', recorded_at = '2025-01-01'")
	b.exec("update memories set status = 'superseded', valid_to = '2026-03-01', retracted_at = now() where id = $1", old)
	b.linked("Lives in Porto.", "Porto/place", "User lives_in Porto")
	b.exec("update memory_relationships set valid_from = '2026-03-01' where valid")
	b.exec("update memories set valid_from = '2026-03-01' where status = 'active'")
	lyon, porto, me := "Lyon/place 1", "Porto/place 1", "User/person 2"
	b.wantGraph(api.GraphQuery{Entity: "user"}, "was User lives_in Lyon", "User lives_in Porto", lyon, porto, me)
	b.wantGraph(api.GraphQuery{Text: "where do I live"}, "User lives_in Porto", porto, me)
	b.wantGraph(api.GraphQuery{AsOf: "2025-06-01"}, "User lives_in Lyon", lyon, me)
	b.wantGraph(api.GraphQuery{AsOf: "2026-06-01"}, "User lives_in Porto", porto, me)
	b.wantGraph(api.GraphQuery{Text: "where do I live", AsOf: "2025-06-01T10:00:00Z"}, "User lives_in Lyon", lyon, me)
	b.wantGraph(api.GraphQuery{AsOf: "2024-04-30"})
	again := b.linked("Lives in Lyon again.", "Lyon/place", "User lives_in Lyon")
	lyon, me = "Lyon/place 2", "User/person 3"
	for range 2 { // before and after the first is true again
		b.wantGraph(api.GraphQuery{Entity: "lyon"}, "was User lives_in Lyon", "User lives_in Lyon", lyon, me)
		b.exec("update memories set status = 'active', valid_to = null, retracted_at = null where id = $1", old)
	}
	b.exec("delete from memories where id = $1", again)
	b.wantGraph(api.GraphQuery{Entity: "lyon"}, "was User lives_in Lyon", "User lives_in Lyon", "Lyon/place 1", "User/person 2")
	b.exec("update memories set status = 'archived' where id = $1", old)
	b.wantGraph(api.GraphQuery{}, "User lives_in Porto", porto, "User/person 2")
}

// One open row for a triple, however many say it; it stays as long as one of them does.
func TestATripleOfSeveralMemoriesOutlivesOne(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for what, change := range map[string]string{
		"deleted":    "delete from memories where id = $1",
		"superseded": "update memories set status = 'superseded', retracted_at = now() where id = $1",
		"edited":     "update memories set content = 'Something else, ' || id where id = $1",
	} {
		b.user = b.newUser()
		memories := []uuid.UUID{
			b.linked("Likes Neovim.", "Neovim/tool", "User likes Neovim"),
			b.linked("Likes Neovim much.", "Neovim/tool", "User likes Neovim"),
			b.linked("Still likes Neovim.", "Neovim/tool", "User likes Neovim"),
		}
		b.wantGraph(api.GraphQuery{}, "User likes Neovim", "Neovim/tool 3", "User/person 3")
		for _, gone := range []int{0, 2} {
			b.exec(change, memories[gone])
			is(t, slices.Contains(b.graph(api.GraphQuery{}), "User likes Neovim"), true, "%s, without %d", what, gone)
			b.checkGraph()
		}
		b.exec(change, memories[1])
		if what != "superseded" {
			b.wantGraph(api.GraphQuery{})
			continue
		}
		b.wantGraph(api.GraphQuery{}, "was User likes Neovim", "Neovim/tool 3", "User/person 3")
		b.exec("update memories set status = 'active', retracted_at = null where id = $1", memories[2])
		b.wantGraph(api.GraphQuery{}, "User likes Neovim", "Neovim/tool 3", "User/person 3")
	}
}

// Words that the user or an erasure takes out of a memory are out of the graph in the same commit. A merge by the model
// keeps them.
func TestEditedMemoryLeavesTheGraph(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	memory := b.linked("Likes Alice and Neovim.", "Alice/person", "Neovim/tool", "User likes Alice")
	waiting := func() bool {
		return ask[bool](b, "select graph_version is null from memories where id = $1", memory)
	}
	assert.False(t, waiting(), "a linked memory still waits")
	b.asWorker(b.user, func(tx pgx.Tx) {
		mustExec(t, tx, "select throughline.note_change('UPDATE', 'r', 'model', 'm', 'p')")
		mustExec(t, tx, "update throughline.own_memories set content = 'Likes Alice and Neovim, and Bob.' where id = $1", memory)
		mustExec(t, tx, `select throughline.link_memory($1, '[{"name": "Bob", "type": "person"}]', '[]')`, memory)
	})
	b.wantGraph(api.GraphQuery{}, "User likes Alice", "Alice/person 1", "Neovim/tool 1", "Bob/person 1", "User/person 1")
	b.exec("update memories set pinned = true where id = $1", memory)
	b.wantGraph(api.GraphQuery{Entity: "Alice"}, "User likes Alice", "Alice/person 1", "User/person 1")
	assert.False(t, waiting(), "a memory that was pinned waits")
	b.exec("update memories set content = 'Likes Neovim.' where id = $1", memory)
	b.wantGraph(api.GraphQuery{})
	assert.True(t, waiting(), "an edited memory does not wait")
}

// askerFunc is a model that answers with what a function returns.
type askerFunc func(question work.Question) (string, error)

func (f askerFunc) Ask(_ context.Context, question work.Question) (work.Answer, error) {
	text, err := f(question)
	return work.Answer{Text: text, InputTokens: 10, OutputTokens: 5}, err
}

const noEntities = `{"entities": [], "relationships": []}`

// likes answers for each fact "Likes X." with the tool X.
func likes(question work.Question) (string, error) {
	entities, relationships := []string{}, []string{}
	for line := range strings.SplitSeq(question.Input, "\n") {
		alias, fact, ok := strings.Cut(line, ": Likes ")
		if name := strings.TrimSuffix(fact, "."); ok {
			entities = append(entities, fmt.Sprintf(`{"memory": %q, "name": %q, "type": "tool"}`, alias, name))
			relationships = append(relationships, fmt.Sprintf(`{"memory": %q, "source": "User", "relationship": "likes", "target": %q}`, alias, name))
		}
	}
	return `{"entities": [` + strings.Join(entities, ",") + `], "relationships": [` + strings.Join(relationships, ",") + `]}`, nil
}

// update runs update_memory_graph once, with an engine that asks a function.
func (b *bed) update(asker askerFunc) (graph.Report, error) {
	return b.grapher(asker).UpdateGraph(b.t.Context(), time.Minute)
}

func (b *bed) grapher(asker askerFunc) *graph.Engine {
	return &graph.Engine{
		Store: &Graph{Pool: b.pool}, Leases: b.work, Asker: asker, Model: "test-1", Metrics: metrics.New(), Logger: (&testkit.Log{}).Logger(),
	}
}

func TestGraphLearnsWhatAUserWrote(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.wrote(b.user, "Likes Neovim.")
	b.wrote(b.user, "Sleeps well.")
	b.linked("Likes Emacs.", "Emacs/tool")
	inbox := b.wrote(b.user, "Likes Nano.")
	b.exec("update memories set status = 'inbox' where id = $1", inbox)
	off := b.newUser()
	b.wrote(off, "Likes Secrecy.")
	b.exec("update memory_users set enabled = false where user_id = $1", off.UserID)
	b.wrote(b.newUser(), "Likes Vim.")
	report := must(b.update(func(question work.Question) (string, error) {
		is(t, tuple(question.Purpose, question.Model, question.SchemaName, strings.Contains(question.Input, "Emacs")),
			tuple("entities", "test-1", "entities", false), "%+v", question)
		return likes(question)
	}))(t)
	is(t, report, graph.Report{Users: 2, Memories: 3, Entities: 2, Relationships: 2, Calls: 2, InputTokens: 20, OutputTokens: 10}, "the report")
	b.wantGraph(api.GraphQuery{}, "User likes Neovim", "Neovim/tool 1", "User/person 1", "Emacs/tool 1")
	is(t, must(b.update(likes))(t), (graph.Report{}), "a second time")
	b.exec("update memories set status = 'active' where id = $1", inbox)
	b.exec("update memories set content = 'Likes Helix.' where content = 'Likes Neovim.'")
	is(t, must(b.update(likes))(t).Memories, 2, "after an edit and an acceptance")
	b.wantGraph(api.GraphQuery{}, "User likes Helix", "User likes Nano", "Helix/tool 1", "Nano/tool 1", "User/person 2", "Emacs/tool 1")
}

// A model that fails loses nothing: the memories wait. One that answers rubbish twice is not asked again.
func TestGraphOfAFailingModel(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	write := func(users int) {
		for range users {
			b.wrote(b.newUser(), "Likes Neovim.")
		}
		b.exec("update throughline.work set retry_at = now() where failures > 0")
	}
	away := errors.New("the model is away")
	failing := func(work.Question) (string, error) { return "", away }
	// once answers the first question, and likes all others.
	once := func(first askerFunc) askerFunc {
		calls := 0
		return func(question work.Question) (string, error) {
			if calls++; calls == 1 {
				return first(question)
			}
			return likes(question)
		}
	}
	var refused []string
	for _, c := range []struct {
		what                            string
		write                           int // users
		model                           askerFunc
		err                             error
		failed, broken, memories, waits int
	}{
		{"fails", 5, failing, away, 3, 0, 0, 5},
		{"works, and its last failures are put off", 0, likes, nil, 0, 0, 2, 3},
		{"fails once", 2, once(failing), away, 1, 0, 4, 1},
		{"answers rubbish twice", 0, func(question work.Question) (string, error) {
			refused = append(refused, question.Instructions)
			return "I like Neovim, too!", nil
		}, nil, 0, 1, 1, 0},
		{"answers rubbish once", 1, once(func(work.Question) (string, error) { return "{", nil }), nil, 0, 0, 1, 0},
	} {
		if c.what != "works, and its last failures are put off" {
			write(c.write)
		}
		report, err := b.update(c.model)
		is(t, tuple(errors.Is(err, c.err), report.Failed, report.Broken, report.Memories, b.count(waiting)), tuple(true, c.failed, c.broken, c.memories, c.waits),
			"a model that %s: %+v, %v", c.what, report, err)
	}
	assert.Truef(t, len(refused) == 2 && strings.Contains(refused[1], "refused"), "%q", refused)
}

// A memory that changes while the model thinks is asked for again; a deleted one stays deleted.
func TestGraphOfMemoriesThatChangeMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	edited, deleted := b.wrote(b.user, "Likes Neovim."), b.wrote(b.user, "Likes Emacs.")
	b.wrote(b.user, "Likes Vim.")
	report, err := b.update(func(question work.Question) (string, error) {
		b.exec("update memories set content = 'Hates Neovim.' where id = $1", edited)
		b.exec("delete from memories where id = $1", deleted)
		return likes(question)
	})
	is(t, tuple(err, report.Changed, b.count(waiting)), tuple(nil, 3, 1), "%+v, … wait", report) // the edited one twice: there was a second round
	b.wantGraph(api.GraphQuery{}, "User likes Vim", "Vim/tool 1", "User/person 1")
	report, err = b.update(func(work.Question) (string, error) {
		b.exec("delete from auth.users where id = $1", b.user.UserID)
		return noEntities, nil
	})
	is(t, tuple(err, report.Changed), tuple(nil, 1), "a user who leaves: %+v", report)
}

// Two workers share the users; each memory is asked for once. Many memories of a user are asked for some at a time.
func TestTwoWorkersUpdateTheGraph(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for range 20 {
		b.wrote(b.newUser(), "Likes Neovim.")
	}
	for n := range 50 {
		b.wrote(b.user, fmt.Sprintf("Likes Tool%d.", n))
	}
	var mu sync.Mutex
	calls := map[uuid.UUID]int{}
	together(t, 4, func(int) error {
		return errOf(b.update(func(question work.Question) (string, error) {
			mu.Lock()
			calls[question.UserID]++
			mu.Unlock()
			return likes(question)
		}))
	})
	is(t, tuple(len(calls), calls[b.user.UserID], b.count(waiting)), tuple(21, 3, 0), "users, calls for many memories, … wait")
	for user, n := range calls {
		is(t, n == 1, user != b.user.UserID, "%d calls for a user", n)
	}
	b.checkGraph()
}

// waiting are the memories whose entities are to be asked for.
const waiting = "memories where graph_version is null and status = 'active'"
