package brief

import (
	"strings"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

// askForTitle is added to the instructions of a summary that is to begin with a title, which cutTitle takes off the answer.
const askForTitle = "Begin with one more line: \"Title: \" and three to six words, in the user's language, that name what is talked about. " +
	"The summary follows on the next line."

// Bounds of a title: one of more words is a sentence.
const mostTitleWords, mostTitle = 8, 80

// cutTitle takes the title off an answer that was asked to begin with one; "" for none, and for one that is no title.
func cutTitle(answer string) (title, summary string) {
	first, rest, _ := strings.Cut(strings.TrimSpace(answer), "\n")
	label, named, found := strings.Cut(first, ":")
	if !found || !strings.EqualFold(strings.Trim(label, "*# "), "title") {
		return "", answer
	}
	title = text.OneLine(strings.Trim(named, " *\"“”„«»'.\t"))
	if len(strings.Fields(title)) > mostTitleWords || utf8.RuneCountInString(title) > mostTitle {
		title = ""
	}
	return title, strings.TrimSpace(rest)
}
