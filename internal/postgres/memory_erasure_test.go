package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// canary is the word that the erased messages have, and no others.
const canary = "xylophon"

// forgettable is a user with two chats, in each a message that is erased and one that stays, and memories of them.
type forgettable struct {
	user         auth.Principal
	chats        [2]uuid.UUID
	erased, kept [2]uuid.UUID
	// both is a memory that all four messages say, merged from them; apart is one of each chat's erased message alone.
	both  uuid.UUID
	apart [2]uuid.UUID
}

func (b *bed) newForgettable(n int) forgettable {
	r := forgettable{user: b.newUser(), both: uuid.New(), apart: [2]uuid.UUID{uuid.New(), uuid.New()}}
	b.exec("insert into memory_users (user_id) values ($1)", r.user.UserID)
	b.exec(`insert into memories (id, user_id, content, recorded_at, created_at) values ($1, $2, $3, now() - interval '40 days',
		now() - interval '40 days')`, r.both, r.user.UserID, fmt.Sprintf("Plays the %s and the harp %d", canary, n))
	for i := range r.chats {
		r.chats[i], r.erased[i], r.kept[i] = uuid.New(), uuid.New(), uuid.New()
		b.exec("insert into chats (id, user_id, title) values ($1, $2, 'a chat')", r.chats[i], r.user.UserID)
		b.exec("insert into messages (id, chat_id, role, content) values ($1, $2, 'user', $3)", r.erased[i], r.chats[i], fmt.Sprintf("I play the %s %d", canary, n))
		b.exec("insert into messages (id, chat_id, role, content) values ($1, $2, 'user', 'I play the harp')", r.kept[i], r.chats[i])
		b.exec("insert into memories (id, user_id, content, source_session_id) values ($1, $2, $3, $4)", r.apart[i], r.user.UserID,
			fmt.Sprintf("Owns a %s in %d", canary, i), r.chats[i])
		b.exec(`insert into memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
			select k.memory, m.id, m.user_id, m.chat_id, m.seq, m.content, m.content, m.created_at from messages m
			  join (values ($1::uuid, $2::uuid), ($1, $3), ($4, $2)) k (memory, message) on k.message = m.id`, r.both, r.erased[i], r.kept[i], r.apart[i])
		b.exec(`insert into memory_entities (user_id, name) values ($1, 'my ' || $2) on conflict do nothing`, r.user.UserID, canary)
		b.exec(`insert into memory_mentions (memory_id, entity_id, user_id) select $1, e.id, e.user_id from memory_entities e where e.user_id = $2`,
			r.apart[i], r.user.UserID)
	}
	return r
}

// learn is what the commit of an extraction does to the database: it makes a memory of both messages of a chat, as far as
// they still say what they said, changes one that is there, and writes the ledger. A memory read before may be gone. The
// pause is between the two.
func (b *bed) learn(r forgettable, i, n int, pause time.Duration) error {
	said := []string{fmt.Sprintf("I play the %s %d", canary, n), "I play the harp"}
	err := pgx.BeginFunc(b.t.Context(), b.pool, func(tx pgx.Tx) (err error) {
		// do runs a statement that must find its row, unless one before it has failed.
		do := func(sql string, args ...any) {
			if err != nil {
				return
			}
			tag, failed := tx.Exec(b.t.Context(), sql, args...)
			if err = failed; err == nil && tag.RowsAffected() == 0 {
				err = pgx.ErrNoRows
			}
		}
		do(`with owner as (select user_id from chats where id = $1 for key share)
			select user_id from owner, lateral (select set_config('request.jwt.claims', json_build_object('sub', user_id)::text, true),
			  set_config('request.jwt.claim.sub', user_id::text, true), set_config('role', 'throughline_worker', true)) acting`, r.chats[i])
		if err != nil {
			return err
		}
		rows, err := tx.Query(b.t.Context(), "select throughline.hold_evidence($1, array[md5($2), md5($3)])", []uuid.UUID{r.erased[i], r.kept[i]}, said[0], said[1])
		if err != nil {
			return err
		}
		held, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		time.Sleep(pause)
		do("update throughline.own_briefs set extracted_seq = 2, extract_due_at = null where chat_id = $1 and extracted_seq = 0", r.chats[i])
		do("select throughline.touch_memories(user_id) from throughline.own_chats where id = $1", r.chats[i])
		do("select throughline.note_change('ADD', null, 'model', 'm', 'consolidate@1') from throughline.own_chats where id = $1", r.chats[i])
		for at, message := range []uuid.UUID{r.erased[i], r.kept[i]} {
			if !slices.Contains(held, message) {
				continue
			}
			made := uuid.New()
			do(`with made as (insert into throughline.own_memories (id, user_id, content, source_session_id) values ($6, $1,
				'Says: ' || $2 || ' in ' || $3::uuid, $3) returning id, content)
				insert into throughline.own_memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
				select made.id, $4, $1, $3, $5, made.content, $2, now() from made`, r.user.UserID, said[at], r.chats[i], message, at+1, made)
			do(`select throughline.link_memory($1, jsonb_build_array(jsonb_build_object('name', $2::text, 'type', 'tool'), '{"name": "harp", "type": "tool"}'::jsonb),
				jsonb_build_array(jsonb_build_object('source', 'User', 'relationship', 'plays', 'target', $2),
				  '{"source": "User", "relationship": "plays", "target": "harp"}'::jsonb))`, made, canary)
		}
		if err == nil && len(held) == len(said) { // merged words of both, for as long as both are there
			_, err = tx.Exec(b.t.Context(), "update throughline.own_memories set content = content || '!', confidence = confidence where id = $1", r.both)
		}
		do(`insert into throughline.own_memory_extractions (chat_id, user_id, seq_from, seq_to, turns, result) values ($1, $2, 1, 2, 2, 'done')`,
			r.chats[i], r.user.UserID)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // lost
	}
	return err
}

// as runs a statement as the server does for the user, in a transaction of its own, without a second try.
func (b *bed) as(user auth.Principal, statements string) error {
	return pgx.BeginFunc(b.t.Context(), b.pool, func(tx pgx.Tx) error {
		return errOf(tx.Exec(b.t.Context(), fmt.Sprintf(`select set_config('request.jwt.claims', '%s', true), set_config('request.jwt.claim.sub', '%s', true),
			set_config('role', 'throughline_app', true); %s`, user.Claims, user.UserID, statements), pgx.QueryExecModeSimpleProtocol))
	})
}

// An extraction commits, the user edits memories, and messages, chats or the account go at the same moment, in every order:
// none waits for another without end, and no word of a message outlives it.
func TestNoWordOutlivesItsMessageInMemories(t *testing.T) {
	t.Parallel()
	for name, erasures := range map[string][]string{ // of the messages $1 and $2 in the chats $3 and $4; none: of the account
		"messages":              {"delete from messages where id = '$1'", "delete from messages where id = '$2'"},
		"messages of two chats": {"delete from messages where id = '$1'; delete from messages where id = '$2'"},
		"edits": {"update messages set content = 'x' where id = '$1'",
			"update messages set role = 'assistant', content = '' where id = '$2'"},
		"chats":     {"delete from chats where id = '$3'", "delete from chats where id = '$4'"},
		"all chats": {"delete from chats where id in ('$3', '$4')"},
		"account":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			random := seeded(t)
			for n := range races(100) { // 25 in short mode
				r := b.newForgettable(n)
				pause := time.Duration(random.IntN(4)) * time.Millisecond
				named := strings.NewReplacer("$1", r.erased[0].String(), "$2", r.erased[1].String(), "$3", r.chats[0].String(), "$4", r.chats[1].String(),
					"$both", r.both.String(), "$apart", r.apart[0].String(), "$user", r.user.UserID.String())
				as := func(statements string) func() error {
					return func() error { return b.as(r.user, named.Replace(statements)) }
				}
				edit := as(`select throughline.touch_memories('$user');
					update memories set content = content || '?', edited = true where id = '$both';
					update memory_sources set fact = fact || '?' where memory_id = '$both';
					delete from memories where id = '$apart'`)
				b.atOnce(n, random, append(b.erase(r.user, erasures, named),
					func() error { return b.learn(r, 0, n, pause) },
					func() error { return b.learn(r, 1, n, pause) },
					func() error { // the user edits a memory, and forgets another, unless the account is gone
						if err := edit(); sqlState(err) != pgerrcode.ForeignKeyViolation {
							return err
						}
						return nil
					},
					func() error { // memories fade
						return errOf(b.pool.Exec(b.t.Context(), "select throughline.fade_memories(current_date, '-infinity', $1, 100)", uuid.Nil))
					},
					as(`select from memory_users where user_id = '$user' for no key update;
						update memories set embedding = ('[' || repeat('0,', 511) || '1]')::throughline.embedding, embedding_model = 'm' where user_id = '$user'`),
					func() error { // the user switches memories off and on
						return errors.Join(as("update memory_users set enabled = false")(), as("update memory_users set enabled = true")())
					}))
				b.exec("delete from messages where id = any($1)", r.erased[:]) // the edited ones
				mustBe(t, len(b.holders(canary)), 0, "round %d: hold words of messages that are gone", n)
				b.checkMemories()
				b.exec("delete from auth.users where id = $1", r.user.UserID)
			}
			is(t, b.count("memory_users"), 0, "users are left")
		})
	}
}

// erase is the work of erasures, each of which is a user's; without any, the account is deleted.
func (b *bed) erase(user auth.Principal, statements []string, named *strings.Replacer) (work []func() error) {
	if len(statements) == 0 {
		b.user = user
		return []func() error{func() error { return <-b.deleteUser() }}
	}
	for _, sql := range statements {
		work = append(work, func() error { return b.as(user, named.Replace(sql)) })
	}
	return work
}

// Evidence is neither edited nor deleted before the memory that is made of it is stored, and so goes with it.
func TestEvidenceIsHeldUntilItsMemoryIsStored(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, change := range map[string]string{
		"deletion": "delete from messages where id = $1", "edit": "update messages set content = 'x' where id = $1",
		"chat": "delete from chats where id = (select chat_id from messages where id = $1)",
	} {
		r := b.newForgettable(1)
		tx := b.begin()
		mustExec(t, tx, "select from chats where id = $1 for key share", r.chats[0])
		mustExec(t, tx, "select set_config('request.jwt.claim.sub', $1, true), set_config('role', 'throughline_worker', true)", r.user.UserID.String())
		mustExec(t, tx, "select throughline.hold_evidence($1, array[md5($2)])", []uuid.UUID{r.erased[0]}, fmt.Sprintf("I play the %s 1", canary))
		noError(t, b.waitsFor(tx, func() error { return errOf(b.pool.Exec(t.Context(), change, r.erased[0])) }, func() {
			mustExec(t, tx, "select throughline.touch_memories($1)", r.user.UserID)
			mustExec(t, tx, `with made as (insert into throughline.own_memories (user_id, content) values ($1, $2) returning id)
				insert into throughline.own_memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, said_at)
				select made.id, $3, $1, $4, 1, $2, now() from made`, r.user.UserID, "Has a "+canary, r.erased[0], r.chats[0])
		}))
		is(t, b.count("memories where content = $1", "Has a "+canary), 0, "%s: the memory outlives its message", name)
		b.checkMemories()
	}
}

// atOnce runs all of it at once, in any order, and fails for errors, such as deadlocks.
func (b *bed) atOnce(round int, random *rand.Rand, work []func() error) {
	b.t.Helper()
	random.Shuffle(len(work), func(i, j int) { work[i], work[j] = work[j], work[i] })
	var all sync.WaitGroup
	for i, do := range work {
		all.Go(func() {
			fine(b.t, do(), "round %d: piece %d", round, i)
		})
	}
	all.Wait()
	if b.t.Failed() {
		b.t.FailNow()
	}
}

// checkMemories checks what holds of memories at any time.
func (b *bed) checkMemories() {
	b.t.Helper()
	for what, wrong := range map[string]string{
		"an extracted memory has a source": `select count(*) from memories m where origin = 'extracted' and not exists (select from memory_sources s
			where s.memory_id = m.id and fact is not null)`,
		"a source has its message": `select count(*) from memory_sources s where not exists (select from messages m where m.id = s.message_id
			and m.user_id = s.user_id)`,
		"mentions are counted": `select count(*) from memory_entities e where mentions <> (select count(*) from memory_mentions m
			where m.entity_id = e.id) or mentions = 0`,
		"a memory has its revision": `select count(*) from memories m where not exists (select from memory_revisions r where r.memory_id = m.id
			and r.version = m.version and r.content = m.content)`,
		"versions have no gap": "select count(*) from memories m where version <> (select count(*) from memory_revisions r where r.memory_id = m.id)",
		"what it takes the place of exists": `select count(*) from memories m where superseded_by is not null and not exists (select from memories o
			where o.id = m.superseded_by)`,
		"the ledger ends where it is noted": `select count(*) from conversation_briefs b where extracted_seq <> coalesce((select max(seq_to)
			from memory_extractions e where e.chat_id = b.chat_id), 0)`,
		"a chat that is gone is named never": `select count(*) from memories m where source_session_id is not null and not exists (select from chats c
			where c.id = m.source_session_id)`,
	} {
		mustBe(b.t, ask[int](b, wrong), 0, "not so in … rows: %s", what)
	}
}

// movingModel believes whoever says where they live, and that no one lives in two places.
type movingModel struct{}

func (movingModel) Ask(_ context.Context, question work.Question) (work.Answer, error) {
	var answer any
	switch question.Purpose {
	case "consolidate":
		answer = map[string]any{"decisions": []any{map[string]any{"candidate": "C1", "action": "DELETE", "memory": "M1", "merged": nil, "reason": "moved"}}}
	default:
		facts := []any{}
		_, said, _ := strings.Cut(question.Input, "NEW MESSAGES")
		for line := range strings.SplitSeq(said, "\n") {
			alias, rest, _ := strings.Cut(line, " ")
			_, place, found := strings.Cut(strings.TrimSuffix(rest, "."), "I live in ")
			if found && strings.HasPrefix(alias, "U") {
				facts = append(facts, map[string]any{
					"fact": "The user lives in " + place + ".", "type": "fact", "confidence": 0.9, "horizon": "lasting", "durable": false, "evidence": []string{alias},
					"quote": "I live in " + place, "valid_from": nil, "valid_to": nil, "replaces": nil,
					"entities": []any{map[string]any{"name": place, "type": "place"}}, "relationships": []any{},
				})
			}
		}
		answer = map[string]any{"facts": facts}
	}
	encoded, err := json.Marshal(answer)
	return work.Answer{Text: string(encoded), Model: "m"}, err
}

// learner returns an engine that reads the bed's chats, also while somebody is talking in them.
func (b *bed) learner() *longterm.Extractor {
	return longterm.NewExtractor(longterm.Extractor{
		Store:  &Learning{Pool: b.pool, Insert: noJob},
		Leases: b.work, Asker: movingModel{}, Logger: slog.New(slog.DiscardHandler), Metrics: metrics.New(), Model: "m",
	})
}

// read reads a chat as often as it takes, as a job does.
func (b *bed) read(engine *longterm.Extractor, chatID uuid.UUID) error {
	for ctx := b.t.Context(); ; {
		report, err := engine.Extract(ctx, chatID, work.Attempt{})
		if err != nil || report.Result == work.Nothing {
			return err
		}
		if report.Result == work.Busy && !pause(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
}

// says stores a message of the user and a reply.
func (b *bed) says(chatID uuid.UUID, content string) {
	b.exec("insert into messages (chat_id, role, content, token_count) values ($1, 'user', $2, 9), ($1, 'assistant', 'I see.', 2)", chatID, content)
}

// returning brings back what is off the path when it is asked first.
type returning struct {
	movingModel

	*bed
	once *sync.Once
}

func (r returning) Ask(ctx context.Context, question work.Question) (work.Answer, error) {
	r.once.Do(func() { r.exec("update messages set superseded_by = null where superseded_by is not null") })
	return r.movingModel.Ask(ctx, question)
}

// A message that comes back to the path while those around it are read is read with them.
func TestMessagesThatComeBackAreRead(t *testing.T) {
	t.Parallel()
	r := rememberingOf(newOwnBed(t))
	r.user = r.newUser()
	chatID := r.newChat(1)
	r.says(chatID, "I live in Lyon.")
	r.exec("update messages set superseded_by = id, token_count = 0 where content like '%Lyon%'")
	r.says(chatID, "I live in Porto.")
	engine := r.learner()
	engine.Asker = returning{bed: r.bed, once: &sync.Once{}}
	noError(t, r.read(engine, chatID))
	mustBe(t, ask[string](r, "select string_agg(m.content, ' ' order by m.seq) from memory_sources s join messages m on m.id = s.message_id"),
		"I live in Lyon. I live in Porto.", "said, and remembered")
}

// Extractions commit while the user deletes a memory with what summaries hold of it, changes and pins it, and goes on talking:
// none waits for another without end, and the last statement is remembered once.
func TestExtractionsBesideTheUsersChanges(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][]api.MemoryChange{
		"deleted, with summaries": {{}},
		"changed":                 {{Content: new("The user lives in Lyon, near the river.")}},
		"both, and pinned":        {{}, {Content: new("The user lives in Lyon, near the river.")}, {Pinned: new(true)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rememberingOf(newOwnBed(t))
			engine, random := r.learner(), seeded(t)
			for n := range races(40) { // 10 in short mode
				r.user = r.newUser()
				chats := []uuid.UUID{r.newChat(1), r.newChat(1)}
				for _, chatID := range chats {
					r.says(chatID, "I live in Lyon.")
					noError(t, r.read(engine, chatID))
					r.mustCommit(r.claim(chatID))
					r.says(chatID, "I live in Porto.")
				}
				known := ask[uuid.UUID](r, "select id from memories where user_id = $1", r.user.UserID)
				var work []func() error
				for _, chatID := range chats {
					work = append(work, func() error { return r.read(engine, chatID) },
						func() error { return errOf(r.turns.StartTurn(t.Context(), r.user, turnIn(chatID, "And now?"))) })
				}
				for _, change := range changes {
					work = append(work, func() error { return r.deleteOrChange(known, change) })
				}
				r.atOnce(n, random, work)
				r.checkMemories()
				mustBe(t, ask[string](r, `select count(*) filter (where content like '%Porto%' and status in ('active',
					'inbox')) || ' ' || count(*) filter (where content like '%Lyon%' and status = 'active' and not edited and not pinned)
					from memories where user_id = $1`, r.user.UserID), "1 0", "round %d: Porto and Lyon are remembered", n)
			}
			r.wantNoDeadlock()
		})
	}
}

// deleteOrChange changes a memory, unless it is gone by then; without a change it deletes the memory, with summaries.
func (r *remembering) deleteOrChange(id uuid.UUID, change api.MemoryChange) (err error) {
	if change == (api.MemoryChange{}) {
		err = r.memories.DeleteMemory(r.t.Context(), r.user, id, api.MemoryDeletion{Also: api.AlsoSummaries})
	} else {
		_, err = r.memories.ChangeMemory(r.t.Context(), r.user, id, change)
	}
	if fault.CodeOf(err) == fault.MemoryNotFound {
		return nil
	}
	return err
}

// wantNoDeadlock ends the bed, and checks that Postgres has resolved no deadlock: transactions that are tried again hide it.
// A session tells what it counted when it ends or, as those of a pooler, once it has been idle for ten seconds.
func (b *bed) wantNoDeadlock() {
	b.t.Helper()
	admin := testkit.Connect(b.t, b.db.AdminDSN)
	b.pool.Close()
	testkit.Eventually(b.t, "all sessions have told what they counted", func() bool {
		return testkit.Ask[int](b.t, admin, `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'throughline'
			and (state <> 'idle' or state_change > now() - interval '12 seconds')`) == 0
	})
	is(b.t, testkit.Ask[int](b.t, admin, "select deadlocks from pg_stat_database where datname = current_database()"), 0, "deadlocks")
}
