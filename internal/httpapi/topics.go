package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

func topicRoutes() []route {
	const path, tag = "/v1/chats/{chat_id}/topics", "topics"
	const one = path + "/{topic_id}"
	return []route{
		{
			method: http.MethodGet, path: path, id: "listTopics", tag: tag, summary: "List a chat's topics",
			description: "What the chat was about, those with the latest activity first; with q the best matches. Turns get their topics in the " +
				"background: what was said a moment ago may have none yet.",
			answer: "A page of topics.", errors: []fault.Code{fault.BadRequest, fault.ChatExpired, fault.ValidationFailed},
			endpoint: onIDWithInput(stores.ListTopics),
		},
		{
			method: http.MethodGet, path: one, id: "findTopic", tag: tag, summary: "Read a topic",
			description: "Reads the topic without its messages.", answer: "The topic.", errors: []fault.Code{fault.ChatExpired},
			endpoint: onTopic(stores.FindTopic),
		},
		{
			method: http.MethodPatch, path: one, id: "changeTopic", tag: tag, summary: "Change a topic",
			description: "Changes the fields that the body names. A topic with a title of the user's is never merged by itself.",
			example:     object{"title": "Bows and strings", "tags": []string{"cello"}, "importance": 0.8},
			answer:      "The topic as it is now.", errors: []fault.Code{fault.ChatExpired},
			endpoint: onTopicWithInput(stores.ChangeTopic),
		},
		{
			method: http.MethodPost, path: one + "/merge", id: "mergeTopic", tag: tag, summary: "Merge a topic into another",
			description: "Gives the topic's turns to another topic of the chat. Its summary is made anew from all of them.",
			example:     object{"into": exampleChat}, answer: "The topic that has the turns now.", errors: []fault.Code{fault.ChatExpired},
			endpoint: onTopicWithInput(
				func(in stores, ctx context.Context, user auth.Principal, ref history.TopicRef, merge history.TopicMerge) (history.OneTopic, error) {
					return in.MergeTopic(ctx, user, ref, merge.Target)
				},
			),
		},
		{
			method: http.MethodGet, path: one + "/history", id: "getTopicHistory", tag: tag, summary: "Read a topic's messages",
			description: "The active messages; with include_compressed=true also those that are packed away.", answer: "The messages.",
			errors:   []fault.Code{fault.ChatExpired, fault.ValidationFailed},
			endpoint: onTopicWithInput(stores.TopicHistory),
		},
		{
			method: http.MethodGet, path: one + "/stats", id: "getTopicStats", tag: tag, summary: "Read a topic's figures",
			description: "How many messages the topic has, how old it is, and how it fades.", answer: "The figures.", errors: []fault.Code{fault.ChatExpired},
			endpoint: onTopic(stores.TopicStats),
		},
		{
			method: http.MethodGet, path: one + "/archive", id: "getTopicArchive", tag: tag, summary: "Read a topic's archive",
			description: "The messages that are packed away, as text: JSON by gzip in base64. They are checked first, and packed anew where they are damaged.",
			answer:      "The archive.", errors: []fault.Code{fault.ChatExpired},
			endpoint: onTopic(stores.TopicArchive),
		},
		{
			method: http.MethodGet, path: one + "/context", id: "getTopicContext", tag: tag, summary: "Read a topic as a model would",
			description: "The summary, then the active messages. The current topic's include what was said since; a chat without one has its latest messages.",
			answer:      "The messages.", errors: []fault.Code{fault.ChatExpired},
			endpoint: onTopic(stores.TopicContext),
		},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/standalone", id: "rewriteQuestion", tag: tag, summary: "Make a question stand alone",
			description: "Rewrites a question by what the chat is about, so that a search understands it: And the second one? It is neither stored " +
				"nor answered. One small model call, and none where nothing was said before.",
			example: object{"content": "And how long does that one take?"}, answer: "The question.",
			errors:   []fault.Code{fault.ChatExpired, fault.OverRequestRateLimit, fault.UpstreamFailed, fault.UpstreamTimeout, fault.UpstreamOverloaded},
			limits:   []limit{(*Server).limitMessages},
			endpoint: jsonEndpoint((*Server).rewriteQuestion),
		},
		{
			method: http.MethodPost, path: "/v1/messages/{message_id}/feedback", id: "rateMessage", tag: tag, summary: "Say how a message was liked",
			description: "Stores the rating with the message. A rating that changes moves the importance of the message's topic: up for 1, down for -1.",
			example:     object{"rating": 1}, answer: "The message as it is now.", errors: []fault.Code{fault.ChatExpired},
			endpoint: onIDWithInput(stores.RateMessage),
		},
	}
}

// pathTopic is the topic that the path names.
func pathTopic(c echo.Context) (ref history.TopicRef, err error) {
	if ref.ChatID, err = namedID(c, "chat_id"); err != nil {
		return ref, err
	}
	if ref.Current = c.Param("topic_id") == history.CurrentTopic; ref.Current {
		return ref, nil
	}
	ref.ID, err = namedID(c, "topic_id")
	return ref, err
}

// The following make endpoints of methods of the store of topics.

func onTopic[Out any](do func(stores, context.Context, auth.Principal, history.TopicRef) (Out, error)) endpoint {
	return jsonEndpointOn(pathTopic, func(s *Server, ctx context.Context, user auth.Principal, ref history.TopicRef, _ none) (Out, error) {
		return do(s.stores(), ctx, user, ref)
	})
}

func onTopicWithInput[In, Out any](do func(stores, context.Context, auth.Principal, history.TopicRef, In) (Out, error)) endpoint {
	return jsonEndpointOn(pathTopic, func(s *Server, ctx context.Context, user auth.Principal, ref history.TopicRef, in In) (Out, error) {
		return do(s.stores(), ctx, user, ref, in)
	})
}

func (s *Server) rewriteQuestion(ctx context.Context, user auth.Principal, chatID uuid.UUID, question history.Question) (history.Standalone, error) {
	return s.config.Rewriter.Standalone(ctx, user, chatID, question.Content)
}
