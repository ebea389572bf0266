package offline

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// Fault is what goes wrong with an answer; "" is nothing. The package comment says what each does.
type Fault string

// Faults in place of an answer.
const (
	Fault401        Fault = "401"
	Fault404        Fault = "404"
	Fault429        Fault = "429"
	Fault500        Fault = "500"
	Fault503        Fault = "503"
	FaultPromptGone Fault = "prompt_gone"
	FaultStall      Fault = "stall"
)

// Faults inside an answer, after Answer.FaultAfter pieces.
const (
	FaultHang          Fault = "hang"
	FaultCut           Fault = "cut"
	FaultEndEarly      Fault = "end_early"
	FaultFailed        Fault = "failed"
	FaultErrorEvent    Fault = "error_event"
	FaultIncomplete    Fault = "incomplete"
	FaultContentFilter Fault = "content_filter"
	FaultLongLine      Fault = "long_line"
	FaultInvalidUTF8   Fault = "invalid_utf8"
)

// Faults of a whole answer: of its text, or of how its bytes are written.
const (
	FaultEmpty   Fault = "empty"
	FaultNone    Fault = "none"
	FaultRefusal Fault = "refusal"
	FaultLoop    Fault = "loop"
	FaultOverCap Fault = "over_cap"
	FaultSplit   Fault = "split"
	FaultCRLF    Fault = "crlf"
)

// Faults of how a text is told: all of them are allowed by the API.
const (
	FaultTwoItems Fault = "two_items"
	FaultNoDeltas Fault = "no_deltas"
	FaultOnlyEnd  Fault = "only_end"
)

// Usage is the reported cost of an answer in tokens.
type Usage struct {
	Input, Cached, Output, Reasoning int
}

// Answer is how one request is answered. The zero Answer is the built-in model's.
type Answer struct {
	// Text is the reply; "" is the built-in model's (FaultEmpty gives no text at all). It is streamed
	// in pieces: a word with the space after it, long runs without spaces in parts.
	Text  string
	Fault Fault
	// FaultAfter is the number of pieces before a fault inside the answer; a text with fewer pieces
	// is sent whole first.
	FaultAfter int
	// RetryAfter is that header of a status fault, as sent; "" sends none.
	RetryAfter string
	// Latency is a pause before the headers, PieceDelay one before each piece. A PieceDelay of 0 is
	// the server's.
	Latency, PieceDelay time.Duration
	// Usage is what the answer reports; nil counts.
	Usage *Usage
	// Gate holds the answer, after GateAfter pieces of a stream, until the channel is closed. nil
	// holds nothing.
	Gate      <-chan struct{}
	GateAfter int
}

// FailFirst makes a script that answers the first n requests with the failure and leaves the others
// to the built-in model.
func FailFirst(n int, failure Answer) func(*Request) Answer {
	var asked atomic.Int64
	return func(*Request) Answer {
		if asked.Add(1) <= int64(n) {
			return failure
		}
		return Answer{}
	}
}

// answerFor decides how a request is answered: the script first, then directives in the message.
func (s *Server) answerFor(r Request) Answer {
	var answer Answer
	if s.options.Script != nil {
		answer = s.options.Script(&r)
	}
	if answer == (Answer{}) {
		answer = directed(&r)
	}
	// PieceDelay makes a reply readable while it streams; a fold is not read.
	if answer.PieceDelay == 0 && r.Stream {
		answer.PieceDelay = s.options.PieceDelay
	}
	return answer
}

var directive = regexp.MustCompile(`\[\[offline(-fold|-extract|-topic|-rewrite)?:([a-z0-9_]+)(?:=([0-9A-Za-zµ.]+))?\]\]`)

// directed reads the directives in a request: of a reply in the current message, of a summary in the new turns, of an
// extraction in the new messages and of a rewriting in the question (with their own prefixes, so that an old message
// never repeats its fault).
func directed(r *Request) Answer {
	text, prefix := r.Current, ""
	switch r.Kind {
	case KindSummary:
		prefix = "-fold"
	case KindTopic:
		prefix = "-topic"
	case KindRewrite:
		text, prefix = questionOf(text), "-rewrite"
	case KindExtract:
		text, prefix = newMessages(text), "-extract"
	case KindConsolidate, KindEntities:
		return Answer{} // their input is not anybody's own words
	}
	var answer Answer
	for _, found := range directive.FindAllStringSubmatch(text, -1) {
		if found[1] == prefix {
			answer.direct(found[2], found[3])
		}
	}
	return answer
}

// direct applies one directive. Unknown names change nothing.
func (a *Answer) direct(name, value string) {
	const piecesBeforeFault = 2
	switch fault := Fault(name); {
	case name == "slow":
		a.PieceDelay, _ = time.ParseDuration(value)
	case name == "latency":
		a.Latency, _ = time.ParseDuration(value)
	case fault == Fault429:
		a.Fault, a.RetryAfter = fault, value
	case slices.Contains(faults, fault):
		a.Fault, a.FaultAfter = fault, piecesBeforeFault
		if n, err := strconv.Atoi(value); err == nil && n >= 0 {
			a.FaultAfter = n
		}
	}
}

var faults = []Fault{
	Fault401, Fault404, Fault429, Fault500, Fault503, FaultPromptGone, FaultStall,
	FaultHang, FaultCut, FaultEndEarly, FaultFailed, FaultErrorEvent, FaultIncomplete, FaultContentFilter,
	FaultLongLine, FaultInvalidUTF8, FaultEmpty, FaultNone, FaultRefusal, FaultLoop, FaultOverCap, FaultSplit, FaultCRLF,
	FaultTwoItems, FaultNoDeltas, FaultOnlyEnd,
}

// withoutDirectives returns the text that the model sees.
func withoutDirectives(text string) string { return directive.ReplaceAllString(text, "") }

// statusFaults are the errors of faults in place of an answer.
var statusFaults = map[Fault]apiError{
	Fault401:        {http.StatusUnauthorized, "Incorrect API key provided.", invalidRequest, "", "invalid_api_key"},
	Fault404:        {http.StatusNotFound, "Not found.", invalidRequest, "", "not_found"},
	Fault429:        {http.StatusTooManyRequests, "Rate limit reached for requests.", "requests", "", "rate_limit_exceeded"},
	Fault500:        {http.StatusInternalServerError, "The server had an error while processing your request.", "server_error", "", ""},
	Fault503:        {http.StatusServiceUnavailable, "The engine is currently overloaded, please try again later.", "service_unavailable", "", ""},
	FaultPromptGone: {http.StatusNotFound, "Prompt with id '%s' not found.", invalidRequest, "prompt", "prompt_not_found"},
}
