package httpapi

import (
	"context"
	"io"
	"net/http"
	"reflect"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

func memoryRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "/v1/chats/{chat_id}/memory", id: "getMemory", endpoint: jsonEndpoint((*Server).getMemory)},
		{method: http.MethodGet, path: "/v1/chats/{chat_id}/memory/revisions", id: "listBriefRevisions", endpoint: onIDWithInput(stores.ListBriefRevisions)},
		{method: http.MethodGet, path: "/v1/memories", id: "listMemories", endpoint: withInput(stores.ListMemories)},
		{
			method: http.MethodPost, path: "/v1/memories", id: "addMemory",
			answers: object{"200": answer("The memory that has these words already.", object{mediaJSON: object{"schema": schemaRef("LongTermMemory")}})},
			endpoint: endpoint{
				serve: (*Server).postMemory, in: reflect.TypeFor[api.NewMemory](), out: reflect.TypeFor[api.Memory](), status: http.StatusCreated,
			},
		},
		{method: http.MethodDelete, path: "/v1/memories", id: "deleteMemories", endpoint: ofUser(stores.DeleteMemories)},
		{method: http.MethodPost, path: "/v1/memories/forget", id: "forgetMemories", endpoint: jsonEndpoint((*Server).forgetMemories)},
		{method: http.MethodGet, path: "/v1/memories/settings", id: "getMemorySettings", endpoint: ofUser(stores.MemorySettings)},
		{method: http.MethodPatch, path: "/v1/memories/settings", id: "changeMemorySettings", endpoint: withInput(stores.ChangeMemorySettings)},
		exportRoute("/v1/memories/export", "exportMemories", object{mediaLines: object{}}, endpoint{serve: (*Server).exportMemories}),
		{
			method: http.MethodPost, path: "/v1/memories/import", id: "importMemories", content: importContent(),
			endpoint: endpoint{serve: (*Server).importMemories, out: reflect.TypeFor[api.MemoryImport](), status: http.StatusOK},
		},
		{method: http.MethodGet, path: "/v1/memories/{memory_id}", id: "findMemory", endpoint: onID(stores.FindMemory)},
		{method: http.MethodPatch, path: "/v1/memories/{memory_id}", id: "changeMemory", endpoint: onIDWithInput(stores.ChangeMemory)},
		{method: http.MethodDelete, path: "/v1/memories/{memory_id}", id: "deleteMemory", endpoint: deletionWithInput(stores.DeleteMemory)},
		{method: http.MethodGet, path: "/v1/memories/{memory_id}/history", id: "getMemoryHistory", endpoint: onID(stores.MemoryHistory)},
		{method: http.MethodPost, path: "/v1/chats/{chat_id}/extract", id: "extractMemories", endpoint: onID(stores.Extract)},
	}
}

// postMemory answers 201 for a new memory, and 200 for one that has these words already.
func (s *Server) postMemory(c echo.Context) error {
	var memory api.NewMemory
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

type forgetAnswer struct {
	_          struct{}               `description:"candidates and token answer a query, forgotten answers a token."`
	Candidates *[]api.ForgetCandidate `json:"candidates,omitempty" nullable:"false" doc:"candidates"`
	Token      *string                `json:"token,omitempty" nullable:"false" description:"Forgets these, for 10 minutes."`
	Forgotten  *int                   `json:"forgotten,omitempty" nullable:"false" description:"How many were deleted. One that was changed meanwhile is not."`
}

func (s *Server) forgetMemories(ctx context.Context, user auth.Principal, _ uuid.UUID, request api.ForgetRequest) (forgetAnswer, error) {
	if request.Token != nil {
		forgotten, err := api.Forget(ctx, s.config.Memories, user, *request.Token)
		return forgetAnswer{Forgotten: &forgotten}, err
	}
	candidates, token, err := api.ProposeForgetting(ctx, s.config.Memories, user, *request.Query)
	return forgetAnswer{Candidates: &candidates, Token: &token}, err
}

// maxMemoryImport is the longest file of memories, in bytes.
const maxMemoryImport = 32 << 20

func (s *Server) exportMemories(c echo.Context) error {
	return s.sendFile(c, func(ctx context.Context, user auth.Principal) (file, error) {
		return file{mediaLines, "memories.jsonl", func(out io.Writer) error {
			return s.config.Memories.ExportMemories(ctx, user, func(memory bundle.Memory) error { return bundle.WriteMemory(out, memory) })
		}}, nil
	})
}

// importMemories reads the whole file, and then stores all of it.
func (s *Server) importMemories(c echo.Context) error {
	body, release, err := s.beginImport(c, maxMemoryImport)
	if err != nil {
		return err
	}
	defer release()
	read, err := s.config.Transfer.ReadMemories(c.Request().Context(), body)
	if err != nil {
		return err
	}
	done, err := s.config.Memories.ImportMemories(c.Request().Context(), principal(c), read.Records)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, api.MemoryImport{
		Format: string(read.Format), Imported: done.Imported, Skipped: done.Skipped, Refused: append([]bundle.RefusedMemory{}, read.Refused...),
	})
}
