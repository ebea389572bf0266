package page

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// hostileUnits are what a text repeats to make a program that formats it work for the square of its length, or nest.
var hostileUnits = map[string]string{
	"quotes": ">", "quotes with spaces": "> ", "items": "- a ", "items alone": "- ", "numbers": "1. ", "quoted items": "> - ",
	"footnotes": "[^a]: ", "emphasis": "*_", "strong": "**a", "crossed emphasis": "*a_ ", "struck": "~~a", "brackets": "[", "links": "[a](",
	"pictures": "![", "closed brackets": "a]", "instructions": "a <?", "tags": `<a b="`, "comments": "<!--", "code": "a`b``", "headings": "a\n=\n",
	"rules under text": "\n-\n\n(", "cells": "|a", "cells of rows": "a|b\n-|-\n", "one word": "word", "one sign": "e\u0301",
	"empty lines": "a\n\n", "mail": "a@b.", "turned": "\u202Ea", "spaces": " ", "quoted depth": strings.Repeat("> ", 11) + "a\n\n",
	"dollars": "$$a ", "one dollar": "$a ", "formulas": "\\[a ", "fences": "```\n~~~\n",
	"indented items": indented(11) + "\n", "deeper items": indented(30) + "\n",
}

// indented is a list in a list, so many deep.
func indented(depth int) string {
	var text strings.Builder
	for level := range depth {
		text.WriteString(strings.Repeat("  ", level) + "- a\n")
	}
	return text.String()
}

// prose is a text as models write it, the measure for the others.
const prose = "Some *words* of a reply, `code` in it, and [a link](https://example.com).\n\n- One thing\n- Another\n\n"

// hostileSizes are below and above the bounds of what the page parses. In characters, about.
var hostileSizes = []int{2_000, 9_000, 49_000, 1_000_000}

// hostileChat is a chat with a text in each size, and what its messages hold.
type hostileChat struct {
	ID      string `json:"id"`
	Lengths []int  `json:"lengths"` // in UTF-16 units
}

// TestHostileTexts shows texts that are made to stop the page, stored ones and growing ones, beside one of the same size that
// is not.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	growing := map[string]string{"prose": strings.Repeat(prose, 90), "quotes": strings.Repeat("> ", 4500), "emphasis": strings.Repeat("*a_ ", 2500)}
	r := newRig(t, func(request *offline.Request) offline.Answer {
		_, name, _ := strings.Cut(request.Current, "grow ")
		return offline.Answer{Text: growing[name] + "\n\nTHE END"}
	}, env{"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "10000000", "MEMORY_PROMPT_TOKEN_BUDGET": "20000000"}) // no folds beside it
	chats := map[string]hostileChat{"prose": r.storeHostile(prose)}
	for name, unit := range hostileUnits {
		chats[name] = r.storeHostile(unit)
	}
	given, err := json.Marshal(chats)
	require.NoError(t, err)
	r.inBrowser("hostile.mjs", env{"CHATS": string(given), "LIKE": r.storeBriefs(3950), "UNLIKE": r.storeBriefs(0)})
}

// storeBriefs makes a chat with two versions of a brief of 4000 words, of which the first so many are the same.
func (r *rig) storeBriefs(same int) (chatID string) {
	chatID = r.Call(http.MethodPost, "/v1/chats", testkit.Body{}).JSON(r.t)["id"].(string)
	testkit.Exec(r.t, r.pool, `insert into conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary,
			input_tokens, output_tokens, prompt_mode, prompt_ref, model, duration_ms, input_sha256)
		select $1, $2, version, 'fold', version, version, 1,
			(select string_agg(case when n > $3 then chr(96 + version::int) || n else 'word' || n end, ' ' order by n) from generate_series(1, 4000) n),
			1, 1, 'inline', 'built-in@1', 'a model', 1, ''
		from generate_series(1, 2) version`, uuid.MustParse(chatID), r.user, same)
	return chatID
}

// storeHostile makes a chat whose replies are a unit's repetitions, each between two others.
func (r *rig) storeHostile(unit string) hostileChat {
	chat := hostileChat{ID: r.Call(http.MethodPost, "/v1/chats", testkit.Body{"title": strings.Repeat(unit, 400/len(unit))}).JSON(r.t)["id"].(string)}
	say := func(role, content string) {
		testkit.Exec(r.t, r.pool, "insert into messages (chat_id, user_id, role, content) values ($1, $2, $3, $4)",
			uuid.MustParse(chat.ID), r.user, role, content)
	}
	for _, size := range hostileSizes {
		text := strings.Repeat(unit, size/len(unit)) + "\n\nTHE END"
		say("user", "A question before.")
		say("assistant", text)
		chat.Lengths = append(chat.Lengths, len([]rune(text)))
	}
	say("assistant", "A **reply** after.")
	return chat
}
