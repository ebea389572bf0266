package httpapi

import (
	"context"
	"net/http"
	"reflect"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

func longMemoryRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/memories", id: "listMemories", tag: "memories", summary: "List memories",
			description: "What the user is remembered for in all chats, the newest first; with q the best matches. By default it lists what matters " +
				"now: active memories, and those in the inbox.",
			answer: "A page of memories.", errors: []fault.Code{fault.BadRequest, fault.ValidationFailed},
			endpoint: withInput(stores.ListMemories),
		},
		{
			method: http.MethodPost, path: "/v1/memories", id: "addMemory", tag: "memories", summary: "Remember something",
			description: "Stores what the user wrote. The same words again are not stored again: the memory that has them becomes active, gets the " +
				"fields that are named, and is the answer.",
			example: object{"content": "Prefers oat milk.", "type": "preference", "durable": true},
			answer:  "The new memory.",
			answers: object{"200": answer("The memory that has these words already.", object{mediaJSON: object{"schema": schemaRef("LongTermMemory")}})},
			errors:  []fault.Code{fault.MemoryOff},
			endpoint: endpoint{
				serve: (*Server).postMemory, in: reflect.TypeFor[history.NewMemory](), out: reflect.TypeFor[history.Memory](), status: http.StatusCreated,
			},
		},
		{
			method: http.MethodDelete, path: "/v1/memories", id: "deleteMemories", tag: "memories", summary: "Forget everything",
			description: "Deletes all memories of the user, their histories, and the graph of what they are about. What was said so far and not yet " +
				"looked at is skipped. Chats and their briefs stay.",
			answer:   "What was deleted.",
			endpoint: ofUser(stores.DeleteMemories),
		},
		{
			method: http.MethodPost, path: "/v1/memories/forget", id: "forgetMemories", tag: "memories", summary: "Forget by words, in two steps",
			description: "With query it answers the memories that the words may mean, and a token. With that token, within 10 minutes, it deletes " +
				"exactly those that have not changed since.",
			example: object{"query": "my knee"}, answer: "What would be forgotten, or how much was.",
			endpoint: jsonEndpoint((*Server).forgetMemories),
		},
		{
			method: http.MethodGet, path: "/v1/memories/settings", id: "getMemorySettings", tag: "memories", summary: "Read the settings",
			description: "What the user decided about being remembered.", answer: "The settings.",
			endpoint: ofUser(stores.MemorySettings),
		},
		{
			method: http.MethodPatch, path: "/v1/memories/settings", id: "changeMemorySettings", tag: "memories", summary: "Change the settings",
			description: "Changes the settings that the body names. enabled: false stops everything: nothing is remembered, and nothing is shown to the model.",
			example:     object{"enabled": true, "time_zone": "Europe/Berlin", "excluded": []string{"my divorce"}}, answer: "The settings as they are now.",
			endpoint: withInput(stores.ChangeMemorySettings),
		},
		exportMemoriesRoute(), importMemoriesRoute(),
		{
			method: http.MethodGet, path: "/v1/memories/{memory_id}", id: "findMemory", tag: "memories", summary: "Read a memory",
			description: "Reads the memory and where the user said it.", answer: "The memory.",
			endpoint: onID(stores.FindMemory),
		},
		{
			method: http.MethodPatch, path: "/v1/memories/{memory_id}", id: "changeMemory", tag: "memories", summary: "Change a memory",
			description: "Changes the fields that the body names. New words, and confirming what is in the inbox, make it certain; what was edited " +
				"is the user's own, and no model changes it any more.",
			example: object{"content": "Prefers oat milk in coffee.", "pinned": true}, answer: "The memory as it is now.",
			errors:   []fault.Code{fault.MemoryExists},
			endpoint: onIDWithInput(stores.ChangeMemory),
		},
		{
			method: http.MethodDelete, path: "/v1/memories/{memory_id}", id: "deleteMemory", tag: "memories", summary: "Forget a memory",
			description: "Deletes the memory, its history, and what the graph knew from it alone. The messages in which it was said stay.",
			answer:      "It is gone.", errors: []fault.Code{fault.ValidationFailed},
			endpoint: deletionWithInput(stores.DeleteMemory),
		},
		{
			method: http.MethodGet, path: "/v1/memories/{memory_id}/history", id: "getMemoryHistory", tag: "memories", summary: "Read a memory's history",
			description: "Every change of the memory, who made it and why.", answer: "The changes.",
			endpoint: onID(stores.MemoryHistory),
		},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/extract", id: "extractMemories", tag: "memories", summary: "Look at a chat now",
			description: "Reads memories out of everything in the chat that has not been looked at, instead of when it is due, and waits for that.",
			answer:      "The last row of the ledger.", errors: []fault.Code{fault.ChatExpired, fault.MemoryOff, fault.UpstreamTimeout},
			endpoint: onID(stores.Extract),
		},
	}
}

// postMemory answers 201 for a new memory, and 200 for one that has these words already.
func (s *Server) postMemory(c echo.Context) error {
	var memory history.NewMemory
	if err := s.readRequest(c, &memory); err != nil {
		return err
	}
	stored, added, err := s.config.Memories.AddMemory(c.Request().Context(), principal(c), memory)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if added {
		status = http.StatusCreated
		c.Response().Header().Set(echo.HeaderLocation, "/v1/memories/"+stored.ID.String())
	}
	return writeJSON(c, status, stored)
}

// forgetAnswer is the answer to either step.
type forgetAnswer struct {
	_          struct{}                   `description:"candidates and token answer a query, forgotten answers a token."`
	Candidates *[]history.ForgetCandidate `json:"candidates,omitempty" nullable:"false" doc:"candidates"`
	Token      *string                    `json:"token,omitempty" nullable:"false" description:"Forgets these, for 10 minutes."`
	Forgotten  *int                       `json:"forgotten,omitempty" nullable:"false" description:"How many were deleted. One that was changed meanwhile is not."`
}

func (s *Server) forgetMemories(ctx context.Context, user auth.Principal, _ uuid.UUID, request history.ForgetRequest) (forgetAnswer, error) {
	if request.Token != nil {
		forgotten, err := history.Forget(ctx, s.config.Memories, user, *request.Token)
		return forgetAnswer{Forgotten: &forgotten}, err
	}
	candidates, token, err := history.ProposeForgetting(ctx, s.config.Memories, user, *request.Query)
	return forgetAnswer{Candidates: &candidates, Token: &token}, err
}
