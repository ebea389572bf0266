package longterm_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

var (
	walnuts = proposal("The user is allergic to walnuts.", "allergic to walnuts")
	lyon    = proposal("The user lives in Lyon.", "I live in Lyon")
	porto   = proposal("The user lives in Porto.", "I moved to Porto")
)

func TestExtract(t *testing.T) {
	t.Parallel()
	named := walnuts
	named.Entities = []offline.Entity{{Name: "walnuts", Type: "concept"}}
	named.Relationships = []offline.Relationship{{Source: "User", Relationship: "allergic_to", Target: "walnuts"}}
	r := newRig(t, proposing(nil, named), nil)
	chatID := r.chat("Hello.", "I am allergic to walnuts.")
	report := r.mustExtract(chatID)
	assert.Truef(t, report.Ledger == longterm.Read && report.SeqFrom == 1 && report.SeqTo == 4 && report.Turns == 2 && report.Candidates == 1 &&
		report.Added == 1 && report.Calls == 1 && report.Model == "small" && report.PromptRef == "extract@3" && len(r.next) == 0,
		"the report is %+v, next %v", report, r.next)
	assert.Equal(t, []string{walnuts.Fact}, r.contents("active"), "remembered")
	for question, want := range map[string]string{
		`select chat_id || ' ' || seq_from || ' ' || seq_to || ' ' || turns || ' ' || result || ' ' || added || ' ' || calls || ' ' || prompt_ref
			from memory_extractions`: chatID.String() + " 1 4 2 done 1 1 extract@3",
		`select action || ' ' || actor || ' ' || model || ' ' || prompt_ref
			from memory_revisions`: "ADD model small extract@3",
		`select seq || ' ' || fact || ' ' || quote
			from memory_sources`: "3 The user is allergic to walnuts. allergic to walnuts",
		`select string_agg(name, ' ' order by name)
			from memory_entities`: "User walnuts",
		`select extracted_seq || ' ' || coalesce(extract_due_at::text, 'none')
			from conversation_briefs`: "4 none",
		`select source_session_id || ' ' || origin || ' ' || durable
			from memories`: chatID.String() + " extracted true",
		`select version || ' ' || (select count(*) from throughline.work)
			from memory_users`: "1 0",
	} {
		testkit.Want(t, r.pool, want, question)
	}
	assert.Truef(t, strings.Count(r.logs.String(), chatID.String()) == 1 && !strings.Contains(r.logs.String(), "walnuts"), "the log is %s", r.logs)
	again, err := r.extract(chatID)
	assert.Truef(t, err == nil && again.Result == work.Nothing && again.Wait == 0 && len(r.model.Requests()) == 1, "once more: %+v, %v", again, err)
	gone, err := r.extract(uuid.New())
	assert.Truef(t, err == nil && gone.Result == work.Nothing, "no such chat: %+v, %v", gone, err)
}

// What a tool said is not shown to the model, is no evidence, and stays the tool's when the user pastes it, in whatever form it was.
func TestOutputsOfToolsAreNotRemembered(t *testing.T) {
	t.Parallel()
	const pasted = "I have had a xylophone at home since I was seven"
	r := newRig(t, proposing(nil, walnuts, proposal("The user has had a xylophone at home since they were seven.", pasted)), nil)
	chatID := r.chat()
	tool := testkit.Ask[uuid.UUID](t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
	for _, output := range []string{`"Profile\n` + pasted + `."`, `{"profile": ["` + pasted + `.", null, 7]}`} {
		r.say(chatID, "user", "Read my profile.")
		testkit.Exec(t, r.pool, `insert into messages (chat_id, role, content, parts) values ($1, 'assistant', 'Done.', $2)`, chatID,
			`[{"type":"tool_call","at":5,"call_id":"a","name":"profile","arguments":{"q":"xylophone"},"run":"server","approval":false},
			  {"type":"tool_result","at":5,"call_id":"a","status":"done","output":`+output+`}, 7]`)
		r.say(chatID, "user", "It says: "+pasted+". I am allergic to walnuts.")
		report := r.mustExtract(chatID)
		assert.Equal(t, map[string]int{"echo": 1}, report.Dropped, "dropped")
	}
	r.say(tool, "tool", "Profile: "+pasted+".")
	r.say(tool, "user", "Sure, "+pasted+".")
	assert.Equal(t, map[string]int{"echo": 1}, r.mustExtract(tool).Dropped, "of a message")
	assert.Equal(t, []string{walnuts.Fact}, r.contents(""), "remembered")
	testkit.Want(t, r.pool, 0, "select count(*) from memory_sources s join messages m on m.id = s.message_id where m.role <> 'user'")
	first, _, _ := strings.Cut(r.model.Requests()[0].Text, "It says")
	assert.Truef(t, !strings.Contains(first, "xylophone") && !strings.Contains(first, `profile"`), "the model reads %s", first)
}

// Said again, a memory gets another source; said otherwise, it is superseded. Neither makes a copy.
func TestWhatIsSaidAgainAndOtherwise(t *testing.T) {
	t.Parallel()
	r := newRig(t, proposing(func(*offline.Request) offline.Answer {
		return answer(map[string]any{"decisions": []decision{{Candidate: "C1", Action: "DELETE", Memory: new("M1"), Reason: "moved"}}})
	}, lyon, porto), nil)
	r.mustExtract(r.chat("I live in Lyon."))
	again := r.mustExtract(r.chat("I live in Lyon, as I said."))
	otherwise := r.mustExtract(r.chat("I moved to Porto."))
	assert.Truef(t, again.Noops == 1 && again.Calls == 1 && otherwise.Superseded == 1 && otherwise.Added == 1 && otherwise.Calls == 2,
		"again %+v, otherwise %+v", again, otherwise)
	active, superseded := r.contents("active"), r.contents("superseded")
	assert.Truef(t, slices.Equal(active, []string{porto.Fact}) && slices.Equal(superseded, []string{lyon.Fact}),
		"active %q, superseded %q", active, superseded)
	got := testkit.Ask[string](t, r.pool, `select string_agg(v.action, ' ' order by v.created_at, v.version) || ' ' ||
		(select count(*) from memory_sources s join memories m on m.id = s.memory_id where m.status = 'superseded') || ' ' ||
		(select bool_and(m.valid_to is not null and m.retracted_at is not null and m.superseded_by is not null) from memories m where m.status = 'superseded')
		from memory_revisions v join memories m on m.id = v.memory_id and m.status = 'superseded'`)
	assert.Equal(t, "ADD NOOP DELETE 2 true", got, "the history")
}

// An answer that is not of the form is asked for once more, with the reason.
func TestBrokenAnswerIsAskedForOnceMore(t *testing.T) {
	t.Parallel()
	asked := 0
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if asked++; asked == 1 {
			return offline.Answer{Text: "Here are the facts: none."}
		}
		return proposed(request, walnuts)
	}, nil)
	report := r.mustExtract(r.chat("I am allergic to walnuts."))
	requests := r.model.Requests()
	if report.Calls != 2 || report.Added != 1 || requests[0].Text != requests[1].Text || !strings.Contains(requests[1].Instructions, "could not be read") {
		t.Errorf("%+v, %q", report, requests[1].Instructions)
	}
}

// An app's own instructions take the place of ours, and the ledger names them.
func TestOwnInstructions(t *testing.T) {
	t.Parallel()
	r := newRig(t, proposing(nil, walnuts), func(c *longterm.Extractor) { c.Extraction = "Keep little.\n" })
	r.mustExtract(r.chat("I am allergic to walnuts."))
	ref := testkit.Ask[string](t, r.pool, "select prompt_ref from memory_extractions")
	told := r.model.Requests()[0].Instructions
	assert.Truef(t, told == "Keep little." && ref == "extract@custom-072c4345", "told %q, %s", told, ref)
}

// What cannot be used is tried again, and skipped by the last attempt. What is only away loses nothing.
func TestModelsThatFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer offline.Answer
		skips  bool
	}{
		"rubbish": {offline.Answer{Text: "I cannot do that."}, true},
		"503":     {offline.Answer{Fault: offline.Fault503, RetryAfter: "0.01"}, false},
		"hang":    {offline.Answer{Fault: offline.FaultHang}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testkit.InOrder(c.answer), func(c *longterm.Extractor) {
				if name == "hang" {
					c.CallTimeout = 300 * time.Millisecond
				}
			})
			chatID := r.chat("I am allergic to walnuts.")
			report, err := r.extract(chatID)
			assert.Truef(t, report.Result == work.Failed && err != nil && errors.Is(err, work.ErrBroken) == c.skips && !strings.Contains(err.Error(), "walnuts"),
				"first: %+v, %v", report, err)
			r.wantUnread()
			last, err := r.engine.Extract(t.Context(), chatID, work.Attempt{Last: true})
			if c.skips {
				assert.Truef(t, err == nil && last.Ledger == longterm.Skipped && last.SeqTo == 2, "last: %+v, %v", last, err)
				r.wantNoLease()
				testkit.Want(t, r.pool, 4, "select calls from memory_extractions") // of both attempts
				again, err := r.extract(chatID)
				assert.Truef(t, err == nil && again.Result == work.Nothing, "after the last: %+v, %v", again, err)
				return
			}
			assert.Truef(t, err != nil && last.Result == work.Refused, "last: %+v, %v", last, err)
			r.wantUnread()
			testkit.Want(t, r.pool, true, "select retry_at between now() + interval '9 min' and now() + interval '11 min' from throughline.work where kind = 'extract'")
		})
	}
}

// What the user does not want read is passed over, without a call.
func TestWhatIsSkipped(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"the chat is not remembered": "update chats set remember = false where id = $1",
		"memories are off":           "insert into memory_users (user_id, enabled) select user_id, false from chats where id = $1",
		"it is cleared":              "update conversation_briefs set cleared_seq = 4 where chat_id = $1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, proposing(nil, walnuts), nil)
			chatID := r.chat("I am allergic to walnuts.", "Yes.")
			testkit.Exec(t, r.pool, change, chatID)
			report := r.mustExtract(chatID)
			assert.Truef(t, report.Ledger == longterm.Skipped && report.SeqFrom == 1 && report.SeqTo == 4 && len(r.model.Requests()) == 0 && len(r.contents("")) == 0,
				"%+v, %d calls", report, len(r.model.Requests()))
		})
	}
}

// What was said while it was not to be remembered is no context of what is read later either, and neither is a brief of it.
func TestWhatWasSkippedIsNoContext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		off, on string
		shown   bool
	}{
		"the chat was temporary": {"update chats set remember = false where id = $1", "update chats set remember = true where id = $1", false},
		"memories were off": {"update memory_users set enabled = false where user_id = (select user_id from chats where id = $1)",
			"update memory_users set enabled = true where user_id = (select user_id from chats where id = $1)", false},
		"it was read": {"select $1::uuid", "select $1::uuid", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, proposing(nil), nil)
			testkit.Exec(t, r.pool, "insert into memory_users (user_id) values ($1)", r.user)
			chatID := r.chat()
			testkit.Exec(t, r.pool, c.off, chatID)
			r.say(chatID, "user", "I am seeing a heron doctor.")
			r.say(chatID, "assistant", "I hear you.")
			if c.shown {
				r.mustExtract(chatID)
			}
			testkit.Exec(t, r.pool, c.on, chatID)
			testkit.Exec(t, r.pool, `update conversation_briefs
				set covered_seq = 2, version = 1, brief = jsonb_set(brief, '{global_summary}', '"The user sees a heron doctor."') where chat_id = $1`, chatID)
			r.say(chatID, "user", "I play the cello.")
			r.say(chatID, "assistant", "I hear you.")
			report := r.mustExtract(chatID)
			require.Truef(t, report.SeqFrom == 3 && report.SeqTo == 4, "%+v", report)
			requests := r.model.Requests()
			last := requests[len(requests)-1].Text
			got := strings.Count(last, "heron doctor")
			assert.Truef(t, got == map[bool]int{true: 2}[c.shown] && strings.Contains(last, "I play the cello."), "%d of its words are shown: %s", got, last)
		})
	}
}

// A long chat is read in ranges that follow one after the other, and no words are read twice.
func TestRangesFollowOneAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, proposing(nil), func(c *longterm.Extractor) { c.MostTurns = 3 })
	var said []string
	for n := range 8 {
		said = append(said, fmt.Sprintf("This is message number %d.", n))
	}
	chatID := r.chat(said...)
	var got [][2]int64
	for {
		report, err := r.extract(chatID)
		require.NoError(t, err)
		if report.Result != work.Done {
			break
		}
		got = append(got, [2]int64{report.SeqFrom, report.SeqTo})
	}
	assert.Equal(t, [][2]int64{{1, 6}, {7, 12}, {13, 16}}, got)
	assert.Len(t, r.next, 2, "jobs that follow")
	for n, content := range said {
		read := 0
		for _, request := range r.model.Requests() {
			_, messages, _ := strings.Cut(request.Text, "NEW MESSAGES")
			read += strings.Count(messages, content)
		}
		assert.Truef(t, read == 1, "message %d was read %d times", n, read)
	}
}

// Messages off the path are not waited for: a chat that ends with them is read whole, and nothing of it is due.
func TestMessagesOffThePathAreNotDue(t *testing.T) {
	t.Parallel()
	r := newRig(t, proposing(nil), nil)
	chatID := r.chat("This stays.", "This was replaced.")
	offPath := func(condition string) {
		testkit.Exec(t, r.pool, "update messages set superseded_by = gen_random_uuid(), token_count = 0 where chat_id = $1 and "+condition, chatID)
	}
	offPath("seq > 2")
	report := r.mustExtract(chatID)
	assert.Equal(t, [2]int64{1, 2}, [2]int64{report.SeqFrom, report.SeqTo})
	assert.Empty(t, r.next, "jobs that follow")
	r.say(chatID, "user", "This was said and replaced before it was read.")
	offPath("seq > 4")
	testkit.Exec(t, r.pool, "update conversation_briefs set extract_due_at = now() where chat_id = $1", chatID)
	nothing, err := r.extract(chatID)
	require.Truef(t, err == nil && nothing.Result == work.Nothing, "%+v, %v", nothing, err)
	testkit.Want(t, r.pool, true, "select extract_due_at is null from conversation_briefs where chat_id = $1", chatID)
}

// A change made while the model works is noticed at the commit.
func TestWhatHappensWhileTheModelWorks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile string
		done      bool // the range is read all the same
	}{
		"the message is edited":      {"update messages set content = 'I like walnuts.' where chat_id = $1 and role = 'user'", true},
		"the chat is deleted":        {"delete from chats where id = $1", false},
		"the lease is lost":          {"update throughline.work set lease_token = gen_random_uuid() where key = $1", false},
		"somebody else has read it":  {"update conversation_briefs set extracted_seq = 2 where chat_id = $1", false},
		"it is skipped":              {"select throughline.skip_rest($1)", false},
		"the chat is not remembered": {"update chats set remember = false where id = $1", false},
		"the chat expires":           {"update chats set ttl_hours = 1, (created_at, last_message_at) = ('2020-01-01', '2020-01-01') where id = $1", false},
		"it is cleared":              {"update conversation_briefs set cleared_seq = 2 where chat_id = $1", false},
		"memories are switched off":  {"update memory_users set enabled = false where user_id = (select user_id from chats where id = $1)", false},
		"the subject is excluded":    {"update memory_users set excluded = '{walnuts}' where user_id = (select user_id from chats where id = $1)", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r *rig
			var chatID uuid.UUID
			r = newRig(t, func(request *offline.Request) offline.Answer {
				testkit.Exec(t, r.pool, c.meanwhile, chatID)
				return proposed(request, walnuts)
			}, nil)
			chatID = r.chat("I am allergic to walnuts.")
			report, err := r.extract(chatID)
			want := work.Conflict
			if c.done {
				want = work.Done
			}
			assert.Truef(t, err == nil && report.Result == want && report.Added == 0, "%+v, %v", report, err)
			assert.Empty(t, r.contents(""), "remembered")
		})
	}
}

// Memories that change while candidates are compared are compared again; a twin that was born meanwhile gets the source.
func TestMemoriesThatChangeWhileTheyAreCompared(t *testing.T) {
	t.Parallel()
	var r *rig
	r = newRig(t, proposing(func(*offline.Request) offline.Answer {
		testkit.Exec(t, r.pool, "insert into memories (user_id, content, origin) values ($1, $2, 'user') on conflict do nothing", r.user, "the user lives in porto")
		return answer(map[string]any{"decisions": []decision{{Candidate: "C1", Action: "ADD", Reason: "new"}}})
	}, lyon, porto), nil)
	r.mustExtract(r.chat("I live in Lyon."))
	report := r.mustExtract(r.chat("I moved to Porto."))
	assert.Truef(t, report.Rounds == 2 && report.Noops == 1 && report.Added == 0 && len(r.contents("active")) == 2, "%+v, %q", report, r.contents(""))
}

// What is uncertain, and what contradicts a memory that the user pinned, is for the user to decide, once however often the
// memories are compared.
func TestDoubtsAndConflictsGoToTheInbox(t *testing.T) {
	t.Parallel()
	var r *rig
	unsure := walnuts
	unsure.Confidence = 0.3
	r = newRig(t, proposing(func(*offline.Request) offline.Answer {
		testkit.Exec(t, r.pool, "insert into memories (user_id, content, origin) values ($1, $2, 'user') on conflict do nothing", r.user, "The user plays chess.")
		return answer(map[string]any{"decisions": []decision{{Candidate: "C1", Action: "DELETE", Memory: new("M1"), Reason: "moved"}}})
	}, porto, unsure), nil)
	testkit.Exec(t, r.pool, "insert into memory_users (user_id) values ($1)", r.user)
	testkit.Exec(t, r.pool, "insert into memories (user_id, content, origin, pinned) values ($1, $2, 'user', true)", r.user, lyon.Fact)
	report := r.mustExtract(r.chat("I moved to Porto.", "Perhaps I am allergic to walnuts."))
	dropped := testkit.Ask[string](t, r.pool, "select dropped::text from memory_extractions")
	testkit.Want(t, r.pool, lyon.Fact, `select k.content from memories m join memories k on k.id = m.conflicts_with
		where m.status = 'inbox' and m.content like '%Porto%'`)
	if len(r.contents("inbox")) != 2 || dropped != "{}" || report.Rounds != 2 || report.Added != 2 || !slices.Contains(r.contents("active"), lyon.Fact) {
		t.Errorf("%+v, %q in the inbox, dropped %s", report, r.contents("inbox"), dropped)
	}
}

// A memory that a reply used is touched; one that was merely shown is not, and neither gets a version.
func TestMemoriesThatRepliesUse(t *testing.T) {
	t.Parallel()
	r := newRig(t, proposing(nil), nil)
	testkit.Exec(t, r.pool, "insert into memory_users (user_id) values ($1)", r.user)
	add := func(content string) uuid.UUID {
		return testkit.Ask[uuid.UUID](t, r.pool, "insert into memories (user_id, content, origin) values ($1, $2, 'user') returning id", r.user, content)
	}
	used, shown := add("The user is allergic to walnuts."), add("The user plays the violoncello.")
	chatID := r.chat("May I eat this marzipan cake?")
	testkit.Exec(t, r.pool, `update messages set content = 'No: you are allergic to walnuts.',
		metadata = jsonb_build_object('memory', jsonb_build_object('memories', $2::uuid[]))
		where chat_id = $1 and role = 'assistant'`, chatID, []uuid.UUID{used, shown})
	testkit.Exec(t, r.pool, `update messages set reply_to = (select id from messages where chat_id = $1 and role = 'user')
		where chat_id = $1 and role = 'assistant'`, chatID)
	report := r.mustExtract(chatID)
	got := testkit.Ask[string](t, r.pool,
		"select string_agg(access_count || '/' || version || '/' || (last_accessed is not null), ' ' order by content) from memories")
	assert.Truef(t, report.Used == 1 && got == "1/1/true 0/1/false", "%+v, touched %s", report, got)
}

// What Postgres, or a rule of the app's owner, does not take of an extraction is left out, and the ledger says so: the rest is
// remembered, and the model is not asked for the same again. So it is where there is no room for more.
func TestWhatCannotBeStoredIsLeftOut(t *testing.T) {
	t.Parallel()
	for reason, rule := range map[string]string{
		"unstorable": `create function public.no_viola() returns trigger language plpgsql as $$
			begin if new.content ~ 'viola' then raise numeric_value_out_of_range; end if; return new; end $$;
			create trigger no_viola before insert on memories for each row execute function public.no_viola()`,
		"full": `insert into memory_users (user_id) select id from auth.users;
			insert into memories (user_id, content) select u.user_id, 'Has number ' || n from memory_users u, generate_series(1, 9999) n`,
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, proposing(nil, proposal("The user plays the cello.", "I play the cello"), proposal("The user plays the viola.", "I play the viola")), nil)
			testkit.Exec(t, r.pool, rule)
			chatID := r.chat("I play the cello.", "I play the viola.")
			report := r.mustExtract(chatID)
			assert.Equal(t, 1, report.Added)
			testkit.Want(t, r.pool, 1, "select (dropped ->> $1)::int from memory_extractions where result = 'done' and added = 1", reason)
			testkit.Want(t, r.pool, 1, "select count(*) from memories where content like 'The user plays %'")
			r.wantNoLease()
		})
	}
}
