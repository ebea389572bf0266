package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"reflect"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
)

func chatRoutes() []route {
	return []route{
		{
			method: http.MethodPost, path: "/v1/chats", id: "createChat", bodyOptional: true,
			endpoint: endpoint{
				serve: (*Server).postChat, in: reflect.TypeFor[api.NewChat](), out: reflect.TypeFor[api.Chat](), status: http.StatusCreated,
			},
		},
		{method: http.MethodGet, path: "/v1/chats", id: "listChats", endpoint: withInput(stores.ListChats)},
		{method: http.MethodPost, path: "/v1/chats/prune", id: "pruneChats", endpoint: withInput(stores.PruneChats)},
		{method: http.MethodGet, path: "/v1/chats/{chat_id}", id: "getChat", endpoint: onID(stores.FindChat)},
		{method: http.MethodPatch, path: "/v1/chats/{chat_id}", id: "changeChat", endpoint: onIDWithInput(stores.ChangeChat)},
		{method: http.MethodDelete, path: "/v1/chats/{chat_id}", id: "deleteChat", endpoint: deletionWithInput(stores.DeleteChat)},
		{method: http.MethodPost, path: "/v1/chats/{chat_id}/clear", id: "clearChat", endpoint: onID(stores.ClearChat)},
		{method: http.MethodGet, path: "/v1/chats/{chat_id}/files", id: "listFiles", endpoint: jsonEndpoint((*Server).listFiles)},
		{method: http.MethodGet, path: "/v1/chats/{chat_id}/messages", id: "listMessages", endpoint: onIDWithInput(stores.ListMessages)},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/messages", id: "storeMessages",
			limits: []limit{(*Server).limitMessages}, endpoint: onIDWithInput(stores.StoreMessages),
		},
		{method: http.MethodPatch, path: "/v1/messages/{message_id}", id: "changeMessage", endpoint: onIDWithInput(stores.ChangeMessage)},
		{method: http.MethodDelete, path: "/v1/messages/{message_id}", id: "deleteMessage", endpoint: deletion(stores.DeleteMessage)},
		{method: http.MethodGet, path: "/v1/messages/{message_id}/why", id: "whyReply", endpoint: onID(stores.WhyReply)},
	}
}

// postChat creates a chat. A body that is left out, or blank, is the same as {}.
func (s *Server) postChat(c echo.Context) error {
	raw := []byte("{}")
	if c.Request().ContentLength != 0 {
		sent, err := s.readBody(c, maxBody)
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(sent)) > 0 {
			raw = sent
		}
	}
	var chat api.NewChat
	if err := decodeObject(raw, &chat); err != nil {
		return err
	}
	if err := chat.Check(s.config.ChatDefaults); err != nil {
		return err
	}
	created, err := s.config.History.CreateChat(c.Request().Context(), principal(c), chat)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/chats/"+created.ID.String())
	return writeJSON(c, http.StatusCreated, created)
}

type filesQuery struct {
	Include string `query:"include" enum:"content" description:"content gives the files' texts as well."`
	SHA256  []byte `query:"sha256" format:"hex" pattern:"^[0-9a-fA-F]{64}$" description:"Only the file of this hash."`
}

type files struct {
	Files []api.File `json:"files" nullable:"false"`
}

func (s *Server) listFiles(ctx context.Context, user auth.Principal, chatID uuid.UUID, query filesQuery) (files, error) {
	found, err := s.config.History.ListFiles(ctx, user, chatID, api.FilesQuery{Content: query.Include == "content", SHA256: query.SHA256})
	return files{found}, err
}

type memoryQuery struct {
	ModelVariant string `query:"model_variant" description:"The model variant whose window counts; the first one configured when it is left out."`
	Content      string `query:"content" maxLength:"32000" description:"A message that might come next: what would be recalled for it is shown as well."`
}

func (s *Server) getMemory(ctx context.Context, user auth.Principal, chatID uuid.UUID, query memoryQuery) (chat.PromptPreview, error) {
	return s.config.Chat.PreviewPrompt(ctx, user, chatID, query.ModelVariant, query.Content)
}
