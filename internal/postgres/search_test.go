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

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
)

// keep stores a chat of a user with these messages, alternately of user and assistant.
func (b *bed) keep(user auth.Principal, contents ...string) uuid.UUID {
	chatID := ask[uuid.UUID](b, "insert into chats (user_id, title) values ($1, 'a chat') returning id", user.UserID)
	b.exec(`insert into messages (chat_id, user_id, role, content, created_at)
		select $1, $2, case when place % 2 = 1 then 'user' else 'assistant' end, content, timestamptz '2026-11-20' + place * interval '1 hour'
		  from unnest($3::text[]) with ordinality said (content, place) order by place`, chatID, user.UserID, contents)
	return chatID
}

// searches returns the store, without folds: these tests change no messages.
func (b *bed) searches() *History { return NewHistory(b.server, memory.Limits{}, Enqueue{}) }

// found returns the contents of the messages that a search finds.
func (b *bed) found(query api.SearchQuery) []string {
	if query.Limit == 0 {
		query.Limit = 100
	}
	results := must(b.searches().Search(b.t.Context(), b.user, query))(b.t)
	contents := []string{}
	for _, result := range results {
		contents = append(contents, ask[string](b, "select content from messages where id = $1", result.MessageID))
	}
	return contents
}

func (b *bed) wantFound(query string, want ...string) {
	b.t.Helper()
	got := b.found(api.SearchQuery{Text: query})
	slices.Sort(got)
	slices.Sort(want)
	is(b.t, got, want, "%s finds", query)
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
	// Words that are closer together rank higher, and among equals the newer message.
	far, older, newer, twice := "bow and very much else before the ladder", "a bow ladder", "my bow ladder", "bow ladder, bow ladder"
	b.keep(b.user, older, far, twice, newer)
	is(t, b.found(api.SearchQuery{Text: "bow ladder"}), []string{twice, newer, older, far}, "the result")
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
	got := must(b.searches().Search(t.Context(), confused, api.SearchQuery{Text: "scale", Limit: 10}))(t)
	is(t, tuple(len(got), got[0].ChatID), tuple(1, mine), "%+v", got)
	for _, chatID := range []uuid.UUID{theirs, uuid.New()} {
		got, err := b.searches().Search(t.Context(), b.user, api.SearchQuery{Text: "scale", ChatID: chatID, Limit: 10})
		is(t, tuple(fault.CodeOf(err), len(got)), tuple(fault.ChatNotFound, 0), "%+v, %v", got, err)
	}
}

// The parameters of a search, by which messages are found by all words or by any; the matches of every word are marked.
func TestSearchFilters(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.keep(b.user, "scale one", "scale two", "scale three", "scale four")
	b.keep(b.user, "scale five")
	expired := b.keep(b.user, "an expired scale")
	shelf{bed: b}.expire(expired)
	b.keep(b.newUser(), "another user's scale")
	at := func(hour int) *time.Time { return new(time.Date(2026, 11, 20, hour, 0, 0, 0, time.UTC)) }
	b.exec("update messages set created_at = created_at + interval '1 day' where content = 'scale five'")
	for _, c := range []struct {
		query api.SearchQuery
		want  []string
	}{
		{api.SearchQuery{ChatID: first}, []string{"scale four", "scale three", "scale two", "scale one"}},
		{api.SearchQuery{Role: "assistant"}, []string{"scale four", "scale two"}},
		{api.SearchQuery{Role: "tool"}, []string{}},
		{api.SearchQuery{After: at(3)}, []string{"scale five", "scale four", "scale three"}},
		{api.SearchQuery{Before: at(3)}, []string{"scale two", "scale one"}},
		{api.SearchQuery{After: at(2), Before: at(4), Role: "user"}, []string{"scale three"}},
		{api.SearchQuery{Limit: 2}, []string{"scale five", "scale four"}},
	} {
		for mode, text := range map[string]string{"": "scale", api.ModeAny: "scales bow"} {
			c.query.Text, c.query.Mode = text, mode
			is(t, b.found(c.query), c.want, "%+v", c.query)
		}
	}
	query := api.SearchQuery{Text: "scale one", Mode: api.ModeAny, ChatID: first, Limit: 1}
	results := must(b.searches().Search(t.Context(), b.user, query))(t)
	mustBe(t, len(results), 1, "%+v", results)
	is(t, tuple(len(results[0].Highlights), results[0].Snippet.Text, results[0].Rank > 0), tuple(2, "scale one", true), "%+v", results)
	query.ChatID = uuid.New()
	wantFault(t, errOf(b.searches().Search(t.Context(), b.user, query)), fault.ChatNotFound, "an unknown chat")
}

// Expired, deleted, superseded and running messages are not found, and expired ones do not crowd out others.
func TestSearchLeavesOut(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.keep(b.user, "live scale", "superseded scale", "deleted scale", "another scale")
	b.exec(`update messages set superseded_by = (select id from messages where content = 'another scale') where content = 'superseded scale'`)
	b.exec(`delete from messages where content = 'deleted scale'`)
	many := make([]string, api.SearchCandidates)
	for i := range many {
		many[i] = fmt.Sprintf("expired scale %d", i)
	}
	expired := b.keep(b.user, many...)
	b.exec(`update chats set ttl_hours = 1, created_at = now() - interval '1 day', last_message_at = now() - interval '2 hours' where id = $1`, expired)
	running := turnIn(b.keep(b.user), "running scale")
	b.start(running)
	b.wantFound("scale", "live scale", "another scale", "running scale")
	_, err := b.searches().Search(t.Context(), b.user, api.SearchQuery{Text: "scale", ChatID: expired, Limit: 10})
	is(t, fault.CodeOf(err), fault.ChatExpired, "in an expired chat: %v", err)
	b.exec("update chats set revived_at = now() where id = $1", expired)
	is(t, len(b.found(api.SearchQuery{Text: "scale", ChatID: expired})), 100, "after it was brought back")
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
		got, err := b.searches().Search(t.Context(), b.user, api.SearchQuery{Text: query, Limit: 1})
		mustBe(t, tuple(err, len(got)), tuple(nil, 1), "%s", query)
		if c.snippet != "" && got[0].Snippet.Text != strings.TrimSpace(c.snippet) {
			t.Errorf("%s: the snippet is %q", query, got[0].Snippet.Text)
		}
		n := len([]rune(got[0].Snippet.Text))
		assert.Truef(t, n <= 600, "%s: the snippet has %d characters", query, n)
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
			want := strings.Contains(api.WebSearch(string([]rune{r, r})), string([]rune{r, ' ', r}))
			mustBe(t, apart, want, "%U: apart …, in a query", r)
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
		is(t, len(b.found(api.SearchQuery{Text: `"` + name + ` begins"`})), 1, "%s: found", name)
	}
}

// For a user with few messages among many, the index of turns is used, and returns no rows of others.
func TestSearchUsesTheIndex(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	b.fill(200, 100)
	b.user = b.newUser()
	b.keep(b.user, slices.Repeat([]string{"some words and a scale"}, 300)...)
	b.keep(b.user, "not indexed yet")
	b.exec(`select throughline.index_chat(chat_id, null) from conversation_briefs b where exists (select from messages m where m.chat_id = b.chat_id
		and m.seq > 1)`)
	b.exec("vacuum analyze messages, turn_index, conversation_briefs") // which also takes in what the index has put off
	tx := b.begin()
	noError(t, actAs(t.Context(), tx, b.user))
	search := dbsqlc.SearchMessages.Queue(&pgx.Batch{}, dbsqlc.SearchMessagesParams{Query: "words", AsQuestion: true, Candidates: 500, Most: 20})
	if plan := explain(t, tx, search.SQL, search.Arguments...); strings.Contains(plan, "Seq Scan on messages") || mostRows(t, plan) > 500 {
		t.Error(plan)
	}
	mustExec(t, tx, "select set_config('role', 'none', true), set_config('enable_seqscan', 'off', true)")
	plan := explain(t, tx, searchFunctionBody(t, b), "'word'", uuid.NullUUID{}, (*string)(nil), (*time.Time)(nil), (*time.Time)(nil), 500)
	if !strings.Contains(plan, "turn_index_tsv_idx") || !strings.Contains(plan, "messages_system_idx") || strings.Contains(plan, "Seq Scan") ||
		mostRows(t, plan) > 300 {
		t.Error(plan)
	}
}

// searchFunctionBody is the statement within throughline.find_messages, with numbers for its parameters:
// what happens within a function is in no plan.
func searchFunctionBody(t *testing.T, b *bed) string {
	body := ask[string](b, "select prosrc from pg_proc where oid = 'throughline.find_messages'::regproc")
	_, body, _ = strings.Cut(body, "return query\n")
	body, _, _ = strings.Cut(body, ";\nend")
	for _, c := range []struct{ name, value string }{
		{"asking", "throughline.uid()"}, {"among", "(own && query)"},
		{"own", "quote_literal('user ' || throughline.uid())::tsquery"}, {"wanted", "query"}, {"ordered", "false"},
		{"query", "$1::tsquery"}, {"in_chat", "$2::uuid"}, {"with_role", "$3::text"}, {"since", "$4::timestamptz"}, {"until", "$5::timestamptz"}, {"most", "$6::int"},
	} {
		replaced := regexp.MustCompile(`\b`+c.name+`\b`).ReplaceAllLiteralString(body, c.value)
		require.Truef(t, replaced != body, "%s is not in %s", c.name, body)
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
	noError(t, NewMaintenance(b.pool, b.limits).MergeSearchEntries(t.Context()))
	is(t, ask[int](b, "select gin_clean_pending_list('turn_index_tsv_idx')"), 0, "pages still wait")
	b.wantFound("minor", "The scale of C sharp minor")
	b.keepIndexed(b.user, "The scale of D minor", "Slowly, then")
	assert.True(t, ask[int](b, "select gin_clean_pending_list('turn_index_tsv_idx')") != 0,
		"the second chat's words did not wait")
}

// foundAny returns the contents that a search for any of the words finds, the best first.
func (b *bed) foundAny(query string) []string {
	return b.found(api.SearchQuery{Text: query, Mode: api.ModeAny})
}

// Messages with more of the words, and with rarer ones, come first; the mode all finds none of them.
func TestSearchForAnyWord(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	rare, both, common := "The luthier in Cremona", "My cello has a luthier", "I practised the cello"
	b.keep(b.user, common, "The cello again", rare, "Cello and cello", both, "Nothing of it")
	got := b.foundAny("Which luthier did my cello go to?")
	is(t, tuple(got[:2], len(got)), tuple([]string{both, rare}, 5), "found")
	if got := b.foundAny("cello -luthier"); slices.Contains(got, both) || len(got) != 3 {
		t.Errorf("found %q", got)
	}
	if got := b.foundAny(`"a luthier" Cremona`); len(got) != 2 || !slices.Contains(got, rare) || !slices.Contains(got, both) {
		t.Errorf("found %q", got)
	}
	if got := b.foundAny("is there the"); len(got) != 3 { // only common words: then they are the words
		t.Errorf("found %q", got)
	}
	for _, query := range []string{"violin", "-cello", "!?", "…", `""`, "or", "( | & ) :*", "'; drop table messages; --"} {
		is(t, len(b.foundAny(query)), 0, "%s finds", query)
	}
	b.wantFound("Which luthier did my cello go to?")
	b.keep(b.user, "東京タワーの近くで", "大阪だけ")
	is(t, len(b.foundAny("東京で大阪")), 2, "found")
}

// A search answers any text that a person types.
func TestOddSearchesAreAnswered(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.keep(b.user, "a b 日 ก 1 or", "and -1 a@b. http://a")
	search := func(t reporter, text string) {
		if _, err := b.searches().Search(b.t.Context(), b.user, api.SearchQuery{Text: text, Limit: 5}); err != nil {
			t.Fatalf("%.60q: %v", text, err)
		}
	}
	for _, part := range []string{"-", "--", `-""`, `-" "`, "-|", "-\u00a0", "-.", "- ", "-a ", "!", "&", "|", ":*", "<->", "(", ")", "'", `"`, `\`, "%",
		"or ", "or -", `"a" or -`, `"" `, `-"a b" `, "*", ":", ".", "/", "@", "a-", "a-b-",
		"日-", "“", "\u200b", "\ufffd", "1e", "-1.5e", "a@b.", "http://", "<a ", "&amp;", "\t\n", "\U0010ffff"} {
		for _, times := range []int{1, 2, 3, 49, 50, 51, 500} {
			text := []rune(strings.Repeat(part, times))
			search(t, string(text[:min(len(text), 500)]))
			search(t, "a"+string(text[:min(len(text), 490)])+"b")
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		search(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"-", "!", "a", "b ", " ", `"`, "or", "OR ", "and", "'", ":*", "(", ")", `\`, "日",
			"ก", "-1", ".", "/", "@", "<", ">", "&", "\x01"}), 0, 200).Draw(t, "parts"), ""))
	})
}
