package httpapi

import (
	"net/http"
)

func storedMessageRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}/messages", id: "listMessages",
			endpoint: onIDWithInput(stores.ListMessages),
		},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/messages", id: "storeMessages",
			limits: []limit{(*Server).limitMessages}, endpoint: onIDWithInput(stores.StoreMessages),
		},
		{
			method: http.MethodPatch, path: "/v1/messages/{message_id}", id: "changeMessage",
			endpoint: onIDWithInput(stores.ChangeMessage),
		},
		{
			method: http.MethodDelete, path: "/v1/messages/{message_id}", id: "deleteMessage",
			endpoint: deletion(stores.DeleteMessage),
		},
		{
			method: http.MethodGet, path: "/v1/messages/{message_id}/why", id: "whyReply",
			endpoint: onID(stores.WhyReply),
		},
	}
}
