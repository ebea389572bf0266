package httpapi

import (
	"maps"
	"slices"
)

// uiSchema is the component schema of one event of a UI message stream.
const uiSchema = "UIMessageEvent"

// uiEvent describes the events of a UI message stream, as far as this server sends them.
func uiEvent() object {
	text := object{"type": "string"}
	part := object{"type": "string", "description": "Names the message's only text part."}
	return object{
		"description": "One event of the AI SDK's UI message stream, version 1. The metadata is what our own events say, with the stored message's status.",
		"oneOf": []object{
			uiEventOf("start", object{"messageId": object{"type": "string", "format": "uuid"}, "messageMetadata": uiMetadata("MessageStarted", "streaming")}),
			uiEventOf("text-start", object{"id": part}),
			uiEventOf("text-delta", object{"id": part, "delta": text}),
			uiEventOf("text-end", object{"id": part}),
			uiEventOf("finish", object{
				"finishReason":    object{"enum": []string{"stop", "length", "content-filter", "other"}},
				"messageMetadata": uiMetadata("Completion", "complete"),
			}),
			uiEventOf("message-metadata", object{"messageMetadata": object{"oneOf": []object{
				uiMetadata("MessageFailed", "failed", "interrupted"), uiMetadata("MessageCancelled", "cancelled"),
			}}}),
			uiEventOf("error", object{"errorText": text}),
			uiEventOf("abort", object{}),
		},
	}
}

// uiEventOf is the schema of one type of event, whose members are all required.
func uiEventOf(kind string, members object) object {
	members["type"] = object{"const": kind}
	return object{
		"type": "object", "title": kind, "required": slices.Sorted(maps.Keys(members)), "properties": members, "additionalProperties": false,
	}
}

func uiMetadata(schema string, statuses ...string) object {
	return object{
		"allOf":      []object{schemaRef(schema)},
		"properties": object{"status": object{"enum": statuses}}, "required": []string{"status"},
	}
}
