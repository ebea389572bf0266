package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
)

// keep stores a chat of a user with these messages, alternately of user and assistant.
func (b *bed) keep(user auth.Principal, contents ...string) uuid.UUID {
	b.t.Helper()
	chatID := ask[uuid.UUID](b, "insert into chats (user_id, title) values ($1, 'a chat') returning id", user.UserID)
	b.exec(`insert into messages (chat_id, user_id, role, content, created_at)
		select $1, $2, case when place % 2 = 1 then 'user' else 'assistant' end, content, timestamptz '2026-11-20' + place * interval '1 hour'
		  from unnest($3::text[]) with ordinality said (content, place) order by place`, chatID, user.UserID, contents)
	return chatID
}

// searches returns the store, without rebuilds: these tests delete no messages.
func (b *bed) searches() *History { return NewHistory(b.pool, memory.Limits{}, Enqueue{}, nil) }

// found returns the contents of the messages that a search finds.
func (b *bed) found(query history.SearchQuery) []string {
	b.t.Helper()
	if query.Limit == 0 {
		query.Limit = history.MaxSearchResults
	}
	results, err := b.searches().Search(b.t.Context(), b.user, query)
	if err != nil {
		b.t.Fatal(err)
	}
	contents := []string{}
	for _, result := range results {
		contents = append(contents, ask[string](b, "select content from messages where id = $1", result.MessageID))
	}
	return contents
}

func (b *bed) wantFound(query string, want ...string) {
	b.t.Helper()
	got := b.found(history.SearchQuery{Text: query})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Errorf("%s finds %q, not %q", query, got, want)
	}
}

func TestSearchInManyLanguages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	english, german, russian := "I kept running scales in Bath", "Die Übung für das Handgelenk", "Мой учитель играет на виолончели"
	arabic, hindi := "أعزف على العود كل يوم", "मैं रोज़ हिन्दी में अभ्यास करता हूँ"
	japanese, chinese := "東京タワーの近くでチェロを弾く", "我每天在北京大学练习大提琴"
	thai, korean := "วันนี้ฉันซ้อมเชลโล", "나는 매일 첼로를 연습한다"
	b.keep(b.user, english, german, russian, arabic, hindi, japanese, chinese, thai, korean)
	b.wantFound("run", english)
	b.wantFound("RUNS", english)
	b.wantFound("scale", english)
	b.wantFound("übung", german)
	b.wantFound("handgelenk", german)
	b.wantFound("виолончели", russian)
	b.wantFound("العود", arabic)
	b.wantFound("हिन्दी", hindi)
	b.wantFound("東京", japanese)
	b.wantFound("チェロ", japanese)
	b.wantFound("京東")
	b.wantFound("北京", chinese)
	b.wantFound("大提琴", chinese)
	b.wantFound("提大琴")
	b.wantFound("京", japanese, chinese)
	b.wantFound("เชลโล", thai)
	b.wantFound("วันนี้", thai)
	b.wantFound("첼로", korean)
	b.wantFound("매일 연습", korean)
	b.wantFound("북경")
}

func TestSearchOperators(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	slow, fast, both := "a slow scale", "a fast scale", "slow and then fast"
	b.keep(b.user, slow, fast, both, "東京と大阪", "東京だけ")
	b.wantFound("slow scale", slow)
	b.wantFound("slow fast", both)
	b.wantFound("slow or fast", slow, fast, both)
	b.wantFound("slow -scale", both)
	b.wantFound(`"slow scale"`, slow)
	b.wantFound(`"scale slow"`)
	b.wantFound(`"slow and then"`, both)
	b.wantFound("東京 -大阪", "東京だけ")
	b.wantFound("大阪 or slow", "東京と大阪", slow, both)
	b.wantFound(`"slow scale`, slow)
	b.wantFound("“slow scale”", slow)
	b.wantFound(`"slow and scale"`)
	b.wantFound(`"and slow"`)
	b.wantFound("slow -and", slow)
	b.wantFound("a", slow, fast) // words that English leaves out are words
	b.wantFound("is there slow", slow, both)
	for _, nothing := range []string{"!?", "…", `""`, "-", "🙂", "\u0001", "( | & ) :*", "'; drop table messages; --"} {
		b.wantFound(nothing)
	}
}

// A phrase is matched within the message: its last and first word are not adjacent.
func TestSearchPhraseDoesNotGoAround(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.keep(b.user, "京東", "bow my")
	b.wantFound("東京")
	b.wantFound(`"my bow"`)
	b.wantFound(`"bow my"`, "bow my")
}

func TestSearchIsOfTheUserAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stranger := b.newUser()
	theirs := b.keep(stranger, "my secret scale", "yes")
	mine := b.keep(b.user, "my scale")
	b.wantFound("scale", "my scale")
	b.wantFound("-bow", "my scale")
	confused := auth.Principal{UserID: stranger.UserID, Claims: b.user.Claims} // a mistake of ours
	got, err := b.searches().Search(t.Context(), confused, history.SearchQuery{Text: "scale", Limit: 10})
	if err != nil || len(got) != 1 || got[0].ChatID != mine {
		t.Errorf("%+v, %v", got, err)
	}
	for _, chatID := range []uuid.UUID{theirs, uuid.New()} {
		got, err := b.searches().Search(t.Context(), b.user, history.SearchQuery{Text: "scale", ChatID: chatID, Limit: 10})
		if fault.CodeOf(err) != fault.ChatNotFound || len(got) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// Without claims no message is found.
func TestSearchOfNobody(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.keep(b.user, "my scale")
	for _, claims := range []string{"", "{}", `{"sub": null}`} {
		got, err := b.searches().Search(t.Context(), auth.Principal{Claims: claims}, history.SearchQuery{Text: "scale", Limit: 10})
		if err != nil || len(got) != 0 {
			t.Errorf("%q: %+v, %v", claims, got, err)
		}
	}
}

func TestSearchFilters(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.keep(b.user, "scale one", "scale two", "scale three", "scale four")
	b.keep(b.user, "scale five")
	at := func(hour int) *time.Time {
		moment := time.Date(2026, 11, 20, hour, 0, 0, 0, time.UTC)
		return &moment
	}
	b.exec("update messages set created_at = created_at + interval '1 day' where content = 'scale five'")
	for _, c := range []struct {
		query history.SearchQuery
		want  []string
	}{
		{history.SearchQuery{ChatID: first}, []string{"scale four", "scale three", "scale two", "scale one"}},
		{history.SearchQuery{Role: "assistant"}, []string{"scale four", "scale two"}},
		{history.SearchQuery{Role: "tool"}, []string{}},
		{history.SearchQuery{After: at(3)}, []string{"scale five", "scale four", "scale three"}},
		{history.SearchQuery{Before: at(3)}, []string{"scale two", "scale one"}},
		{history.SearchQuery{After: at(2), Before: at(4), Role: "user"}, []string{"scale three"}},
		{history.SearchQuery{Limit: 2}, []string{"scale five", "scale four"}},
	} {
		c.query.Text = "scale"
		if diff := cmp.Diff(c.want, b.found(c.query)); diff != "" {
			t.Errorf("%+v: %s", c.query, diff)
		}
	}
}

// Words that are closer together rank higher, and among equals the newer message.
func TestSearchRanks(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	far, older, newer, twice := "bow and very much else before the scale", "a bow scale", "my bow scale", "bow scale, bow scale"
	b.keep(b.user, older, far, twice, newer)
	if diff := cmp.Diff([]string{twice, newer, older, far}, b.found(history.SearchQuery{Text: "bow scale"})); diff != "" {
		t.Error(diff)
	}
}

// Expired, deleted, superseded and running messages are not found, and expired ones do not crowd out others.
func TestSearchLeavesOut(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.keep(b.user, "live scale", "superseded scale", "deleted scale", "another scale")
	b.exec(`update messages set superseded_by = (select id from messages where content = 'another scale') where content = 'superseded scale'`)
	b.exec(`delete from messages where content = 'deleted scale'`)
	many := make([]string, history.SearchCandidates)
	for i := range many {
		many[i] = fmt.Sprintf("expired scale %d", i)
	}
	expired := b.keep(b.user, many...)
	b.exec(`update chats set ttl_hours = 1, created_at = now() - interval '1 day', last_message_at = now() - interval '2 hours' where id = $1`, expired)
	running := turnIn(b.keep(b.user), "running scale")
	b.start(running)
	b.wantFound("scale", "live scale", "another scale", "running scale")
	_, err := b.searches().Search(t.Context(), b.user, history.SearchQuery{Text: "scale", ChatID: expired, Limit: 10})
	if fault.CodeOf(err) != fault.ChatExpired {
		t.Errorf("in an expired chat: %v", err)
	}
	b.exec("update chats set revived_at = now() where id = $1", expired)
	if got := b.found(history.SearchQuery{Text: "scale", ChatID: expired}); len(got) != history.MaxSearchResults {
		t.Errorf("after it was brought back: %d", len(got))
	}
	b.exec("delete from chats where id = $1", expired)
	b.wantFound("scale", "live scale", "another scale", "running scale")
}

func TestSearchSnippets(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	long := strings.Repeat("Many words about nothing at all. ", 100)
	for query, c := range map[string]struct {
		content, snippet string
		words            []string
	}{
		"run scale":   {"I run scales and I am running <b>late</b>", "I run scales and I am running  late ", []string{"run", "scales", "running"}},
		"東京":          {"これは東京タワーです", "これは東京タワーです", []string{"東京"}},
		"クラスA":        {"このクラスAのクラス", "このクラスAのクラス", nil},
		"метроном":    {"Это 👩‍👩‍👧 метроном", "Это 👩‍👩‍👧 метроном", []string{"метроном"}},
		"tension":     {"tension \uE000here\uE001 \x01 and", "tension \uFFFDhere\uFFFD and", []string{"tension"}},
		"the":         {"over the hill", "over the hill", []string{"the"}},
		`"of thumbs"`: {"bunch of thumbs of thumb", "bunch of thumbs of thumb", nil},
		"shoulder":    {long + "the left shoulder again " + long, "", []string{"shoulder"}},
	} {
		b.exec("delete from messages")
		b.keep(b.user, c.content)
		got, err := b.searches().Search(t.Context(), b.user, history.SearchQuery{Text: query, Limit: 1})
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %+v, %v", query, got, err)
		}
		if c.snippet != "" && got[0].Snippet.Text != strings.TrimSpace(c.snippet) {
			t.Errorf("%s: the snippet is %q", query, got[0].Snippet.Text)
		}
		if n := len([]rune(got[0].Snippet.Text)); n > 600 {
			t.Errorf("%s: the snippet has %d characters", query, n)
		}
		var words []string
		for _, h := range got[0].Highlights {
			words = append(words, string([]rune(got[0].Snippet.Text)[h.Start:h.End]))
		}
		if c.words != nil && !slices.Equal(words, c.words) || len(words) == 0 {
			t.Errorf("%s: %q is highlighted in %q", query, words, got[0].Snippet.Text)
		}
	}
}

// The migration and the query agree on which characters stand by themselves.
func TestSearchSplitsTheSameCharacters(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var all []rune
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if utf8.ValidRune(r) {
			all = append(all, r)
		}
	}
	for chunk := range slices.Chunk(all, 50_000) {
		rest := ask[string](b, "select throughline.searchable($1)", string(chunk))
		for _, r := range chunk {
			after, apart := strings.CutPrefix(rest, "\x01 "+string(r)+"\x01 ")
			if !apart {
				after = strings.TrimPrefix(rest, string(r))
			}
			if want := strings.Contains(history.WebSearch(string([]rune{r, r})), string([]rune{r, ' ', r})); apart != want {
				t.Fatalf("%U: apart %v, in a query %v", r, apart, want)
			}
			rest = after
		}
	}
}

// A message with more different words than a full-text index takes is stored all the same, and found by its
// beginning.
func TestSearchOfHugeMessages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, word := range map[string]func(i int) string{
		"words":     func(i int) string { return fmt.Sprintf("w%d", i) },
		"hyphens":   func(i int) string { return fmt.Sprintf("𐐀%d-𐐁%d", i, i) },
		"addresses": func(i int) string { return fmt.Sprintf("http://a%d.com/b%d", i, i) },
		"a letter":  func(int) string { return "ə" },
	} {
		var content strings.Builder
		content.WriteString(name + " begins ")
		for i := 0; content.Len() < 3_000_000; i++ {
			content.WriteString(word(i))
			if name != "a letter" {
				content.WriteByte(' ')
			}
		}
		b.keep(b.user, content.String())
		if got := b.found(history.SearchQuery{Text: `"` + name + ` begins"`}); len(got) != 1 {
			t.Errorf("%s: found %d", name, len(got))
		}
	}
}

// For a user with few messages among many, the index of turns is used, and returns no rows of others.
func TestSearchUsesTheIndex(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.fill(200, 100)
	b.user = b.newUser()
	b.keep(b.user, slices.Repeat([]string{"some words and a scale"}, 300)...)
	b.keep(b.user, "not indexed yet")
	b.exec("select throughline.index_chat(chat_id, null) from conversation_briefs b where exists (select from messages m where m.chat_id = b.chat_id and m.seq > 1)")
	b.exec("vacuum analyze messages, turn_index, conversation_briefs") // which also takes in what the index has put off
	var plan string
	err := b.inTxAs(b.user, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "select set_config('role', 'none', true), set_config('enable_seqscan', 'off', true)"); err != nil {
			return err
		}
		plan = explain(t, tx, searchFunctionBody(t, b), "'word'", uuid.NullUUID{}, (*string)(nil), (*time.Time)(nil), (*time.Time)(nil), 500)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plan, "turn_index_tsv_idx") || !strings.Contains(plan, "messages_system_idx") || strings.Contains(plan, "Seq Scan") || mostRows(t, plan) > 300 {
		t.Error(plan)
	}
	err = b.inTxAs(b.user, func(tx pgx.Tx) error {
		plan := explainQueued(t, tx, queue(&pgx.Batch{}, queries.SearchMessages, dbsqlc.SearchMessagesParams{
			Query: "words", AsQuestion: true, Candidates: 500, Most: 20,
		}))
		if strings.Contains(plan, "Seq Scan on messages") || mostRows(t, plan) > 500 {
			t.Error(plan)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// searchFunctionBody is the statement within throughline.find_messages, with numbers for its parameters:
// what happens within a function is in no plan.
func searchFunctionBody(t *testing.T, b *bed) string {
	t.Helper()
	body := ask[string](b, "select prosrc from pg_proc where oid = 'throughline.find_messages'::regproc")
	_, body, _ = strings.Cut(body, "return query\n")
	body, _, _ = strings.Cut(body, ";\nend")
	for _, c := range []struct{ name, value string }{
		{"asking", "auth.uid()"}, {"among", "(own && query)"}, {"own", "quote_literal('user ' || auth.uid())::tsquery"}, {"wanted", "query"}, {"ordered", "false"},
		{"query", "$1::tsquery"}, {"in_chat", "$2::uuid"}, {"with_role", "$3::text"}, {"since", "$4::timestamptz"}, {"until", "$5::timestamptz"}, {"most", "$6::int"},
	} {
		replaced := regexp.MustCompile(`\b`+c.name+`\b`).ReplaceAllLiteralString(body, c.value)
		if replaced == body {
			t.Fatalf("%s is not in %s", c.name, body)
		}
		body = replaced
	}
	return body
}

// The entries of turns that were just indexed are found at once. The sweep merges them, not the turn that happens to
// fill a list.
func TestSearchEntriesAreMergedOffTheTurn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.keepIndexed(b.user, "The scale of C sharp minor", "Slowly, then")
	b.wantFound("minor", "The scale of C sharp minor")
	if err := NewMaintenance(b.pool, b.limits).MergeSearchEntries(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pages := ask[int](b, "select gin_clean_pending_list('turn_index_tsv_idx')"); pages != 0 {
		t.Errorf("%d pages still wait", pages)
	}
	b.wantFound("minor", "The scale of C sharp minor")
	b.keepIndexed(b.user, "The scale of D minor", "Slowly, then")
	if pages := ask[int](b, "select gin_clean_pending_list('turn_index_tsv_idx')"); pages == 0 {
		t.Error("the second chat's words did not wait")
	}
}
