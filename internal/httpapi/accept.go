package httpapi

import (
	"mime"
	"strconv"
	"strings"
)

const (
	mediaJSON        = "application/json"
	mediaEventStream = "text/event-stream"
)

// prefersJSON reports whether an Accept header asks for one JSON object rather than for events (RFC 9110, section 12.5.1).
// Higher quality wins, then the more specific range, then events: no header, "*/*" and both by name mean events,
// "application/json, */*" means JSON.
func prefersJSON(accept []string) bool {
	ranges := mediaRanges(strings.Join(accept, ","))
	object, events := ranges.quality(mediaJSON), ranges.quality(mediaEventStream)
	if object.q != events.q {
		return object.q > events.q
	}
	return object.q > 0 && object.specificity > events.specificity
}

type mediaRange struct {
	kind string
	q    float64
}

type acceptable []mediaRange

func mediaRanges(header string) acceptable {
	var ranges acceptable
	for part := range strings.SplitSeq(header, ",") {
		kind, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue // malformed ranges are ignored
		}
		ranges = append(ranges, mediaRange{kind, quality(parameters["q"])})
	}
	return ranges
}

func quality(q string) float64 {
	if q == "" {
		return 1
	}
	value, err := strconv.ParseFloat(q, 64)
	if err != nil || !(value >= 0 && value <= 1) {
		return 0
	}
	return value
}

type match struct {
	q           float64
	specificity int // 0 for no match, then */*, type/*, type/subtype
}

// quality is that of the most specific range that matches.
func (a acceptable) quality(kind string) match {
	var best match
	for _, r := range a {
		if specificity := r.specificity(kind); specificity > best.specificity {
			best = match{r.q, specificity}
		}
	}
	return best
}

func (r mediaRange) specificity(kind string) int {
	family, _, _ := strings.Cut(kind, "/")
	switch r.kind {
	case kind:
		return 3
	case family + "/*":
		return 2
	case "*/*":
		return 1
	}
	return 0
}
