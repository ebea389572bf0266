package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

// route is one method of one path. Both the router and the OpenAPI document are made of it.
type route struct {
	method, path string // the path as OpenAPI writes it: /v1/chats/{chat_id}
	endpoint

	// id names what routes.txt says of it. Its JSON answer is described there, other answers here, by status.
	id      string
	answers object
	// parameters are those beyond the ids in the path and the query that the endpoint reads.
	parameters []object
	// content is the body's schemas by media type where it is not JSON.
	content      object
	bodyOptional bool

	public bool // needs no access token
	head   bool // answers HEAD, too
	// limits run after authentication, in their order.
	limits []limit
}

// limit is a method of the server, such as (*Server).limitMessages.
type limit = func(*Server, echo.HandlerFunc) echo.HandlerFunc

// routes are all routes but River UI's and the page's, in the order in which / and the OpenAPI document show them.
func routes() []route {
	return slices.Concat(
		messageRoutes(),
		chatRoutes(),
		topicRoutes(),
		memoryRoutes(),
		searchRoutes(),
		transferRoutes(),
		accountRoutes(),
		toolRoutes(),
		discoveryRoutes(),
		operationRoutes(),
	)
}

// pathIDs are the parameters that a path may have, with the code for an id that does not exist.
var pathIDs = map[string]fault.Code{
	"chat_id":    fault.ChatNotFound,
	"message_id": fault.MessageNotFound,
	"memory_id":  fault.MemoryNotFound,
	"topic_id":   fault.TopicNotFound,
}

// allErrors are the codes that the route answers with.
func (r *route) allErrors() []fault.Code {
	all := slices.Clone(routeDocs()[r.id].errors)
	if !r.public {
		if r.path != pathMCP {
			all = append(all, fault.ForbiddenClient)
		}
		all = append(all, fault.NoAuthorization, fault.SessionExpired, fault.BadJWT, fault.UserNotFound, fault.WrongCell, fault.Moving,
			fault.ForbiddenByPolicy, fault.NotReady, fault.Internal)
	}
	if r.body() != nil {
		all = append(all, fault.BadRequest, fault.BodyTooLarge, fault.UnsupportedMediaType, fault.ValidationFailed)
	}
	if query := r.query(); query != nil && slices.ContainsFunc(reflect.VisibleFields(query), isID) {
		all = append(all, fault.ChatNotFound)
	}
	for name, notFound := range pathIDs {
		if strings.Contains(r.path, "{"+name+"}") {
			all = append(all, fault.BadUUID, notFound)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// isID reports whether a parameter of a query is an id, which is a chat's.
func isID(field reflect.StructField) bool { return field.Type == reflect.TypeFor[uuid.UUID]() }

// endpoint handles the requests of a route. in is the type of the body or, for GET and DELETE, of the query; out is that of the
// JSON answer, status its status. Both types are nil where there is none.
type endpoint struct {
	serve   func(s *Server, c echo.Context) error
	in, out reflect.Type
	status  int
}

// body is the type of the JSON body; nil for none.
func (r *route) body() reflect.Type {
	if readsQuery(r.method) {
		return nil
	}
	return r.in
}

// readsQuery reports whether requests of the method have parameters instead of a body.
func readsQuery(method string) bool { return method == http.MethodGet || method == http.MethodDelete }

// query is the type of the query's parameters; nil for none.
func (r *route) query() reflect.Type {
	if readsQuery(r.method) {
		return r.in
	}
	return nil
}

func (s *Server) mount(e *echo.Echo, r route) {
	handler := func(c echo.Context) error { return r.serve(s, c) }
	for _, limit := range slices.Backward(r.limits) {
		handler = limit(s, handler)
	}
	if !r.public {
		handler = s.authenticate(handler)
	}
	path := strings.NewReplacer("{", ":", "}", "").Replace(r.path)
	e.Add(r.method, path, handler)
	if r.head {
		e.HEAD(path, handler)
	}
}

// none is the type of a part that a request or an answer does not have.
type none struct{}

func typeOf[T any]() reflect.Type {
	if t := reflect.TypeFor[T](); t != reflect.TypeFor[none]() {
		return t
	}
	return nil
}

// target is what the path of a route names: an id, uuid.Nil for a path without one, or a topic of a chat.
type target interface{ uuid.UUID | api.TopicRef }

// jsonEndpoint reads the path, and the query or the body, and answers with the result of do: 200, or 204 without an answer.
func jsonEndpoint[ID target, In, Out any](
	do func(s *Server, ctx context.Context, user auth.Principal, id ID, in In) (Out, error),
) endpoint {
	e := endpoint{in: typeOf[In](), out: typeOf[Out](), status: http.StatusOK}
	e.serve = func(s *Server, c echo.Context) error {
		var id ID
		if err := readPath(c, &id); err != nil {
			return err
		}
		var in In
		if e.in != nil {
			if err := s.readRequest(c, &in); err != nil {
				return err
			}
		}
		out, err := do(s, c.Request().Context(), principal(c), id, in)
		if err != nil {
			return err
		}
		if e.out == nil {
			return c.NoContent(http.StatusNoContent)
		}
		return writeJSON(c, e.status, out)
	}
	return e
}

// readRequest reads the query of a GET or DELETE, and the JSON body of any other request, into a pointer to a struct.
func (s *Server) readRequest(c echo.Context, into any) error {
	var err error
	if readsQuery(c.Request().Method) {
		err = readQuery(c.QueryParams(), into)
	} else {
		var body []byte
		if body, err = s.readBody(c, maxBody); err == nil {
			err = decodeObject(body, into)
		}
	}
	if err != nil {
		return err
	}
	return api.Check(into)
}

// readPath reads into a pointer to a target.
func readPath(c echo.Context, into any) (err error) {
	switch into := into.(type) {
	case *uuid.UUID:
		*into, err = pathID(c)
	case *api.TopicRef:
		*into, err = pathTopic(c)
	}
	return err
}

// pathID is the id of the chat or message that the path names; uuid.Nil for a path without one.
func pathID(c echo.Context) (uuid.UUID, error) {
	names := c.ParamNames()
	if len(names) == 0 {
		return uuid.Nil, nil
	}
	return namedID(c, names[0])
}

func namedID(c echo.Context, name string) (uuid.UUID, error) {
	id, err := api.ParseID(c.Param(name))
	if err != nil {
		return uuid.Nil, fault.New(fault.BadUUID, "The "+strings.TrimSuffix(name, "_id")+" id in the path is not a uuid.")
	}
	return id, nil
}

// stores are all that endpoints read and write, as one: no two of them have a method of the same name.
type stores struct {
	Chat
	api.Store
	api.Memories
	api.Extractor
	api.Topics
	api.Rewriter
}

func (s *Server) stores() stores {
	return stores{s.config.Chat, s.config.History, s.config.Memories, s.config.Extracts, s.config.Topics, s.config.Rewriter}
}

// The following make endpoints of methods of the stores, by the parameters of a method.

func ofUser[Out any](do func(stores, context.Context, auth.Principal) (Out, error)) endpoint {
	return jsonEndpoint(func(s *Server, ctx context.Context, user auth.Principal, _ uuid.UUID, _ none) (Out, error) {
		return do(s.stores(), ctx, user)
	})
}

func withInput[In, Out any](do func(stores, context.Context, auth.Principal, In) (Out, error)) endpoint {
	return jsonEndpoint(func(s *Server, ctx context.Context, user auth.Principal, _ uuid.UUID, in In) (Out, error) {
		return do(s.stores(), ctx, user, in)
	})
}

func onID[ID target, Out any](do func(stores, context.Context, auth.Principal, ID) (Out, error)) endpoint {
	return jsonEndpoint(func(s *Server, ctx context.Context, user auth.Principal, id ID, _ none) (Out, error) {
		return do(s.stores(), ctx, user, id)
	})
}

func onIDWithInput[ID target, In, Out any](do func(stores, context.Context, auth.Principal, ID, In) (Out, error)) endpoint {
	return jsonEndpoint(func(s *Server, ctx context.Context, user auth.Principal, id ID, in In) (Out, error) {
		return do(s.stores(), ctx, user, id, in)
	})
}

func deletion(do func(stores, context.Context, auth.Principal, uuid.UUID) error) endpoint {
	return onID(func(in stores, ctx context.Context, user auth.Principal, id uuid.UUID) (none, error) {
		return none{}, do(in, ctx, user, id)
	})
}

func deletionWithInput[In any](do func(stores, context.Context, auth.Principal, uuid.UUID, In) error) endpoint {
	return onIDWithInput(func(from stores, ctx context.Context, user auth.Principal, id uuid.UUID, in In) (none, error) {
		return none{}, do(from, ctx, user, id, in)
	})
}
