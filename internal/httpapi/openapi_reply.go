package httpapi

import (
	"strings"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/streaming"
)

const (
	exampleChat    = "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31"
	exampleAsked   = "0198a1f2-7c12-7b60-8f0d-2a7c9e4b1f52"
	exampleReply   = "0198a1f2-7c13-7aa9-b3c8-6d1e0f9a8b73"
	exampleRequest = "8c9f4d0e-1b2a-4c3d-9e8f-7a6b5c4d3e2f"
)

// uiSchema is the component schema of one event of a UI message stream.
const uiSchema = "UIMessageEvent"

// replyAnswer is a reply as events or, with orWhole, as one object. OpenAPI 3.1 cannot describe the events within a body;
// x-item-schema is 3.2's itemSchema.
func replyAnswer(orWhole bool) object {
	content := object{mediaEventStream: object{
		"schema": object{
			"type": "string",
			"description": "Server-sent events. In our own protocol message.started, any number of content.delta, and one terminal event " +
				"(completion, message.failed or message.cancelled); in the AI SDK's the events of UIMessageEvent and then [DONE]. " +
				"Lines that begin with a colon are comments.",
		},
		"x-item-schema": object{"oneOf": []object{schemaRef("StreamEvent"), schemaRef(uiSchema)}},
		"examples": object{
			"events": object{"value": exampleStream(protocolEvents)}, "ui": object{"value": exampleStream(protocolUI)},
		},
	}}
	if orWhole {
		content[mediaJSON] = object{"schema": schemaRef("WholeReply")}
	}
	return answer("The reply.", content, headerUIStream)
}

// exampleStream is a short reply, made by the encoder of the real streams, without the padding.
func exampleStream(protocol protocol) string {
	var out strings.Builder // never fails
	chatID, messageID := uuid.MustParse(exampleChat), uuid.MustParse(exampleReply)
	encoder := protocol.encoder(&out, messageID)
	_ = encoder.Started(streaming.Started{ChatID: chatID, UserMessageID: uuid.MustParse(exampleAsked), MessageID: messageID, ModelVariant: "arco"})
	_ = encoder.Chunk(streaming.Chunk{Text: []byte("Slow scales.")})
	_ = encoder.Chunk(streaming.Chunk{Offset: 12, End: &streaming.Terminal{Completed: &streaming.Completed{
		ChatID: chatID, MessageID: messageID, FinishReason: "stop", ModelVariant: "arco", ContentLength: 12,
		Usage: streaming.Usage{InputTokens: 120, CachedTokens: 64, OutputTokens: 4}, Memory: []byte("null"),
	}}})
	return out.String()
}
