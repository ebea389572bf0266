package offline

import (
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Fault is what goes wrong with an answer; "" is nothing, and so is an unknown one.
type Fault string

// Faults in place of an answer; inside an answer, after Answer.FaultAfter pieces of it; and of a whole answer.
const (
	Fault401        Fault = "401"
	Fault404        Fault = "404"
	Fault429        Fault = "429"
	Fault500        Fault = "500"
	Fault503        Fault = "503"
	FaultPromptGone Fault = "prompt_gone" // 404 whose error names the prompt
	FaultStall      Fault = "stall"       // the connection is held before the headers

	FaultHang          Fault = "hang"           // silence
	FaultCut           Fault = "cut"            // a reset
	FaultEndEarly      Fault = "end_early"      // a clean end without a last event
	FaultFailed        Fault = "failed"         // response.failed
	FaultErrorEvent    Fault = "error_event"    // an error event
	FaultIncomplete    Fault = "incomplete"     // ends as if max_output_tokens were reached
	FaultContentFilter Fault = "content_filter" // ends as if the filter had cut it

	FaultEmpty   Fault = "empty"   // a completed reply without text
	FaultNone    Fault = "none"    // the word NONE
	FaultRefusal Fault = "refusal" // a refusal in place of the text
	FaultLoop    Fault = "loop"    // one sentence over and over
)

// statusFaults are the errors of faults in place of an answer.
var statusFaults = map[Fault]apiError{
	Fault401:        {http.StatusUnauthorized, "Incorrect API key provided.", invalidRequest, "", "invalid_api_key"},
	Fault404:        {http.StatusNotFound, "Not found.", invalidRequest, "", "not_found"},
	Fault429:        {http.StatusTooManyRequests, "Rate limit reached for requests.", "requests", "", "rate_limit_exceeded"},
	Fault500:        serverError,
	Fault503:        {http.StatusServiceUnavailable, "The engine is currently overloaded, please try again later.", "service_unavailable", "", ""},
	FaultPromptGone: {http.StatusNotFound, "Prompt with id '%s' not found.", invalidRequest, "prompt", "prompt_not_found"},
}

// textFaults are the texts of faults of the text.
var textFaults = map[Fault]string{
	FaultEmpty:   "",
	FaultNone:    "NONE",
	FaultRefusal: "I'm sorry, but I can't help with that request.",
	FaultLoop:    strings.Repeat("The user asked about the plan and the assistant explained the plan again. ", 40),
}

// Usage is the reported cost of an answer in tokens.
type Usage struct {
	Input, Cached, Output, Reasoning int
}

// Answer is how one request is answered. The zero Answer is the built-in model's.
type Answer struct {
	// Text is the reply; "" is the built-in model's (FaultEmpty gives no text at all). It is streamed
	// in pieces: a word with the space after it, long runs without spaces in parts.
	Text string
	// Items are one step in place of Text, with any items in any order; a step without calls ends the reply. Pieces are those of
	// their texts.
	Items []Item
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

// answerFor decides how a request is answered: the script first, then directives in the message.
func (s *Server) answerFor(r Request) Answer {
	var answer Answer
	if s.options.Script != nil {
		answer = s.options.Script(&r)
	}
	if reflect.ValueOf(answer).IsZero() {
		answer = directed(&r)
	}
	// PieceDelay makes a reply readable while it streams; a fold is not read.
	if answer.PieceDelay == 0 && r.Stream {
		answer.PieceDelay = s.options.PieceDelay
	}
	return answer
}

var directive = regexp.MustCompile(`\[\[offline(-fold|-extract|-topic|-rewrite|-title)?:([a-z0-9_]+)(?:=([0-9A-Za-zµ._-]+))?\]\]`)

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
	case KindTitle:
		prefix = "-title"
	case KindRewrite:
		text, prefix = questionOf(text), "-rewrite"
	case KindExtract:
		text, prefix = NewMessages(text), "-extract"
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

// direct applies one directive.
func (a *Answer) direct(name, value string) {
	const piecesBeforeFault = 2
	switch name {
	case "slow":
		a.PieceDelay, _ = time.ParseDuration(value)
	case "latency":
		a.Latency, _ = time.ParseDuration(value)
	case "call": // see act
	default:
		a.Fault, a.RetryAfter, a.FaultAfter = Fault(name), value, piecesBeforeFault
		if n, err := strconv.Atoi(value); err == nil {
			a.FaultAfter = n
		}
	}
}

// withoutDirectives returns the text that the model sees.
func withoutDirectives(text string) string { return directive.ReplaceAllString(text, "") }
