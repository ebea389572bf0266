package httpapi

import (
	"net/http"

	"github.com/arcoscribe/throughline/internal/fault"
)

func storedMessageRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}/messages", id: "listMessages", tag: "chats",
			errors:   []fault.Code{fault.ChatExpired, fault.ValidationFailed},
			endpoint: onIDWithInput(stores.ListMessages),
		},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/messages", id: "storeMessages", tag: "chats",
			example: object{"messages": []object{
				{"role": "assistant", "tool_calls": []object{{"id": "call_1", "type": "function", "function": object{"name": "tuner", "arguments": `{"string":"A"}`}}}},
				{"role": "tool", "name": "tuner", "tool_call_id": "call_1", "content": "441 Hz"},
			}},
			errors: []fault.Code{fault.ChatExpired, fault.GenerationInProgress, fault.IdempotencyMismatch, fault.OverRequestRateLimit},
			limits: []limit{(*Server).limitMessages}, endpoint: onIDWithInput(stores.StoreMessages),
		},
		{
			method: http.MethodPatch, path: "/v1/messages/{message_id}", id: "changeMessage", tag: "chats",
			example: object{"pinned": true, "importance": 0.9}, errors: []fault.Code{fault.ChatExpired},
			endpoint: onIDWithInput(stores.ChangeMessage),
		},
		{
			method: http.MethodDelete, path: "/v1/messages/{message_id}", id: "deleteMessage", tag: "chats",
			errors: []fault.Code{fault.GenerationInProgress}, endpoint: deletion(stores.DeleteMessage),
		},
		{
			method: http.MethodGet, path: "/v1/messages/{message_id}/why", id: "whyReply", tag: "chats",
			errors: []fault.Code{fault.ChatExpired}, endpoint: onID(stores.WhyReply),
		},
	}
}
