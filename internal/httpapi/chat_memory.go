package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
)

func memoryRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}/memory", id: "getMemory",
			endpoint: jsonEndpoint((*Server).getMemory),
		},
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}/memory/revisions", id: "listBriefRevisions",
			endpoint: onIDWithInput(stores.ListBriefRevisions),
		},
	}
}

type memoryQuery struct {
	ModelVariant string `query:"model_variant" description:"The model variant whose window counts; the first one configured when it is left out."`
	Content      string `query:"content" maxLength:"32000" description:"A message that might come next: what would be recalled for it is shown as well."`
}

// getMemory returns what the next prompt of a chat would hold.
func (s *Server) getMemory(ctx context.Context, user auth.Principal, chatID uuid.UUID, query memoryQuery) (chat.PromptPreview, error) {
	return s.config.Chat.PreviewPrompt(ctx, user, chatID, query.ModelVariant, query.Content)
}
