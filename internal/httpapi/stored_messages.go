package httpapi

import (
	"net/http"

	"github.com/arcoscribe/throughline/internal/fault"
)

func storedMessageRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}/messages", id: "listMessages", tag: "chats", summary: "Read a chat's messages",
			description: "The newest messages, those before a place, or those after one; always in their order.",
			answer:      "Some messages.", errors: []fault.Code{fault.ChatExpired, fault.ValidationFailed},
			endpoint: onIDWithInput(stores.ListMessages),
		},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/messages", id: "storeMessages", tag: "chats", summary: "Store messages",
			description: "Stores messages at the chat's end without asking a model: what tools were asked and answered, notes of the app, turns that " +
				"were had elsewhere. " +
				"They are in the memory like any others. An assistant's message answers the user's message before it in the same request.",
			example: object{"messages": []object{
				{"role": "assistant", "tool_calls": []object{{"id": "call_1", "type": "function", "function": object{"name": "tuner", "arguments": `{"string":"A"}`}}}},
				{"role": "tool", "name": "tuner", "tool_call_id": "call_1", "content": "441 Hz"},
			}},
			answer:   "The messages as they are stored.",
			errors:   []fault.Code{fault.ChatExpired, fault.GenerationInProgress, fault.IdempotencyMismatch, fault.OverRequestRateLimit},
			limits:   []limit{(*Server).limitMessages},
			endpoint: onIDWithInput(stores.StoreMessages),
		},
		{
			method: http.MethodPatch, path: "/v1/messages/{message_id}", id: "changeMessage", tag: "chats", summary: "Rate a message",
			description: "Pins a message or says how important it is.", example: object{"pinned": true, "importance": 0.9},
			answer: "The message as it is now.", errors: []fault.Code{fault.ChatExpired},
			endpoint: onIDWithInput(stores.ChangeMessage),
		},
		{
			method: http.MethodDelete, path: "/v1/messages/{message_id}", id: "deleteMessage", tag: "chats", summary: "Delete a message",
			description: "Deletes the message and its files. When its words are in the brief, the brief is made anew without them.",
			answer:      "It is gone.", errors: []fault.Code{fault.GenerationInProgress},
			endpoint: deletion(stores.DeleteMessage),
		},
		{
			method: http.MethodGet, path: "/v1/messages/{message_id}/why", id: "whyReply", tag: "chats", summary: "See what a reply was made of",
			description: "What the prompt of a reply held of its chat: the receipt, the brief of that version, the turns that were recalled for the " +
				"question, and those that were shown word for word. " +
				"The id is the reply's, or that of the user's message for its latest reply.",
			answer: "What the reply was made of, as far as that still exists.", errors: []fault.Code{fault.ChatExpired},
			endpoint: onID(stores.WhyReply),
		},
	}
}
