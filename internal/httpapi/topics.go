package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
)

func topicRoutes() []route {
	const path = "/v1/chats/{chat_id}/topics"
	const one = path + "/{topic_id}"
	return []route{
		{method: http.MethodGet, path: path, id: "listTopics", endpoint: onIDWithInput(stores.ListTopics)},
		{method: http.MethodGet, path: one, id: "findTopic", endpoint: onTopic(stores.FindTopic)},
		{method: http.MethodPatch, path: one, id: "changeTopic", endpoint: onTopicWithInput(stores.ChangeTopic)},
		{
			method: http.MethodPost, path: one + "/merge", id: "mergeTopic",
			endpoint: onTopicWithInput(
				func(in stores, ctx context.Context, user auth.Principal, ref api.TopicRef, merge api.TopicMerge) (api.OneTopic, error) {
					return in.MergeTopic(ctx, user, ref, merge.Target)
				},
			),
		},
		{method: http.MethodGet, path: one + "/history", id: "getTopicHistory", endpoint: onTopicWithInput(stores.TopicHistory)},
		{method: http.MethodGet, path: one + "/stats", id: "getTopicStats", endpoint: onTopic(stores.TopicStats)},
		{method: http.MethodGet, path: one + "/archive", id: "getTopicArchive", endpoint: onTopic(stores.TopicArchive)},
		{method: http.MethodGet, path: one + "/context", id: "getTopicContext", endpoint: onTopic(stores.TopicContext)},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/standalone", id: "rewriteQuestion",
			limits: []limit{(*Server).limitMessages}, endpoint: jsonEndpoint((*Server).rewriteQuestion),
		},
		{method: http.MethodPost, path: "/v1/messages/{message_id}/feedback", id: "rateMessage", endpoint: onIDWithInput(stores.RateMessage)},
	}
}

// pathTopic is the topic that the path names.
func pathTopic(c echo.Context) (ref api.TopicRef, err error) {
	if ref.ChatID, err = namedID(c, "chat_id"); err != nil {
		return ref, err
	}
	if ref.Current = c.Param("topic_id") == api.CurrentTopic; ref.Current {
		return ref, nil
	}
	ref.ID, err = namedID(c, "topic_id")
	return ref, err
}

// The following make endpoints of methods of the store of topics.

func onTopic[Out any](do func(stores, context.Context, auth.Principal, api.TopicRef) (Out, error)) endpoint {
	return jsonEndpointOn(pathTopic, func(s *Server, ctx context.Context, user auth.Principal, ref api.TopicRef, _ none) (Out, error) {
		return do(s.stores(), ctx, user, ref)
	})
}

func onTopicWithInput[In, Out any](do func(stores, context.Context, auth.Principal, api.TopicRef, In) (Out, error)) endpoint {
	return jsonEndpointOn(pathTopic, func(s *Server, ctx context.Context, user auth.Principal, ref api.TopicRef, in In) (Out, error) {
		return do(s.stores(), ctx, user, ref, in)
	})
}

func (s *Server) rewriteQuestion(ctx context.Context, user auth.Principal, chatID uuid.UUID, question api.Question) (api.Standalone, error) {
	return s.config.Rewriter.Standalone(ctx, user, chatID, question.Content)
}
