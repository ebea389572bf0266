package httpapi

import (
	"net/http"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

func storedMessageRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}/messages", id: "listMessages", tag: "chats", summary: "Read a chat's messages",
			description: "The newest messages, those before a place, or those after one; always in their order.",
			answer:      "Some messages.", errors: []fault.Code{fault.ChatExpired, fault.ValidationFailed},
			endpoint: onIDWithInput(history.Store.ListMessages),
		},
		{
			method: http.MethodPatch, path: "/v1/messages/{message_id}", id: "changeMessage", tag: "chats", summary: "Rate a message",
			description: "Pins a message or says how important it is.", example: object{"pinned": true, "importance": 0.9},
			answer: "The message as it is now.", errors: []fault.Code{fault.ChatExpired},
			endpoint: onIDWithInput(history.Store.ChangeMessage),
		},
		{
			method: http.MethodDelete, path: "/v1/messages/{message_id}", id: "deleteMessage", tag: "chats", summary: "Delete a message",
			description: "Deletes the message and its files. When its words are in the brief, the brief is made anew without them.",
			answer:      "It is gone.", errors: []fault.Code{fault.GenerationInProgress},
			endpoint: deletion(history.Store.DeleteMessage),
		},
	}
}
