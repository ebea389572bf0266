package longterm

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory"
)

func TestAQuoteIsTheMessagesOwnWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ message, quote, want string }{
		{"Well, I'm allergic to  WALNUTS!", "i'm allergic to walnuts", "I'm allergic to  WALNUTS"},
		{"I don’t like it.", "I dont like it", "I don’t like it"},
		{"I know it", "no it", ""},
		{"I am not allergic to walnuts", "I am allergic to walnuts", ""},
		{"I am not allergic to walnuts", "I am … allergic to walnuts", "I am not allergic to walnuts"},
		{"One. Two. Three. Four.", "One ... Two [...] Four", ""},
		{"I moved.\nMy sister lives in Graz.", "I … lives in Graz", ""},
		{"Ich mag das Café in Köln", "das cafe in koln", "das Café in Köln"},
		{"Ich mag das Cafe\u0301 nicht", "das café", "das Cafe\u0301"},
		{"私は日本語を話します。", "日本語を話", "日本語を話"},
		{"وأعيش في القاهرة", "أعيش في القاهرة", "أعيش في القاهرة"},
		{"Anything", "?!", ""},
		{"", "words", ""},
	} {
		got, found := quoteIn(c.message, c.quote)
		assert.Truef(t, got == c.want && found == (c.want != ""),
			"%q in %q: %q, %v, want %q", c.quote, c.message, got, found, c.want)
	}
}

// A word that only an earlier message has goes with that message.
func TestAWordOfAnEarlierMessageMakesItASource(t *testing.T) {
	t.Parallel()
	message := func(seq int64, content string) Message {
		return Message{ID: uuid.New(), Seq: seq, Role: memory.RoleUser, Content: content}
	}
	messages := []Message{message(1, "I have kanariquil sclerosis."), message(3, "It was diagnosed while I was living in Lyon.")}
	sure := .9
	v := Gate(Input{New: messages}, []Finding{{
		Fact: "The user was diagnosed with kanariquil sclerosis while living in Lyon.", Type: "fact", Confidence: &sure, Horizon: "lasting",
		Evidence: []string{"U2"}, Quote: "It was diagnosed while I was living in Lyon",
	}})
	require.Truef(t, len(v.Candidates) == 1 && len(v.Candidates[0].Evidence) == 2, "%+v", v)
	for _, e := range v.Candidates[0].Evidence {
		assert.Falsef(t, e.Alone, "message %d alone says what it took both to say", e.Seq)
	}
}
