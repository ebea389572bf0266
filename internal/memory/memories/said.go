package memories

import (
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// isSaid reports whether the prompt says a memory anyway: whether it shows all messages in which it was said, or one
// message with all its words.
func isSaid(m *Memory, q Query) bool {
	return sourcesAreShown(m, q) || wordsAreShown(m.Content, q)
}

func sourcesAreShown(m *Memory, q Query) bool {
	for i := range m.Sources {
		if m.Sources[i].ChatID != q.ChatID || !isShown(&m.Sources[i], q) {
			return false
		}
	}
	return len(m.Sources) > 0
}

// isShown reports whether the prompt shows the words of a message that a memory was made of. A long message may be shown
// without them.
func isShown(source *Source, q Query) bool {
	for i := range q.Shown {
		if q.Shown[i].Seq == source.Seq {
			return strings.Contains(text.OneLine(q.Shown[i].Content), text.OneLine(source.Quote))
		}
	}
	return false
}

// leastRoots is how many words a memory needs so that another text with all of them is taken to say the same.
const leastRoots = 2

func wordsAreShown(content string, q Query) bool {
	roots := tellingRoots(content)
	if len(roots) < leastRoots {
		return false
	}
	for i := range q.Shown {
		shown := strings.ToLower(q.Shown[i].Content)
		if !slices.ContainsFunc(roots, func(root string) bool { return !strings.Contains(shown, root) }) {
			return true
		}
	}
	return false
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
