package httpapi

import (
	"net/http"

	"github.com/arcoscribe/throughline/internal/fault"
)

// toolOperations is the one address of the tools; what is said there is another protocol's.
func toolOperations() []operation {
	message := object{"description": "One message of JSON-RPC 2.0, or several.", "oneOf": []object{{"type": "object"}, {"type": "array", "items": object{"type": "object"}}}}
	return []operation{{
		method: http.MethodPost, path: pathMCP, id: "callTools", tag: "tools", user: true, summary: "Use the chats as tools",
		description: "The Model Context Protocol (modelcontextprotocol.io) over streamable HTTP, without sessions. Its clients know what to send; docs/threads.md lists the tools. " +
			"What is wrong with a message of that protocol is answered in that protocol's terms.",
		content: object{mediaJSON: object{"schema": message}},
		answers: object{
			"200": answer("Messages of JSON-RPC, as server-sent events.", object{mediaEventStream: object{"schema": object{"type": "string"}}}),
			"202": answer("Notifications were taken.", nil),
		},
		errors: concat(userErrors, []fault.Code{fault.BadRequest, fault.BodyTooLarge, fault.UnsupportedMediaType, fault.OverRequestRateLimit}),
	}}
}
