package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func sampleTopic() Topic {
	at := time.Date(2026, 11, 20, 10, 0, 1, 0, time.UTC)
	return Topic{
		ID: "0198a1f2-7c15-7aa9-b3c8-6d1e0f9a8b75", Title: "Bows", Renamed: true, Summary: new("They spoke of bows."), Tags: []string{"cello", `a "b"`},
		Importance: 0.25, Rated: true, State: "active", CreatedAt: at, LastActiveAt: at, Turns: []string{idAsk},
	}
}

func TestTopicsAndMemoriesOfAChatReadBack(t *testing.T) {
	t.Parallel()
	for _, encoder := range []func(io.Writer) *Bundle{NewLines, NewObject} {
		for _, c := range []struct {
			more Record
			end  End
		}{
			{Record{Topic: new(sampleTopic())}, End{Messages: 3, Revisions: 1, Topics: 1}},
			{Record{Memory: new(sampleMemory())}, End{Messages: 3, Revisions: 1, Memories: 1}},
		} {
			_, records := mustRead(t, withRecord(t, encoder, c.more))
			assert.Equal(t, []Record{c.more, {Revision: records[6].Revision}, {End: &c.end}}, records[5:])
		}
	}
}

func TestTopicsOfAChatAreChecked(t *testing.T) {
	t.Parallel()
	changes{ // of bundle, chat, 3 messages, topic, revision, end
		"no such message":   {`"turns":["` + idAsk, `"turns":["` + idChat, "message_missing@6"},
		"a turn twice":      {`"turns":["` + idAsk + `"`, `"turns":["` + idAsk + `","` + idAsk + `"`, "duplicate_id@6"},
		"a turn that is no": {`"turns":["`, `"turns":["x`, "bad_uuid@6"},
		"id":                {`"id":"0198a1f2-7c15`, `"id":"0`, "bad_uuid@6"},
		"blank title":       {`"title":"Bows"`, `"title":"\t\u00a0 "`, "bad_length@6"},
		"long title":        {`"title":"Bows"`, `"title":"` + strings.Repeat("ж", 81) + `"`, "bad_length@6"},
		"importance":        {`"importance":0.25`, `"importance":1.5`, "out_of_range@6"},
		"tag":               {`"tags":["cello","a`, `"tags":["","a`, "bad_length@6"},
		"tags":              {`"tags":["cello","a`, `"tags":[` + strings.Repeat(`"x",`, 40) + `"a`, "too_many_tags@6"},
		"date":              {`"last_active_at":"2026`, `"last_active_at":"0000`, "bad_date@6"},
		"counts":            {`"topics":1`, `"topics":2`, "wrong_counts@8"},
	}.check(t, withRecord(t, NewLines, Record{Topic: new(sampleTopic())}))
}

// sampleAccount is an account with one chat, a memory that was said in it, and a graph.
func sampleAccount(t testing.TB) string {
	t.Helper()
	var out bytes.Buffer
	a := NewLines(&out)
	chat, _, messages, revision := sample()
	messages[0].Files = []FileRef{}
	memory := sampleMemory()
	memory.LastAccessed, memory.AccessCount = new(exportedAt), 3
	memory.History = []MemoryRevision{{Version: 1, Action: "ADD", Content: new("x"), Actor: "user", CreatedAt: exportedAt}}
	if err := errors.Join(
		a.BeginAccount(exportedAt, Account{
			ID: idOther, Email: new("a@example.org"), Settings: AccountSettings{Enabled: true, Excluded: []string{"health"}}, Counts: AccountCounts{1, 1, 1},
		}),
		a.Write(Record{Chat: &chat}), a.Write(Record{Message: &messages[0]}), a.Write(Record{Topic: new(sampleTopic())}), a.Write(Record{Revision: &revision}),
		a.End(), a.Write(Record{Memory: &memory}), a.Write(Record{Entity: &Entity{ID: idAsk, Name: "Porto", Kind: "place", Aliases: []string{}, Mentions: 1}}),
		a.Write(Record{Relationship: &Relationship{
			ID: idAsk, Source: "User", Relationship: "likes", Target: "Porto", RecordedAt: exportedAt, MemoryID: memory.ID,
		}}),
		a.EndAccount(),
	); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestAnAccountReadsBack(t *testing.T) {
	t.Parallel()
	format, found := mustRead(t, sampleAccount(t))
	var kinds []string
	for _, r := range found {
		kinds = append(kinds, fmt.Sprint(r.Header != nil, r.Account != nil, r.Chat != nil, r.Memory != nil, r.Entity != nil))
	}
	if format != FormatLines || len(found) != 11 || found[1].Account.Settings.Excluded[0] != "health" || found[7].Memory.AccessCount != 3 ||
		found[7].Memory.History[0].Action != "ADD" || found[8].Entity.Name != "Porto" || *found[10].AccountEnd != (AccountEnd{1, 1, 1, 1}) {
		t.Errorf("%s %q", format, kinds)
	}
}

func TestAccountsAreChecked(t *testing.T) {
	t.Parallel()
	whole := sampleAccount(t) // bundle, account, chat, message, topic, revision, end, memory, entity, relationship, account_end
	lines := strings.SplitAfter(whole, "\n")
	without := func(n int) string { return strings.Join(lines[:n], "") + strings.Join(lines[n+1:], "") }
	refusals{
		"no account":         {without(1), "no_account@2"},
		"no end of the chat": {without(6), "no_end@8"},
		"no end":             {without(10), "no_end@10"},
		"a memory less":      {without(7), "wrong_counts@10"},
		"something after":    {whole + lines[2], "wrong_counts@12"},
		"another account":    {whole + lines[0], "unknown_format@12"},
		"account twice":      {replaced(t, whole, lines[1], lines[1]+lines[1]), "unknown_format@3"},
		"message outside":    {replaced(t, whole, lines[7], lines[3]), "no_chat@8"},
		"not an account":     {replaced(t, whole, `,"holds":"account"`, ""), "unknown_format@2"},
		"origin":             {replaced(t, whole, `"origin":"extracted"`, `"origin":"x"`), "unknown_type@8"},
		"uses":               {replaced(t, whole, `"access_count":3`, `"access_count":-3`), "out_of_range@8"},
		"memory twice":       {replaced(t, whole, lines[7], lines[7]+lines[7]), "duplicate_id@9"},
		"subject":            {replaced(t, whole, `"health"`, `""`), "bad_length@2"},
		"subjects":           {replaced(t, whole, `["health"]`, `["x"`+strings.Repeat(`,"x"`, maxExcluded)+`]`), "out_of_range@2"},
		"zone":               {replaced(t, whole, `"time_zone":null`, `"time_zone":""`), "bad_length@2"},
		"entity in a chat":   {replaced(t, whole, lines[6], lines[8]), "no_end@7"},
	}.check(t)
}

// A record that is small in the file may be large in memory.
func TestMemoriesOfTooManyPartsAreNotDecoded(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"sources", "history"} {
		err := emitRecord(typeMemory, []byte(`{"type":"memory","`+list+`":[`+strings.Repeat("{},", maxMembers)+`{}]}`), func(Record) error { return nil })
		found, ok := errors.AsType[*problem](err)
		assert.Truef(t, ok && found.reason == "record_too_long", "%s: %v", list, err)
	}
}
