package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"time"

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
			endpoint: jsonEndpoint((*Server).listMemories),
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
			endpoint: jsonEndpoint((*Server).deleteMemories),
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
			endpoint: jsonEndpoint((*Server).memorySettings),
		},
		{
			method: http.MethodPatch, path: "/v1/memories/settings", id: "changeMemorySettings", tag: "memories", summary: "Change the settings",
			description: "Changes the settings that the body names. enabled: false stops everything: nothing is remembered, and nothing is shown to the model.",
			example:     object{"enabled": true, "time_zone": "Europe/Berlin", "excluded": []string{"my divorce"}}, answer: "The settings as they are now.",
			endpoint: jsonEndpoint((*Server).changeMemorySettings),
		},
		exportMemoriesRoute(), importMemoriesRoute(),
		{
			method: http.MethodGet, path: "/v1/memories/{memory_id}", id: "findMemory", tag: "memories", summary: "Read a memory",
			description: "Reads the memory and where the user said it.", answer: "The memory.",
			endpoint: jsonEndpoint((*Server).findMemory),
		},
		{
			method: http.MethodPatch, path: "/v1/memories/{memory_id}", id: "changeMemory", tag: "memories", summary: "Change a memory",
			description: "Changes the fields that the body names. New words, and confirming what is in the inbox, make it certain; what was edited " +
				"is the user's own, and no model changes it any more.",
			example: object{"content": "Prefers oat milk in coffee.", "pinned": true}, answer: "The memory as it is now.",
			errors:   []fault.Code{fault.MemoryExists},
			endpoint: jsonEndpoint((*Server).changeMemory),
		},
		{
			method: http.MethodDelete, path: "/v1/memories/{memory_id}", id: "deleteMemory", tag: "memories", summary: "Forget a memory",
			description: "Deletes the memory, its history, and what the graph knew from it alone. The messages in which it was said stay.",
			answer:      "It is gone.", errors: []fault.Code{fault.ValidationFailed},
			endpoint: jsonEndpoint((*Server).deleteMemory),
		},
		{
			method: http.MethodGet, path: "/v1/memories/{memory_id}/history", id: "getMemoryHistory", tag: "memories", summary: "Read a memory's history",
			description: "Every change of the memory, who made it and why.", answer: "The changes.",
			endpoint: jsonEndpoint((*Server).memoryHistory),
		},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/extract", id: "extractMemories", tag: "memories", summary: "Look at a chat now",
			description: "Reads memories out of everything in the chat that has not been looked at, instead of when it is due, and waits for that.",
			answer:      "The last row of the ledger.", errors: []fault.Code{fault.ChatExpired, fault.MemoryOff, fault.UpstreamTimeout},
			endpoint: jsonEndpoint((*Server).extractMemories),
		},
	}
}

func (s *Server) listMemories(ctx context.Context, user auth.Principal, _ uuid.UUID, query history.MemoriesQuery) (history.MemoryPage, error) {
	return s.config.Memories.ListMemories(ctx, user, query)
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

func (s *Server) deleteMemories(ctx context.Context, user auth.Principal, _ uuid.UUID, _ none) (history.DeletedMemories, error) {
	return s.config.Memories.DeleteMemories(ctx, user)
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

func (s *Server) memorySettings(ctx context.Context, user auth.Principal, _ uuid.UUID, _ none) (history.MemorySettings, error) {
	return s.config.Memories.MemorySettings(ctx, user)
}

func (s *Server) changeMemorySettings(
	ctx context.Context,
	user auth.Principal,
	_ uuid.UUID,
	change history.MemorySettingsChange,
) (history.MemorySettings, error) {
	return s.config.Memories.ChangeMemorySettings(ctx, user, change)
}

func (s *Server) findMemory(ctx context.Context, user auth.Principal, id uuid.UUID, _ none) (history.Memory, error) {
	return s.config.Memories.FindMemory(ctx, user, id)
}

func (s *Server) changeMemory(ctx context.Context, user auth.Principal, id uuid.UUID, change history.MemoryChange) (history.Memory, error) {
	return s.config.Memories.ChangeMemory(ctx, user, id, change)
}

func (s *Server) deleteMemory(ctx context.Context, user auth.Principal, id uuid.UUID, deletion history.MemoryDeletion) (none, error) {
	return none{}, s.config.Memories.DeleteMemory(ctx, user, id, deletion)
}

func (s *Server) memoryHistory(ctx context.Context, user auth.Principal, id uuid.UUID, _ none) (history.MemoryHistory, error) {
	return s.config.Memories.MemoryHistory(ctx, user, id)
}

// extractPatience is how long a client waits for an extraction. It goes on without the client.
const extractPatience = 2 * time.Minute

func (s *Server) extractMemories(ctx context.Context, user auth.Principal, chatID uuid.UUID, _ none) (history.Extraction, error) {
	ctx, cancel := context.WithTimeout(ctx, extractPatience)
	defer cancel()
	return s.config.Extracts.Extract(ctx, user, chatID)
}
