// Package httpapi is the HTTP API: routes, middleware, handlers, the one writer of errors and the OpenAPI document. It
// translates requests into calls of other packages and their results into JSON or server-sent events.
//
// Each route is one row of a table, such as chatRoutes: method, path, handler; routes.txt has its texts and errors. The
// router and the document are made of the rows. Struct tags of the request types are read by the decoder of bodies and
// queries (decode.go), by api.Check and by the document (openapi_schemas.go).
//
// A request passes, in this order: request id, access log and metrics, recovery from panics, CORS, the access token, the
// user's limits, the body, the handler. Only a *fault.Error is shown to the client; any other failure is "internal", and
// its cause is in the log.
//
// A stream is in our own protocol or in that of Vercel's AI SDK. When its client leaves or reads too slowly, only the
// stream ends: package chat finishes and stores the reply.
//
// Compression (it holds back streams) and TLS are not here. Echo is used for routing alone, and no other package imports
// it.
package httpapi
