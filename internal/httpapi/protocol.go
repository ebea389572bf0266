package httpapi

import (
	"io"
	"net/http"

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

// header sets the header that names the protocol.
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
