package main

import (
	"fmt"

	"github.com/google/uuid"
)

// asking is one message that a client sends, and by whose id everybody finds it again: the model what it
// said, Postgres the reply.
type asking struct {
	conversation
	clientID uuid.UUID // client_message_id
}

func ask(c conversation) asking { return asking{c, newID()} }

// post is the request that sends the message.
func (a asking) post(content string) []byte {
	return post("/v1/message", a.token, fmt.Sprintf(`{"chat_id":"%s","client_message_id":"%s","content":"%s"}`, a.id, a.clientID, content))
}

// named asks for a reply that the model keeps, whose first token has at least so many bytes.
func (a asking) named(tokens, first int) []byte {
	return a.post(fmt.Sprintf("Say %s%s %s%d %s%d", nameMarker, a.clientID, firstMarker, first, marker, tokens))
}

// resume is the request that reads on: after an event, or what is running when there is none.
func (a asking) resume(lastEventID string) []byte {
	cursor := ""
	if lastEventID != "" {
		cursor = "Last-Event-ID: " + lastEventID + "\r\n"
	}
	return fmt.Appendf(nil, "GET /v1/message/%s/stream HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n%s\r\n", a.id, a.token, cursor)
}
