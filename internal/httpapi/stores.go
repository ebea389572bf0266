package httpapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"reflect"
	"strconv"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

func chatRoutes() []route {
	return []route{
		{
			method: http.MethodPost, path: "/v1/chats", id: "createChat", bodyOptional: true,
			endpoint: endpoint{
				serve: (*Server).postChat, in: reflect.TypeFor[api.NewChat](), out: reflect.TypeFor[api.Chat](), status: http.StatusCreated,
			},
		},
		{method: http.MethodGet, path: "/v1/chats", id: "listChats", endpoint: withInput(stores.ListChats)},
		{method: http.MethodPost, path: "/v1/chats/prune", id: "pruneChats", endpoint: withInput(stores.PruneChats)},
		{method: http.MethodGet, path: "/v1/chats/{chat_id}", id: "getChat", endpoint: onID(stores.FindChat)},
		{method: http.MethodPatch, path: "/v1/chats/{chat_id}", id: "changeChat", endpoint: onIDWithInput(stores.ChangeChat)},
		{method: http.MethodDelete, path: "/v1/chats/{chat_id}", id: "deleteChat", endpoint: deletionWithInput(stores.DeleteChat)},
		{method: http.MethodPost, path: "/v1/chats/{chat_id}/clear", id: "clearChat", endpoint: onID(stores.ClearChat)},
		{method: http.MethodGet, path: "/v1/chats/{chat_id}/files", id: "listFiles", endpoint: onIDWithInput(stores.ListFiles)},
		{method: http.MethodGet, path: "/v1/chats/{chat_id}/messages", id: "listMessages", endpoint: onIDWithInput(stores.ListMessages)},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/messages", id: "storeMessages",
			limits: []limit{(*Server).limitMessages}, endpoint: onIDWithInput(stores.StoreMessages),
		},
		{method: http.MethodPatch, path: "/v1/messages/{message_id}", id: "changeMessage", endpoint: onIDWithInput(stores.ChangeMessage)},
		{method: http.MethodDelete, path: "/v1/messages/{message_id}", id: "deleteMessage", endpoint: deletion(stores.DeleteMessage)},
		{method: http.MethodGet, path: "/v1/messages/{message_id}/versions", id: "listVersions", endpoint: onID(stores.ListVersions)},
		{
			method: http.MethodPost, path: "/v1/messages/{message_id}/select", id: "selectVersion", bodyOptional: true,
			endpoint: endpoint{
				serve: (*Server).postSelection, in: reflect.TypeFor[api.Selection](), out: reflect.TypeFor[api.Selected](), status: http.StatusOK,
			},
		},
		{method: http.MethodGet, path: "/v1/messages/{message_id}/why", id: "whyReply", endpoint: onID(stores.WhyReply)},
	}
}

// readOptional reads a body whose fields all may be left out. One that is left out itself, or blank, is the same as {}.
func (s *Server) readOptional(c echo.Context, into any) error {
	if c.Request().ContentLength == 0 {
		return nil
	}
	raw, err := s.readBody(c, maxBody)
	if err != nil || len(bytes.TrimSpace(raw)) == 0 {
		return err
	}
	return decodeObject(raw, into)
}

// postChat creates a chat.
func (s *Server) postChat(c echo.Context) error {
	var chat api.NewChat
	if err := s.readOptional(c, &chat); err != nil {
		return err
	}
	if err := chat.Check(s.config.ChatDefaults); err != nil {
		return err
	}
	created, err := s.config.History.CreateChat(c.Request().Context(), principal(c), chat)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/chats/"+created.ID.String())
	return writeJSON(c, http.StatusCreated, created)
}

// postSelection selects a version of a message.
func (s *Server) postSelection(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	var selection api.Selection
	if err := s.readOptional(c, &selection); err != nil {
		return err
	}
	selected, err := s.config.History.SelectVersion(c.Request().Context(), principal(c), id, selection)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, selected)
}

func topicRoutes() []route {
	const path = "/v1/chats/{chat_id}/topics"
	const one = path + "/{topic_id}"
	return []route{
		{method: http.MethodGet, path: path, id: "listTopics", endpoint: onIDWithInput(stores.ListTopics)},
		{method: http.MethodGet, path: one, id: "findTopic", endpoint: onID(stores.FindTopic)},
		{method: http.MethodPatch, path: one, id: "changeTopic", endpoint: onIDWithInput(stores.ChangeTopic)},
		{
			method: http.MethodPost, path: one + "/merge", id: "mergeTopic", limits: []limit{(*Server).limitQuestions},
			endpoint: onIDWithInput(
				func(in stores, ctx context.Context, user auth.Principal, ref api.TopicRef, merge api.TopicMerge) (api.OneTopic, error) {
					return in.MergeTopic(ctx, user, ref, merge.Target)
				},
			),
		},
		{method: http.MethodGet, path: one + "/history", id: "getTopicHistory", endpoint: onIDWithInput(stores.TopicHistory)},
		{method: http.MethodGet, path: one + "/stats", id: "getTopicStats", endpoint: onID(stores.TopicStats)},
		{method: http.MethodGet, path: one + "/archive", id: "getTopicArchive", endpoint: onID(stores.TopicArchive)},
		{method: http.MethodGet, path: one + "/context", id: "getTopicContext", endpoint: onID(stores.TopicContext)},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/standalone", id: "rewriteQuestion",
			limits: []limit{(*Server).limitMessages}, endpoint: onIDWithInput(stores.Standalone),
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

func memoryRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "/v1/chats/{chat_id}/memory", id: "getMemory",
			limits: []limit{(*Server).limitQuestions}, endpoint: onIDWithInput(stores.PreviewPrompt),
		},
		{method: http.MethodGet, path: "/v1/chats/{chat_id}/memory/revisions", id: "listBriefRevisions", endpoint: onIDWithInput(stores.ListBriefRevisions)},
		{method: http.MethodGet, path: "/v1/memories", id: "listMemories", limits: []limit{(*Server).limitQuestions}, endpoint: withInput(stores.ListMemories)},
		{
			method: http.MethodPost, path: "/v1/memories", id: "addMemory", limits: []limit{(*Server).limitQuestions},
			answers: object{"200": answer("The memory that has these words already.", object{mediaJSON: object{"schema": schemaRef("LongTermMemory")}})},
			endpoint: endpoint{
				serve: (*Server).postMemory, in: reflect.TypeFor[api.NewMemory](), out: reflect.TypeFor[api.Memory](), status: http.StatusCreated,
			},
		},
		{method: http.MethodDelete, path: "/v1/memories", id: "deleteMemories", endpoint: ofUser(stores.DeleteMemories)},
		{method: http.MethodPost, path: "/v1/memories/forget", id: "forgetMemories", endpoint: jsonEndpoint((*Server).forgetMemories)},
		{method: http.MethodGet, path: "/v1/memories/settings", id: "getMemorySettings", endpoint: ofUser(stores.MemorySettings)},
		{method: http.MethodPatch, path: "/v1/memories/settings", id: "changeMemorySettings", endpoint: withInput(stores.ChangeMemorySettings)},
		exportRoute("/v1/memories/export", "exportMemories", object{mediaLines: object{}}, endpoint{serve: (*Server).exportMemories}),
		{
			method: http.MethodPost, path: "/v1/memories/import", id: "importMemories", content: importContent(),
			endpoint: endpoint{serve: (*Server).importMemories, out: reflect.TypeFor[api.MemoryImport](), status: http.StatusOK},
		},
		{method: http.MethodGet, path: "/v1/memories/{memory_id}", id: "findMemory", endpoint: onID(stores.FindMemory)},
		{
			method: http.MethodPatch, path: "/v1/memories/{memory_id}", id: "changeMemory",
			limits: []limit{(*Server).limitQuestions}, endpoint: onIDWithInput(stores.ChangeMemory),
		},
		{method: http.MethodDelete, path: "/v1/memories/{memory_id}", id: "deleteMemory", endpoint: deletionWithInput(stores.DeleteMemory)},
		{method: http.MethodGet, path: "/v1/memories/{memory_id}/history", id: "getMemoryHistory", endpoint: onID(stores.MemoryHistory)},
		{
			method: http.MethodPost, path: "/v1/chats/{chat_id}/extract", id: "extractMemories",
			limits: []limit{(*Server).limitQuestions, (*Server).limitWaiting}, endpoint: onID(stores.Extract),
		},
	}
}

// postMemory answers 201 for a new memory, and 200 for one that has these words already.
func (s *Server) postMemory(c echo.Context) error {
	var memory api.NewMemory
	if err := s.readRequest(c, &memory); err != nil {
		return err
	}
	stored, added, err := s.config.Memories.AddMemory(c.Request().Context(), principal(c), memory)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if added {
		status = http.StatusCreated
		c.Response().Header().Set(echo.HeaderLocation, "/v1/memories/"+stored.ID.String())
	}
	return writeJSON(c, status, stored)
}

func (s *Server) forgetMemories(ctx context.Context, user auth.Principal, _ uuid.UUID, request api.ForgetRequest) (api.ForgetResult, error) {
	return api.Forget(ctx, s.config.Memories, user, request)
}

// maxMemoryImport is the longest file of memories, in bytes.
const maxMemoryImport = 32 << 20

func (s *Server) exportMemories(c echo.Context) error {
	return s.sendFile(c, func(ctx context.Context, user auth.Principal) (file, error) {
		return file{mediaLines, "memories.jsonl", func(out io.Writer) error {
			return s.config.Memories.ExportMemories(ctx, user, func(memory bundle.Memory) error { return bundle.WriteMemory(out, memory) })
		}}, nil
	})
}

// importMemories reads the whole file, and then stores all of it.
func (s *Server) importMemories(c echo.Context) error {
	body, release, err := s.beginImport(c, maxMemoryImport)
	if err != nil {
		return err
	}
	defer release()
	read, err := s.config.Transfer.ReadMemories(c.Request().Context(), body)
	if err != nil {
		return err
	}
	done, err := s.config.Memories.ImportMemories(c.Request().Context(), principal(c), read.Records)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, api.MemoryImport{
		Format: string(read.Format), Imported: done.Imported, Skipped: done.Skipped, Full: done.Full, Refused: append([]bundle.RefusedMemory{}, read.Refused...),
	})
}

func searchRoutes() []route {
	drawing := object{"schema": object{"type": "string"}}
	return []route{
		{method: http.MethodGet, path: "/v1/search", id: "search", endpoint: jsonEndpoint((*Server).search)},
		{method: http.MethodGet, path: "/v1/recall", id: "recall", limits: []limit{(*Server).limitQuestions}, endpoint: jsonEndpoint((*Server).recall)},
		{method: http.MethodGet, path: "/v1/stats", id: "getStats", endpoint: ofUser(stores.CountUsage)},
		{method: http.MethodGet, path: "/v1/usage", id: "getUsage", endpoint: withInput(stores.ReadUsage)},
		{
			method: http.MethodGet, path: "/v1/graph", id: "getGraph",
			answers: object{"200": answer("That part of the graph.", object{
				mediaJSON: object{"schema": schemaRef("Graph")}, mediaMermaid: drawing, mediaDOT: drawing,
			})},
			endpoint: endpoint{serve: (*Server).getGraph, in: reflect.TypeFor[api.GraphQuery]()},
		},
	}
}

type searchResults struct {
	_       struct{}           `description:"The messages that were found, the best match first."`
	Results []api.SearchResult `json:"results" nullable:"false"`
}

type recallResults struct {
	_       struct{}           `description:"The messages that were found, the best match first."`
	Results []api.RecallResult `json:"results" nullable:"false"`
}

func (s *Server) recall(ctx context.Context, user auth.Principal, _ uuid.UUID, query api.RecallQuery) (recallResults, error) {
	found, err := s.config.Recall.Recall(ctx, user, query)
	return recallResults{Results: found}, err
}

func (s *Server) search(ctx context.Context, user auth.Principal, _ uuid.UUID, query api.SearchQuery) (searchResults, error) {
	found, err := s.config.History.Search(ctx, user, query)
	return searchResults{Results: found}, err
}

// The media types of a graph that is drawn.
const (
	mediaMermaid = "text/vnd.mermaid"
	mediaDOT     = "text/vnd.graphviz"
)

// getGraph answers with a part of the user's graph, as JSON or as a drawing's source.
func (s *Server) getGraph(c echo.Context) error {
	var query api.GraphQuery
	if err := s.readRequest(c, &query); err != nil {
		return err
	}
	found, err := s.config.Graph.ReadGraph(c.Request().Context(), principal(c), query)
	if err != nil {
		return err
	}
	switch query.Format {
	case "mermaid":
		return writeText(c, mediaMermaid, graph.Mermaid(found))
	case "dot":
		return writeText(c, mediaDOT, graph.DOT(found))
	}
	return writeJSON(c, http.StatusOK, found)
}

func writeText(c echo.Context, mediaType, text string) error {
	header := c.Response().Header()
	header.Set(echo.HeaderCacheControl, "no-store")
	header.Set(echo.HeaderContentLength, strconv.Itoa(len(text)))
	return c.Blob(http.StatusOK, mediaType+"; charset=utf-8", []byte(text))
}
