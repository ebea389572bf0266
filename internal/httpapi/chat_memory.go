package httpapi

import (
	"maps"
	"net/http"
	"reflect"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

// getMemory tells what the next prompt of a chat would hold.
func (s *Server) getMemory(c echo.Context) error {
	chatID, err := pathChatID(c)
	if err != nil {
		return err
	}
	shown, err := s.config.Chat.PreviewPrompt(c.Request().Context(), principal(c), chatID, c.QueryParam("model_variant"))
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, shown)
}

var memorySchemaTypes = map[string]reflect.Type{
	"Memory":        reflect.TypeFor[chat.PromptPreview](),
	"MemorySection": reflect.TypeFor[prompt.Section](),
	"MemoryContext": reflect.TypeFor[chat.Context](),
	"MemoryBudget":  reflect.TypeFor[chat.Window](),
}

var memorySentences = map[string]string{
	"Memory":                      "What the next prompt of a chat would hold of it.",
	"Memory.coverage":             "Where the turns are: in the brief, word for word in the prompt, or in neither.",
	"Memory.tokens":               "Of all sections together.",
	"MemorySection":               "A part of the prompt, with its heading.",
	"MemorySection.tokens":        "Of what is shown, without headings and labels.",
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
}

// correctMemory says what reflection cannot.
func correctMemory(all object) {
	strategy := object{"enum": history.Strategies}
	property(all, "Memory", "strategy", strategy)
	property(all, "MemoryReceipt", "strategy", maps.Clone(strategy))
	property(all, "MemorySection", "name", object{"enum": []string{"brief", "kept", "recent", "files"}, "description": "Which part it is."})
	neverNull(all, "Memory.sections")
	neverNull(all, "MemoryContext.tools_used")
}

func memoryParameters() object {
	return object{"ModelVariantQuery": object{
		"name": "model_variant", "in": "query", "description": "The model variant whose window counts; the first one configured when it is left out.",
		"schema": object{"type": "string"},
	}}
}

func memoryOperations() []operation {
	return []operation{{
		method: http.MethodGet, path: "/v1/chats/{chat_id}/memory", id: "getMemory", tag: "chats", user: true,
		summary: "See what a chat remembers", description: "What the next prompt would hold of the chat, and where its turns are.",
		parameters: []string{"ChatID", "ModelVariantQuery"}, answers: object{"200": jsonAnswer("The memory.", "Memory")},
		errors: concat(userErrors, []fault.Code{fault.BadUUID, fault.ChatNotFound, fault.ChatExpired, fault.UnknownModelVariant}),
	}}
}
