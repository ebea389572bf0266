package memory

import "slices"

// quotedTurns are turns whose messages cannot speak in the prompt's name: lines that read as a heading or
// as a speaker are quoted, all else is word for word. Turns without such lines, which is nearly all, are
// the same ones. It tells whether any has changed.
func quotedTurns(turns []Turn) ([]Turn, bool) {
	changed := false
	for i := range turns {
		messages, quoted := quotedMessages(turns[i].Messages)
		if !quoted {
			continue
		}
		if !changed {
			turns, changed = slices.Clone(turns), true
		}
		turns[i].Messages = messages
	}
	return turns, changed
}

// quotedMessages counts what the quotes take: each is two bytes, and at most as many tokens.
func quotedMessages(messages []Message) ([]Message, bool) {
	changed := false
	for i := range messages {
		if isBare(messages[i].Content) {
			continue
		}
		text := quoteLines(messages[i].Content, readsAsPrompt)
		added := len(text) - len(messages[i].Content)
		if added == 0 {
			continue
		}
		if !changed {
			messages, changed = slices.Clone(messages), true
		}
		messages[i].Content, messages[i].Tokens = text, messages[i].Tokens+added
	}
	return messages, changed
}

// isBare is a cheap test that spares most messages the dear one: printable ASCII, and nothing that could
// end a label.
func isBare(text string) bool {
	for i := range len(text) {
		if c := text[i]; c == ':' || c == '&' || c >= 0x7f {
			return false
		}
	}
	return true
}
