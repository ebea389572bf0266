package httpapi

import (
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
)

const (
	exampleChat    = "0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31"
	exampleAsked   = "0198a1f2-7c12-7b60-8f0d-2a7c9e4b1f52"
	exampleReply   = "0198a1f2-7c13-7aa9-b3c8-6d1e0f9a8b73"
	exampleRequest = "8c9f4d0e-1b2a-4c3d-9e8f-7a6b5c4d3e2f"
)

// Errors that any route for users can answer with, and those of a route that takes a message.
var (
	userErrors = []fault.Code{
		fault.NoAuthorization, fault.SessionExpired, fault.BadJWT, fault.NotReady, fault.Internal,
	}
	messageErrors = []fault.Code{
		fault.BadRequest, fault.BodyTooLarge, fault.UnsupportedMediaType, fault.ValidationFailed, fault.UnknownModelVariant,
		fault.IdempotencyMismatch, fault.OverRequestRateLimit, fault.UpstreamFailed, fault.UpstreamTimeout, fault.UpstreamOverloaded,
		fault.ShuttingDown, fault.Interrupted, fault.ChatNotFound, fault.MessageNotFound,
	}
)

// operations are all routes but River UI's, in the order in which they are shown.
func operations() []operation {
	return slices.Concat(messageOperations(), historyOperations(), memoryOperations(), searchOperations(), transferOperations(), toolOperations(), healthOperations())
}

func messageOperations() []operation {
	sent := []string{"Accept", "Protocol", "UIStream", "IdempotencyKey", "LastEventID"}
	replies := object{"200": replyAnswer(true), "204": answer("The place in Last-Event-ID is the end of the reply: nothing is left to send.", nil)}
	return []operation{
		{
			method: http.MethodPost, path: "/v1/message/first", id: "sendFirstMessage", tag: "messages", user: true,
			summary: "Start a chat", description: "Stores the message in a new chat and streams the reply.",
			parameters: sent, body: "FirstMessageRequest", answers: replies, errors: concat(userErrors, messageErrors),
			example: object{"content": "What should I practise first?", "client_message_id": exampleRequest},
		},
		{
			method: http.MethodPost, path: "/v1/message", id: "sendMessage", tag: "messages", user: true,
			summary: "Continue a chat", description: "Stores the message and streams the reply. While a reply is being generated, another message is refused; the same one joins it.",
			parameters: sent, body: "MessageRequest", answers: replies,
			errors:  concat(userErrors, messageErrors, []fault.Code{fault.BadUUID, fault.GenerationInProgress, fault.ChatExpired}),
			example: object{"chat_id": exampleChat, "content": "And after that?", "model_variant": "arco"},
		},
		{
			method: http.MethodGet, path: "/v1/message/{chat_id}/stream", id: "resumeStream", tag: "messages", user: true,
			summary: "Go on with a reply", description: "Sends what the client has not seen of a reply and follows it to its end. Without a place it follows what is running.",
			parameters: []string{"ChatID", "LastEventID", "After", "Protocol", "UIStream"},
			answers:    object{"200": replyAnswer(false), "204": answer("Nothing is running, or the place is the end.", nil)},
			errors:     concat(userErrors, []fault.Code{fault.BadRequest, fault.BadUUID, fault.BodyTooLarge, fault.ChatNotFound, fault.ChatExpired, fault.MessageNotFound, fault.OverRequestRateLimit, fault.ShuttingDown}),
		},
		{
			method: http.MethodPost, path: "/v1/message/{chat_id}/cancel", id: "cancelReply", tag: "messages", user: true,
			summary: "Stop the running reply", description: "What was said so far is kept.",
			parameters: []string{"ChatID"}, answers: object{"200": jsonAnswer("The reply and its state.", "CancelResult")},
			errors: concat(userErrors, []fault.Code{fault.BadUUID, fault.ChatNotFound, fault.ChatExpired, fault.MessageNotFound}),
		},
	}
}

func healthOperations() []operation {
	return []operation{
		{
			method: http.MethodGet, path: "/healthz", id: "getHealth", tag: "operations", summary: "Is the process alive?",
			description: "Answers while the process lives.", answers: object{"200": jsonAnswer("It is.", "Health")},
		},
		{
			method: http.MethodGet, path: "/readyz", id: "getReadiness", tag: "operations", summary: "Can it serve?",
			description: "Answers 200 while Postgres answers and migrations are current.",
			answers:     object{"200": jsonAnswer("It can. Further members are details.", "Readiness")}, errors: []fault.Code{fault.NotReady},
		},
		{
			method: http.MethodGet, path: "/metrics", id: "getMetrics", tag: "operations", summary: "Prometheus metrics",
			description: "In the format that the scraper asks for.",
			answers:     object{"200": answer("The metrics.", object{"text/plain": object{"schema": object{"type": "string"}}})},
		},
		{
			method: http.MethodGet, path: "/openapi.json", id: "getOpenAPI", tag: "operations", summary: "This document",
			description: "OpenAPI 3.1.", answers: object{"200": answer("The document.", object{mediaJSON: object{"schema": object{"type": "object"}}})},
		},
		{
			method: http.MethodGet, path: "/", id: "getRoot", tag: "operations", summary: "What is here",
			description: "Names the server and its routes.", answers: object{"200": jsonAnswer("The routes.", "Root")},
		},
	}
}

func concat(lists ...[]fault.Code) []fault.Code {
	var all []fault.Code
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func jsonAnswer(description, schema string) object {
	return answer(description, object{mediaJSON: object{"schema": schemaRef(schema)}})
}

// replyAnswer is a reply as events or, where the route offers that, as one object. OpenAPI 3.1 has no
// word for the events within a body; x-item-schema stands where 3.2 has itemSchema.
func replyAnswer(orWhole bool) object {
	content := object{mediaEventStream: object{
		"schema":        object{"type": "string", "description": "Server-sent events. In our own protocol message.started, any number of content.delta, and one terminal event (completion, message.failed or message.cancelled); in the AI SDK's the events of UIMessageEvent and then [DONE]. Lines that begin with a colon are comments."},
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
	var out exampleWriter
	chatID, messageID := uuid.MustParse(exampleChat), uuid.MustParse(exampleReply)
	encoder := protocol.encoder(&out, messageID)
	_ = encoder.Started(streaming.Started{ChatID: chatID, UserMessageID: uuid.MustParse(exampleAsked), MessageID: messageID, ModelVariant: "arco"})
	_ = encoder.Chunk(streaming.Chunk{Text: []byte("Slow scales.")})
	_ = encoder.Chunk(streaming.Chunk{Offset: 12, End: &streaming.Terminal{Completed: &streaming.Completed{
		ChatID: chatID, MessageID: messageID, FinishReason: "stop", ModelVariant: "arco", ContentLength: 12,
		Usage: streaming.Usage{InputTokens: 120, CachedTokens: 64, OutputTokens: 4}, Memory: []byte("null"),
	}}})
	return string(out)
}

// exampleWriter never fails, and so neither do the calls above.
type exampleWriter []byte

func (w *exampleWriter) Write(event []byte) (int, error) {
	*w = append(*w, event...)
	return len(event), nil
}
