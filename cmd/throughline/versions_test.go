package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// The last message is changed on its line, by a text, answered again, and gone back to.
func TestChatChangesThePast(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, testkit.InOrder(offline.Answer{Text: "Eins."}, offline.Answer{Text: "Zwei."},
		offline.Answer{Text: "三。"}, offline.Answer{Text: "四。"}))
	s := sit(t, r.program("chat"))
	s.say("/edit")
	s.until("there is no chat yet")
	s.say("Zwölf Katzen?")
	s.until("Eins.")
	s.say("/versions")
	s.until("Nothing was said in their place.")
	s.say("/edit")
	s.until("Zwölf Katzen?")
	s.press(ctrlC)
	s.until("Nothing was changed.")
	s.say("/edit")
	s.until("Zwölf Katzen?")
	s.press("\x7f!" + enter)
	s.until("Zwei.")
	s.say("/again deep-dive")
	s.until("三。")
	s.say("/again nobody")
	s.until("(422 unknown_model_variant)")
	s.say("/edit 猫は何匹?")
	s.until("四。")
	s.say("/versions")
	s.until("  1  you (1 of 3)> Zwölf Katzen?\r\n  2  you (2 of 3)> Zwölf Katzen!\r\n* 3  you (3 of 3)> 猫は何匹?\r\n* is shown.")
	s.say("/versions 4")
	s.until("wants one of the last /versions")
	s.say("/versions 2")
	s.until("you (2 of 3)> Zwölf Katzen!\r\nreply (2 of 2)> 三。")
	s.say("/versions")
	s.until("reply (1 of 2)> Zwei.\r\n* 5  reply (2 of 2)> 三。")
	s.leave()
	path := testkit.Ask[string](t, r.pool, `select string_agg(concat(content, metadata ->> 'model_variant'), '|' order by seq)
		from messages where superseded_by is null`)
	assert.Equal(t, "Zwölf Katzen!|三。deep-dive", path, "the path")
}

// What another device has said is not replaced before it was seen.
func TestChatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, testkit.InOrder(offline.Answer{Text: "Noted."}))
	chatID := r.server.Say("", "Eine Zeile\nund noch eine.").ChatID
	s := sit(t, r.program("chat", "--chat", chatID))
	s.say("/edit")
	s.until("your last message has several lines; /edit TEXT replaces it")
	r.server.Say(chatID, "Meanwhile.")
	for _, line := range []string{"/edit One line.", "/again", "/versions"} {
		s.say(line)
		s.until("the conversation has changed; /history shows it")
	}
	s.say("/history")
	s.until("you> Meanwhile.")
	s.say("/edit One line.")
	s.until("Noted.")
	s.leave()
	path := testkit.Ask[string](t, r.pool, "select string_agg(content, '|' order by seq) from messages where superseded_by is null and role = 'user'")
	assert.Equal(t, "Eine Zeile\nund noch eine.|One line.", path, "the path")
}
