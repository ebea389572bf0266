package httpapi

import (
	"net/http"
	"reflect"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// transferSchemaTypes are the schemas of an import's answer and of its events.
var transferSchemaTypes = map[string]reflect.Type{
	"ImportResult":   reflect.TypeFor[transfer.Result](),
	"ImportedChat":   reflect.TypeFor[transfer.ImportedChat](),
	"ImportProgress": reflect.TypeFor[transfer.Progress](),
}

// transferSentences describe what the types' tags do not.
var transferSentences = map[string]string{
	"ImportResult":                  "What an import did.",
	"ImportResult.chats":            "The file's chats, in its order.",
	"ImportResult.imported":         "Chats that were written.",
	"ImportResult.skipped":          "Chats that the user has already.",
	"ImportResult.messages":         "Messages that were written.",
	"ImportedChat":                  "A chat of the file.",
	"ImportedChat.chat_id":          "The chat's id here, the same one each time the file is imported.",
	"ImportedChat.title":            "As the file has it.",
	"ImportedChat.messages":         "Messages that were written; none for a chat that was skipped.",
	"ImportedChat.skipped":          "Whether the user has the chat already.",
	"ImportProgress":                "How far an import has come: data of the event import.progress.",
	"ImportProgress.bytes":          "Size of what was received.",
	"ImportProgress.chats":          "Chats that the phase is done with.",
	"ImportProgress.messages":       "Messages that the phase has come to.",
	"ImportProgress.total_messages": "Messages of the file; 0 until it was checked.",
}

// correctTransfer says what reflection cannot.
func correctTransfer(all object) {
	neverNull(all, "ImportResult.chats")
	property(all, "ImportProgress", "phase", object{"enum": []transfer.Phase{transfer.PhaseReceiving, transfer.PhaseChecking, transfer.PhaseWriting}})
}

func transferOperations() []operation {
	text := object{"schema": object{"type": "string"}}
	file := object{}
	for _, kind := range importTypes {
		file[kind] = object{"schema": object{}}
	}
	return []operation{
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}/export", id: "exportChat", tag: "chats", user: true, summary: "Export a chat",
			description: "The whole chat as a file: our bundle as lines of JSON or as one object, or Markdown for people. An export that fails on its way breaks its connection.",
			parameters:  []string{"ChatID", "ExportFormat"},
			answers: object{"200": answer("The file.", object{
				"application/x-ndjson": object{}, mediaJSON: object{"schema": object{"type": "object"}}, "text/markdown": text,
			}, "Content-Disposition")},
			errors: concat(userErrors, []fault.Code{fault.BadRequest, fault.BadUUID, fault.BodyTooLarge, fault.ChatNotFound, fault.ChatExpired, fault.ValidationFailed, fault.OverRequestRateLimit}),
		},
		{
			method: http.MethodPost, path: "/v1/chats/import", id: "importChats", tag: "chats", user: true, summary: "Import chats",
			description: "Takes in a file of at most 100 MiB: our bundle, ChatGPT's conversations.json, or one message per line; which one is seen from its content. " +
				"Nothing is written unless all of it is good; each chat is written whole or not at all; importing a file again adds nothing. " +
				"With Accept: text/event-stream the answer is the events import.progress (ImportProgress), and at the end import.completed (ImportResult) or import.failed (Error).",
			parameters: []string{"ImportAccept"}, content: file,
			answers: object{"200": answer("What became of the file.", object{
				mediaJSON:        object{"schema": schemaRef("ImportResult")},
				mediaEventStream: text,
			})},
			errors: concat(userErrors, []fault.Code{fault.BadRequest, fault.BodyTooLarge, fault.UnsupportedMediaType, fault.ImportInvalid, fault.OverRequestRateLimit}),
		},
	}
}

func transferParameters() object {
	return object{
		"ExportFormat": object{
			"name": "format", "in": "query", "description": "What the file is to be.",
			"schema": object{"enum": []string{transfer.FormatLines, transfer.FormatObject, transfer.FormatMarkdown}, "default": transfer.FormatLines},
		},
		"ImportAccept": object{
			"name": "Accept", "in": "header", "description": "text/event-stream asks for events; anything else means one object.", "schema": object{"type": "string"},
		},
	}
}
