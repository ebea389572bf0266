package httpapi

import (
	"context"
	"maps"
	"net/http"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

func memoryRoutes() []route {
	return []route{{
		method: http.MethodGet, path: "/v1/chats/{chat_id}/memory", id: "getMemory", tag: "chats",
		summary: "See what a chat remembers", description: "What the next prompt would hold of the chat, and where its turns are.",
		answer: "The memory.", errors: []fault.Code{fault.ChatExpired, fault.UnknownModelVariant},
		endpoint: jsonEndpoint((*Server).getMemory),
	}}
}

type memoryQuery struct {
	ModelVariant string `query:"model_variant" description:"The model variant whose window counts; the first one configured when it is left out."`
}

// getMemory returns what the next prompt of a chat would hold.
func (s *Server) getMemory(ctx context.Context, user auth.Principal, chatID uuid.UUID, query memoryQuery) (chat.PromptPreview, error) {
	return s.config.Chat.PreviewPrompt(ctx, user, chatID, query.ModelVariant)
}

// memorySentences describe what the types' tags do not.
var memorySentences = map[string]string{
	"Memory":                      "What the next prompt of a chat would hold of it.",
	"Memory.coverage":             "Where the turns are: in the brief, word for word in the prompt, or in neither.",
	"Memory.tokens":               "Of all sections together.",
	"MemorySection":               "A part of the prompt, with its heading.",
	"MemorySection.tokens":        "Of what is shown, without headings and labels.",
	"MemorySection.items":         "Turns, messages or files that the section stands for.",
	"MemorySection.left_out":      "Those that had no room.",
	"MemorySection.budget":        "The most tokens that the section may take.",
	"MemorySection.turns":         "Turns that the section stands for.",
	"MemorySection.messages":      "Messages, where the section shows single ones.",
	"MemorySection.files":         "Files that the section names.",
	"MemoryContext":               "The chat in short.",
	"MemoryContext.tool_name":     "The tool that began the chat; null for a person.",
	"MemoryContext.tools_used":    "All tools through which messages came.",
	"MemoryContext.turns":         "Turns since the context was cleared last.",
	"MemoryBudget":                "How the model's context window is divided, in tokens.",
	"MemoryBudget.response":       "A quarter of the window, at most 16000.",
	"MemoryBudget.history":        "A third of the rest, at most 50000. The memory's own budgets are tighter.",
	"MemoryBudget.files":          "What is left, at most 100000; instructions, question and sources take their place from it.",
	"MemoryReceipt.strategy":      "The chat's memory strategy.",
	"MemoryReceipt.kept_messages": "Pinned and important messages shown beside the turns.",
	"MemoryReceipt.files":         "Files that were shown.",
	"MemoryReceipt.sections":      "The prompt's sections in their order, with those that are missing because they had no room or could not be retrieved.",
	"SectionAccount":              "What a section of the prompt takes and stands for.",
	"SectionAccount.name":         "Which section it is.",
	"SectionAccount.tokens":       "Of what is shown, without headings and labels.",
	"SectionAccount.items":        "Turns, messages or files that the section stands for.",
	"SectionAccount.left_out":     "Those that had no room.",
	"SectionAccount.failure":      "Why a section that had to be retrieved is missing: late or failed.",
}

// correctMemory says what reflection cannot.
func correctMemory(all object) {
	strategy := object{"enum": history.Strategies}
	property(all, "Memory", "strategy", strategy)
	property(all, "MemoryReceipt", "strategy", maps.Clone(strategy))
	property(all, "MemorySection", "name", object{"enum": []string{"brief", "kept", "recent", "files", "recall"}, "description": "Which part it is."})
	neverNull(all, "Memory.sections")
	neverNull(all, "MemoryReceipt.sections")
	neverNull(all, "MemoryContext.tools_used")
}
