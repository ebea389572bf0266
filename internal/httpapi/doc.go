// Package httpapi is the HTTP face of the server: routes, middleware, handlers, the one writer of
// errors and the OpenAPI document. It turns requests into calls of package chat and replies into
// server-sent events or JSON, and decides nothing about either.
//
// A request passes, from the outside in: request id, access log and metrics, recovery from panics,
// CORS, the access token, the user's rate limit, the body, and then chat. Only what chat returned as a
// *fault.Error is told to the caller; every other failure is "internal", and its cause is in the log.
//
// A stream is written in our own protocol or in that of Vercel's AI SDK, as its client asks. It belongs
// to that client alone: when the client goes away or reads too slowly, copying stops and nothing else
// does. The reply goes on in package chat and is stored.
//
// What is not here: compression (it holds back streams), TLS, and timeouts for reading headers, which
// belong to the http.Server around [Server.Handler].
//
// Echo is used for routing and for nothing else, and no other package imports it.
package httpapi
