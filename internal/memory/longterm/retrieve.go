package longterm

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// NearEnough is the similarity from which on a memory is about a text, in any words.
const NearEnough = .7

// SectionTokens is the most that a prompt shows of memories: about thirty of them.
const SectionTokens = 400

// perWay is how many memories each way of finding them brings: by words, by meaning, by the entities that a message names.
const perWay = 20

// Reader reads a user's memories, with the rights of the user who asks.
type Reader interface {
	// Candidates returns the memories that may be about a message, in one round trip. Those of excluded subjects are none,
	// nor are any where the user has switched memories off.
	Candidates(ctx context.Context, user auth.Principal, ask Ask) ([]Found, error)
}

// Ask is what candidates are found by.
type Ask struct {
	// Words are those of the message.
	Words []recall.Word
	// Names are what the message may call an entity.
	Names []string
	// Relationships of the user are what the message asks for, and Types are those of their other entities; empty for any.
	Relationships []string
	Types         []graph.Type
	// Vector is that of the message; without Values nothing is found by its meaning.
	Vector recall.Vector
	// PerWay is the most memories that each way of finding them brings.
	PerWay int
}

// Found is an active memory that a message may be about.
type Found struct {
	memory.Remembered

	// Words is how well the memory's words match those of the message, the rarer the better; 0 for not at all.
	Words float64
	// Rarest is how many of the user's memories hold the rarest of those words that is no function word, 0 without such a
	// word; All is how many memories there are.
	Rarest, All int
	// Cosine is that of the two vectors, if HasCosine.
	Cosine    float64
	HasCosine bool
	// Near reports that the cosine says that the memory is about the message; the search sets it.
	Near bool `db:"-"`
	// Named is how many entities of the memory the message names, and relationships that it asks for.
	Named int
}

// Retriever finds the memories that a prompt should show. It may be used by many goroutines at once.
type Retriever struct {
	Store Reader
	// Questions makes the message's vector; nil to go by words alone.
	Questions *recall.Questions
	// Tokens is the most that a prompt shows of memories; see SectionTokens.
	Tokens int
}

// Query is a message, and what the prompt of its reply shows besides.
type Query struct {
	Text   string
	ChatID uuid.UUID
	// Shown are the messages of the chat that the prompt shows word for word.
	Shown []memory.Message
	// Known are the user's memories that are read in any case.
	Known memory.Memories
	Now   time.Time
	// Answered is that of the message's vector; see recall.Question.
	Answered func(context.Context) bool
}

// Retrieve returns the memories that a prompt should show, the most important first. As long as all of them fit, those are
// all: nothing is searched. Otherwise the standing ones come first, then the memories that the message may be about, the best
// of them first.
//
// The message's vector is made only if its words and names find nothing rare, and nothing else has answered it. If the search fails,
// what needs none is returned with the error: the standing ones, and those of the first that share a telling word with the message.
func (r *Retriever) Retrieve(ctx context.Context, user auth.Principal, q Query) ([]memory.Remembered, error) {
	if q.Known.Active == len(q.Known.First) && fits(q.Known.First, r.Tokens) {
		return unsaid(q.Known.First, q), nil
	}
	found, err := r.search(ctx, user, q)
	if err != nil && len(found) == 0 {
		found = sharing(q)
	}
	return choose(unsaid(q.Known.First, q), found, q, r.Tokens), err
}

// search returns the memories that a message may be about.
func (r *Retriever) search(ctx context.Context, user auth.Principal, q Query) ([]Found, error) {
	question := graph.ParseQuestion(q.Text)
	ask := Ask{
		Words: recall.Words(q.Text), Names: recall.Names(q.Text), PerWay: perWay,
		Relationships: slices.Concat(question.Relationships, question.Verbs), Types: question.Types,
	}
	if !slices.ContainsFunc(ask.Words, func(w recall.Word) bool { return !w.Function }) {
		return nil, nil
	}
	asked := recall.Question{Text: q.Text, Of: recall.For{UserID: user.UserID, ChatID: q.ChatID}, Answered: q.Answered}
	return recall.BothWays(ctx, r.Questions, asked,
		func() ([]Found, bool, error) {
			found, err := r.Store.Candidates(ctx, user, ask)
			return found, slices.ContainsFunc(found, Found.isRare), err
		},
		func(byWords []Found, vector recall.Vector, scale recall.Scale) ([]Found, error) {
			if !scale.Reads(q.Text) {
				return byWords, nil
			}
			ask.Vector = vector
			found, err := r.Store.Candidates(ctx, user, ask)
			for n := range found {
				found[n].Near = found[n].HasCosine && recall.Similarity(found[n].Cosine, scale) >= NearEnough
			}
			return found, err
		})
}

// sharing returns those of the first memories that share a telling word with the message, in their order.
func sharing(q Query) (found []Found) {
	asked := recall.TellingRoots(q.Text)
	for i := range q.Known.First {
		isAsked := func(root string) bool { return slices.Contains(asked, root) && !ofMemories[root] }
		if slices.ContainsFunc(recall.TellingRoots(q.Known.First[i].Content), isAsked) {
			found = append(found, Found{Remembered: q.Known.First[i], Rarest: 1})
		}
	}
	return found
}

// A word is rare that at most this share of the memories hold, or so few of them.
const (
	rareShare = .1
	rareFew   = 3
)

// isRare reports whether a memory holds a rare word of the message, an entity that it names, or a relationship that it asks for.
func (c Found) isRare() bool {
	return c.Named > 0 || c.Rarest > 0 && float64(c.Rarest) <= max(rareShare*float64(c.All), rareFew)
}

// choose returns the memories worth showing: the standing ones of the first memories, then the candidates that the message may be
// about, the best first.
func choose(first []memory.Remembered, found []Found, q Query, budget int) []memory.Remembered {
	chosen := standing(first, budget)
	scores := scored(found, q.Now)
	order := make([]int, len(found))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), slices.Compare(found[a].ID[:], found[b].ID[:]))
	})
	for _, n := range order {
		c := found[n]
		isAbout := c.Rarest > 0 || c.Named > 0 || c.Near
		isChosen := slices.ContainsFunc(chosen, func(m memory.Remembered) bool { return m.ID == c.ID })
		if isAbout && !isChosen && !isSaid(&c.Remembered, q) {
			chosen = append(chosen, c.Remembered)
		}
	}
	return chosen
}

// standing returns those of the first memories that are shown for every message: pinned ones, and durable ones as
// long as both take no more than half of the budget.
func standing(first []memory.Remembered, budget int) []memory.Remembered {
	var shown []memory.Remembered
	room := budget / 2
	for i := range first {
		m := &first[i]
		size := tokens(m)
		if m.Pinned || m.Durable && size <= room {
			shown, room = append(shown, *m), room-size
		}
	}
	return shown
}

// fits reports whether a section of so many tokens shows all memories.
func fits(all []memory.Remembered, budget int) bool {
	for i := range all {
		budget -= tokens(&all[i])
	}
	return budget >= 0
}

// The weights of the ways in which a memory may be about a message, in standard deviations of all candidates, and that of
// how sure and how lately used it is beside them. Relevance comes first: by S4's formula alone, which has only the latter,
// 8.8 % of LoCoMo's questions find their evidence, instead of 56.
const (
	wordsWeight   = 1.
	vectorWeight  = .6
	entityWeight  = .3
	sureness      = .05
	perIdleDay    = .01
	mostIdleDays  = 100
	hoursOfTheDay = 24
)

// views are the ways in which a memory may be about a message.
type views struct{ words, meaning, names float64 }

func scored(found []Found, now time.Time) []float64 {
	all := make([]*views, len(found))
	for n, c := range found {
		all[n] = &views{c.Words, math.NaN(), float64(c.Named)}
		if c.HasCosine {
			all[n].meaning = c.Cosine
		}
	}
	recall.Standardize(all, func(v *views) *float64 { return &v.words })
	recall.Standardize(all, func(v *views) *float64 { return &v.meaning })
	recall.Standardize(all, func(v *views) *float64 { return &v.names })
	scores := make([]float64, len(found))
	for n, v := range all {
		scores[n] = wordsWeight*v.words + vectorWeight*v.meaning + entityWeight*v.names
	}
	toUnit(scores)
	for n := range found {
		scores[n] += sureness * (found[n].Confidence - perIdleDay*idleDays(&found[n].Remembered, now))
	}
	return scores
}

// toUnit moves numbers to 0 for the least and 1 for the greatest; to 1 if all are the same.
func toUnit(numbers []float64) {
	if len(numbers) == 0 {
		return
	}
	least, most := slices.Min(numbers), slices.Max(numbers)
	for n, x := range numbers {
		numbers[n] = 1
		if most > least {
			numbers[n] = (x - least) / (most - least)
		}
	}
}

// idleDays returns for how many days no reply has used a memory, at most mostIdleDays.
func idleDays(m *memory.Remembered, now time.Time) float64 {
	return min(max(math.Floor(now.Sub(m.LastUsed).Hours()/hoursOfTheDay), 0), mostIdleDays)
}

// unsaid returns the memories that the prompt does not show anyway.
func unsaid(all []memory.Remembered, q Query) []memory.Remembered {
	return slices.DeleteFunc(slices.Clone(all), func(m memory.Remembered) bool { return isSaid(&m, q) })
}

// isSaid reports whether the prompt shows a message in which the memory was said, with the words that it was made of. What
// its user pinned or corrected since is shown again: the message has other words, or less weight. A text that is like the
// memory says nothing of the kind: it may be a question, a guess, or about another person.
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

// Used reports whether a reply made use of a memory that it was shown: whether it has words of the memory that tell it
// from others and that the question did not have. What is merely shown must not keep itself alive.
func Used(content, question, reply string) bool {
	asked, said := recall.Roots(question), recall.Roots(reply)
	return slices.ContainsFunc(recall.TellingRoots(content), func(root string) bool {
		return !ofMemories[root] && !slices.Contains(asked, root) && slices.Contains(said, root)
	})
}

// Empty is the section of a user without memories, where MEMORY_SHOW_EMPTY asks for one.
const Empty = "(No specific memories yet)"

// Section writes memories, which come best first, for a prompt: one line each, those that fit into budget tokens. It
// returns the text, the memories that are in it, and the tokens that they take with their line ends.
func Section(found []memory.Remembered, budget int) (written string, shown []memory.Remembered, size int) {
	var lines []string
	for i := range found {
		more := tokens(&found[i])
		if size+more > budget {
			continue
		}
		lines, shown, size = append(lines, lineOf(&found[i])), append(shown, found[i]), size+more
	}
	return strings.Join(lines, "\n"), shown, size
}

// tokens returns how many tokens a memory takes in a section, with its line end.
func tokens(m *memory.Remembered) int { return text.Tokens(lineOf(m)) + 1 }

// lineOf writes a memory as "- Prefers oat milk (since March 2026)". A content that looks like a label or a list of the
// prompt's own is quoted; one that looks like a heading is quoted with its whole line, as package prompt does.
func lineOf(m *memory.Remembered) string {
	content := text.OneLine(m.Content)
	if looksLikeOurs(content) {
		content = text.QuotePrefix + content
	}
	return text.QuoteLines("- "+content+since(m), prompt.LooksLikeHeading)
}

// looksLikeOurs reports whether a content would read as a line of the prompt if it stood alone: a label such as "User:", the
// beginning of a quoted turn or of a list. Headings are told by the whole line.
func looksLikeOurs(content string) bool {
	return !prompt.LooksLikeHeading(content) && prompt.LooksLikePrompt(content) || strings.ContainsAny(content[:min(1, len(content))], "-*#[>•")
}

// since writes the times between which a memory is true.
func since(m *memory.Remembered) string {
	var parts []string
	if !m.ValidFrom.IsZero() {
		parts = append(parts, "since "+date(m.ValidFrom, m.Precision))
	}
	if !m.ValidTo.IsZero() {
		parts = append(parts, "until "+date(m.ValidTo, m.Precision))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func date(t time.Time, p memory.Precision) string {
	layout := cmp.Or(map[memory.Precision]string{memory.Year: "2006", memory.Month: "January 2006"}[p], "2 January 2006")
	return t.UTC().Format(layout)
}
