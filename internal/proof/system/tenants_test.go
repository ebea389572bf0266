package system

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

var (
	trespasses   = flag.Int("trespasses", 10_000, "requests that TestRequestsAcrossTenants makes")
	trespassSeed = flag.Uint64("seed", 0, "what TestRequestsAcrossTenants and TestOddRequests draw their requests from; 0 for something new")
)

const (
	// canary is in all of the owners' texts, and in nothing that an intruder sends.
	canary    = "goldfinch"
	owners    = 3
	intruders = 8
)

// ownedIDs are the ids of the owners' rows.
type ownedIDs struct {
	chats, messages, clientIDs, hashes, cursors []string
	memories, entities, forgetTokens            []string
	topics                                      []string
}

// TestRequestsAcrossTenants makes thousands of random requests to every route of the OpenAPI document, as users who put
// other users' ids wherever an id is expected. No answer has anything of the others except the id that was sent, none of
// their rows change, no prompt has their words, and every status is one of the document's for the route.
//
//	go test ./internal/proof/system -run TestRequestsAcrossTenants -trespasses 1000000
func TestRequestsAcrossTenants(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newStoppedRig(t, testkit.NewDatabase(t), holdOwnersReply(gate),
		env{"MODEL_IDLE_TIMEOUT": "10h", "MODEL_TIMEOUT": "10h", "LONG_TERM_MEMORY": "true",
			"MEMORY_EXTRACT_DELAY": "10h"}) // the held replies stay, however long this takes
	r.newUser()
	r.node = r.start(app.Role{API: true}, nil)
	t.Cleanup(func() { close(gate) })
	theirs := r.createOwners()
	before, asked := r.inventory(), len(r.model.Requests())

	seed := drawnSeed(t)
	all := routes(t, r.Client)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: intruders, DisableCompression: true}}
	t.Cleanup(client.CloseIdleConnections)
	var group sync.WaitGroup
	attempts := *trespasses / intruders
	if testing.Short() {
		attempts /= 4
	}
	for n := range intruders {
		i := r.newIntruder(theirs, client, rand.New(rand.NewPCG(seed, uint64(n))))
		group.Go(func() {
			for range attempts {
				if err := i.attempt(i.route(all)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	assert.Equalf(t, before, r.inventory(), "the owners' rows were\n%s\nand are\n", before)
	for _, request := range r.model.Requests()[asked:] {
		assert.NotContainsf(t, string(request.Body), canary, "an owner's words are in a prompt: %.2000s", request.Body)
	}
}

// drawnSeed is the flag's, or a new one.
func drawnSeed(t *testing.T) uint64 {
	t.Helper()
	seed := cmp.Or(*trespassSeed, uint64(time.Now().UnixNano()))
	t.Logf("-seed %d", seed)
	return seed
}

// holdOwnersReply is a model whose reply to "Hold." does not end before the gate is closed.
func holdOwnersReply(gate <-chan struct{}) testkit.Script {
	return func(request *offline.Request) offline.Answer {
		if request.Kind != offline.KindReply || !strings.Contains(request.Current, "Hold.") {
			return offline.Answer{}
		}
		return offline.Answer{Text: "The " + canary + " holds on.", Gate: gate, GateAfter: 2}
	}
}

// createOwners makes the owners and their rows: chats of every kind, files, briefs with revisions, tags, a tool's thread,
// an expired chat, and a running reply.
func (r *rig) createOwners() *ownedIDs {
	r.t.Helper()
	var users []uuid.UUID
	theirs := &ownedIDs{}
	for range owners {
		user := testkit.NewUser(r.t, r.db)
		users = append(users, user)
		owner := testkit.Client{T: r.t, Base: r.Base, Token: testkit.Token(r.t, user)}
		theirs.cursors = append(theirs.cursors, createOwner(r.t, owner))
	}
	r.addBriefs(users)
	r.index(users)
	r.addMemories(users)
	for _, chat := range r.ids("select c.id::text from chats c where c.user_id = any($1) and exists (select from turn_index i where i.chat_id = c.id)", users) {
		theirs.topics = append(theirs.topics, r.addTopic(chat, 1, canary).String())
	}
	for _, user := range users {
		owner := testkit.Client{T: r.t, Base: r.Base, Token: testkit.Token(r.t, user)}
		token, _ := owner.Call(http.MethodPost, "/v1/memories/forget", testkit.Body{"query": canary}).JSON(r.t)["token"].(string)
		theirs.forgetTokens = append(theirs.forgetTokens, token)
	}
	theirs.memories = r.ids("select id::text from memories where user_id = any($1)", users)
	theirs.entities = r.ids("select id::text from memory_entities where user_id = any($1)", users)
	theirs.chats = r.ids("select id::text from chats where user_id = any($1)", users)
	theirs.messages = r.ids("select id::text from messages where user_id = any($1)", users)
	theirs.clientIDs = r.ids("select client_message_id::text from messages where user_id = any($1) and client_message_id is not null", users)
	theirs.hashes = r.ids("select encode(sha256, 'hex') from chat_files where user_id = any($1)", users)
	return theirs
}

func createOwner(t *testing.T, owner testkit.Client) (cursor string) {
	t.Helper()
	said := testkit.Body{
		"content": "The harbour code is " + canary + ".", "client_message_id": uuid.NewString(), "metadata": testkit.Body{"note": canary},
		"files": []testkit.Body{{"path": canary + ".txt", "content": "The harbour file of the " + canary + ", " + uuid.NewString()}},
	}
	for _, settings := range []testkit.Body{
		{"title": "Harbour " + canary, "tags": []string{"harbour", canary}, "system_prompt": "Mind the " + canary},
		{"memory_strategy": "hybrid"}, {"memory_strategy": "simple"}, {"tool_name": "chat"}, {"title": "expired"},
	} {
		chatID, _ := owner.Call(http.MethodPost, "/v1/chats", settings).JSON(t)["id"].(string)
		said["client_message_id"] = uuid.NewString()
		owner.Send(chatID, said).Rest()
		pinned := owner.Send(chatID, testkit.Body{"content": "And again: " + canary}).Rest()
		owner.Call(http.MethodPatch, "/v1/messages/"+pinned.MessageID, testkit.Body{"pinned": true})
	}
	owner.Send("", testkit.Body{"content": "Hold. " + canary}).Until(func(e testkit.Event) bool { return e.Name == testkit.Delta })
	cursor, _ = owner.Call(http.MethodGet, "/v1/chats?limit=1", nil).JSON(t)["next_cursor"].(string)
	return cursor
}

// addBriefs adds a brief and a revision to each chat, and lets some chats expire.
func (r *rig) addBriefs(users []uuid.UUID) {
	testkit.Exec(r.t, r.pool, `update conversation_briefs set version = 1, covered_seq = 2, brief_tokens = 9,
		brief = jsonb_set(brief, '{global_summary}', to_jsonb('They speak of the `+canary+`.'::text)) where user_id = any($1)`, users)
	testkit.Exec(r.t, r.pool, `insert into conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary,
			input_tokens, output_tokens, prompt_mode, prompt_ref, model, duration_ms, input_sha256)
		select id, user_id, 1, 'fold', 1, 2, 1, 'They speak of the `+canary+`.', 1, 1, 'inline', 'x', 'x', 1, 'x' from chats where user_id = any($1)`, users)
	testkit.Exec(r.t, r.pool, `update chats set ttl_hours = 1, created_at = now() - interval '3 hours', last_message_at = now() - interval '2 hours'
		where user_id = any($1) and title = 'expired'`, users)
}

// index indexes all turns of the users' chats.
func (r *rig) index(users []uuid.UUID) {
	for _, user := range users {
		testkit.Exec(r.t, r.pool, `with me as materialized (select set_config('request.jwt.claims', json_build_object('sub', $1::uuid)::text, true))
			select throughline.index_turns(c.id, null) from me, chats c where c.user_id = $1`, user)
	}
	n := r.count("select count(*) from turn_index where user_id = any($1) and tsv @@ '"+canary+"'", users)
	require.Truef(r.t, n >= 5*owners, "only %d turns of the owners are indexed", n)
}

// addMemories remembers each user for something that a message of theirs says, with its history, its extraction and its graph.
func (r *rig) addMemories(users []uuid.UUID) {
	testkit.Exec(r.t, r.pool, `insert into memory_users (user_id, version, excluded) select id, 3, '{`+canary+`}' from unnest($1::uuid[]) id
		on conflict (user_id) do update set excluded = excluded.excluded`, users)
	for _, status := range []string{"active", "inbox", "archived"} {
		testkit.Exec(r.t, r.pool, `insert into memories (user_id, content, status, source_session_id, pinned)
			select m.user_id, 'Keeps a `+canary+` in the harbour, `+status+`', $2, (array_agg(m.chat_id))[1], $2 = 'active'
			  from messages m where m.user_id = any($1) group by m.user_id`, users, status)
	}
	testkit.Exec(r.t, r.pool, `insert into memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
		select y.id, m.id, m.user_id, m.chat_id, m.seq, y.content, 'The `+canary+`', m.created_at
		  from memories y cross join lateral (select * from messages m where m.user_id = y.user_id and m.role = 'user' limit 1) m where y.user_id = any($1)`, users)
	testkit.Exec(r.t, r.pool, `insert into memory_extractions (chat_id, user_id, seq_from, seq_to, result) select id, user_id, 1, 2, 'done' from chats `+
		`where user_id = any($1)`, users)
	testkit.Exec(r.t, r.pool, `with thing as (insert into memory_entities (user_id, name, is_user)
			select id, name, name = 'User' from unnest($1::uuid[]) id cross join unnest('{User,`+canary+`,harbour}'::text[]) name returning id, user_id, name),
		mentioned as (insert into memory_mentions (memory_id, entity_id, user_id)
			select y.id, t.id, t.user_id from thing t join memories y on y.user_id = t.user_id and y.status = 'active')
		insert into memory_relationships (user_id, source_entity_id, target_entity_id, relationship, memory_id)
		select a.user_id, a.id, b.id, 'keeps', y.id from thing a join thing b on b.user_id = a.user_id and b.name = '`+canary+`'
		  join memories y on y.user_id = a.user_id and y.status = 'active' where a.name = 'User'`, users)
}

func (r *rig) ids(query string, users []uuid.UUID) []string {
	found := testkit.Ask[[]string](r.t, r.pool, "select array_agg(id) from ("+query+") as found (id)", users)
	require.Truef(r.t, len(found) != 0, "%s: nothing", query)
	return found
}

// inventory returns a checksum of each table's rows, except those of intruders and the columns that the server of a
// running reply renews.
func (r *rig) inventory() string {
	tables := testkit.Ask[[]string](r.t, r.pool, `select array_agg(table_name::text order by table_name) from information_schema.columns
		where table_schema = 'public' and column_name = 'user_id' and table_name <> 'message_deltas'`)
	var sums strings.Builder
	for _, table := range tables {
		sum := testkit.Ask[string](r.t, r.pool, `select count(*) || ' ' || coalesce(md5(string_agg(row, '|' order by row)), '') from (
			select (to_jsonb(t) - 'lease_until' - case when to_jsonb(t) ->> 'status' = 'streaming' then 'updated_at' else '' end)::text as row
			from `+table+` t join auth.users u on u.id = t.user_id where u.email not like 'intruder-%') as rows`)
		fmt.Fprintf(&sums, "%s %s\n", table, sum)
	}
	jobs := r.count(`select count(*) from river.river_job j join chats c on c.id::text = j.args ->> 'chat_id'
		join auth.users u on u.id = c.user_id where u.email not like 'intruder-%'`)
	fmt.Fprintf(&sums, "jobs %d\n", jobs)
	return sums.String()
}

// intruder is a user with chats of their own who knows others' ids. An intruder stores none of these ids, except client
// message ids, which clients choose themselves: any other that comes back was leaked by the server.
type intruder struct {
	testkit.Client
	http   *http.Client
	theirs *ownedIDs
	random *rand.Rand
	own    []string            // chats
	tools  map[string][]string // by their names, those of their arguments
	odd    bool                // it puts odd values and texts in the place of some, and leaves what it needs
}

func (r *rig) newIntruder(theirs *ownedIDs, client *http.Client, random *rand.Rand) *intruder {
	r.t.Helper()
	user := testkit.NewUser(r.t, r.db)
	testkit.Exec(r.t, testkit.Connect(r.t, r.db.AdminDSN), "update auth.users set email = 'intruder-' || email where id = $1", user)
	i := &intruder{
		Client: testkit.Client{T: r.t, Base: r.Base, Token: testkit.Token(r.t, user)},
		http:   client, theirs: theirs, random: random,
	}
	i.own = append(i.own, i.Say("", "Where is the harbour?").ChatID)
	i.tools = i.listTools()
	return i
}

// route draws a route. Those without users' data are drawn rarely.
func (i *intruder) route(all []route) route {
	drawn := pick(i.random, all)
	if !drawn.user && i.chance(0.9) || i.odd && drawn.name() == "DELETE /v1/memories" {
		return i.route(all)
	}
	return drawn
}

// attempt makes one random request of a route and checks its answer. A loaded machine may not be ready at once: then it
// is asked again.
func (i *intruder) attempt(to route) error {
	for deadline := time.Now().Add(testkit.Patience); ; {
		text, status, answer, err := i.send(to)
		if err != nil {
			return err
		}
		if to.path != "/readyz" || status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return i.check(to, text, status, answer)
		}
	}
}

// send makes one random request of a route, and returns it as text with its answer.
func (i *intruder) send(to route) (text string, status int, answer string, err error) {
	request, text, err := i.draw(to)
	if err != nil {
		return text, 0, "", err
	}
	response, err := i.http.Do(request)
	if err != nil {
		return text, 0, "", fmt.Errorf("%s: %w", text, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return text, 0, "", fmt.Errorf("%s: %w", text, err)
	}
	return text, response.StatusCode, string(body), nil
}

// isFailure reports whether a status says that the server failed, and not that a setting is missing.
func isFailure(status int) bool { return status >= 500 && status != http.StatusNotImplemented }

func (i *intruder) check(to route, text string, status int, answer string) error {
	if !slices.Contains(to.statuses, strconv.Itoa(status)) || isFailure(status) {
		return fmt.Errorf("%s\nis answered %d: %.1000s", text, status, answer)
	}
	if strings.Contains(answer, canary) {
		return fmt.Errorf("%s\nis told what others said, %d: %.4000s", text, status, answer)
	}
	sent := strings.ToLower(text)
	for _, id := range slices.Concat(i.theirs.chats, i.theirs.messages, i.theirs.hashes, i.theirs.memories, i.theirs.entities) {
		if strings.Contains(answer, id) && !strings.Contains(sent, id) {
			return fmt.Errorf("%s\nis told the id %s, %d: %.4000s", text, id, status, answer)
		}
	}
	if to.name() == "POST /v1/chats" && status == http.StatusCreated {
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(answer), &made); err != nil {
			return err
		}
		i.own = append(i.own, made.ID)
	}
	return nil
}

// route is one operation of the OpenAPI document, as far as a request needs it.
type route struct {
	method, path string
	parameters   []parameter
	fields       []string // of its JSON body
	types        []string // media types of its body
	example      testkit.Body
	statuses     []string
	user         bool // it needs a token
}

func (r route) name() string { return r.method + " " + r.path }

// parameter is a parameter of a route.
type parameter struct{ Name, In string }

// document is the part of the OpenAPI document that is read.
type document struct {
	Paths      map[string]map[string]documentRoute
	Components struct {
		Schemas map[string]struct{ Properties map[string]any }
	}
}

type documentRoute struct {
	Parameters []parameter
	Body       struct {
		Content map[string]struct {
			Schema  reference
			Example testkit.Body
		}
	} `json:"requestBody"`
	Responses map[string]any
	Security  []any
}

type reference struct {
	Ref string `json:"$ref"`
}

func (r reference) last() string { return r.Ref[strings.LastIndexByte(r.Ref, '/')+1:] }

// routes reads all routes from a running server, so that a test over them misses none.
func routes(t *testing.T, from testkit.Client) []route {
	var read document
	require.NoError(t, json.Unmarshal([]byte(from.Call(http.MethodGet, "/openapi.json", nil).Text), &read))
	var found []route
	for _, path := range slices.Sorted(maps.Keys(read.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(read.Paths[path])) {
			found = append(found, read.route(strings.ToUpper(method), path, read.Paths[path][method]))
		}
	}
	require.True(t, len(found) != 0, "the document has no routes")
	return found
}

func (d document) route(method, path string, from documentRoute) route {
	found := route{
		method: method, path: path, statuses: slices.Collect(maps.Keys(from.Responses)),
		types: slices.Sorted(maps.Keys(from.Body.Content)), user: len(from.Security) > 0, parameters: from.Parameters,
	}
	schema := d.Components.Schemas[from.Body.Content["application/json"].Schema.last()]
	found.example = from.Body.Content["application/json"].Example
	found.fields = slices.Sorted(maps.Keys(schema.Properties))
	return found
}
