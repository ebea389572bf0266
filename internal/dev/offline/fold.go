package offline

import (
	"regexp"
	"strconv"
	"strings"
)

// The fences of a fold's input, each on a line of its own.
const (
	fenceSummary    = "=== EXISTING_SUMMARY ==="
	fenceSummaryEnd = "=== END_EXISTING_SUMMARY ==="
	fenceTurns      = "=== NEW_TURNS ==="
	fenceTurnsEnd   = "=== END_NEW_TURNS ==="
)

// The lengths in tokens of a summary whose instructions name none: of a chat's, and of a topic's.
const (
	defaultCap      = 500
	defaultTopicCap = 150
)

// foldInput is the input of a fold, parsed.
type foldInput struct {
	existing string // "" when the input says NONE
	turns    []utterance
}

// The kinds of requests by their metadata.purpose, and by the name of the form of their answer.
var (
	kindsByPurpose = map[string]Kind{
		"reply": KindReply, "fold": KindSummary, "rebuild": KindSummary,
		"extract": KindExtract, "consolidate": KindConsolidate, "entities": KindEntities,
		"topic": KindTopic, "rewrite": KindRewrite,
	}
	kindsBySchema = map[string]Kind{"extracted_facts": KindExtract, "decisions": KindConsolidate, "entities": KindEntities}
)

// kindOf returns what a request to POST /v1/responses is for: as it says itself, else by its shape. A text to be
// shortened has none of its own: it is known by a token cap in the instructions, and by not being a main prompt.
func kindOf(r *Request) Kind {
	if kind, ok := kindsByPurpose[r.Metadata["purpose"]]; ok {
		return kind
	}
	if kind, ok := kindsBySchema[r.TextOptions.Format.Name]; ok {
		return kind
	}
	if r.Prompt != nil || isFold(r.Text) {
		return KindSummary
	}
	_, capped := findCap(r.Instructions)
	if _, main := sections(r.Text, headCurrent)[headCurrent]; capped && !main {
		return KindSummary
	}
	return KindReply
}

func isFold(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \r\n\t"), fenceSummary+"\n")
}

var (
	capAtMost = regexp.MustCompile(`(?i)(?:at most|no more than|up to|under|within|cap of|limit of|cap is|maximum of)\s+(?:about\s+)?([\d.,]*\d)[\s-]+tokens?\b`)
	capPlain  = regexp.MustCompile(`(?i)\b([\d.,]*\d)[\s-]+tokens?\b`)
)

// findCap reads a length in tokens from instructions like "at most 500 tokens".
func findCap(instructions string) (int, bool) {
	for _, pattern := range []*regexp.Regexp{capAtMost, capPlain} {
		found := pattern.FindStringSubmatch(instructions)
		if found == nil {
			continue
		}
		n, err := strconv.Atoi(strings.NewReplacer(",", "", ".", "").Replace(found[1]))
		if err == nil && n > 0 {
			return n, true
		}
	}
	return 0, false
}

// capOf returns the longest summary allowed, in tokens.
func capOf(r *Request) int {
	limit, ok := findCap(r.Instructions)
	switch {
	case ok:
	case r.Kind == KindTopic:
		limit = defaultTopicCap
	default:
		limit = defaultCap
	}
	if r.MaxOutputTokens > 0 {
		limit = min(limit, r.MaxOutputTokens)
	}
	// Fewer than this cannot hold a sentence, and a summary is never empty.
	return max(limit, 16)
}

// parseFold splits a fold's input. It reports whether the text has that form.
func parseFold(text string) (foldInput, bool) {
	in := sections(text, fenceSummary, fenceSummaryEnd, fenceTurns, fenceTurnsEnd)
	if !isFold(text) || len(in) < 4 {
		return foldInput{}, false
	}
	f := foldInput{
		existing: strings.TrimSpace(in[fenceSummary]),
		turns:    parseUtterances(turnHeader.ReplaceAllString(in[fenceTurns], "")),
	}
	if f.existing == "NONE" {
		f.existing = ""
	}
	return f, true
}

// turnHeader carries nothing that the summary needs.
var turnHeader = regexp.MustCompile(`(?m)^Turn \d+:\n`)
