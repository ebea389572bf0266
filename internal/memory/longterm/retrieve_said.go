package longterm

import (
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// unsaid returns the memories that the prompt does not show anyway.
func unsaid(all []memory.Remembered, q Query) []memory.Remembered {
	var rest []memory.Remembered
	for i := range all {
		if !isSaid(&all[i], q) {
			rest = append(rest, all[i])
		}
	}
	return rest
}

// isSaid reports whether the prompt shows a message in which the memory was said, with the words that it was made of. What
// its user pinned or corrected since is shown again: the message has other words, or less weight. A text that is like the
// memory says nothing of the kind: it may be a question, a guess, or about somebody else.
func isSaid(m *memory.Remembered, q Query) bool {
	return !m.Pinned && !m.Edited && slices.ContainsFunc(m.Sources, func(source memory.Said) bool {
		return source.ChatID == q.ChatID && isShown(source, q.Shown)
	})
}

// isShown reports whether messages hold the words of a source. A long message may be shown without them.
func isShown(source memory.Said, messages []memory.Message) bool {
	return slices.ContainsFunc(messages, func(m memory.Message) bool {
		return m.Seq == source.Seq && strings.Contains(text.OneLine(m.Content), text.OneLine(source.Quote))
	})
}

// ofMemories are words that many memories have, in the languages that package recall knows; they tell none from another.
var ofMemories = map[string]bool{}

func init() {
	for _, root := range recall.Roots(`user users prefer prefers preferred preference likes loves enjoys wants has owns uses lives living works
		working plans planning named called currently usually often always never since born moved interested
		nutzer benutzer nutzerin mag bevorzugt heißt wohnt lebt arbeitet utilisateur utilisatrice aime préfère habite vit travaille
		usuario usuaria prefiere gusta vive trabaja utente preferisce abita lavora utilizador usuário prefere mora trabalha
		gebruiker houdt woont werkt użytkownik lubi woli mieszka pracuje
		пользователь любит живёт живет работает kullanıcı sever yaşıyor`) {
		ofMemories[root] = true
	}
}

// tellingRoots are the words of a memory that tell it from others, without their endings.
func tellingRoots(content string) []string {
	return slices.DeleteFunc(recall.TellingRoots(content), func(root string) bool { return ofMemories[root] })
}

// Used reports whether a reply made use of a memory that it was shown: whether it has words of the memory that tell it
// from others and that the question did not have. What is merely shown must not keep itself alive.
func Used(content, question, reply string) bool {
	asked, said := recall.Roots(question), recall.Roots(reply)
	return slices.ContainsFunc(tellingRoots(content), func(root string) bool {
		return !slices.Contains(asked, root) && slices.Contains(said, root)
	})
}
