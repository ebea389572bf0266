package httpapi

import (
	"mime"
	"slices"
	"strconv"
	"strings"
)

const (
	mediaJSON        = "application/json"
	mediaEventStream = "text/event-stream"
)

// How specific a range of an Accept header is.
const (
	matchesNot = iota
	matchesAll
	matchesFamily
	matchesExactly
)

// prefersJSON reports whether an Accept header asks for one JSON object rather than for events (RFC 9110, section 12.5.1).
// Higher quality wins, then the more specific range, then events: no header, "*/*" and both by name mean events,
// "application/json, */*" means JSON.
func prefersJSON(accept []string) bool {
	object, objectMatch := quality(accept, mediaJSON)
	events, eventsMatch := quality(accept, mediaEventStream)
	if object != events {
		return object > events
	}
	return object > 0 && objectMatch > eventsMatch
}

// prefersEvents reports whether an Accept header names events, and does not prefer JSON. Unlike a reply, an import is
// answered with one object by default.
func prefersEvents(accept []string) bool {
	object, _ := quality(accept, mediaJSON)
	events, match := quality(accept, mediaEventStream)
	return match == matchesExactly && events > 0 && events >= object
}

// quality is that of the most specific range that matches the media type, and how specific it is. Malformed ranges are
// ignored; a malformed quality is 0.
func quality(accept []string, kind string) (q float64, match int) {
	family, _, _ := strings.Cut(kind, "/")
	matching := []string{matchesAll: "*/*", matchesFamily: family + "/*", matchesExactly: kind}
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		named, parameters, err := mime.ParseMediaType(part)
		specificity := slices.Index(matching, named)
		if err != nil || specificity <= match {
			continue
		}
		q, match = 1, specificity
		if given := parameters["q"]; given != "" {
			if q, err = strconv.ParseFloat(given, 64); err != nil || !(q >= 0 && q <= 1) {
				q = 0
			}
		}
	}
	return q, match
}
