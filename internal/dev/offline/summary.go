package offline

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	memorytext "github.com/arcoscribe/throughline/internal/memory/text"
)

// The fences of a fold's input, each on a line of its own.
const (
	fenceSummary    = "=== EXISTING_SUMMARY ==="
	fenceSummaryEnd = "=== END_EXISTING_SUMMARY ==="
	fenceTurns      = "=== NEW_TURNS ==="
	fenceTurnsEnd   = "=== END_NEW_TURNS ==="
)

// suggested begins what the assistant said. All else in a summary is the user's, or from a summary that is not ours.
const suggested = "The assistant suggested: "

// emptySummary is the summary of turns without a single statement: a summary is never empty.
const emptySummary = "The user and the assistant exchanged a few words without content."

// summarize answers a fold, or shortens a text that is no fold.
func summarize(r *Request) string {
	limit := capOf(r)
	in := sections(r.Text, fenceSummary, fenceSummaryEnd, fenceTurns, fenceTurnsEnd)
	turns, isFold := in[fenceTurns]
	if !isFold {
		return compress(statements("", r.Text), limit)
	}
	existing := strings.TrimSpace(in[fenceSummary])
	if existing == "NONE" {
		existing = ""
	}
	// The server takes a summary that suddenly loses most of its text for damaged, so one far over the cap
	// shrinks in steps.
	if had := memorytext.Tokens(existing); had > 200 {
		limit = max(limit, had*9/20)
	}
	all := statements("", existing)
	for _, said := range parseUtterances(turns) {
		prefix := ""
		if said.assistant {
			prefix = suggested
		}
		all = append(all, statements(prefix, said.text)...)
	}
	return compress(all, limit)
}

var capInInstructions = regexp.MustCompile(`at most (\d+) tokens`)

// capOf returns the longest summary allowed, in tokens: as the instructions have it, or else as hosted prompts do.
func capOf(r *Request) int {
	limit := 500
	if r.Kind == KindTopic {
		limit = 150
	}
	if found := capInInstructions.FindStringSubmatch(r.Instructions); found != nil {
		limit, _ = strconv.Atoi(found[1]) // of digits
	}
	if r.MaxOutputTokens > 0 {
		limit = min(limit, r.MaxOutputTokens)
	}
	// Fewer than this cannot hold a sentence, and a summary is never empty.
	return max(limit, 16)
}

// turnHeading carries nothing that the summary needs.
var turnHeading = regexp.MustCompile(`^Turn \d+:$`)

// statements returns what a text says, one sentence each, without what carries no information or quotes the user. A very
// long sentence is divided, so that a part of it can be dropped, and each ends in a stop, so that readers who shorten the
// summary at sentence ends find one.
func statements(prefix, text string) []string {
	var found []string
	for _, sentence := range sentences(withoutDirectives(text)) {
		if strings.Contains(sentence, "===") || turnHeading.MatchString(sentence) || isStock(sentence, prefix == suggested) {
			continue
		}
		for part := range slices.Chunk(strings.Fields(sentence), 40) {
			one := prefix + strings.Join(part, " ")
			if last, _ := utf8.DecodeLastRuneInString(one); unicode.IsLetter(last) || unicode.IsDigit(last) {
				one += "."
			}
			found = append(found, one)
		}
	}
	return found
}

// compress keeps the most informative statements that fit the limit in tokens, in their order, and do not repeat each
// other too often.
func compress(all []string, limit int) string {
	const fewestTokens = 6     // about what a statement takes
	latest := map[string]int{} // of statements with the same words the newest stays
	worth := make([]float64, len(all))
	for n, statement := range all {
		latest[strings.Join(words(statement), " ")] = n
		worth[n] = worthOf(statement) + float64(n)/float64(2*len(all)) // of two alike the older one is dropped first
	}
	ranked := slices.SortedFunc(maps.Values(latest), func(a, b int) int { return cmp.Compare(worth[b], worth[a]) })
	var kept []int
	summary, left := emptySummary, limit
	for _, n := range ranked {
		tokens := memorytext.Tokens("\n" + all[n])
		if left < fewestTokens {
			break
		}
		if tokens > left {
			continue
		}
		var lines []string
		with := slices.Sorted(slices.Values(append(kept, n)))
		for _, n := range with {
			lines = append(lines, all[n])
		}
		if text := strings.Join(lines, "\n"); !repeats(text) && memorytext.Tokens(text) <= limit {
			kept, summary, left = with, text, left-tokens
		}
	}
	return summary
}

// worthOf returns how much a statement is worth keeping.
func worthOf(statement string) float64 {
	if said, ok := strings.CutPrefix(statement, suggested); ok {
		return 0.4 * float64(informativeness(said))
	}
	return float64(informativeness(statement))
}

// informativeness estimates how much of a sentence matters later. At most two numbers, names and lasting facts count,
// and the first person most: a pasted article is full of names and numbers, but what people say of themselves is what
// they come back to.
func informativeness(sentence string) int {
	numbers, names, facts, person := 0, 0, 0, 0
	for i, word := range strings.FieldsFunc(sentence, outsideWords) {
		first, _ := utf8.DecodeRuneInString(word)
		switch lower := strings.ToLower(word); {
		case firstPerson[lower]:
			person = 2
		case lasting[lower]:
			facts++
		case unicode.IsDigit(first):
			numbers++
		case i > 0 && unicode.IsUpper(first):
			names++
		}
	}
	value := person + min(numbers, 2) + min(names, 2) + min(facts, 2)
	if isQuestion(sentence) {
		value -= 2
	}
	return value
}

var (
	firstPerson = wordSet("i my me mine i'm i’m i've i’ve we our us ich mich mir mein meine wir uns unser")
	lasting     = wordSet("allergic allergy always birthday born called decided favourite live lives moved named never prefer work")
)

// repeats reports whether a text is a loop: whether it has the same eight words more than three times.
func repeats(text string) bool {
	const gram, times = 8, 3
	all := words(text)
	seen := map[string]int{}
	for i := 0; i+gram <= len(all); i++ {
		key := strings.Join(all[i:i+gram], " ")
		if seen[key]++; seen[key] > times {
			return true
		}
	}
	return false
}
