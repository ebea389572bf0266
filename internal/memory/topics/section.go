package topics

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// leastSummary is how many tokens of a summary are worth showing.
const leastSummary = 16

// Section writes a topic for a prompt in at most budget tokens, line ends included: the rest of the heading's line, such as
// "Bows, since 3 March 2026, 18 turns", and the summary in the lines below, as much of it as there is room for. It returns
// "" where not even the first line fits.
func Section(t *recall.Topic, budget int) (written string, tokens int) {
	written = fmt.Sprintf("%s, since %s, %s", text.OneLine(t.Title), t.Since.UTC().Format("2 January 2006"), turns(t.Turns))
	if tokens = text.Tokens(written) + 1; tokens > budget {
		return "", 0
	}
	summary := text.QuoteLines(strings.TrimSpace(t.Summary), prompt.LooksLikeQuote)
	for room := budget - tokens - 1; summary != "" && room >= leastSummary; room -= 8 {
		longer := written + "\n" + text.FitCap(summary, room)
		if size := text.Tokens(longer) + 1; size <= budget {
			return longer, size
		}
	}
	return written, tokens
}

func turns(n int) string {
	if n == 1 {
		return "1 turn"
	}
	return fmt.Sprint(n, " turns")
}

// Entry is a message of a topic as it is archived and as the API answers it.
type Entry struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	// Timestamp is in seconds since 1970, to the microsecond.
	Timestamp float64 `json:"timestamp"`
}

// NewEntry returns the entry of a message.
func NewEntry(role, content string, at time.Time) Entry {
	return Entry{Role: role, Content: content, Timestamp: float64(at.UnixMicro()) / 1e6}
}

// Archive returns entries as the API answers the packed messages of a topic: a JSON array, compressed by gzip, in base64. It
// begins with "H4sI". Nothing stores it: the rows of messages hold the words, and making it of them takes milliseconds.
func Archive(entries []Entry) (string, error) {
	raw, err := memory.EncodeJSON(entries)
	if err != nil {
		return "", fmt.Errorf("archive a topic: %w", err)
	}
	var packed bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is a valid one
	_, err = zip.Write(raw)
	if err := errors.Join(err, zip.Close()); err != nil {
		return "", fmt.Errorf("archive a topic: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}
