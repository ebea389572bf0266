package httpapi

import (
	"maps"
	"net/http"
	"reflect"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

// historySchemaTypes are the schemas of chats and their messages.
var historySchemaTypes = map[string]reflect.Type{
	"Chat":                 reflect.TypeFor[history.Chat](),
	"NewChatRequest":       reflect.TypeFor[chatBody](),
	"ChangeChatRequest":    reflect.TypeFor[chatChangeBody](),
	"ChatPage":             reflect.TypeFor[chatsBody](),
	"Message":              reflect.TypeFor[history.Message](),
	"MessagePage":          reflect.TypeFor[history.MessagePage](),
	"ChangeMessageRequest": reflect.TypeFor[messageChangeBody](),
	"MessageFile":          reflect.TypeFor[history.FileRef](),
	"ClearResult":          reflect.TypeFor[history.Cleared](),
	"Files":                reflect.TypeFor[filesBody](),
	"File":                 reflect.TypeFor[history.File](),
	"PruneRequest":         reflect.TypeFor[pruneBody](),
	"PruneResult":          reflect.TypeFor[history.Pruned](),
}

// historySentences describe what the types' tags do not.
var historySentences = map[string]string{ //nolint:gosec // these tokens are words of a model, no credentials
	"Chat":                      "A conversation.",
	"Chat.memory_strategy":      "How the chat is remembered.",
	"Chat.ttl_hours":            "Hours after its last turn at which the chat expires; null for never.",
	"Chat.max_turns":            "Turn limit of its prompt; null for none.",
	"Chat.tool_name":            "The tool that began the chat; null for one that a person began.",
	"Chat.turn_count":           "Messages of the user.",
	"Chat.expired":              "Whether the chat had expired when it was read. Such a chat is only in lists that ask for it.",
	"NewChatRequest":            "A chat without messages. Everything may be left out, the body as well.",
	"ChangeChatRequest":         "What is to be changed. What is left out stays; null takes the value away.",
	"ChangeMessageRequest":      "What is to be changed. What is left out stays.",
	"Message":                   "A message as it is stored. A reply that is still running has no content yet.",
	"Message.seq":               "The message's place in its chat: 1, 2, 3 … Deleted messages leave gaps.",
	"Message.reply_to":          "The user message that a reply answers; null for none.",
	"Message.superseded_by":     "The reply that was written in place of this one; null for none.",
	"Message.token_count":       "Tokens of content.",
	"Message.tool_calls":        "What an assistant asked of tools: an array, as the model's API writes it.",
	"Message.tool_call_id":      "The call that a tool's message answers.",
	"Message.name":              "Who speaks within the role, such as the tool's name.",
	"Message.tool_name":         "The tool through which a user's message came.",
	"MessagePage.has_more":      "Whether there are more: newer ones when after_seq was given, else older ones.",
	"MessageFile":               "A file as a message brought it.",
	"MessageFile.sha256":        "Of its content, in hexadecimal digits.",
	"ClearResult.cleared_seq":   "Messages up to this one are in no prompt and no brief any more.",
	"File":                      "A content that came with a chat's messages, once, whatever it was called and however often it came.",
	"File.path":                 "The path under which it came last.",
	"File.paths":                "All its paths, the latest first.",
	"File.message_id":           "The last message that brought it.",
	"File.created_at":           "When that message was stored.",
	"File.content":              "With include=content alone, for the latest files that fit 16 MiB together.",
	"PruneRequest":              "Which chats are to be deleted.",
	"PruneResult":               "What was deleted or, with dry_run, would be.",
	"PruneResult.chat_ids":      "The first 1000, the oldest first.",
	"Chat.last_message_at":      "null as long as there is no message.",
	"Chat.expires_at":           "null for never.",
	"Chat.system_prompt":        "Instructions for this chat alone; null for none.",
	"MessagePage.messages":      "In their order.",
	"ClearResult.brief_version": "The brief's version; clearing what is clear already leaves it.",
}

// correctHistory says what reflection cannot: objects and arrays that are the app's or the model's own,
// lists that are never null, words to choose from.
func correctHistory(all object) {
	appsOwn := object{"type": "object", "description": "The app's own facts."}
	property(all, "Chat", "metadata", appsOwn)
	property(all, "Message", "metadata", maps.Clone(appsOwn))
	property(all, "Message", "tool_calls", object{"type": []string{"array", "null"}, "items": object{}})
	property(all, "Message", "role", object{"enum": []string{"user", "assistant", "system", "tool"}})
	property(all, "Message", "status", object{"enum": []string{"complete", "streaming", "failed", "cancelled", "interrupted"}})
	property(all, "Message", "importance", object{"type": []string{"number", "null"}, "minimum": 0, "maximum": 1, "description": "As the app sees it; null for not rated."})
	property(all, "Chat", "memory_strategy", object{"enum": history.Strategies})
	for _, name := range []string{"reply_to", "superseded_by"} {
		property(all, "Message", name, object{"anyOf": []object{schemaRef("UUID"), {"type": "null"}}})
	}
	for _, list := range []string{"Chat.tags", "Message.files", "MessagePage.messages", "File.paths", "PruneResult.chat_ids"} {
		neverNull(all, list)
	}
	for _, request := range []string{"NewChatRequest", "ChangeChatRequest"} {
		property(all, request, "memory_strategy", object{
			"enum": []any{"summary", "simple", "hybrid", nil}, "description": "How the chat is remembered; summary when it is null.",
		})
	}
}

func historyOperations() []operation {
	return append(chatOperations(), storedMessageOperations()...)
}

func chatOperations() []operation {
	body := []fault.Code{fault.BadRequest, fault.BodyTooLarge, fault.UnsupportedMediaType, fault.ValidationFailed}
	ofChat := concat(userErrors, []fault.Code{fault.BadUUID, fault.ChatNotFound})
	living := concat(ofChat, []fault.Code{fault.ChatExpired})
	chat := func(description string) object { return object{"200": jsonAnswer(description, "Chat")} }
	return []operation{
		{
			method: http.MethodPost, path: "/v1/chats", id: "createChat", tag: "chats", user: true, summary: "Make a chat",
			description: "Makes a chat without messages. The first message to it continues it, like any other.",
			body:        "NewChatRequest", bodyOptional: true, example: object{"title": "Scales", "tags": []string{"cello"}, "memory_strategy": "hybrid"},
			answers: object{"201": jsonAnswer("The chat.", "Chat")}, errors: concat(userErrors, body),
		},
		{
			method: http.MethodGet, path: "/v1/chats", id: "listChats", tag: "chats", user: true, summary: "List chats",
			description: "The user's chats, those with the latest activity first. All pages keep the order of the moment in which the first was read.",
			parameters:  []string{"ChatsLimit", "Cursor", "Tag", "IncludeExpired"},
			answers:     object{"200": jsonAnswer("A page of chats.", "ChatPage")},
			errors:      concat(userErrors, []fault.Code{fault.BadRequest, fault.ValidationFailed}),
		},
		{
			method: http.MethodPost, path: "/v1/chats/prune", id: "pruneChats", tag: "chats", user: true, summary: "Delete old chats",
			description: "Deletes the user's chats whose last activity is old enough, expired ones as well. A chat whose reply runs is left alone.",
			body:        "PruneRequest", example: object{"older_than_days": 90, "dry_run": true},
			answers: object{"200": jsonAnswer("What was deleted.", "PruneResult")}, errors: concat(userErrors, body),
		},
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}", id: "getChat", tag: "chats", user: true, summary: "Read a chat",
			description: "Reads the chat without its messages.", parameters: []string{"ChatID"}, answers: chat("The chat."), errors: living,
		},
		{
			method: http.MethodPatch, path: "/v1/chats/{chat_id}", id: "changeChat", tag: "chats", user: true, summary: "Change a chat",
			description: "Changes the fields that the body names. With \"revive\": true it brings an expired chat back.",
			parameters:  []string{"ChatID"}, body: "ChangeChatRequest", example: object{"title": "Scales and arpeggios", "ttl_hours": nil},
			answers: chat("The chat as it is now."), errors: concat(living, body),
		},
		{
			method: http.MethodDelete, path: "/v1/chats/{chat_id}", id: "deleteChat", tag: "chats", user: true, summary: "Delete a chat",
			description: "Deletes the chat, expired or not, with its messages, files, brief and the brief's history.",
			parameters:  []string{"ChatID"}, answers: object{"204": answer("It is gone.", nil)}, errors: ofChat,
		},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/clear", id: "clearChat", tag: "chats", user: true, summary: "Begin a chat's context anew",
			description: "What was said so far is in no prompt and no brief any more. The messages stay stored.",
			parameters:  []string{"ChatID"}, answers: object{"200": jsonAnswer("Where the context begins.", "ClearResult")},
			errors: concat(living, []fault.Code{fault.GenerationInProgress}),
		},
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}/files", id: "listFiles", tag: "chats", user: true, summary: "List a chat's files",
			description: "The files that came with the chat's messages, each content once, the latest first.",
			parameters:  []string{"ChatID", "Include", "SHA256"}, answers: object{"200": jsonAnswer("The files.", "Files")},
			errors: concat(living, []fault.Code{fault.ValidationFailed}),
		},
	}
}

func storedMessageOperations() []operation {
	ofMessage := concat(userErrors, []fault.Code{fault.BadUUID, fault.MessageNotFound})
	return []operation{
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}/messages", id: "listMessages", tag: "chats", user: true, summary: "Read a chat's messages",
			description: "The newest messages, those before a place, or those after one; always in their order.",
			parameters:  []string{"ChatID", "MessagesLimit", "BeforeSeq", "AfterSeq"}, answers: object{"200": jsonAnswer("Some messages.", "MessagePage")},
			errors: concat(userErrors, []fault.Code{fault.BadUUID, fault.ChatNotFound, fault.ChatExpired, fault.ValidationFailed}),
		},
		{
			method: http.MethodPatch, path: "/v1/messages/{message_id}", id: "changeMessage", tag: "chats", user: true, summary: "Rate a message",
			description: "Pins a message or says how important it is.", parameters: []string{"MessageID"},
			body: "ChangeMessageRequest", example: object{"pinned": true, "importance": 0.9},
			answers: object{"200": jsonAnswer("The message as it is now.", "Message")},
			errors:  concat(ofMessage, []fault.Code{fault.BadRequest, fault.BodyTooLarge, fault.UnsupportedMediaType, fault.ValidationFailed, fault.ChatExpired}),
		},
		{
			method: http.MethodDelete, path: "/v1/messages/{message_id}", id: "deleteMessage", tag: "chats", user: true, summary: "Delete a message",
			description: "Deletes the message and its files. When its words are in the brief, the brief is made anew without them.",
			parameters:  []string{"MessageID"}, answers: object{"204": answer("It is gone.", nil)},
			errors: concat(ofMessage, []fault.Code{fault.GenerationInProgress}),
		},
	}
}

func historyParameters() object {
	query := func(name, description string, schema object) object {
		return object{"name": name, "in": "query", "description": description, "schema": schema}
	}
	number := func(least, most, otherwise int) object {
		return object{"type": "integer", "minimum": least, "maximum": most, "default": otherwise}
	}
	place := object{"type": "integer", "minimum": 0}
	return object{
		"MessageID":      object{"name": "message_id", "in": "path", "required": true, "schema": object{"type": "string", "format": "uuid"}},
		"ChatsLimit":     query("limit", "How many chats.", number(1, history.MaxChats, history.DefaultChats)),
		"MessagesLimit":  query("limit", "How many messages.", number(1, history.MaxMessages, history.DefaultMessages)),
		"Cursor":         query("cursor", "next_cursor of the page before.", object{"type": "string"}),
		"Tag":            query("tag", "Only chats that have this tag.", object{"type": "string", "maxLength": history.MaxTag}),
		"IncludeExpired": query("include_expired", "true lists expired chats as well.", object{"type": "boolean", "default": false}),
		"BeforeSeq":      query("before_seq", "The newest messages before this place.", place),
		"AfterSeq":       query("after_seq", "The oldest messages after this place. Not together with before_seq.", place),
		"Include":        query("include", "content gives the files' texts as well.", object{"enum": []string{"content"}}),
		"SHA256":         query("sha256", "Only the file of this hash.", object{"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}),
	}
}
