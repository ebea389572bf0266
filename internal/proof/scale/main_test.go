package main

import (
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// All parts run, with tiny sizes, and every figure is a number.
func TestEveryFigureIsPrinted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), []string{"-quick", "-layouts", "plain,hash3"}, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(out.String()) {
		if fields := strings.Fields(line); len(fields) > 2 && strings.HasPrefix(line, "  ") {
			lines[strings.Join(fields[:2], " ")] = line
		}
		if strings.Contains(line, "  -\n") || strings.Contains(line, "NaN") {
			t.Errorf("no figure: %q", line)
		}
	}
	for _, beginning := range []string{
		"table, MB", "start a", "save the", "find a", "turns of", "WAL per", "cache hits", "save by", "read the", "memory of", "vacuum of",
		"erase a", "full-text index", "users that", "most turns",
	} {
		if lines[beginning] == "" {
			t.Errorf("there is no line %q in:\n%s", beginning, out.String())
		}
	}
	if got := strings.Fields(lines["pieces that"]); got[len(got)-2] != "1" || got[len(got)-1] != "3" {
		t.Errorf("pieces of the two layouts: %v", got)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-only", "everything"}, {"-layouts", "plain,hash0"}, {"-layouts", "hash"}, {"-layouts", "weeks"}, {"-rows", "10"}, {"more"},
		{"-only", "capacity"},
	} {
		if err := run(t.Context(), append(args, "-quick=false"), io.Discard, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestKeyOfAUniqueIndex(t *testing.T) {
	t.Parallel()
	const where = " WHERE (client_message_id IS NOT NULL)"
	for index, want := range map[string]string{
		"CREATE UNIQUE INDEX a ON public.messages USING btree (id)":                                      "CREATE UNIQUE INDEX a ON public.messages USING btree (id, chat_id)",
		"CREATE UNIQUE INDEX b ON public.messages USING btree (chat_id, seq)":                            "CREATE UNIQUE INDEX b ON public.messages USING btree (chat_id, seq)",
		"CREATE UNIQUE INDEX c ON public.messages USING btree (user_id, client_message_id)" + where:      "CREATE UNIQUE INDEX c ON public.messages USING btree (user_id, client_message_id, chat_id)" + where,
		"CREATE INDEX d ON public.messages USING gin (f(user_id))":                                       "CREATE INDEX d ON public.messages USING gin (f(user_id))",
		"CREATE UNIQUE INDEX e ON public.messages USING btree (chat_id) WHERE (status = 'streaming'::t)": "CREATE UNIQUE INDEX e ON public.messages USING btree (chat_id) WHERE (status = 'streaming'::t)",
	} {
		if got := withKey(index, "chat_id"); got != want {
			t.Errorf("%s became %s", index, got)
		}
		if got := withKey(index, ""); got != index {
			t.Errorf("%s became %s in the plain table", index, got)
		}
	}
}

// A layout that lost a policy or a trigger would be faster than what it is compared with.
func TestLayoutKeepsPoliciesAndTriggers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "hash3", "months"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testkit.NewDatabase(t)
			d := &database{server: db.Direct(), admin: testkit.Connect(t, db.AdminDSN)}
			before, err := readDependents(t.Context(), d.admin)
			if err != nil {
				t.Fatal(err)
			}
			l, err := layoutNamed(name)
			if err != nil {
				t.Fatal(err)
			}
			later, err := l.apply(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.do(t.Context(), later...); err != nil {
				t.Fatal(err)
			}
			after, err := readDependents(t.Context(), d.admin)
			if err != nil {
				t.Fatal(err)
			}
			if len(before.indexes) == 0 || len(after.indexes) != len(before.indexes) || len(after.foreignKeys) != len(before.foreignKeys) {
				t.Errorf("%d indexes and %d foreign keys, want %d and %d", len(after.indexes), len(after.foreignKeys), len(before.indexes), len(before.foreignKeys))
			}
			if len(after.others) != len(before.others) {
				t.Errorf("triggers, policies and grants: %q, want %q", after.others, before.others)
			}
			checkOwnRowsOnly(t, db)
		})
	}
}

// checkOwnRowsOnly writes as one user and reads as another; the triggers number the messages.
func checkOwnRowsOnly(t *testing.T, db testkit.Database) {
	t.Helper()
	// The role is the connection's, as no transaction of the server ever leaves it.
	conn := testkit.Connect(t, db.Direct())
	owner, stranger, chat := testkit.NewUser(t, db), testkit.NewUser(t, db), uuid.New()
	act := func(user uuid.UUID) {
		testkit.Exec(t, conn, "select set_config('role', 'throughline_app', false), set_config('request.jwt.claims', jsonb_build_object('sub', $1::text)::text, false)", user.String())
	}
	act(owner)
	testkit.Exec(t, conn, "insert into chats (id, user_id) values ($1, $2)", chat, owner)
	testkit.Exec(t, conn, "insert into messages (chat_id, role, content) values ($1, 'user', 'One.'), ($1, 'assistant', 'Two.')", chat)
	const count = "select count(*) filter (where m.seq in (1, 2)) from messages m join chats c on c.id = m.chat_id and c.last_seq = 2"
	if got := testkit.Ask[int](t, conn, count); got != 2 {
		t.Errorf("the owner sees %d messages in their places, want 2", got)
	}
	act(stranger)
	if got := testkit.Ask[int](t, conn, "select count(*) from messages"); got != 0 {
		t.Errorf("a stranger sees %d messages", got)
	}
	if _, err := conn.Exec(t.Context(), "insert into messages (chat_id, role) values ($1, 'user')", chat); err == nil {
		t.Error("a stranger wrote into the chat")
	}
}

// The filled table is what the triggers would have made of it.
func TestFilledTableIsConsistent(t *testing.T) {
	t.Parallel()
	db := testkit.NewDatabase(t)
	d := &database{server: db.Direct(), admin: testkit.Connect(t, db.AdminDSN)}
	if err := fill(t.Context(), d, tiny, nil); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Ask[int](t, d.admin, "select count(*) from messages"); math.Abs(float64(n-tiny.rows)) > float64(tiny.rows)/longShare+chatMessages {
		t.Errorf("%d messages, want about %d", n, tiny.rows)
	}
	const wrong = `
		select count(*) from chats c join conversation_briefs b on b.chat_id = c.id
		 cross join lateral (select count(*) as n, max(seq) as last, sum(token_count) filter (where seq > b.covered_seq) as tokens,
		     count(*) filter (where seq > b.covered_seq and role = 'user' and token_count > 0) as turns, bool_and(m.user_id = c.user_id) as theirs from messages m where m.chat_id = c.id) real
		 where (c.message_count, c.last_seq, b.pending_tokens, b.pending_turns, true) is distinct from (real.n, real.last, real.tokens, real.turns, real.theirs)`
	if n := testkit.Ask[int](t, d.admin, wrong); n != 0 {
		t.Errorf("%d chats do not agree with their messages", n)
	}
	spoken := testkit.Ask[int](t, d.admin, "select count(*) from messages a join messages b on b.chat_id = a.chat_id and b.seq > a.seq and b.created_at < a.created_at")
	if spoken != 0 {
		t.Errorf("%d messages are older than one before them", spoken)
	}
}
