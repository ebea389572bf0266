package httpapi

import (
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
)

// The header that names the stream of Vercel's AI SDK, in a request and in its answer.
const (
	headerUIStream  = "X-Vercel-Ai-Ui-Message-Stream"
	uiStreamVersion = "v1"
)

const queryProtocol = "protocol"

// protocol is the format of a stream, and the value of ?protocol that asks for it.
type protocol string

const (
	protocolEvents protocol = "events" // our own, the default
	protocolUI     protocol = "ui"     // the AI SDK's UI message stream
)

// encoder writes the events of one reply in one protocol.
type encoder interface {
	Padding() error
	Started(started streaming.Started) error
	Chunk(chunk streaming.Chunk) error
}

var (
	_ encoder = (*streaming.Encoder)(nil)
	_ encoder = (*streaming.UIEncoder)(nil)
)

func (p protocol) encoder(w io.Writer, messageID uuid.UUID) encoder {
	if p == protocolUI {
		return streaming.NewUIEncoder(w)
	}
	return streaming.NewEncoder(w, messageID)
}

func (p protocol) header(header http.Header) {
	if p == protocolUI {
		header.Set(headerUIStream, uiStreamVersion)
	}
}

// namedProtocol reads ?protocol or else the AI SDK's header; "" without either.
func namedProtocol(request *http.Request) (protocol, error) {
	query := request.URL.Query()
	if query.Has(queryProtocol) {
		named := protocol(query.Get(queryProtocol))
		if named != protocolEvents && named != protocolUI {
			return "", fault.New(fault.BadRequest, `The query parameter protocol must be "events" or "ui".`)
		}
		return named, nil
	}
	switch request.Header.Get(headerUIStream) {
	case "":
		return "", nil
	case uiStreamVersion:
		return protocolUI, nil
	}
	return "", fault.New(fault.BadRequest, "The header x-vercel-ai-ui-message-stream must be v1: no other version is spoken here.")
}

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
